"""Facts about a model's parameters and configuration that every kind of training needs."""

from __future__ import annotations

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
