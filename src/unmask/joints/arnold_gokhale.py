"""ag: Arnold-Gokhale, the joint whose conditionals are closest to the model's.

    q = argmin sum_b KL(p(.|b) || q(.|b)) + sum_a KL(p(.|a) || q(.|a))

(Arnold & Gokhale 1998; Torroba Hennigen & Kim 2023).

At the optimum q(a, b) is proportional to S(a, b) / (x_a + y_b) with S = p(a|b) + p(b|a), so the unknowns
are 2V numbers. They minimise the convex function F = sum S log(x_a + y_b) - sum log x_a - sum log y_b (in
log x, log y): a Bradley-Terry model in which a beats b with weight p(b|a) and b beats a with weight
p(a|b). It is solved to convergence by Newman's alternating sweep (`unmask.kernels.newman`), extrapolated
(`unmask.kernels.anderson`), and, where sweeps crawl, by Newton's method (`unmask.kernels.laplacian`). log q
is taken in log space, so that nothing underflows. A row or column that stands for several tokens counts as
many times in every sum (`unmask.tables.pair_conditionals`); x, y and q are those of each of its tokens.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from unmask.diagnostics import SolverDiagnostics, SolverResult
from unmask.errors import RunError
from unmask.joints.blend import SMALLEST_FLOAT
from unmask.joints.options import Sweeps, Tolerance
from unmask.joints.pair import NormalisedJoint
from unmask.kernels.anderson import Anderson
from unmask.kernels.laplacian import Laplacian, shortened
from unmask.kernels.newman import Logs, Sweep, sweep, sweep_in_logs, sweep_on_device
from unmask.tables.pair_conditionals import SMALLEST_LINEAR, Index, PairConditionals, block_of

LONGEST_STEP = 5.0
MOST_STEPS = 300
FURTHEST_START = 60.0
MOST_IDLE, MOST_IDLE_WEIGHTED = 50, 5
"""Newton steps in a row that may fail to halve the gradient before the solver gives up."""
MISLED = 2.0
"""By how much the gradient may grow after an extrapolated step before the step is taken back."""
ROUNDING = 1e-7
"""The gradient a token, root mean square, below which arithmetic in float32 may be in the way."""


class Quotient(NormalisedJoint):
    """A joint proportional to S(a, b) / (x_a + y_b) with S = p(a|b) + p(b|a).

    Attributes:
        log_x, log_y: log x [a] and log y [b].
    """

    log_x: Tensor
    log_y: Tensor

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log S - log(x_a + y_b)."""
        if self._fits_floats:
            assert self.conditionals.probabilities is not None
            p, r = (block_of(table, rows, columns) for table in self.conditionals.probabilities)
            x, y = (v.exp().to(p.dtype) for v in (self.log_x[rows, None], self.log_y[None, columns]))
            return (p + r).div_(x + y).log_()
        log_s = torch.logaddexp(
            self.conditionals.a_given_b(rows, columns), self.conditionals.b_given_a(rows, columns)
        )
        return log_s - torch.logaddexp(self.log_x[rows, None], self.log_y[None, columns])

    @cached_property
    def _fits_floats(self) -> bool:
        """Whether no S / (x + y) underflows, so that a cell costs one logarithm instead of four functions.

        Asked for once x and y are what they are to be.
        """
        if self.conditionals.probabilities is None:
            return False
        largest = float(torch.maximum(self.log_x.max(), self.log_y.max()))
        return (
            self.conditionals.smallest - largest - math.log(2) > SMALLEST_FLOAT and largest < -SMALLEST_FLOAT
        )


class ArnoldGokhale(Quotient):
    """The joint whose conditionals are closest to the given ones.

    Args:
        conditionals: the model's conditionals.
        tolerance: the norm of the gradient of F at which the solver stops; by default 1e-10 for tables in
            float64 and 5e-7 for those in float32, whose rounding hides anything finer.
        sweeps: how many sweeps to make before Newton's method takes over.
    """

    method = "ag"

    def __init__(
        self, conditionals: PairConditionals, *, tolerance: Tolerance = None, sweeps: Sweeps = 60
    ) -> None:
        super().__init__(conditionals)
        if tolerance is None:
            tolerance = 1e-10 if conditionals.dtype == torch.float64 else 5e-7
        problem = Problem(conditionals)
        self.log_x, self.log_y, solved = solve(problem, starting_point(conditionals), tolerance, sweeps)
        self._record(solved)


