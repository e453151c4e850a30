"""ag-published: the Arnold-Gokhale fixed point as it was published, stopped after a number of rounds.

    q <- S / (1/q_a + 1/q_b),   S = p(a|b) + p(b|a),   q_a and q_b the marginals of the last q,

normalised each round, from uniform marginals. This is Zermelo's iteration for the problem that `ag`
solves; Torroba Hennigen & Kim (2023) stop it after 40 rounds, when it has not converged. Kept as a named
reference. Each round needs the marginals of the last alone, so none of the tables that the published code
holds is held here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.conditionals import EVERYTHING, Index, PairConditionals
from unmask.errors import Misuse
from unmask.kernels.zermelo import round_of
from unmask.pair import NormalisedJoint


class ArnoldGokhalePublished(NormalisedJoint):
    """The published iteration after `rounds` rounds."""

    def __init__(self, conditionals: PairConditionals, *, rounds: int = 40) -> None:
        super().__init__(conditionals, method="ag-published")
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 1:
            raise Misuse(f"ag-published needs a whole number of rounds, at least 1, got {rounds}")
        rows, columns = conditionals.shape
        self._log_a = torch.zeros(rows, dtype=torch.float64, device=conditionals.device).log_softmax(0)
        self._log_b = torch.zeros(columns, dtype=torch.float64, device=conditionals.device).log_softmax(0)
        for _ in range(rounds - 1):
            log_a, log_b = self._next_marginals()
            self._log_a, self._log_b = log_a.log_softmax(0), log_b.log_softmax(0)
        self.evidence |= {"rounds": rounds}

    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log S - log(1/q_a + 1/q_b), with the marginals of the round before."""
        log_s = torch.logaddexp(
            self.conditionals.a_given_b(rows, columns), self.conditionals.b_given_a(rows, columns)
        )
        return log_s - torch.logaddexp(-self._log_a[rows, None], -self._log_b[None, columns])

    def _next_marginals(self) -> tuple[Tensor, Tensor]:
        if self.conditionals.probabilities is None:
            return self._marginals()
        p, r = (table.numpy() for table in self.conditionals.probabilities)
        q_a, q_b = round_of(p, r, self._log_a.exp().numpy(), self._log_b.exp().numpy())
        return torch.from_numpy(q_a).log(), torch.from_numpy(q_b).log()

    def _marginals(self) -> tuple[Tensor, Tensor]:
        """Return the log marginals of the current joint, not yet normalised."""
        a = []
        b = torch.full_like(self._log_b, -torch.inf)
        for rows in self.row_blocks():
            block = self.log_weight(rows, EVERYTHING)
            a.append(block.logsumexp(1))
            b = torch.logaddexp(b, block.logsumexp(0))
        return torch.cat(a), b
