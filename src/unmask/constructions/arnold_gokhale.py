"""ag: Arnold-Gokhale, the joint whose conditionals are closest to the model's.

    q = argmin sum_b KL(p(.|b) || q(.|b)) + sum_a KL(p(.|a) || q(.|a))

(Arnold & Gokhale 1998; Torroba Hennigen & Kim 2023).

At the optimum q(a, b) is proportional to S(a, b) / (x_a + y_b) with S = p(a|b) + p(b|a), so the unknowns
are 2V numbers. They minimise the convex function F = sum S log(x_a + y_b) - sum log x_a - sum log y_b (in
log x, log y): a Bradley-Terry model in which a beats b with weight p(b|a) and b beats a with weight
p(a|b). It is solved to convergence by Newman's alternating sweep (`unmask.kernels.newman`) and, where
sweeps crawl, by Newton's method (`unmask.kernels.laplacian`). log q is taken in log space, so that
nothing underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from unmask.conditionals import Index, PairConditionals, cells
from unmask.errors import Misuse
from unmask.kernels.laplacian import Laplacian, objective
from unmask.kernels.newman import Sweep, sweep, sweep_in_logs
from unmask.pair import PairJoint, log_total

LONGEST_STEP = 5.0
MODERATE = 40.0
MOST_STEPS = 200


class ArnoldGokhale(PairJoint):
    """The joint whose conditionals are closest to the given ones.

    Args:
        conditionals: the model's conditionals.
        tolerance: the norm of the gradient of F at which the solver stops.
        sweeps: how many sweeps to make before Newton's method takes over.
    """

    def __init__(self, conditionals: PairConditionals, *, tolerance: float = 5e-7, sweeps: int = 60) -> None:
        super().__init__(conditionals, method="ag")
        if not tolerance > 0:
            raise Misuse(f"the tolerance of ag is a positive number such as 5e-7, got {tolerance}")
        self.log_x, self.log_y, solved = solve(conditionals, tolerance, sweeps)
        self.evidence |= solved
        self._log_total = 0.0
        self._log_total = log_total(self)

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log S - log(x_a + y_b) - log Z."""
        tables = self.conditionals.probabilities
        if tables is not None and self._moderate:
            s = cells(tables[0], rows, columns) + cells(tables[1], rows, columns)
            x, y = (v.exp().to(s.dtype) for v in (self.log_x[rows, None], self.log_y[None, columns]))
            return (s / (x + y)).log_() - self._log_total
        log_s = torch.logaddexp(
            self.conditionals.a_given_b(rows, columns), self.conditionals.b_given_a(rows, columns)
        )
        return log_s - torch.logaddexp(self.log_x[rows, None], self.log_y[None, columns]) - self._log_total

    @cached_property
    def _moderate(self) -> bool:
        """Whether S / (x + y) fits float32, so that a cell costs one logarithm instead of four functions."""
        largest = float(torch.maximum(self.log_x.max(), self.log_y.max()))
        return max(largest, -float(torch.minimum(self.log_x.min(), self.log_y.min()))) < MODERATE


def solve(
    conditionals: PairConditionals, tolerance: float, sweeps: int
) -> tuple[Tensor, Tensor, dict[str, float | int | bool]]:
    """Return log x [a], log y [b] and how the solver fared."""
    # q(a) and q(b) are 1/x and 1/y at the optimum: the model's both-blank answers are a fair start
    log_x, log_y = -conditionals.a_alone.double(), -conditionals.b_alone.double()
    do_sweep = _sweeper(conditionals)
    gradient = math.inf
    done = steps = 0
    # a sweep tells the gradient of the point that it starts from, and leaves a smaller one
    while gradient > tolerance and done < sweeps:
        log_x, log_y, gradient = do_sweep(log_x, log_y)
        done += 1
    while gradient > tolerance and steps < MOST_STEPS:
        log_x, log_y = _descend(conditionals, Laplacian(conditionals, log_x, log_y), log_x, log_y)
        log_x, log_y, gradient = do_sweep(log_x, log_y)
        steps += 1
    shift = log_y.mean()  # the scale is free: keep it from drifting
    return (
        log_x - shift,
        log_y - shift,
        {
            "sweeps": done,
            "newton_steps": steps,
            "gradient_norm": gradient,
            "converged": gradient <= tolerance,
        },
    )


def _sweeper(conditionals: PairConditionals) -> Callable[[Tensor, Tensor], Sweep]:
    """Return the sweep that suits the tables: compiled on probabilities, or plain in log space."""
    if conditionals.probabilities is None:
        return lambda x, y: sweep_in_logs(conditionals, x, y)
    p, r = (table.numpy() for table in conditionals.probabilities)
    return lambda x, y: sweep(p, r, x, y)


def _descend(
    conditionals: PairConditionals, at: Laplacian, log_x: Tensor, log_y: Tensor
) -> tuple[Tensor, Tensor]:
    """Take one Newton step, shortened until F falls."""
    step = at.newton_step()
    slope = float(at.gradient @ step)
    start = objective(conditionals, log_x, log_y)
    size = min(1.0, LONGEST_STEP / float(step.abs().max()))
    a = len(log_x)
    while size > 1e-8:
        new_x, new_y = log_x + size * step[:a], log_y + size * step[a:]
        if objective(conditionals, new_x, new_y) <= start + 1e-4 * size * slope + 1e-12 * abs(start):
            return new_x, new_y
        size /= 2
    return log_x, log_y
