"""product: the independent answer, q(a, b) = m(a) m(b).

What a masked language model says when it is asked for two blanks at once: each as if the other did not
exist. Called MLM in Torroba Hennigen & Kim (2023).
"""

from __future__ import annotations

from torch import Tensor

from unmask.joints.pair import PairJoint
from unmask.tables.pair_conditionals import Index


class Product(PairJoint):
    """The product of the two both-blank distributions."""

    method = "product"

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log m(a) + log m(b)."""
        return self.conditionals.a_alone[rows, None] + self.conditionals.b_alone[None, columns]
