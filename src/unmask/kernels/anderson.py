"""Anderson's extrapolation of a fixed-point iteration theta <- g(theta), from its last few rounds.

With residuals f_i = g(theta_i) - theta_i, the next point is the combination of the g(theta_i), with weights
that sum to one, whose combined residual is the shortest (Anderson 1965; Walker & Ni, SIAM J. Numer. Anal.
2011). For a linear iteration this is GMRES: modes that die out slowly are seen and taken out. Newman's sweeps
on a model's tables have a handful of such modes, and a third of the sweeps is enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

WINDOW = 8
"""How many rounds back it looks."""
FURTHEST = 5.0
"""No coordinate is extrapolated further than this beyond the plain round; else the plain round is taken."""


class Anderson:
    """The memory of an iteration, and its next point.

    Args:
        weights: of the coordinates in the length of a residual, [n].
    """

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights
        self._landings: list[Tensor] = []
        self._residuals: list[Tensor] = []

    def forget(self) -> None:
        """Begin anew: what is remembered has misled."""
        self._landings, self._residuals = [], []

    def next(self, theta: Tensor, landing: Tensor) -> Tensor:
        """Return the next point, after a round that took theta [n] to its landing g(theta) [n]."""
        residual = landing - theta
        self._landings = [*self._landings[-WINDOW:], landing]
        self._residuals = [*self._residuals[-WINDOW:], residual]
        if len(self._residuals) == 1:
            return landing
        changes = torch.stack(self._residuals).diff(dim=0)
        scale = (changes.square() @ self._weights).sqrt().clamp_min(1e-300)
        changes = changes / scale[:, None]
        weighted = changes * self._weights
        # a few numbers by a few: solved on the CPU, by least squares, as changes may depend on each other
        gram, pull = (weighted @ changes.T).cpu(), (weighted @ residual).cpu()
        share = torch.linalg.lstsq(gram, pull[:, None], rcond=1e-14, driver="gelsd").solution[:, 0]
        moves = torch.stack(self._landings).diff(dim=0)
        step: Tensor = (share.to(scale.device) / scale) @ moves
        if not float(step.abs().max()) < FURTHEST:
            return landing
        return landing - step
