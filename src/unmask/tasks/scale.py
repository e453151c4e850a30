"""Bring an encoder's last states to a size that a new head can read.

A head starts from small random weights, which suit states of about unit size: those of a fresh encoder, and
nearly those of BERT. Some encoders end in far smaller ones. The vectors of a sentence encoder were only ever
compared by their angles, and those of all-MiniLM-L6-v2 have a size of 0.06. A new head makes next to nothing
of them, so that next to nothing comes back to the encoder, and the first epochs are lost.

The encoder's last normalisation multiplies each dimension by a weight; multiplied all alike, the states are
what they were but for their size, and the checkpoint stays an ordinary one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

SMALL = 0.3
"""States of a smaller size (root mean square) are brought to 1. BERT's are larger, and left alone."""


@torch.no_grad()
def even_scale(model: Any, inputs: Mapping[str, Tensor]) -> float:
    """Bring small last states to size 1, if a normalisation of their own makes them; returns the factor."""
    encoder = model.base_model
    outputs: list[tuple[nn.Module, Tensor]] = []
    hooks = [
        module.register_forward_hook(lambda module, _, output: outputs.append((module, output)))
        for module in encoder.modules()
        if "norm" in type(module).__name__.lower() and isinstance(getattr(module, "weight", None), Tensor)
    ]
    was_training = model.training
    try:
        states = encoder.eval()(**inputs).last_hidden_state
    finally:
        for hook in hooks:
            hook.remove()
        model.train(was_training)
    ran = [module for module, _ in outputs]
    last = [
        module
        for module, output in outputs
        if ran.count(module) == 1  # others are shared by several layers, as ALBERT's are
        and torch.is_tensor(output)
        and torch.equal(output, states)
    ]
    kept = inputs["attention_mask"].bool()
    size = float(states[kept].float().square().mean().sqrt())
    if not last or not 0 < size < SMALL:
        return 1.0
    for name in ("weight", "bias"):
        if isinstance(values := getattr(last[-1], name, None), Tensor):
            values /= size
    return 1 / size
