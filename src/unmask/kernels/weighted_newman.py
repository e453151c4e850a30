"""Newman's sweep for the Arnold-Gokhale problem with weighted contexts, fused into one pass over both tables.

With weights w_a and w_b of the contexts, n_a and n_b tokens to a row and a column, P = p(a|b) and R = p(b|a):

    x_a <- w_a sum_b n_b R_ab y_b / (x_a + y_b)  /  sum_b n_b w_b P_ab / (x_a + y_b)      for every a, then
    y_b <- w_b sum_a n_a P_ab x_a / (x_a + y_b)  /  sum_a n_a w_a R_ab / (x_a + y_b)      with the new x.

As in `unmask.kernels.newman`, row a's update needs row a alone, and its share of the sums for y is gathered
while the row is in the cache. `sweep` is compiled; `sweep_in_logs` is its plain twin in torch, on the tables
n_a n_b w_b P and n_a n_b w_a R, which `Weighted` shows without holding them. Both tell the largest
violation of the marginal conditions x_a q(a) = w_a and y_b q(b) = w_b on the way, relative to the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.conditionals import EVERYTHING, Index, PairConditionals, row_blocks
from unmask.kernels.threads import over_rows

Vector = NDArray[np.float64]


class Weighted:
    """The tables n_a n_b w_b p(a|b) and n_a n_b w_a p(b|a), computed where they are read.

    What `Laplacian` and `objective` ask of conditionals: with these tables in the place of p(a|b) and
    p(b|a) they speak of the weighted problem.
    """

    a_counts = b_counts = None  # they are in the tables already

    def __init__(
        self, conditionals: PairConditionals, log_w: tuple[Tensor, Tensor], log_n: tuple[Tensor, Tensor]
    ) -> None:
        self._of = conditionals
        self.log_w, self.log_n = log_w, log_n

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns there are."""
        return self._of.shape

    @property
    def device(self) -> torch.device:
        """Where the tables are."""
        return self._of.device

    def a_given_b(self, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Tensor:
        """Return a block of log n_a n_b w_b p(a|b), [rows, columns]."""
        extra = (self.log_w[1] + self.log_n[1])[None, columns] + self.log_n[0][rows, None]
        return self._of.a_given_b(rows, columns).double() + extra

    def b_given_a(self, rows: Index = EVERYTHING, columns: Index = EVERYTHING) -> Tensor:
        """Return a block of log n_a n_b w_a p(b|a), [rows, columns]."""
        extra = (self.log_w[0] + self.log_n[0])[rows, None] + self.log_n[1][None, columns]
        return self._of.b_given_a(rows, columns).double() + extra

    def rows_as_probabilities(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return both tables of a block of rows, as they are, in float64."""
        p, r = self._of.rows_as_probabilities(rows)
        counts = self.log_n[0][rows, None] + self.log_n[1]
        return p * (counts + self.log_w[1]).exp(), r * (counts + self.log_w[0][rows, None]).exp()


class Weights(NamedTuple):
    """Weights and counts of the rows and the columns, as plain numbers."""

    w_a: Vector
    w_b: Vector
    n_a: Vector
    n_b: Vector


class Sweep(NamedTuple):
    """The new log x [a] and log y [b], and how far x_a q(a) / w_a or its mirror was from 1 at the most."""

    log_x: Tensor
    log_y: Tensor
    violation: float


def sweep(p: NDArray[Any], r: NDArray[Any], log_x: Tensor, log_y: Tensor, weights: Weights) -> Sweep:
    """Do one sweep over tables of probabilities, [a, b], of any float type."""
    rows = compiled_rows()
    w_a, w_b, n_a, n_b = weights
    x, y = np.exp(log_x.numpy()), np.exp(log_y.numpy())
    new_x, apart = np.empty_like(x), np.empty_like(x)
    shares = over_rows(
        len(x),
        lambda start, stop, share: rows(
            p, r, x, y, w_a, n_a, n_b * y, n_b * w_b, new_x, apart, start, stop, *share
        ),
        lambda: (np.zeros_like(y), np.zeros_like(y)),
    )
    above, below = (np.sum(parts, axis=0) for parts in zip(*shares, strict=True))
    new_y = w_b * above / below
    violation = max(float(apart.max()), float(np.abs(y * below / w_b - above).max()))
    return Sweep(torch.from_numpy(np.log(new_x)), torch.from_numpy(np.log(new_y)), violation)


def sweep_in_logs(weighted: Weighted, log_x: Tensor, log_y: Tensor) -> Sweep:
    """Do the same in log space and float64, block by block of rows: the twin that nothing underflows in."""
    new_x = torch.empty_like(log_x)
    above, below = torch.full_like(log_y, -torch.inf), torch.full_like(log_y, -torch.inf)
    (w_a, w_b), (n_a, n_b) = weighted.log_w, weighted.log_n
    violation = 0.0
    for rows in row_blocks(*weighted.shape):
        p, r = weighted.a_given_b(rows), weighted.b_given_a(rows)
        total = torch.logaddexp(log_x[rows, None], log_y)
        num, den = (r + log_y - total).logsumexp(1), (p - total).logsumexp(1)
        off = (log_x[rows] + den).exp() - num.exp()
        violation = max(violation, float((off / (w_a + n_a)[rows].exp()).abs().max()))
        new_x[rows] = num - den
        total = torch.logaddexp(new_x[rows, None], log_y)
        above = torch.logaddexp(above, (p + new_x[rows, None] - total).logsumexp(0))
        below = torch.logaddexp(below, (r - total).logsumexp(0))
    off = ((log_y + below).exp() - above.exp()) / (w_b + n_b).exp()
    return Sweep(new_x, above - below, max(violation, float(off.abs().max())))


@cache
def compiled_rows() -> Callable[..., None]:
    """Compile the loop over rows; numba is imported no sooner than this."""
    from numba import njit

    @njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
    def rows(  # type: ignore[no-untyped-def]
        p, r, x, y, w_a, n_a, n_y, n_w, new_x, apart, start, stop, above, below
    ):
        for a in range(start, stop):
            num = 0.0
            den = 0.0
            for b in range(len(y)):
                inverse = 1.0 / (x[a] + y[b])
                num += r[a, b] * n_y[b] * inverse
                den += p[a, b] * n_w[b] * inverse
            moved = w_a[a] * num / den
            apart[a] = abs(x[a] * den / w_a[a] - num)
            new_x[a] = moved
            up = n_a[a] * moved
            down = n_a[a] * w_a[a]
            for b in range(len(y)):
                inverse = 1.0 / (moved + y[b])
                above[b] += p[a, b] * up * inverse
                below[b] += r[a, b] * down * inverse

    return rows  # type: ignore[no-any-return]
