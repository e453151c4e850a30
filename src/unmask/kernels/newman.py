"""One sweep of Newman's iteration for the Arnold-Gokhale problem, fused into one pass over both tables.

With P = p(a|b) and R = p(b|a), both [a, b], a sweep from (x, y) is (Newman, JMLR 2023)

    x_a <- sum_b R_ab y_b / (x_a + y_b)  /  sum_b P_ab / (x_a + y_b)        for every a, then
    y_b <- sum_a P_ab x_a / (x_a + y_b)  /  sum_a R_ab / (x_a + y_b)        with the new x.

Row a's update needs row a alone, and its share of the sums for y can be gathered while the row is in the
cache, so one reading of P and R is enough. `sweep` does that on probabilities, in compiled code on several
threads; `sweep_in_logs` is its plain twin in torch, which also serves where probabilities underflow.

Both also return the gradient of the objective with respect to log x at the old point and to log y after the
update of x, which the sums give for nothing: (x_a sum_b P/(x+y) - sum_b R y/(x+y)), and its mirror.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from unmask.conditionals import PairConditionals, row_blocks
from unmask.kernels.threads import over_rows


class Sweep(NamedTuple):
    """The new log x [a] and log y [b], and the norm of the gradient on the way."""

    log_x: Tensor
    log_y: Tensor
    gradient: float


def sweep(p: NDArray[Any], r: NDArray[Any], log_x: Tensor, log_y: Tensor) -> Sweep:
    """Do one sweep over tables of probabilities, [a, b], of any float type."""
    rows = compiled_rows()
    x, y = np.exp(log_x.numpy()), np.exp(log_y.numpy())
    new_x, squares = np.empty_like(x), np.empty_like(x)
    shares = over_rows(
        len(x),
        lambda start, stop, share: rows(p, r, x, y, new_x, squares, start, stop, *share),
        lambda: (np.zeros_like(y), np.zeros_like(y)),
    )
    above, below = (np.sum(parts, axis=0) for parts in zip(*shares, strict=True))
    gradient = float(np.sqrt(squares.sum() + np.square(y * below - above).sum()))
    return Sweep(torch.from_numpy(np.log(new_x)), torch.from_numpy(np.log(above / below)), gradient)


@cache
def compiled_rows() -> Callable[..., None]:
    """Compile the loop over rows; numba is imported no sooner than this."""
    from numba import njit

    @njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
    def rows(p, r, x, y, new_x, squares, start, stop, above, below):  # type: ignore[no-untyped-def]
        for a in range(start, stop):
            num = 0.0
            den = 0.0
            for b in range(len(y)):
                inverse = 1.0 / (x[a] + y[b])
                num += r[a, b] * y[b] * inverse
                den += p[a, b] * inverse
            squares[a] = (x[a] * den - num) ** 2
            moved = num / den
            new_x[a] = moved
            for b in range(len(y)):
                inverse = 1.0 / (moved + y[b])
                above[b] += p[a, b] * moved * inverse
                below[b] += r[a, b] * inverse

    return rows  # type: ignore[no-any-return]


def sweep_in_logs(conditionals: PairConditionals, log_x: Tensor, log_y: Tensor) -> Sweep:
    """Do the same in log space and float64, block by block of rows: the twin that nothing underflows in."""
    new_x = torch.empty_like(log_x)
    above = torch.full_like(log_y, -torch.inf)
    below = torch.full_like(log_y, -torch.inf)
    square = 0.0
    for rows in row_blocks(*conditionals.shape):
        p = conditionals.a_given_b(rows).double()
        r = conditionals.b_given_a(rows).double()
        x = log_x[rows, None]
        weight = logsigmoid(log_y - x)  # log y / (x + y)
        num = (r + weight).logsumexp(1)
        den = (p + weight - log_y).logsumexp(1)
        square += float(((x[:, 0] + den).exp() - num.exp()).square().sum())
        new_x[rows] = num - den
        x = new_x[rows, None]
        weight = logsigmoid(x - log_y)  # log x / (x + y)
        above = torch.logaddexp(above, (p + weight).logsumexp(0))
        below = torch.logaddexp(below, (r + weight - x).logsumexp(0))
    square += float(((log_y + below).exp() - above.exp()).square().sum())
    return Sweep(new_x, above - below, square**0.5)
