"""One round of the published Arnold-Gokhale iteration, fused into one pass over both tables.

From the marginals of the last joint, q <- (P + R) / (1/q_a + 1/q_b); what the next round needs of q are its
marginals, so q itself is never held; a row or column of n tokens counts n times in them. `round_of` does it
on probabilities in compiled code on several threads; its plain twin, in log space, is
`ArnoldGokhalePublished._marginals`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.kernels.compiling import announce_compilation
from unmask.kernels.threads import over_rows

Vector = NDArray[np.float64]


def round_of(
    p: NDArray[Any],
    r: NDArray[Any],
    q_a: Vector,
    q_b: Vector,
    n_a: Vector | None = None,
    n_b: Vector | None = None,
) -> tuple[Vector, Vector]:
    """Return the marginals of each token, [a] and [b], after one round, not yet normalised."""
    rows = compiled_rows()
    n_a = np.ones_like(q_a) if n_a is None else n_a
    n_b = np.ones_like(q_b) if n_b is None else n_b
    one_a, one_b, new_a = 1 / q_a, 1 / q_b, np.empty_like(q_a)
    shares = over_rows(
        len(q_a),
        lambda start, stop, share: rows(p, r, one_a, one_b, n_a, n_b, new_a, start, stop, share),
        lambda: np.zeros_like(q_b),
    )
    return new_a, np.sum(shares, axis=0)


@cache
def compiled_rows() -> Callable[..., None]:
    """Compile the loop over rows; numba is imported no sooner than this."""
    from numba import njit

    announce_compilation()

    @njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
    def rows(p, r, one_a, one_b, n_a, n_b, new_a, start, stop, share):  # type: ignore[no-untyped-def]
        for a in range(start, stop):
            total = 0.0
            for b in range(len(one_b)):
                q = (p[a, b] + r[a, b]) / (one_a[a] + one_b[b])
                total += n_b[b] * q
                share[b] += n_a[a] * q
            new_a[a] = total

    return rows  # type: ignore[no-any-return]
