"""l2r and r2l: the two chain orders, q(a, b) = m(a) p(b|a) and q(a, b) = m(b) p(a|b); mixture: half of each.

One blank is filled with the other still masked, then the other given it. Each order is a distribution as it
stands, with nothing to normalise; they differ as far as the model's conditionals are incompatible. `mixture`
leaves the order to chance, q(a, b) = [m(a) p(b|a) + m(b) p(a|b)] / 2. It is `gibbs` with the both-blank
answers in the place of the stationary marginals, and the first round of `ag-weighted` from them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.conditionals import Index, PairConditionals
from unmask.pair import PairJoint


class LeftToRight(PairJoint):
    """A first, with B masked; then B given A."""

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals, method="l2r")

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(a) + log p(b|a)."""
        return self.conditionals.a_alone[rows, None] + self.conditionals.b_given_a(rows, columns)


class RightToLeft(PairJoint):
    """B first, with A masked; then A given B."""

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals, method="r2l")

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(b) + log p(a|b)."""
        return self.conditionals.b_alone[None, columns] + self.conditionals.a_given_b(rows, columns)


class Mixture(PairJoint):
    """Either order, each half of the time."""

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals, method="mixture")

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log [m(a) p(b|a) + m(b) p(a|b)] - log 2."""
        table = self.conditionals
        a_first = table.a_alone[rows, None] + table.b_given_a(rows, columns)
        b_first = table.b_alone[None, columns] + table.a_given_b(rows, columns)
        return torch.logaddexp(a_first, b_first) - math.log(2)
