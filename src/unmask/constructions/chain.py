"""l2r and r2l: the two chain orders, q(a, b) = m(a) p(b|a) and q(a, b) = m(b) p(a|b).

One blank is filled with the other still masked, then the other given it. Each order is a distribution as it
stands, with nothing to normalise; they differ as far as the model's conditionals are incompatible.
"""

from __future__ import annotations

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
