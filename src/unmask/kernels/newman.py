"""One sweep of Newman's iteration for the Arnold-Gokhale problem, fused into one pass over both tables.

With P = p(a|b) and R = p(b|a), both [a, b], a sweep from (x, y) is (Newman, JMLR 2023)

    x_a <- w_a sum_b R_ab y_b / (x_a + y_b)  /  sum_b w_b P_ab / (x_a + y_b)        for every a, then
    y_b <- w_b sum_a P_ab x_a / (x_a + y_b)  /  sum_a w_a R_ab / (x_a + y_b)        with the new x,

where w are the weights of the contexts, all of them 1 for `ag`, and a row or column that stands for n tokens
counts n times in the sums. Row a's update needs row a alone,
and its share of the sums for y can be gathered while the row is in the cache, so one reading of P and R is
enough. `sweep` does that on probabilities, in compiled code on several threads. `sweep_on_device` is the same
in plain torch, for a GPU; `sweep_in_logs` the twin in log space, which nothing underflows in.

All also return the norm of the gradient of the objective, with respect to log x at the old point and to
log y after the update of x, each component relative to its weight, which the sums give for nothing:
x_a / w_a sum_b w_b P/(x+y) - sum_b R y/(x+y), and its mirror.

How the compiled pass keeps up with the memory: it takes two rows at a time, whose reciprocals cost one
division (1/s and 1/t are t/(st) and s/(st)), in the precision of the tables, eight float32 lanes to an
instruction; sums are gathered in float64 from short pieces. Rounding then leaves about 1e-7 of noise on each
component of the gradient for tables in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import logsigmoid

from unmask.kernels.compiling import announce_compilation
from unmask.kernels.threads import over_rows
from unmask.tables.pair_conditionals import PairConditionals, row_blocks

PIECE = 1024
"""How many columns a row sum gathers in the tables' precision before it goes to float64."""
GATHERED_ROWS = 32
"""How many rows a column sum gathers likewise."""
WIDEST = 35.0
"""How far log x and log y may lie from their middle for products of two sums to fit float32."""
SMALLEST_SUM = 1e-30
"""Sums below this may have lost terms to underflow in float32."""


Logs = tuple[Tensor, Tensor]
"""The log weights of the contexts, [a] and [b]."""


class Sweep(NamedTuple):
    """The new log x [a] and log y [b], and the norm of the gradient on the way."""

    log_x: Tensor
    log_y: Tensor
    gradient: float


def sweep(
    p: NDArray[Any],
    r: NDArray[Any],
    log_x: Tensor,
    log_y: Tensor,
    n_a: Tensor | None = None,
    n_b: Tensor | None = None,
    log_w: Logs | None = None,
    *,
    precise: bool = False,
) -> Sweep:
    """Do one sweep over tables of probabilities, [a, b], whose rows and columns stand for n_a, n_b tokens.

    Arithmetic is that of the tables, or float64 if `precise` or where float32 would underflow.
    """
    a = np.ones(len(log_x)) if n_a is None else n_a.numpy()
    b = np.ones(len(log_y)) if n_b is None else n_b.numpy()
    weights = (None, None) if log_w is None else tuple(np.exp(log.numpy()) for log in log_w)
    ends = [float(end) for log in (log_x, log_y) for end in (log.min(), log.max())]
    middle = (min(ends) + max(ends)) / 2  # the scale is free: centred, the values fit the narrow type best
    x, y = np.exp(log_x.numpy() - middle), np.exp(log_y.numpy() - middle)
    found = None
    if not precise and p.dtype == np.float32 and max(ends) - middle < WIDEST:
        found = _sums(p, r, (x, y, a, b, *weights), np.float32)
    if found is None or not min(sums.min() for sums in found) > SMALLEST_SUM:
        found = _sums(p, r, (x, y, a, b, *weights), np.float64)
    num, den, above, below = found
    if log_w is not None:
        den, below = den / weights[0], below / weights[1]
    square = (a * np.square(x * den - num)).sum() + (b * np.square(y * below - above)).sum()
    new_x, new_y = (torch.from_numpy(np.log(up / down) + middle) for up, down in ((num, den), (above, below)))
    return Sweep(new_x, new_y, float(np.sqrt(square)))


Sums = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _sums(
    p: NDArray[Any], r: NDArray[Any], vectors: Sequence[NDArray[np.float64] | None], precision: type
) -> Sums:
    """Return the four sums of a sweep, by [a], [a], [b] and [b], computed in the given precision.

    The vectors are x, y, n_a, n_b, w_a and w_b, the last two None if all contexts weigh alike.
    """
    rows = compiled_rows()
    x, y = vectors[0], vectors[1]
    assert x is not None
    assert y is not None
    num, den = np.empty_like(x), np.empty_like(x)
    narrow: list[NDArray[Any] | None] = [
        None if vector is None else vector.astype(precision) for vector in vectors
    ]
    shares = over_rows(
        len(x),
        lambda start, stop, share: rows(p, r, *narrow, start, stop, num, den, *share),
        lambda: (np.zeros_like(y), np.zeros_like(y)),
    )
    above, below = (np.sum(parts, axis=0) for parts in zip(*shares, strict=True))
    return num, den, above, below


