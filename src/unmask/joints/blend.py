"""log [w_b p(a|b) + w_a p(b|a)]: both conditionals of a pair, each weighted by its context.

What `gibbs` and `mixture` are, and what `ag-weighted` divides by x_a + y_b. Where no product underflows it is
taken of the probabilities themselves, so that a cell costs one logarithm instead of four functions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.tables.pair_conditionals import Index, PairConditionals, block_of

SMALLEST_FLOAT = -85.0
"""Log-probabilities above this are normal float32 numbers."""


class Blend:
    """The weighted sum of two conditionals.

    Args:
        conditionals: the model's conditionals.
        log_a, log_b: log w_a of the rows and log w_b of the columns, [a] and [b].
    """

    def __init__(self, conditionals: PairConditionals, log_a: Tensor, log_b: Tensor) -> None:
        self._conditionals = conditionals
        self._log_a, self._log_b = (log.to(conditionals.dtype) for log in (log_a, log_b))
        lightest, heaviest = (
            min(float(log.min()) for log in (log_a, log_b)),
            max(float(log.max()) for log in (log_a, log_b)),
        )
        self.fits_floats = (
            conditionals.probabilities is not None
            and conditionals.smallest + lightest > SMALLEST_FLOAT
            and heaviest < -SMALLEST_FLOAT
        )
        """Whether it may be taken of the probabilities themselves."""
        if self.fits_floats:
            self._a, self._b = self._log_a.exp(), self._log_b.exp()

    def plain(self, rows: Index, columns: Index) -> Tensor:
        """Return the sum itself, [rows, columns]; for those that fit only."""
        assert self._conditionals.probabilities is not None
        p, r = (block_of(table, rows, columns) for table in self._conditionals.probabilities)
        return (p * self._b[None, columns]).addcmul_(r, self._a[rows, None])

    def log(self, rows: Index, columns: Index) -> Tensor:
        """Return its logarithm, [rows, columns]."""
        if self.fits_floats:
            return self.plain(rows, columns).log_()
        return torch.logaddexp(
            self._conditionals.a_given_b(rows, columns) + self._log_b[None, columns],
            self._conditionals.b_given_a(rows, columns) + self._log_a[rows, None],
        )
