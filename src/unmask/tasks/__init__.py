"""Fine-tuning: classification of texts and of pairs of texts, and tagging of words.

`Settings` says everything that a run depends on; `finetune` does it, or goes on with it; `TunedModel` opens
the result, to predict and to be evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.tasks.predict import TunedModel
    from unmask.tasks.run import Result, finetune
    from unmask.tasks.settings import Settings

__all__ = ["Result", "Settings", "TunedModel", "finetune"]

_HOME = {"Result": "run", "finetune": "run", "Settings": "settings", "TunedModel": "predict"}


def __getattr__(name: str) -> Any:
    """Import torch and transformers only when a name is asked for."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
