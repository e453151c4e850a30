"""The window of a model: how many tokens it reads at once, and the number of the first position."""

from __future__ import annotations

from typing import Any


def positions_start(model: Any) -> int:
    """Return the number of the first position: 0, or 2 in RoBERTa's family, which keeps some for padding."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            return int(module.padding_idx) + 1
    return 0


def window_of(model: Any, tokenizer: Any) -> int:
    """Return how many tokens a model reads at once, special ones included."""
    positions = getattr(model.config, "max_position_embeddings", None)
    limits = [int(tokenizer.model_max_length)]
    if positions is not None and positions > 0:
        limits.append(int(positions) - positions_start(model))
    return min(limits)
