"""The parameters of a model: how many there are, and what configs call their dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
"""What architectures call the share of activations that an encoder drops."""


def parameters_of(model: nn.Module) -> int:
    """How many numbers the model holds."""
    return sum(weight.numel() for weight in model.parameters())
