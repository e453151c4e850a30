"""The tables of the weighted Arnold-Gokhale problem, shown to Newton's method without being held."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.tables.pair_conditionals import PairConditionals


class Weighted:
    """The tables n_a n_b w_b p(a|b) and n_a n_b w_a p(b|a), computed where they are read.

    What `Laplacian` and `objective` ask of conditionals: with these tables in the place of p(a|b) and
    p(b|a) they speak of the weighted problem.
    """

    is_grouped = False  # the counts are in the tables already

    def __init__(self, conditionals: PairConditionals, log_w: tuple[Tensor, Tensor]) -> None:
        self._of = conditionals
        self.log_w = log_w
        self.log_n = tuple(counts.log() for counts in conditionals.counts)
        self.counts = tuple(torch.ones_like(counts) for counts in conditionals.counts)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self._of.shape

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self._of.device

    def rows_as_probabilities(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return both tables of a block of rows, as they are, in float64."""
        p, r = self._of.rows_as_probabilities(rows)
        counts = self.log_n[0][rows, None] + self.log_n[1]
        return p * (counts + self.log_w[1]).exp(), r * (counts + self.log_w[0][rows, None]).exp()