@dataclass(frozen=True)
class Problem:
    """What is to be minimised, and how.

    Attributes:
        conditionals: the model's conditionals.
        log_w: the log weights of the contexts, [a] and [b]; None if all weigh alike.
    """

    conditionals: PairConditionals
    log_w: Logs | None = None

    @cached_property
    def sweep(self) -> Callable[[Tensor, Tensor, bool], Sweep]:
        """The sweep that suits the tables: compiled on probabilities, in torch, or in log space.

        Its last argument asks for float64 arithmetic, whatever the tables are in.
        """
        table, log_w = self.conditionals, self.log_w
        if table.probabilities is not None:
            p, r = (one.numpy() for one in table.probabilities)
            counts = table.counts
            return lambda x, y, precise: sweep(p, r, x, y, *counts, log_w, precise=precise)
        apart = table.is_lazy or table.device.type != "cpu"
        if apart and table.smallest > SMALLEST_LINEAR:
            return lambda x, y, _precise: sweep_on_device(table, x, y, log_w)
        return lambda x, y, _precise: sweep_in_logs(table, x, y, log_w)

    def descend(self, log_x: Tensor, log_y: Tensor) -> tuple[Tensor, Tensor]:
        """Take one Newton step, no token further than LONGEST_STEP, shortened until F falls."""
        at = Laplacian(self.conditionals, log_x, log_y, self.log_w)
        step = at.newton_step().clamp(-LONGEST_STEP, LONGEST_STEP)
        slope = float(at.gradient @ step)
        if not slope < 0:  # clamping has turned it uphill
            if self.log_w is not None:
                return log_x, log_y
            step = (-at.gradient / at.degree.clamp_min(1e-300)).clamp(-LONGEST_STEP, LONGEST_STEP)
            slope = float(at.gradient @ step)
        return shortened(self.conditionals, log_x, log_y, step, slope, self.log_w)


def solve(
    problem: Problem, start: tuple[Tensor, Tensor], tolerance: float, sweeps: int
) -> tuple[Tensor, Tensor, SolverDiagnostics]:
    """Return log x [a], log y [b] and how the solver fared.

    The gradient that it goes by, and reports, is the one that a sweep measures on its way: with respect to
    log x where it starts, and to log y once x has moved.
    """
    log_x, log_y = start
    gradient = math.inf
    done = steps = idle = 0
    if sweeps:
        for done, reached in extrapolated_sweeps(problem, log_x, log_y):
            log_x, log_y, gradient = reached
            if gradient <= tolerance or done >= sweeps:
                break
    most_idle = MOST_IDLE if problem.log_w is None else MOST_IDLE_WEIGHTED
    while gradient > tolerance and steps < MOST_STEPS and idle < most_idle:
        before = gradient
        log_x, log_y = problem.descend(log_x, log_y)
        log_x, log_y, gradient = problem.sweep(log_x, log_y, True)
        idle = idle + 1 if gradient > before / 2 else 0
        steps += 1
    tokens = problem.conditionals.counts[1]
    shift = tokens @ log_y / tokens.sum()  # the scale is free: keep it from drifting
    return (
        log_x - shift,
        log_y - shift,
        SolverDiagnostics(
            SolverResult.CONVERGED if gradient <= tolerance else SolverResult.NOT_CONVERGED,
            sweeps=done,
            newton_steps=steps,
            gradient_norm=gradient,
        ),
    )


def starting_point(conditionals: PairConditionals) -> tuple[Tensor, Tensor]:
    """Return log x and log y to begin with.

    q(a) and q(b) are 1/x and 1/y at the optimum: the model's both-blank answers are a fair start.
    """
    a, b = (
        (alone.max() - alone.double()).clamp_max(FURTHEST_START)
        for alone in (conditionals.a_alone, conditionals.b_alone)
    )
    return a, b


def extrapolated_sweeps(problem: Problem, log_x: Tensor, log_y: Tensor) -> Iterator[tuple[int, Sweep]]:
    """Sweep for ever from (log x, log y), each sweep from where the last ones point to; yield each numbered.

    An extrapolation after which the gradient is larger is taken back. Tables in float32 are swept in float32
    until its rounding keeps the gradient from falling, and in float64 from then on.
    """
    counts = torch.cat(problem.conditionals.counts).cpu()
    floor = ROUNDING * math.sqrt(float(counts.sum()))
    memory = Anderson(counts.numpy())
    a, theta = len(log_x), torch.cat([log_x, log_y])
    landing, gradients, precise = theta, [math.inf], False
    for sweeps in itertools.count(1):
        swept = problem.sweep(theta[:a], theta[a:], precise)
        if math.isnan(swept.gradient) and theta is landing:  # not an extrapolation's fault
            raise RunError("the conditionals hold values that are no numbers: check the model's weights")
        if not swept.gradient <= MISLED * gradients[-1]:
            memory.forget()
            theta, gradients = landing, [math.inf]
            continue
        gradients = [*gradients[-3:], swept.gradient]
        precise = precise or (len(gradients) == 4 and floor > gradients[-1] > gradients[0] / 2)
        landing = torch.cat([swept.log_x, swept.log_y])
        yield sweeps, swept
        pointed_to = memory.next(theta.cpu().numpy(), landing.cpu().numpy())
        theta = torch.from_numpy(pointed_to).to(landing.device)
