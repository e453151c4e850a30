"""product, q(a, b) = m(a) m(b); l2r and r2l, m(a) p(b|a) and m(b) p(a|b); mixture, half of each of these.

`product` is what a masked language model says when it is asked for two blanks at once: each as if the other
did not exist. Torroba Hennigen & Kim (2023) call it MLM.

In a chain order one blank is filled with the other still masked, then the other given it. Each order is a
distribution as it stands, with nothing to normalise; they differ as far as the model's conditionals are
incompatible. `mixture` leaves the order to chance, q(a, b) = [m(a) p(b|a) + m(b) p(a|b)] / 2. It is `gibbs`
with the both-blank answers in the place of the stationary marginals, and the first round of `ag-weighted`
from them.
"""

from __future__ import annotations

import math

from torch import Tensor

from unmask.joints.blend import Blend
from unmask.joints.pair import PairJoint
from unmask.tables.pair_conditionals import Index, PairConditionals


class Product(PairJoint):
    """The product of the two both-blank distributions."""

    method = "product"

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(a) + log m(b)."""
        return self.conditionals.a_alone[rows, None] + self.conditionals.b_alone[None, columns]


class LeftToRight(PairJoint):
    """A first, with B masked; then B given A."""

    method = "l2r"

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(a) + log p(b|a)."""
        table = self.conditionals
        return table.a_alone[rows, None].to(table.dtype) + table.b_given_a(rows, columns)


class RightToLeft(PairJoint):
    """B first, with A masked; then A given B."""

    method = "r2l"

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(b) + log p(a|b)."""
        table = self.conditionals
        return table.b_alone[None, columns].to(table.dtype) + table.a_given_b(rows, columns)


class Mixture(PairJoint):
    """Either order, each half of the time."""

    method = "mixture"

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals)
        self._blend = Blend(
            conditionals, conditionals.a_alone - math.log(2), conditionals.b_alone - math.log(2)
        )

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log 1/2 [m(a) p(b|a) + m(b) p(a|b)]."""
        return self._blend.log(rows, columns)
