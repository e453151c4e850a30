"""Newton's method for the Arnold-Gokhale problem, for tables on which plain sweeps crawl.

In theta = (log x, log y) the objective F = sum S log(x_a + y_b) - sum log x_a - sum log y_b is convex;
with s = x_a / (x_a + y_b) and w = S s (1 - s), its Hessian is the Laplacian of the bipartite graph with
edge weights w:

    (H v)_a = D_a v_a - sum_b w_ab v_b,   (H v)_b = D_b v_b - sum_a w_ab v_a,   D = row and column sums of w.

Sharply peaked conditionals make a graph that nearly falls apart, where a sweep moves the parts against each
other by a hair; a Newton step, solved by conjugate gradients with D as preconditioner, moves them at once.

A cell of a row and a column that stand for n_a and n_b tokens counts n_a n_b times, in S and so in all else.
In the weighted problem w_b p(a|b) and w_a p(b|a) take the places of p(a|b) and p(b|a).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from unmask.kernels.conjugate_gradients import SMALLEST_DIAGONAL, conjugate_gradients
from unmask.kernels.newman import Logs
from unmask.tables.pair_conditionals import PairConditionals, row_blocks

RIDGE = 1e-9
"""Share of the diagonal that is added to the Hessian: where it nearly vanishes, steps are long but finite."""
WEIGHTED_RIDGE = 1e-12
WEIGHTED_RESIDUAL = 1e-24
"""The share of a gradient, squared, down to which the Newton step of the weighted problem is solved for."""
MOST_PRODUCTS = 300
KEPT_CELLS = 2**22
"""Tables of up to this many cells keep their edge weights; larger ones compute them anew for each product."""


class Laplacian:
    """The Hessian of the Arnold-Gokhale objective at one point, and the gradient there.

    The gradient with respect to log x_a is the row sum of P s - R (1 - s), and that with respect to log y_b
    less the column sum of the same: written so, rounding in the tables' sums does not enter it.
    """

    def __init__(
        self, conditionals: PairConditionals, log_x: Tensor, log_y: Tensor, log_w: Logs | None = None
    ) -> None:
        self._conditionals, self._log_x, self._log_y, self._log_w = conditionals, log_x, log_y, log_w
        self._counts = conditionals.counts
        small = conditionals.shape[0] * conditionals.shape[1] <= KEPT_CELLS
        gradient_x, gradient_y = torch.empty_like(log_x), torch.zeros_like(log_y)
        degree_x, degree_y = torch.empty_like(log_x), torch.zeros_like(log_y)
        kept = []
        for rows, p, r, share in self._blocks():
            pull = p * share - r * (1 - share)
            gradient_x[rows] = pull.sum(1)
            gradient_y -= pull.sum(0)
            weight = (p + r) * share * (1 - share)
            degree_x[rows] = weight.sum(1)
            degree_y += weight.sum(0)
            if small:
                kept.append((rows, weight))
        self._kept = kept if small else None
        self.gradient = torch.cat([gradient_x, gradient_y])
        self.degree = torch.cat([degree_x, degree_y])

    def _blocks(self) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Go through (rows, P, R, x / (x + y)) in blocks of rows, in float64."""
        for rows in row_blocks(*self._conditionals.shape):
            p, r = _counted(self._conditionals, rows, self._counts, self._log_w)
            yield rows, p, r, torch.sigmoid(self._log_x[rows, None] - self._log_y)

    def _weights(self) -> Iterator[tuple[slice, Tensor]]:
        if self._kept is not None:
            yield from self._kept
            return
        for rows, p, r, share in self._blocks():
            yield rows, (p + r) * share * (1 - share)

    def times(self, v: Tensor) -> Tensor:
        """Return H v."""
        a = len(self._log_x)
        result = self.degree * v
        for rows, weight in self._weights():
            result[:a][rows] -= weight @ v[a:]
            result[a:] -= weight.T @ v[:a][rows]
        return result

    def newton_step(self) -> Tensor:
        """Return an approximate solution of H d = -gradient."""
        converged: Callable[[Tensor, Tensor], bool]
        if self._log_w is None:
            tokens = torch.cat(self._counts)
            norm = _norm(self.gradient, tokens)
            wanted, ridge, most = 0.3 * min(0.1, norm**0.5) * norm, RIDGE, 200
            converged = lambda residual, _: _norm(residual, tokens) < wanted  # noqa: E731
        else:  # in the measure of the preconditioner: in the plain one light contexts count for nothing
            scaled = self.gradient / self.degree.clamp_min(SMALLEST_DIAGONAL)
            wanted, ridge = WEIGHTED_RESIDUAL * float(self.gradient @ scaled), WEIGHTED_RIDGE
            most = min(MOST_PRODUCTS, 2 * len(scaled))
            converged = lambda residual, z: not float(residual @ z) > wanted  # noqa: E731
        return conjugate_gradients(
            self.times,
            -self.gradient,
            self.degree,
            converged=converged,
            max_iterations=most,
            ridge=ridge,
        )


def objective(
    conditionals: PairConditionals, log_x: Tensor, log_y: Tensor, log_w: Logs | None = None
) -> float:
    """Return F at (log x, log y): sum P log((x + y) / y) + sum R log((x + y) / x)."""
    counts = conditionals.counts
    total = 0.0
    for rows in row_blocks(*conditionals.shape):
        difference = log_x[rows, None] - log_y
        p, r = _counted(conditionals, rows, counts, log_w)
        total -= float((p * logsigmoid(-difference)).sum() + (r * logsigmoid(difference)).sum())
    return total


def _counted(
    conditionals: PairConditionals, rows: slice, counts: tuple[Tensor, Tensor], log_w: Logs | None
) -> tuple[Tensor, Tensor]:
    """Return P and R of a block of rows, weighted, each cell as often as there are pairs of tokens in it."""
    p, r = conditionals.rows_as_probabilities(rows)
    if log_w is not None:
        log_n = counts[0].log()[rows, None] + counts[1].log()
        return p * (log_n + log_w[1]).exp(), r * (log_n + log_w[0][rows, None]).exp()
    if not conditionals.is_grouped:
        return p, r
    pairs = counts[0][rows, None] * counts[1]
    return p * pairs, r * pairs


def _norm(gradient: Tensor, tokens: Tensor) -> float:
    """Return the norm over tokens of a gradient that holds the sum over each lump's tokens."""
    return float((gradient.square() / tokens).sum().sqrt())


def shortened(
    conditionals: PairConditionals,
    log_x: Tensor,
    log_y: Tensor,
    step: Tensor,
    slope: float,
    log_w: Logs | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (log x, log y) after a step [a + b], halved until F falls by a share of its slope (Armijo)."""
    start = objective(conditionals, log_x, log_y, log_w)
    a, size = len(log_x), 1.0
    while size > 1e-8:
        new_x, new_y = log_x + size * step[:a], log_y + size * step[a:]
        if objective(conditionals, new_x, new_y, log_w) <= start + 1e-4 * size * slope + 1e-12 * abs(start):
            return new_x, new_y
        size /= 2
    return log_x, log_y
