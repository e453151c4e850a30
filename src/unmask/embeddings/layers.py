"""Which layers a vector is made of: one, or the mean or the concatenation of several.

Layer 0 is what the embeddings give to the first layer, layer L the encoder's output. `static` is the row of
the embedding matrix alone, without position or context.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unmask.errors import UsageError

STATIC = -1
"""The key of the embedding matrix among the layers."""
SEVERAL = re.compile(r"^(mean|concat):(-?\d+(?:,-?\d+)*)$")
EXPECTED = "a number, last, last4 (their mean), last4-concat, mean:2,3, concat:2,3 or static"


@dataclass(frozen=True)
class Layers:
    """A choice of layers under the name by which it was asked for."""

    name: str
    numbers: tuple[int, ...]
    how: Literal["mean", "concat"] = "mean"

    def combine(self, states: Mapping[int, Tensor]) -> Tensor:
        """Return the vectors that the states of the layers make, [..., features]."""
        if len(self.numbers) == 1:
            return states[self.numbers[0]]
        chosen = [states[number] for number in self.numbers]
        return torch.cat(chosen, dim=-1) if self.how == "concat" else torch.stack(chosen).mean(dim=0)


def choose_layers(name: str | int, depth: int) -> Layers:
    """Return the layers that a name stands for, in an encoder of `depth` layers."""
    name = str(name)
    last_four = tuple(range(max(depth - 3, 1), depth + 1))
    known = {
        "static": Layers(name, (STATIC,)),
        "last": Layers(str(depth), (depth,)),
        "last4": Layers(name, last_four),
        "last4-concat": Layers(name, last_four, "concat"),
    }
    if name in known:
        return known[name]
    if re.fullmatch(r"-?\d+", name):
        number = _number(name, depth)
        return Layers(str(number), (number,))
    several = SEVERAL.match(name)
    if several is None:
        raise UsageError(f"unknown layers '{name}': expected {EXPECTED}")
    numbers = tuple(_number(part, depth) for part in several.group(2).split(","))
    return Layers(
        f"{several.group(1)}:{','.join(map(str, numbers))}",
        numbers,
        "concat" if several.group(1) == "concat" else "mean",
    )


def _number(given: str, depth: int) -> int:
    number = int(given)
    if not -depth - 1 <= number <= depth:
        raise UsageError(
            f"the model has layers 0 (its embeddings) to {depth}, got {number}: choose one of them"
        )
    return number + depth + 1 if number < 0 else number
