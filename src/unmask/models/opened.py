"""What an opened checkpoint must be: a module with a masked-language-model head, and its tokenizer."""

from __future__ import annotations

from typing import Any

import torch

from unmask.errors import UsageError


def check_usable(model: Any, tokenizer: Any) -> None:
    """Refuse what is no module with an output layer, or no tokenizer with a mask; `load` says more."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "get_output_embeddings"):
        raise UsageError(
            f"expected a module with a masked-language-model head, got {type(model).__name__}: open a "
            f"checkpoint by unmask.load(its name)"
        )
    if not hasattr(tokenizer, "mask_token_id"):
        raise UsageError(f"expected the tokenizer of the module, got {type(tokenizer).__name__}: give both")
