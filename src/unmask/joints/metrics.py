"""What a joint is worth on one pair of blanks, from a bounded number of passes over the two tables.

With true tokens a°, b° and a context being one token of one blank (all rows and all columns of the tables):

- U: -1/2 [log q(a°|b°) + log q(b°|a°)]; U-PPL is exp of its mean over examples. For `product`, whose
  conditionals ignore the other blank, it is taken from the model's own unary conditionals;
- P: -1/2 log q(a°, b°); P-PPL likewise;
- A-KL: the mean of KL(p || q) over all contexts; G-KL: over the two true ones, p(.|b°) and p(.|a°);
- reverse KL, the mean of KL(q || p), and JSD, that of the Jensen-Shannon divergence, over all contexts;
- rank of the true pair: one more than the pairs that are likelier under q;
- incompatibility (Arnold & Press 1989): conditionals come from one joint exactly if C = p(a|b) / p(b|a) is
  a product of a function of a and a function of b; the mean squared distance of log C from such a sum is
  0 then, and grows with the disagreement.

U-PPL, P-PPL, A-KL and G-KL are those of Torroba Hennigen & Kim (2023). Each construction is read twice, block
by block of rows: once for its marginals, once for all the rest (`unmask.kernels.divergences`). No table of
all pairs is held beside the two of the conditionals. A row or a column may stand for several tokens
(`counts`): every sum over tokens counts it so often.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.joints.pair import Marginals, PairJoint
from unmask.kernels.divergences import Divergences, divergences
from unmask.tables.pair_conditionals import EVERYTHING, PairConditionals, block_of

LOG_2 = 0.6931471805599453
TIES = 4
"""By how many units of rounding a pair must be likelier than the true one to be ranked above it."""
FAR = 30.0
"""Beyond this, log(1 + e^d) is d to the last digit."""
SMALLEST_SUM = -60.0
"""Marginals below e^-60 are taken in log space: float32 probabilities end at e^-87."""


@dataclass(frozen=True)
class PairMetrics:
    """What one construction is worth on one example; logarithms are natural, divergences in nats."""

    log_prob: float
    """log q(a°, b°)"""
    log_a_given_b: float
    """log q(a°|b°); for `product` the model's own log p(a°|b°)"""
    log_b_given_a: float
    a_kl: float
    g_kl: float
    reverse_kl: float
    jsd: float
    rank: int


def marginals_of(joint: PairJoint) -> Marginals:
    """Return the log marginals of a joint: the first of the two passes."""
    found = _marginals_of_probabilities(joint)
    # a sum this small has lost digits, or all of them: take it in log space
    if min(float(found.a.min()), float(found.b.min())) < SMALLEST_SUM:
        return joint.log_marginals
    return found


def _marginals_of_probabilities(joint: PairJoint) -> Marginals:
    """Sum probabilities in the tables' own precision: an exponential per cell."""
    dtype = joint.conditionals.dtype
    n_a, n_b = joint.conditionals.counts
    a, b = torch.empty_like(n_a), torch.zeros_like(n_b)
    n_a, n_b = n_a.to(dtype), n_b.to(dtype)
    for rows in joint.conditionals.cached_blocks():
        q = joint.log_block(rows, EVERYTHING).to(dtype).exp_()
        a[rows] = (q @ n_b).double()
        b += (n_a[rows] @ q).double()
    return Marginals(a.log(), b.log())


def measure(joint: PairJoint, truth: tuple[int, int], marginals: Marginals | None = None) -> PairMetrics:
    """Return all metrics of a joint; `truth` are the row and the column of the true tokens."""
    conditionals = joint.conditionals
    marginals = marginals or marginals_of(joint)
    row, column = (torch.tensor([i], device=conditionals.device) for i in truth)
    log_prob = float(joint.log_block(row, column).double())
    level = log_prob + TIES * torch.finfo(conditionals.dtype).eps * max(1.0, abs(log_prob))
    sums = divergences_of(joint, marginals, level)
    contexts = sum(float(counts.sum()) for counts in conditionals.counts)
    return PairMetrics(
        log_prob,
        *_true_conditionals(joint, row, column, log_prob, marginals),
        a_kl=sums.forward / contexts,
        g_kl=_true_contexts(joint, row, column, marginals),
        reverse_kl=sums.backward / contexts,
        jsd=sums.shared / contexts,
        rank=1 + round(sums.above),
    )


def divergences_of(joint: PairJoint, marginals: Marginals, level: float) -> Divergences:
    """Sum the divergences over all contexts, and count the pairs above a level: the second pass."""
    tables = joint.conditionals.probabilities
    smallest = min(float(marginal.min()) for marginal in marginals)
    if tables is None or tables[0].dtype != torch.float32 or smallest < SMALLEST_SUM:
        return divergences_in_logs(joint, marginals, level)
    q_a, q_b, n_a, n_b = (v.float().numpy() for v in (*marginals, *joint.conditionals.counts))
    p, r = (table.numpy() for table in tables)
    parts = [
        divergences(log_q.numpy(), p[rows], r[rows], q_a[rows], q_b, n_a[rows], n_b, level)
        for rows, log_q in (
            (rows, joint.log_block(rows, EVERYTHING).float().contiguous()) for rows in joint.row_blocks()
        )
    ]
    return Divergences(*(math.fsum(values) for values in zip(*parts, strict=True)))


