"""TableJoint: a joint of any number of blanks that is small enough to be held as one table.

log q is a tensor [tokens of blank 0, tokens of blank 1, ...]; every method of the contract is a sum over some
of its axes. Sums run in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.joints.joint import Joint
from unmask.joints.token_distribution import TokenDistribution
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class TableJoint(Joint):
    """A joint held as log-probabilities [tokens of blank 0, tokens of blank 1, ...]."""

    def __init__(
        self,
        log_q: Tensor,
        supports: tuple[Support, ...],
        *,
        method: str,
        diagnostics: Diagnostics | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        super().__init__(supports, method=method, diagnostics=diagnostics, cloze=cloze)
        self.log_q = log_q.double()

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        summands: Tensor = torch.special.xlogy(self.log_q.exp(), self.log_q.exp())
        return -summands.sum()

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        return self.log_q[tuple(i.to(self.log_q.device) for i in indices)]

    def _log_prob_of_all(self) -> Tensor:
        return self.log_q.flatten()

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        weights = self.log_q.exp().flatten().cpu()
        return self._ids_of_flat(torch.multinomial(weights, count, replacement=True, generator=generator))

    def _marginal(self, blank: int) -> TokenDistribution:
        return self._summed(self.log_q, blank, range(self.blanks))

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        table, kept = self.log_q, [i for i in range(self.blanks) if i not in given]
        for other in sorted(given, reverse=True):
            table = table.select(other, given[other])
        return self._summed(table, blank, kept)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        best = self.log_q.flatten().topk(min(k, self.log_q.numel()))
        return self._ids_of_flat(best.indices.cpu()), best.values

    def _summed(self, table: Tensor, blank: int, axes: Sequence[int]) -> TokenDistribution:
        """Sum a table over all of its axes, named by their blanks, but one."""
        rest = [n for n, axis in enumerate(axes) if axis != blank]
        line = table.logsumexp(rest) if rest else table
        return TokenDistribution(line.log_softmax(0), self.supports[blank], method=self.method)

    def _ids_of_flat(self, flat: Tensor) -> Tensor:
        """Return the fillings of flat indices into the table, [n, blanks]."""
        # torch's own unravel_index imports sympy
        places = np.unravel_index(flat.numpy(), self.log_q.shape)
        return self._ids([torch.from_numpy(place) for place in places])
