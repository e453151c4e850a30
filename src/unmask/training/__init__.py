"""Training masked language models: from plain text to an ordinary Hugging Face checkpoint.

`Settings` says everything that a run depends on; `train` does it, or goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.training.run import Result, train
    from unmask.training.settings import Settings, read_settings

__all__ = ["Result", "Settings", "read_settings", "train"]

_HOME = {"Result": "run", "train": "run", "Settings": "settings", "read_settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
