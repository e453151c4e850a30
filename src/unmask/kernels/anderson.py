"""Anderson's extrapolation of a fixed-point iteration theta <- g(theta), from its last few rounds.

With residuals f_i = g(theta_i) - theta_i, the next point is the combination of the g(theta_i), with weights
that sum to one, whose combined residual is the shortest (Anderson 1965; Walker & Ni, SIAM J. Numer. Anal.
2011). For a linear iteration this is GMRES: modes that die out slowly are seen and taken out. Newman's sweeps
on a model's tables have a handful of such modes, and far fewer sweeps are enough.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

WINDOW = 8
"""How many rounds back it looks."""
FURTHEST = 5.0
"""No coordinate is extrapolated further than this beyond the plain round; else the plain round is taken."""
SMALLEST_SHARE = 1e-14
"""Directions that make up less than this of what is remembered are taken for rounding."""


class Anderson:
    """The memory of an iteration, and its next point.

    In numpy and on one thread, for the few short vectors that it holds: the threads of a linear algebra
    library wait for more work by spinning, which takes a core from the next sweep for tens of milliseconds.

    Args:
        weights: of the coordinates in the length of a residual, [n].
    """

    def __init__(self, weights: Vector) -> None:
        self._weights = weights
        self._last: tuple[Vector, Vector] | None = None
        self._moves: deque[Vector] = deque(maxlen=WINDOW)
        self._changes: deque[Vector] = deque(maxlen=WINDOW)

    def forget(self) -> None:
        """Begin anew: what is remembered has misled."""
        self._last = None
        self._moves.clear()
        self._changes.clear()

    def next(self, theta: Vector, landing: Vector) -> Vector:
        """Return the next point, after a round that took theta [n] to its landing g(theta) [n]."""
        residual = landing - theta
        if self._last is not None:
            change = residual - self._last[1]
            scale = 1 / max(float(np.sqrt(_dot(change, self._weights * change))), 1e-300)
            self._moves.append(scale * (landing - self._last[0]))
            self._changes.append(scale * change)
        self._last = (landing, residual)
        if not self._changes:
            return landing
        weighted = [self._weights * change for change in self._changes]
        gram = np.array([[_dot(one, other) for other in weighted] for one in self._changes])
        pull = np.array([_dot(one, residual) for one in weighted])
        shares = np.linalg.lstsq(gram, pull, rcond=SMALLEST_SHARE)[0]
        step: Vector = sum(
            (share * move for share, move in zip(shares, self._moves, strict=True)), np.zeros_like(landing)
        )
        return landing - step if np.abs(step).max() < FURTHEST else landing


def _dot(one: Vector, other: Vector) -> float:
    """Return the inner product without asking a linear algebra library, see `Anderson`."""
    return float(np.einsum("i,i->", one, other))
