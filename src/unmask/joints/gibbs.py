"""gibbs: the stationary law of pseudo-Gibbs sampling.

Fill A given B, then B given A, and so on for ever. The fillings of A and of B settle at marginals u and v
with u = P v and v = R^T u (P = p(a|b), R = p(b|a)), and the pair at p(a|b) v(b) after a step on A, at
p(b|a) u(a) after a step on B. Where the conditionals are compatible the two agree and are the joint;
elsewhere the construction takes their mean (Heckerman et al. 2000 call the model a dependency network):

    q(a, b) = 1/2 [ p(a|b) v(b) + p(b|a) u(a) ].

v is found by iterating the two steps. A chain that mixes too slowly for that is solved directly, by the
elimination of Grassmann, Taksar & Heyman (1985), which subtracts nothing and so keeps small probabilities
accurate. A row or column that stands for several tokens counts as many times in every sum
(`unmask.tables.pair_conditionals`); u, v and q are those of each of its tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unmask.diagnostics import SolverDiagnostics, SolverResult
from unmask.joints.blend import Blend
from unmask.joints.pair import PairJoint
from unmask.tables.pair_conditionals import Index, PairConditionals, row_blocks

LARGEST_DIRECT = 1024
MOST_STEPS = 1000
TOLERANCE = 1e-9
TOLERANCE_OF_FLOATS = 5e-6
SMALLEST_MARGINAL = -500.0
"""Log-probabilities above this are far from where float64 ends, also times a table's smallest."""


class Gibbs(PairJoint):
    """The average of the two stationary laws of pseudo-Gibbs sampling."""

    method = "gibbs"

    def __init__(self, conditionals: PairConditionals) -> None:
        super().__init__(conditionals)
        self.log_v, found = stationary(conditionals)
        self.log_u = _steps(conditionals, self.log_v)[0]
        self._blend = Blend(conditionals, self.log_u - math.log(2), self.log_v - math.log(2))
        self._record(found)

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log 1/2 [p(a|b) v(b) + p(b|a) u(a)]."""
        return self._blend.log(rows, columns)


def stationary(conditionals: PairConditionals) -> tuple[Tensor, SolverDiagnostics]:
    """Return log v [b] and how it was found."""
    small = max(conditionals.shape) <= LARGEST_DIRECT
    log_v, steps, settled = _iterate(conditionals, 50 if small else MOST_STEPS)
    if small and not settled:
        log_v = _steps(conditionals, _eliminate(conditionals))[1]  # takes the floor off what is below it
        return log_v, SolverDiagnostics(SolverResult.CONVERGED, gibbs_steps=steps, direct=True)
    result = SolverResult.CONVERGED if settled else SolverResult.NOT_CONVERGED
    return log_v, SolverDiagnostics(result, gibbs_steps=steps, direct=False)


def _iterate(conditionals: PairConditionals, most: int) -> tuple[Tensor, int, bool]:
    """Repeat v <- R^T P v until log v has arrived; returns log v, the steps taken and whether it did.

    A chain that mixes slowly hardly moves long before it arrives. So it is not the last move that is judged
    but all that would follow: a geometric series whose ratio is that of the last two moves.
    """
    log_v = conditionals.b_alone.double()
    tables = conditionals.probabilities
    tolerance, slowest = (TOLERANCE, 1 - 1e-6) if tables is None else (TOLERANCE_OF_FLOATS, 0.9)
    n_a, n_b = conditionals.counts
    before = math.inf
    for step in range(1, most + 1):
        if tables is None:
            new = _steps(conditionals, log_v)[1]
        else:
            p, r = tables
            u = p @ (n_b * log_v.exp()).to(p.dtype)
            new = _normalised((r.T @ (n_a.to(p.dtype) * u)).double().log(), n_b)
        moved = float((new - log_v).abs().max())
        log_v = new
        ratio = min(moved / before, slowest) if before > 0 else 0.0
        before = moved
        if step > 1 and moved * ratio / (1 - ratio) < tolerance:
            # the last step in float64, whatever came before
            return _steps(conditionals, log_v)[1], step + 1, True
    return log_v, most, False


def _steps(conditionals: PairConditionals, log_v: Tensor) -> tuple[Tensor, Tensor]:
    """Return log u = log P v and log R^T u, normalised, in float64."""
    if conditionals.probabilities is not None and float(log_v.min()) > SMALLEST_MARGINAL:
        return _steps_of_probabilities(conditionals, log_v)
    return _steps_in_logs(conditionals, log_v)


def _steps_of_probabilities(conditionals: PairConditionals, log_v: Tensor) -> tuple[Tensor, Tensor]:
    """Do it by products of the tables with vectors."""
    n_a, n_b = conditionals.counts
    u, v = torch.empty_like(n_a), torch.zeros_like(n_b)
    weighted = n_b * log_v.exp()
    for rows in row_blocks(*conditionals.shape):
        p, r = conditionals.rows_as_probabilities(rows)
        u[rows] = p @ weighted
        v += (n_a[rows] * u[rows]) @ r
    return u.log(), _normalised(v.log(), n_b)


def _steps_in_logs(conditionals: PairConditionals, log_v: Tensor) -> tuple[Tensor, Tensor]:
    """Do it in log space: the twin that nothing underflows in."""
    n_a, n_b = conditionals.counts
    weighted = log_v + n_b.log()
    u = []
    v = torch.full_like(log_v, -torch.inf)
    for rows in row_blocks(*conditionals.shape):
        part = (conditionals.a_given_b(rows) + weighted).logsumexp(1)
        u.append(part)
        row_mass = (part + n_a[rows].log())[:, None]
        v = torch.logaddexp(v, (conditionals.b_given_a(rows) + row_mass).logsumexp(0))
    return torch.cat(u), _normalised(v, n_b)


def _normalised(log_v: Tensor, n_b: Tensor) -> Tensor:
    """Return log v so that v sums to one over tokens, n_b of them to each entry."""
    return log_v - (log_v + n_b.log()).logsumexp(0)


def _eliminate(conditionals: PairConditionals) -> Tensor:
    """Solve v = R^T P v by eliminating one token of B after the other."""
    # step[b, c]: the chance to go from b to c in one round, with a floor that keeps the chain in one piece
    n_a, n_b = conditionals.counts
    to_a = conditionals.a_given_b().double().exp().T * n_a
    step = (to_a @ (conditionals.b_given_a().double().exp() * n_b)).clamp_min(1e-280)
    size = len(step)
    for n in range(size - 1, 0, -1):
        step[:n, n] /= step[n, :n].sum()
        step[:n, :n] += torch.outer(step[:n, n], step[n, :n])
    log_v = torch.zeros(size, dtype=torch.float64, device=step.device)
    for n in range(1, size):
        log_v[n] = (log_v[:n] + step[:n, n].log()).logsumexp(0)
    return log_v.log_softmax(0) - n_b.log()