def divergences_in_logs(joint: PairJoint, marginals: Marginals, level: float) -> Divergences:
    """Do the same from log-probabilities in plain torch, in the tables' own precision: the twin."""
    conditionals = joint.conditionals
    dtype = conditionals.dtype
    counts_a, counts_b = conditionals.counts
    q_a, q_b, n_b = (v.to(dtype) for v in (*marginals, counts_b))
    totals = torch.zeros(4, dtype=torch.float64)
    for rows in conditionals.cached_blocks():
        log_q = joint.log_block(rows, EVERYTHING).to(dtype)
        shares = [(log_q > level).to(dtype), *(torch.zeros_like(log_q) for _ in range(3))]
        for log_p, log_given in (
            (conditionals.a_given_b(rows).to(dtype), log_q - q_b),
            (conditionals.b_given_a(rows).to(dtype), log_q - q_a[rows, None]),
        ):
            p, q, apart = log_p.exp(), log_given.exp(), log_p - log_given
            shares[1] += p * apart
            shares[2] -= q * apart
            shares[3] += _jensen_shannon(p, q, apart)
        totals += torch.stack([counts_a[rows] @ (share @ n_b).double() for share in shares]).cpu()
    above, forward, backward, shared = totals.tolist()
    return Divergences(forward, backward, shared, above)


def _jensen_shannon(p: Tensor, q: Tensor, apart: Tensor) -> Tensor:
    """Return each cell's share of JSD(p, q), from p, q and log p - log q.

    With d = log p - log q and m = (p + q) / 2: log p - log m = log 2 - log(1 + e^-d), and log q - log m is
    less by d; far out, where e^-d overflows, the logarithm is -d itself.
    """
    upper = LOG_2 - torch.where(apart < -FAR, -apart, torch.log1p(torch.exp(-apart)))
    return 0.5 * (p * upper + q * (upper - apart))


def _true_contexts(joint: PairJoint, row: Tensor, column: Tensor, marginals: Marginals) -> float:
    """Return G-KL: the mean of KL(p || q) over the two true contexts."""
    conditionals = joint.conditionals
    n_a, n_b = conditionals.counts
    by_column = conditionals.a_given_b(EVERYTHING, column)[:, 0].double()
    by_row = conditionals.b_given_a(row, EVERYTHING)[0].double()
    apart_a = by_column - (joint.log_block(EVERYTHING, column)[:, 0].double() - marginals.b[column])
    apart_b = by_row - (joint.log_block(row, EVERYTHING)[0].double() - marginals.a[row])
    return float((n_a * by_column.exp()) @ apart_a + (n_b * by_row.exp()) @ apart_b) / 2


def _true_conditionals(
    joint: PairJoint, row: Tensor, column: Tensor, log_prob: float, marginals: Marginals
) -> tuple[float, float]:
    """Return log q(a°|b°) and log q(b°|a°); those of the model itself for `product`."""
    if joint.method == "product":
        conditionals = joint.conditionals
        return float(conditionals.a_given_b(row, column)), float(conditionals.b_given_a(row, column))
    return log_prob - float(marginals[1][column]), log_prob - float(marginals[0][row])


def average_kl(joint: PairJoint) -> float:
    """Return A-KL, in nats: how far the joint's conditionals are from the model's, over all contexts."""
    return measure(joint, (0, 0)).a_kl


def incompatibility(conditionals: PairConditionals) -> float:
    """Return the mean squared interaction of log p(a|b) - log p(b|a): 0 for conditionals of one joint."""
    share_a, share_b = (counts / counts.sum() for counts in conditionals.counts)
    row_means, column_means = torch.empty_like(share_a), torch.zeros_like(share_b)
    dtype = conditionals.dtype
    a, b = share_a.to(dtype), share_b.to(dtype)
    for rows in conditionals.cached_blocks():
        log_c = _log_c(conditionals, rows)
        row_means[rows] = (log_c @ b).double()
        column_means += (a[rows] @ log_c).double()
    column_parts = (column_means - share_a @ row_means).to(dtype)
    total = 0.0
    for rows in conditionals.cached_blocks():
        interaction = _log_c(conditionals, rows).sub_(row_means[rows, None].to(dtype)).sub_(column_parts)
        total += float(a[rows] @ (interaction.square_() @ b))
    return total


def _log_c(conditionals: PairConditionals, rows: slice) -> Tensor:
    """Return log p(a|b) - log p(b|a) of a block of rows, in the tables' own precision."""
    if conditionals.linear:
        p, r = (block_of(table, rows, EVERYTHING) for table in (conditionals.a_table, conditionals.b_table))
        return (p / r).log_()
    return conditionals.a_given_b(rows) - conditionals.b_given_a(rows)
