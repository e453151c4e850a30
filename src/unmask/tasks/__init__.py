"""Fine-tuning: classification of texts and of pairs of texts, and tagging of words.

`Settings` says everything that a run depends on; `finetune` does it, or resumes it; `TunedModel` opens
the result, to predict and to be evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.lazy import lazy_attributes

if TYPE_CHECKING:
    from unmask.tasks.predict import TunedModel
    from unmask.tasks.run import Result, finetune
    from unmask.tasks.settings import Settings

__all__ = ["Result", "Settings", "TunedModel", "finetune"]

__getattr__ = lazy_attributes(
    __name__,
    {
        "unmask.tasks.predict": "TunedModel",
        "unmask.tasks.run": "Result finetune",
        "unmask.tasks.settings": "Settings",
    },
)
