"""Cells: the tokens of a support, the likely ones each alone, the unlikely ones in groups.

Most of a vocabulary is unlikely in any one place: of 8,000 tokens a thousand hold 97 to 99.9% of the mass.
Tables with a row for every token spend nearly all their cells on the rest. So unlikely tokens of nearly
equal probability may share a row: the row then holds what a single one of them has, and `counts` how many
they are. Sums over tokens become sums over cells weighted by the counts, and a joint that is solved on cells
is a joint over all tokens, constant within a cell.

Within a cell the tokens are not quite alike. What is known of them without asking is m, the model's answer
with both blanks empty; `log_tilt` tells a token's share of its cell by m, against an equal share. Spreading a
cell's probability over its tokens in this proportion keeps every sum as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell each token of a support is in.

    Attributes:
        of: the cell of each token, [tokens].
        counts: how many tokens a cell holds, [cells], in float64.
        log_tilt: log of a token's share of its cell, times the count, [tokens]; 0 where it is alone.
    """

    of: Tensor
    counts: Tensor
    log_tilt: Tensor

    @staticmethod
    def singles(tokens: int) -> Cells:
        """Every token alone."""
        return Cells(
            torch.arange(tokens), torch.ones(tokens, dtype=torch.float64), torch.zeros(tokens).double()
        )

    @staticmethod
    def gathered(log_m: Tensor, apart: Tensor, groups: int) -> Cells:
        """Leave the tokens `apart` alone and gather the others into groups of like probability.

        Args:
            log_m: the log-probability of every token, [tokens].
            apart: the tokens that have a cell of their own; their cells come first, in this order.
            groups: into how many cells the others go, equally many tokens in each.
        """
        log_m = log_m.detach().double().cpu()
        alone = torch.zeros(len(log_m), dtype=torch.bool)
        alone[apart] = True
        order = log_m.argsort(descending=True, stable=True)
        others = order[~alone[order]]
        of = torch.empty(len(log_m), dtype=torch.long)
        of[apart] = torch.arange(len(apart))
        for number, members in enumerate(others.tensor_split(min(groups, len(others)) or 1)):
            of[members] = len(apart) + number
        counts = torch.bincount(of).double()
        cells = Cells(of, counts, torch.zeros_like(log_m))
        return Cells(of, counts, log_m - cells.mean(log_m)[of])

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def apart(self) -> bool:
        """Whether every token is alone, in order: tables over cells are tables over tokens then."""
        return len(self.counts) == len(self.of) and bool((self.of == torch.arange(len(self.of))).all())

    def same(self, other: Cells) -> bool:
        """Whether both gather the tokens alike, with the same shares."""
        if self.apart and other.apart:
            return len(self) == len(other)
        return torch.equal(self.of, other.of) and torch.equal(self.log_tilt, other.log_tilt)

    @cached_property
    def order(self) -> Tensor:
        """The tokens in the order of their cells, [tokens]."""
        return self.of.argsort(stable=True)

    @cached_property
    def starts(self) -> Tensor:
        """Where each cell starts in `order`, [cells]."""
        return (self.counts.cumsum(0) - self.counts).long()

    def mean(self, log_values: Tensor) -> Tensor:
        """Return the log of the mean over each cell's tokens of exp(log_values): [tokens] -> [cells]."""
        if self.apart:
            return log_values
        top = log_values.max()
        sums = torch.zeros(len(self), dtype=log_values.dtype, device=log_values.device)
        sums.index_add_(0, self.of.to(log_values.device), (log_values - top).exp())
        return sums.log() + top - self.counts.to(sums).log()

    def spread(self, log_values: Tensor) -> Tensor:
        """Return what each token has of its cell's log-probability a token: [cells] -> [tokens]."""
        if self.apart:
            return log_values
        return log_values[self.of.to(log_values.device)] + self.log_tilt.to(log_values.device)
