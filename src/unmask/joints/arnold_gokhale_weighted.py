"""ag-weighted: Arnold-Gokhale with contexts weighted by how likely they are.

    q = argmin sum_b w_b KL(p(.|b) || q(.|b)) + sum_a w_a KL(p(.|a) || q(.|a)),
    w_a proportional to m(a)^power, w_b to m(b)^power, each side's weights summing to 1.

`ag` (Arnold & Gokhale 1998) weighs every context alike, those that never occur as much as those that always
do; here a context counts by the model's own both-blank answer. `power` 1 weighs by probability, 0 alike, as
`ag` does where both blanks have as many tokens.

Since p sums to 1 in every context, the distance is, but for a constant,
sum_a w_a log q_a + sum_b w_b log q_b - sum_ab W log q  with  W = w_b p(a|b) + w_a p(b|a), and its
derivative vanishes where

    q = W / (w_a/q_a + w_b/q_b) = W / (x_a + y_b),   x_a = w_a/q_a,  y_b = w_b/q_b.

The unknowns minimise F = sum W log(x_a + y_b) - sum w_a log x_a - sum w_b log y_b, convex in log x and log
y: the Bradley-Terry model of `ag`, in which now a beats b with weight w_a p(b|a) and b beats a with weight
w_b p(a|b). So it is solved likewise: by Newman's sweep, extrapolated, and, where sweeps crawl, by Newton's
method, its equations solved until the light contexts are right, too. Conditionals
of one joint are given back, whatever the weights.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import torch
from torch import Tensor

from unmask.joints.arnold_gokhale import FURTHEST_START, Problem, solve
from unmask.joints.blend import SMALLEST_FLOAT, Blend
from unmask.joints.options import Sweeps, Tolerance
from unmask.joints.pair import NormalisedJoint
from unmask.tables.pair_conditionals import Index, PairConditionals
from unmask.values import Real, Spec

Power = Annotated[
    float, Spec(Real(0, 1), "Contexts are weighted by this power of their probability: 0 weighs all alike.")
]

LIGHTEST = -40.0
"""No context weighs less than e^-40 of the heaviest one: none is without any say."""


class WeightedArnoldGokhale(NormalisedJoint):
    """The joint whose conditionals are closest to the given ones where it matters.

    Args:
        conditionals: the model's conditionals.
        power: of the contexts' probabilities that weigh them, from 0 (all alike) to 1.
        tolerance: the norm of the gradient of F, each component relative to its context's weight, at which
            the solver stops; by default 1e-9 for tables in float64 and 1e-6 for those in float32.
        sweeps: how many sweeps to make before Newton's method takes over.
    """

    method = "ag-weighted"

    def __init__(
        self,
        conditionals: PairConditionals,
        *,
        power: Power = 1.0,
        tolerance: Tolerance = None,
        sweeps: Sweeps = 60,
    ) -> None:
        super().__init__(conditionals)
        if tolerance is None:
            tolerance = 1e-9 if conditionals.dtype == torch.float64 else 1e-6
        alone = (conditionals.a_alone.double(), conditionals.b_alone.double())
        a, b = (log_weights(m, self._log_count(blank), power) for blank, m in enumerate(alone))
        self.log_w = (a, b)
        self._blend = Blend(conditionals, a, b)
        x, y = ((w - m).clamp(-FURTHEST_START, FURTHEST_START) for w, m in zip((a, b), alone, strict=True))
        problem = Problem(conditionals, self.log_w)
        self.log_x, self.log_y, solved = solve(problem, (x, y), tolerance, sweeps)
        self._record(solved, power=power)

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log (w_b p(a|b) + w_a p(b|a)) - log(x_a + y_b)."""
        log_x, log_y = self.log_x[rows, None], self.log_y[None, columns]
        if self._fits_floats:
            x, y = (v.exp().to(self.conditionals.dtype) for v in (log_x, log_y))
            return self._blend.plain(rows, columns).div_(x + y).log_()
        return self._blend.log(rows, columns) - torch.logaddexp(log_x, log_y)

    @cached_property
    def _fits_floats(self) -> bool:
        """Whether no cell underflows as a float, so that it costs one logarithm."""
        if not self._blend.fits_floats:
            return False
        lightest = min(float(w.min()) for w in self.log_w)
        largest = max(float(v.max()) for v in (self.log_x, self.log_y))
        smallest = min(float(v.min()) for v in (self.log_x, self.log_y))
        return (
            self.conditionals.smallest + lightest - largest > SMALLEST_FLOAT
            and largest < -SMALLEST_FLOAT
            and smallest > SMALLEST_FLOAT
        )


def log_weights(log_m: Tensor, log_n: Tensor, power: float) -> Tensor:
    """Return the log weight of one token's context in each row or column; over all tokens they sum to 1."""
    raw = power * log_m
    raw = raw.clamp_min(float(raw.max()) + LIGHTEST)
    return raw - (raw + log_n).logsumexp(0)