@cache
def compiled_rows() -> Callable[..., None]:
    """Compile the loop over rows; numba is imported no sooner than this."""
    from numba import njit

    announce_compilation()

    @njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz", "arcp"})
    def rows(  # type: ignore[no-untyped-def]
        p, r, x, y, n_a, n_b, w_a, w_b, start, stop, num, den, above, below
    ):
        columns = len(y)
        zero, one = y.dtype.type(0), y.dtype.type(1)
        up, down = np.zeros_like(y), np.zeros_like(y)
        for a in range(start, stop, 2):
            c = min(a + 1, stop - 1)  # a last row without a partner is its own, of no weight
            p0, p1, r0, r1 = p[a], p[c], r[a], r[c]
            x0, x1 = x[a], x[c]
            num0 = num1 = den0 = den1 = 0.0
            for piece in range(0, columns, PIECE):
                above0, above1, below0, below1 = zero, zero, zero, zero
                # slices, for an index that starts at 0 is known not to be negative: with AVX-512 the loop is
                # compiled to gathers otherwise, at a third of the speed
                end = min(piece + PIECE, columns)
                y_, n_, p0_, p1_ = y[piece:end], n_b[piece:end], p0[piece:end], p1[piece:end]
                r0_, r1_ = r0[piece:end], r1[piece:end]
                w_ = None if w_b is None else w_b[piece:end]  # decided when this is compiled
                for b in range(end - piece):
                    s0, s1 = x0 + y_[b], x1 + y_[b]
                    inverse = n_[b] / (s0 * s1)
                    w0, w1 = inverse * s1, inverse * s0
                    above0 += r0_[b] * (y_[b] * w0)
                    above1 += r1_[b] * (y_[b] * w1)
                    if w_ is not None:
                        w0, w1 = w0 * w_[b], w1 * w_[b]
                    below0 += p0_[b] * w0
                    below1 += p1_[b] * w1
                num0 += above0
                num1 += above1
                den0 += below0
                den1 += below1
            num[c], den[c] = num1, den1
            num[a], den[a] = num0, den0
            if w_a is not None:
                num0, num1 = num0 * w_a[a], num1 * w_a[c]
            x0, x1 = y.dtype.type(num0 / den0), y.dtype.type(num1 / den1)
            k0, k1 = n_a[a], n_a[c] if c > a else zero
            for b in range(columns):
                s0, s1 = x0 + y[b], x1 + y[b]
                inverse = one / (s0 * s1)
                w0, w1 = inverse * s1 * k0, inverse * s0 * k1
                up[b] += p0[b] * (x0 * w0) + p1[b] * (x1 * w1)
                if w_a is not None:
                    w0, w1 = w0 * w_a[a], w1 * w_a[c]
                down[b] += r0[b] * w0 + r1[b] * w1
            if (a - start) % GATHERED_ROWS == GATHERED_ROWS - 2 or c == stop - 1:
                for b in range(columns):
                    above[b] += up[b]
                    below[b] += down[b]
                    up[b] = down[b] = zero

    return rows  # type: ignore[no-any-return]


def sweep_on_device(
    conditionals: PairConditionals, log_x: Tensor, log_y: Tensor, log_w: Logs | None = None
) -> Sweep:
    """Do the same on probabilities in plain torch, block by block of rows, wherever the tables are.

    Tested on the CPU; on CUDA, which it is meant for, it has not been run.
    """
    n_a, n_b = conditionals.counts
    num, den = torch.empty_like(log_x), torch.empty_like(log_x)
    above, below = torch.zeros_like(log_y), torch.zeros_like(log_y)
    w_a, w_b = (torch.ones_like(log_x), torch.ones_like(log_y)) if log_w is None else map(torch.exp, log_w)
    x, y = log_x.exp(), log_y.exp()
    for rows in row_blocks(*conditionals.shape):
        p, r = conditionals.rows_as_probabilities(rows)
        inverse = 1 / (x[rows, None] + y)
        num[rows], den[rows] = (r * inverse) @ (n_b * y), (p * inverse) @ (n_b * w_b) / w_a[rows]
        moved = num[rows] / den[rows]
        inverse = 1 / (moved[:, None] + y)
        above += (n_a[rows] * moved) @ (p * inverse)
        below += (n_a * w_a)[rows] @ (r * inverse) / w_b
    square = (n_a * (x * den - num).square()).sum() + (n_b * (y * below - above).square()).sum()
    return Sweep((num / den).log(), (above / below).log(), float(square.sqrt()))


def sweep_in_logs(
    conditionals: PairConditionals, log_x: Tensor, log_y: Tensor, log_w: Logs | None = None
) -> Sweep:
    """Do the same in log space and float64, block by block of rows: the twin that nothing underflows in."""
    n_a, n_b = conditionals.counts
    log_n_a, log_n_b = n_a.log(), n_b.log()
    w_a, w_b = (torch.zeros_like(log_x), torch.zeros_like(log_y)) if log_w is None else log_w
    new_x = torch.empty_like(log_x)
    above = torch.full_like(log_y, -torch.inf)
    below = torch.full_like(log_y, -torch.inf)
    square = 0.0
    for rows in row_blocks(*conditionals.shape):
        p = conditionals.a_given_b(rows).double()
        r = conditionals.b_given_a(rows).double()
        x = log_x[rows, None]
        weight = logsigmoid(log_y - x) + log_n_b  # log y / (x + y)
        num = (r + weight).logsumexp(1)
        den = (p + weight - log_y + w_b).logsumexp(1) - w_a[rows]
        square += float((n_a[rows] * ((x[:, 0] + den).exp() - num.exp()).square()).sum())
        new_x[rows] = num - den
        x = new_x[rows, None]
        weight = logsigmoid(x - log_y) + log_n_a[rows, None]  # log x / (x + y)
        above = torch.logaddexp(above, (p + weight).logsumexp(0))
        below = torch.logaddexp(below, (r + weight - x + w_a[rows, None]).logsumexp(0) - w_b)
    square += float((n_b * ((log_y + below).exp() - above.exp()).square()).sum())
    return Sweep(new_x, above - below, square**0.5)
