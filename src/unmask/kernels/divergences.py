"""How far a joint's conditionals lie from the model's: all sums over a block of rows in one compiled pass.

In a context, a token of the other blank, the model says p and the joint g; with m = (p + g) / 2

    KL(p || g) = sum p (log p - log g),    KL(g || p) = sum g (log g - log p),
    JSD(p, g)  = 1/2 sum [p (log p - log m) + g (log g - log m)].

A cell (a, b) is part of two contexts: p(a|b) against q(a, b) / q(b), and p(b|a) against q(a, b) / q(a). It
costs one exponential and four logarithms. They are written out here as polynomials (those of Moshier's
Cephes library for float32, good to about 1e-7), because the compiler takes eight cells at once through a
polynomial and one at a time through a call of the C library. Sums go to float64 after a few hundred columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unmask.kernels.compiling import announce_compilation
from unmask.kernels.threads import over_rows

Block = NDArray[np.float32]
Vector = NDArray[np.float32]


class Divergences(NamedTuple):
    """Sums over the cells of a block, each counted n_a n_b times, for both of its contexts together.

    Attributes:
        forward: of KL(p || g).
        backward: of KL(g || p).
        shared: of JSD(p, g).
        above: how many cells have a log q above a level.
    """

    forward: float
    backward: float
    shared: float
    above: float


def divergences(
    log_q: Block, p: Block, r: Block, log_a: Vector, log_b: Vector, n_a: Vector, n_b: Vector, level: float
) -> Divergences:
    """Sum over a block of rows.

    Args:
        log_q: log q of the block's cells, [a, b].
        p, r: p(a|b) and p(b|a) of them, [a, b].
        log_a, log_b: log q of the rows and of all columns, [a] and [b].
        n_a, n_b: how many tokens rows and columns stand for, [a] and [b].
        level: the log q above which cells are counted.
    """
    announce_compilation()
    from unmask.kernels.divergence_rows import rows

    found = np.empty((len(log_q), 4))
    columns = (log_b, np.exp(-log_b), n_b)
    over_rows(
        len(log_q),
        lambda start, stop, _: rows(log_q, p, r, log_a, *columns, np.float32(level), start, stop, found),
        lambda: None,
    )
    forward, backward, shared, above = (float(total) for total in n_a.astype(np.float64) @ found)
    return Divergences(forward, backward, shared / 2, above)
