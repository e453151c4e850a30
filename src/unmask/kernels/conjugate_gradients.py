"""Preconditioned conjugate gradients: solves H x = t for a symmetric positive semidefinite H.

The preconditioner is the diagonal D of H. `ridge` D is added to H, so that where H nearly vanishes the
solution is long but finite. The method is that of Hestenes and Stiefel, in the precision of `target`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SMALLEST_DIAGONAL = 1e-300


def conjugate_gradients(
    times: Callable[[Tensor], Tensor],
    target: Tensor,
    diagonal: Tensor,
    *,
    converged: Callable[[Tensor, Tensor], bool],
    max_iterations: int,
    ridge: float,
) -> Tensor:
    """Return an approximate solution x [n] of (H + ridge D) x = target.

    Args:
        times: returns H v.
        target: [n].
        diagonal: D, [n].
        converged: whether a residual r, given with r / D, is small enough.
        max_iterations: how many products with H are made at most.
        ridge: the share of the diagonal that is added.
    """
    diagonal = diagonal.clamp_min(SMALLEST_DIAGONAL)
    x, residual = torch.zeros_like(target), target
    z = residual / diagonal
    direction, decrease = z, residual @ z
    for _ in range(max_iterations):
        product = times(direction) + ridge * diagonal * direction
        curvature = direction @ product
        if not curvature > 0:
            break
        length = decrease / curvature
        x = x + length * direction
        residual = residual - length * product
        z = residual / diagonal
        if converged(residual, z):
            break
        previous, decrease = decrease, residual @ z
        direction = z + decrease / previous * direction
    return x
