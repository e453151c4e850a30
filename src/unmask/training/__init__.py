"""Training masked language models: from plain text to an ordinary Hugging Face checkpoint.

`Settings` says everything that a run depends on; `train` does it, or resumes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

if TYPE_CHECKING:
    from unmask.training.run import Result, train
    from unmask.training.settings import Settings, read_settings

__all__ = ["Result", "Settings", "read_settings", "train"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "unmask.training.run": "Result train",
        "unmask.training.settings": "Settings read_settings",
    },
)
