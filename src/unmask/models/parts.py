"""The three parts of a model, told apart without a line for any architecture in particular.

A masked language model is an encoder, a small head, and an output layer that is linear in the head's
result. `ModelParts` runs each by itself: `states` runs encoder and head and stops at the input of the
output layer, `headed` runs the head alone, `embedded` stops before the first layer. What a model's parts
are is tried out once, on a text of three tokens. A model whose output layer can't be told apart has its
logits as its states.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unmask.errors import RunError
from unmask.models.hooks import input_of, output_cut, output_given
from unmask.models.window import positions_start

ROUNDINGS = 16
"""Errors of rounding to half precision that two ways of computing may lie apart."""


class ModelParts:
    """Encoder, head and output layer of a `...ForMaskedLM` module on a device.

    Args:
        model: any Hugging Face `...ForMaskedLM` module, or one that answers as these do.
        mask_id: the id of its mask token.
        name: what to call it in messages.

    Attributes:
        output_layer: the module that the logits come from; None if the model has none.
        separable: whether the logits are the output layer's result plus a constant, and the head reads each
            position by itself.
        offset: that constant, [outputs]; zeros if the model is not separable.
        accepts_positions: whether the positions of tokens can be said outright.
    """

    def __init__(self, model: Any, mask_id: int, *, device: torch.device, name: str) -> None:
        self.model, self._mask_id, self._device = model, mask_id, device
        self.output_layer = model.get_output_embeddings()
        self._positions_start = positions_start(model)
        self.accepts_positions = "position_ids" in inspect.signature(model.forward).parameters
        self.separable, self.offset = self._probe(name)

    def states(self, ids: Tensor, positions: Sequence[int]) -> Tensor:
        """Return the states of each text at the same positions, [texts, positions, features]."""
        if not self.separable:
            return self.logits(ids)[:, positions]
        with output_cut(self.model.base_model, positions):
            states = input_of(self.output_layer, lambda: self.logits(ids))
        assert states is not None
        return states

    def states_each(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Return the states of each text at its own positions [texts, k], as [texts, k, features]."""
        distinct, where = torch.unique(positions, return_inverse=True)
        states = self.states(ids, distinct.tolist())
        return states.gather(1, where[:, :, None].expand(-1, -1, states.shape[-1]))

    def headed(self, hidden: Tensor) -> Tensor:
        """Show the head what the encoder left at one position of each text; returns [texts, features]."""
        any_text = torch.tensor([[self._mask_id]], device=self._device)
        with output_given(self.model.base_model, hidden[:, None]):
            states = input_of(self.output_layer, lambda: self.logits(any_text))
        assert states is not None
        return states[:, 0]

    def embedded(self, entrance: nn.Module, ids: Tensor, first: int = 0) -> Tensor:
        """Return what a layer reads, [texts, length, features]; `first` is the texts' first position."""
        found = input_of(entrance, lambda: self.logits(ids.to(self._device), first))
        assert found is not None
        return found

    def decode(self, states: Tensor) -> Tensor:
        """Return the logits of states, [..., outputs]."""
        return self.output_layer(states).add_(self.offset) if self.separable else states

    def logits(self, ids: Tensor, first: int = 0) -> Tensor:
        """Run the model as the library does and return its logits, [texts, positions, outputs].

        `first` is the position of the first token.
        """
        extra = {}
        first += self._positions_start
        if first and self.accepts_positions:
            # these models number the positions by counting what is not padding: say them outright, so
            # that a padding token in a blank moves nothing
            numbers = torch.arange(first, first + ids.shape[1], device=ids.device)
            extra["position_ids"] = numbers.expand_as(ids)
        logits: Tensor = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), **extra).logits
        return logits

    @torch.inference_mode()
    def _probe(self, name: str) -> tuple[bool, Tensor]:
        """Find out whether the model is separable, and by which constant."""
        # never masks alone: ESM divides by the share of other tokens
        ids = torch.tensor([[self._mask_id, 0, 1], [self._mask_id, 1, 0]], device=self._device)
        plain = self.logits(ids)
        if not torch.isfinite(plain).all():
            raise RunError(f"the model '{name}' answers with numbers that are not finite: damaged weights")
        inseparable = False, torch.zeros(plain.shape[-1], device=self._device)
        if self.output_layer is None:
            return inseparable
        state = input_of(self.output_layer, lambda: self.logits(ids))
        if state is None:
            return inseparable
        with output_cut(self.model.base_model, [1]):
            alone = input_of(self.output_layer, lambda: self.logits(ids))
        offset = plain - self.output_layer(state)
        if same(alone, state[:, 1:2]) and same(offset, offset[:1, :1].expand_as(offset)):
            return True, offset[0, 0]
        return inseparable


def same(one: Tensor | None, other: Tensor) -> bool:
    """Whether two ways of computing came to the same, but for rounding."""
    atol = max(1e-4, ROUNDINGS * torch.finfo(other.dtype).eps)
    return one is not None and one.shape == other.shape and torch.allclose(one, other, atol=atol)
