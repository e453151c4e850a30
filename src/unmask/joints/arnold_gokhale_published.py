"""ag-published: the Arnold-Gokhale fixed point as it was published, stopped after a number of rounds.

    q <- S / (1/q_a + 1/q_b),   S = p(a|b) + p(b|a),   q_a and q_b the marginals of the last q,

normalised each round, from uniform marginals. This is Zermelo's iteration for the problem that `ag`
solves; Torroba Hennigen & Kim (2023) stop it after 40 rounds, when it has not converged. Kept as a named
reference. Each round needs the marginals of the last alone, so none of the tables that the published code
holds is held here.
"""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor

from unmask.diagnostics import SolverDiagnostics, SolverResult
from unmask.joints.arnold_gokhale import Quotient
from unmask.kernels.zermelo import round_of
from unmask.tables.pair_conditionals import EVERYTHING, PairConditionals
from unmask.values import Spec, Whole

MOST_ROUNDS = 1_000_000
Rounds = Annotated[int, Spec(Whole(1, MOST_ROUNDS), "Rounds of the published iteration.")]


class ArnoldGokhalePublished(Quotient):
    """The published iteration after `rounds` rounds."""

    method = "ag-published"

    def __init__(self, conditionals: PairConditionals, *, rounds: Rounds = 40) -> None:
        super().__init__(conditionals)
        marginals = tuple(torch.zeros_like(self._log_count(blank)) for blank in (0, 1))
        for done in range(rounds):
            if done:
                marginals = self._next_marginals()
            # x and y are one over the marginals of the round before
            self.log_x, self.log_y = (-self._normalised(blank, marginals[blank]) for blank in (0, 1))
        self._record(SolverDiagnostics(SolverResult.FIXED_ROUNDS, rounds=rounds))

    def _next_marginals(self) -> tuple[Tensor, Tensor]:
        if self.conditionals.probabilities is None:
            return self._marginals()
        p, r = (table.numpy() for table in self.conditionals.probabilities)
        counts = (groups.counts.numpy() for groups in self.groups)
        q_a, q_b = round_of(p, r, (-self.log_x).exp().numpy(), (-self.log_y).exp().numpy(), *counts)
        return torch.from_numpy(q_a).log(), torch.from_numpy(q_b).log()

    def _marginals(self) -> tuple[Tensor, Tensor]:
        """Return the log marginals of the current joint, not yet normalised."""
        a = []
        b = torch.full_like(self.log_y, -torch.inf)
        for rows in self.row_blocks():
            block = self.log_weight(rows, EVERYTHING)
            a.append((block + self._log_count(1)).logsumexp(1))
            b = torch.logaddexp(b, (block + self._log_count(0)[rows, None]).logsumexp(0))
        return torch.cat(a), b

    def _normalised(self, blank: int, log_values: Tensor) -> Tensor:
        """Return log-probabilities of single tokens, [rows] or [columns], that sum to 1 over all tokens."""
        return log_values - (log_values + self._log_count(blank)).logsumexp(0)
