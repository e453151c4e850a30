"""How faithful a joint is to the conditionals that it was made from, and how compatible those are.

- A-KL: the mean of KL(p || q) over all contexts, p(.|b) for every b and p(.|a) for every a;
- compatibility (Arnold & Press 1989): conditionals come from one joint exactly if C = p(a|b) / p(b|a) is
  a product of a function of a and a function of b; the mean squared distance of log C from such a sum is
  0 then, and grows with the disagreement.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.conditionals import EVERYTHING, PairConditionals, row_blocks
from unmask.pair import PairJoint


def average_kl(joint: PairJoint) -> float:
    """Return A-KL, in nats: how far the joint's conditionals are from the model's, over all contexts."""
    conditionals = joint.conditionals
    log_a, log_b = (joint.marginal(blank).log_probs for blank in (0, 1))
    total = 0.0
    for rows in joint.row_blocks():
        log_q = joint.log_block(rows, EVERYTHING).double()
        total += _divergence(conditionals.a_given_b(rows).double(), log_q - log_b)
        total += _divergence(conditionals.b_given_a(rows).double(), log_q - log_a[rows, None])
    return total / sum(conditionals.shape)


def incompatibility(conditionals: PairConditionals) -> float:
    """Return the mean squared interaction of log p(a|b) - log p(b|a): 0 for conditionals of one joint."""
    rows_done = []
    columns = torch.zeros(conditionals.shape[1], dtype=torch.float64, device=conditionals.device)
    for rows in row_blocks(*conditionals.shape):
        log_c = _log_c(conditionals, rows)
        rows_done.append(log_c.mean(1))
        columns += log_c.sum(0)
    row_means, column_means = torch.cat(rows_done), columns / conditionals.shape[0]
    total = 0.0
    for rows in row_blocks(*conditionals.shape):
        interaction = _log_c(conditionals, rows) - row_means[rows, None] - column_means + row_means.mean()
        total += float(interaction.square().sum())
    return total / (conditionals.shape[0] * conditionals.shape[1])


def _log_c(conditionals: PairConditionals, rows: slice) -> Tensor:
    return conditionals.a_given_b(rows).double() - conditionals.b_given_a(rows).double()


def _divergence(log_p: Tensor, log_q: Tensor) -> float:
    return float((log_p.exp() * (log_p - log_q)).sum())
