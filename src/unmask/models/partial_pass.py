"""Partial passes: what filling one blank does to another while the rest of the text is frozen.

A forward pass with the token a in blank A computes every position anew. Most of what it says of blank B comes
by the direct way, from A to B. A partial pass computes these two positions, in a long text also their
neighbours, and nothing else. In every layer they attend to one another, and to all others as the pass with
both blanks masked left them:

    x_W <- layer(x_W | keys and values of all other positions, both blanks masked)

It leaves out what a does to B by way of the frozen positions. So it is an approximation, unlike the passes of
`unmask.models.engine`: `unmask.inference.partial_states` corrects it by a few whole passes of the same text,
and measures what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unmask.models.engine import Layer

SHORTEST = 6
"""Tokens of the shortest text whose two blanks cost so much less than all of it that partial passes pay."""
NEIGHBOURS_SHARE = 1 / 8
"""Of a text's positions that a partial pass computes where it has more than the blanks."""


def active_positions(length: int, blanks: tuple[int, int]) -> list[int] | None:
    """Return the positions that a partial pass computes; None if the text is too short to gain by it.

    They are the two blanks, and as many neighbours on all sides as fit an eighth of the text.
    """
    found = sorted(blanks) if length >= SHORTEST else None
    for window in range(1, length):
        near = [n for n in range(length) if min(abs(n - blank) for blank in blanks) <= window]
        if len(near) > NEIGHBOURS_SHARE * length:
            break
        found = near
    return found


class FrozenText:
    """A text with two masked positions, ready for partial passes.

    Args:
        layers: those of the encoder.
        context: the first layer's input, both blanks masked, [length, features].
        active: the positions that are computed anew.
    """

    def __init__(self, layers: Sequence[Layer], context: Tensor, active: Sequence[int]) -> None:
        frozen = [n for n in range(len(context)) if n not in active]
        self._active, self._inputs = active, context[list(active)]
        self._layers = []
        x = context[None]
        for layer in layers:
            beside = x[0, frozen]
            key, value = (_by_head(part(beside), layer.heads) for part in (layer.key, layer.value))
            self._layers.append((layer, key, value))
            x = layer(x)

    def __call__(self, own: Tensor, changed: int, asked: int) -> Tensor:
        """Return the states at `asked` after the last layer, [texts, features].

        `own` is what the first layer reads at `changed` in each text, [texts, features].
        """
        x = self._inputs.repeat(len(own), 1, 1)
        x[:, self._active.index(changed)] = own
        asked = self._active.index(asked)
        last = len(self._layers) - 1
        for n, (layer, key, value) in enumerate(self._layers):
            wanted = x if n < last else x[:, [asked]]  # of the last layer, the asked position alone
            x = layer.feed(_attended(layer, wanted, x, key, value), wanted)
        return x[:, 0]


def _attended(layer: Layer, wanted: Tensor, x: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Let positions [texts, wanted, features] attend to those of their text, x, and to the frozen ones.

    `key` and `value` of the frozen ones are [heads, frozen, features of a head].
    """
    query, own_key, own_value = (
        part(states).unflatten(-1, (layer.heads, -1))
        for part, states in ((layer.query, wanted), (layer.key, x), (layer.value, x))
    )
    query = query * query.shape[-1] ** -0.5
    to_frozen = torch.einsum("twhf,hnf->thwn", query, key)
    to_own = torch.einsum("twhf,tohf->thwo", query, own_key)
    frozen, own = torch.cat([to_frozen, to_own], -1).softmax(-1).split([key.shape[1], x.shape[1]], -1)
    heard: Tensor = torch.einsum("thwn,hnf->twhf", frozen, value)
    heard = heard + torch.einsum("thwo,tohf->twhf", own, own_value)
    return heard.flatten(2)


def _by_head(states: Tensor, heads: int) -> Tensor:
    """[positions, features] -> [heads, positions, features of a head]."""
    apart: Tensor = states.unflatten(-1, (heads, -1))
    return apart.transpose(0, 1)
