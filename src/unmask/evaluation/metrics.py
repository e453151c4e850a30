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
by block of rows: once for its marginals, once for all the rest. No table of all pairs is held beside the two
of the conditionals. A row or a column may stand for several tokens (`a_counts`, `b_counts`): every sum
over tokens counts it so often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.conditionals import EVERYTHING, PairConditionals, row_blocks
from unmask.kernels.counts import counts_of
from unmask.pair import PairJoint

LOG_2 = 0.6931471805599453
FAR = 30.0
"""Beyond this, log(1 + e^d) is d to the last digit."""
CACHED_CELLS = 2**17
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

    @property
    def pair_loss(self) -> float:
        """P: the loss of a token under the joint."""
        return -self.log_prob / 2

    @property
    def unary_loss(self) -> float:
        """U: the loss of a token when the other is known."""
        return -(self.log_a_given_b + self.log_b_given_a) / 2


class Marginals(NamedTuple):
    """log q(a) [a] and log q(b) [b], of a single token each."""

    a: Tensor
    b: Tensor


def marginals_of(joint: PairJoint) -> Marginals:
    """Return the log marginals of a joint: the first of the two passes."""
    found = _marginals_of_probabilities(joint)
    # a sum this small has lost digits, or all of them: take it in log space
    if min(float(found.a.min()), float(found.b.min())) < SMALLEST_SUM:
        return _marginals_in_logs(joint)
    return found


def _marginals_of_probabilities(joint: PairJoint) -> Marginals:
    """Sum probabilities in the tables' own precision: an exponential a cell."""
    dtype = joint.conditionals.dtype
    n_a, n_b = counts_of(joint.conditionals)
    a, b = torch.empty_like(n_a), torch.zeros_like(n_b)
    n_a, n_b = n_a.to(dtype), n_b.to(dtype)
    for rows in _small_blocks(joint):
        q = joint.log_block(rows, EVERYTHING).to(dtype).exp_()
        a[rows] = (q @ n_b).double()
        b += (n_a[rows] @ q).double()
    return Marginals(a.log(), b.log())


def _marginals_in_logs(joint: PairJoint) -> Marginals:
    """Do the same in log space and float64: the twin that nothing underflows in."""
    log_a, log_b = (counts.log() for counts in counts_of(joint.conditionals))
    a, b = torch.empty_like(log_a), torch.full_like(log_b, -torch.inf)
    for rows in _small_blocks(joint):
        log_q = joint.log_block(rows, EVERYTHING).double()
        a[rows] = (log_q + log_b).logsumexp(1)
        b = torch.logaddexp(b, (log_q + log_a[rows, None]).logsumexp(0))
    return Marginals(a, b)


def _small_blocks(joint: PairJoint) -> Iterator[slice]:
    """Go through the rows in blocks that stay in the cache while several operations work on them."""
    rows, columns = joint.conditionals.shape
    step = max(1, CACHED_CELLS // columns)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class _Sums:
    """The divergences of one side's contexts, gathered block by block in the tables' own precision."""

    def __init__(self) -> None:
        self.forward = self.backward = self.shared = 0.0

    def add(self, log_p: Tensor, log_given: Tensor, n_a: Tensor, n_b: Tensor) -> Tensor:
        """Take in a block of log p and log q of a context's tokens; returns p log(p/q), [rows, columns]."""
        p, q, apart = log_p.exp(), log_given.exp(), log_p - log_given
        forward = p * apart
        self.forward += float(n_a @ (forward @ n_b))
        self.backward -= float(n_a @ ((q * apart) @ n_b))
        self.shared += float(n_a @ (_jensen_shannon(p, q, apart) @ n_b))
        return forward


def measure(joint: PairJoint, truth: tuple[int, int], marginals: Marginals | None = None) -> PairMetrics:
    """Return all metrics of a joint; `truth` are the row and the column of the true tokens."""
    conditionals = joint.conditionals
    dtype = conditionals.dtype
    counts_a, counts_b = counts_of(conditionals)
    contexts = float(counts_a.sum() + counts_b.sum())
    marginals = marginals or marginals_of(joint)
    q_a, q_b = (m.to(dtype) for m in marginals)
    n_a, n_b = counts_a.to(dtype), counts_b.to(dtype)
    row, column = (torch.tensor([i], device=conditionals.device) for i in truth)
    true_cell = joint.log_block(row, column)
    sums = _Sums()
    above = true_contexts = 0.0
    for rows in _small_blocks(joint):
        log_q = joint.log_block(rows, EVERYTHING)
        above += float(counts_a[rows] @ ((log_q > true_cell).to(dtype) @ n_b).double())
        log_q = log_q.to(dtype)
        weight = n_a[rows]
        by_column = sums.add(conditionals.a_given_b(rows).to(dtype), log_q - q_b, weight, n_b)
        by_row = sums.add(conditionals.b_given_a(rows).to(dtype), log_q - q_a[rows, None], weight, n_b)
        true_contexts += float(weight @ by_column[:, truth[1]])
        if rows.start <= truth[0] < rows.stop:
            true_contexts += float(by_row[truth[0] - rows.start] @ n_b)
    return PairMetrics(
        float(true_cell.double()),
        *_true_conditionals(joint, row, column, float(true_cell.double()), marginals),
        a_kl=sums.forward / contexts,
        g_kl=true_contexts / 2,
        reverse_kl=sums.backward / contexts,
        jsd=sums.shared / contexts,
        rank=1 + round(above),
    )


def _jensen_shannon(p: Tensor, q: Tensor, apart: Tensor) -> Tensor:
    """Return each cell's share of JSD(p, q), from p, q and log p - log q.

    With d = log p - log q and m = (p + q) / 2: log p - log m = log 2 - log(1 + e^-d), and log q - log m is
    less by d; far out, where e^-d overflows, the logarithm is -d itself.
    """
    upper = LOG_2 - torch.where(apart < -FAR, -apart, torch.log1p(torch.exp(-apart)))
    return 0.5 * (p * upper + q * (upper - apart))


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
    share_a, share_b = (counts / counts.sum() for counts in counts_of(conditionals))
    row_means, column_means = torch.empty_like(share_a), torch.zeros_like(share_b)
    for rows in row_blocks(len(share_a), len(share_b)):
        log_c = _log_c(conditionals, rows)
        row_means[rows] = log_c @ share_b
        column_means += share_a[rows] @ log_c
    level = float(share_a @ row_means)
    total = 0.0
    for rows in row_blocks(len(share_a), len(share_b)):
        interaction = _log_c(conditionals, rows) - row_means[rows, None] - column_means + level
        total += float(share_a[rows] @ (interaction.square() @ share_b))
    return total


def _log_c(conditionals: PairConditionals, rows: slice) -> Tensor:
    return conditionals.a_given_b(rows).double() - conditionals.b_given_a(rows).double()
