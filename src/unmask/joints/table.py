"""TableJoint: a joint of any number of blanks that is small enough to be held as one table.

log q is a tensor [tokens of blank 0, tokens of blank 1, ...]; every question of the contract is a sum over
some of its axes. Sums run in float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.joint import Joint, Token, TokenDistribution, Tokens
from unmask.text.cloze import Cloze
from unmask.text.support import Support

LARGEST_TABLE = 2**21
"""The most cells that a table of all fillings may have."""


class TableJoint(Joint):
    """A joint held as log-probabilities [tokens of blank 0, tokens of blank 1, ...]."""

    def __init__(
        self,
        log_q: Tensor,
        supports: tuple[Support, ...],
        *,
        method: str,
        evidence: dict[str, Any] | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        super().__init__(supports, method=method, evidence=evidence, cloze=cloze)
        self.log_q = log_q.double()

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q of one filling, or of many."""
        return self.log_q[tuple(i.to(self.log_q.device) for i in self._indices(filling))]

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank, whatever the others hold."""
        self._check_blank(blank)
        return self._distribution(self.log_q, blank, range(self.blanks))

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return the distribution of one blank when others hold tokens; blanks not given are summed over."""
        self._check_blank(blank)
        if not given or blank in given or not set(given) <= set(range(self.blanks)):
            others = [i for i in range(self.blanks) if i != blank]
            raise UsageError(
                f"the conditional of blank {blank} needs tokens of other blanks, out of {others}"
            )
        table, kept = self.log_q, [i for i in range(self.blanks) if i not in given]
        for other in sorted(given, reverse=True):
            index = self.supports[other].indices(given[other])
            if index.numel() != 1:
                raise UsageError(f"a conditional is given one token of blank {other}, got {index.numel()}")
            table = table.select(other, int(index))
        return self._distribution(table, blank, kept)

    def entropy(self) -> float:
        """Return the entropy in nats."""
        return float(-torch.special.xlogy(self.log_q.exp(), self.log_q.exp()).sum())

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n fillings, as token ids [n, blanks]."""
        self._check_number(n)
        weights = self.log_q.exp().flatten().cpu()
        return self._ids(torch.multinomial(weights, n, replacement=True, generator=generator))

    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats; the other must be over the same blanks and tokens."""
        self._check_same_tokens(other)
        if isinstance(other, TableJoint):
            theirs = other.log_q
        else:
            every = torch.arange(self.log_q.numel())
            theirs = other.log_prob(*self._ids(every).unbind(1)).reshape(self.log_q.shape)
        return float((self.log_q.exp() * (self.log_q - theirs)).sum())

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        best = self.log_q.flatten().topk(min(k, self.log_q.numel()))
        return self._ids(best.indices.cpu()), best.values

    def _distribution(self, table: Tensor, blank: int, axes: Any) -> TokenDistribution:
        """Sum a table over all of its axes, named by their blanks, but one."""
        rest = [n for n, axis in enumerate(axes) if axis != blank]
        line = table.logsumexp(rest) if rest else table
        return TokenDistribution(line.log_softmax(0), self.supports[blank], method=self.method)

    def _ids(self, flat: Tensor) -> Tensor:
        """Return the fillings of flat indices into the table, [n, blanks]."""
        where = torch.unravel_index(flat, self.log_q.shape)
        return torch.stack([s.ids[i] for s, i in zip(self.supports, where, strict=True)], dim=1)


def check_table_fits(supports: tuple[Support, ...], what: str, instead: str) -> None:
    """Insist that a table of all fillings is small enough to be held."""
    cells = 1
    for support in supports:
        cells *= len(support)
    if cells > LARGEST_TABLE:
        sizes = " × ".join(f"{len(support):,}" for support in supports)
        raise UsageError(
            f"{what} needs all {sizes} = {cells:.3g} fillings, and at most {LARGEST_TABLE:,} are summed "
            f"over: {instead}"
        )
