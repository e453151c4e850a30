"""Independent: every blank filled as if the others did not exist.

    q(x) = prod_i m_i(x_i),

m_i being the model's answer at blank i with all of them masked: what fill-mask pipelines give, as one
distribution. For two blanks it is the construction `product`.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.joints.joint import Joint, Token, TokenDistribution, Tokens
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class Independent(Joint):
    """The product of the all-masked distributions, log m_i [tokens of blank i]."""

    def __init__(
        self, log_m: tuple[Tensor, ...], supports: tuple[Support, ...], cloze: Cloze | None = None
    ) -> None:
        super().__init__(supports, method="product", evidence={"passes": 1}, cloze=cloze)
        self.log_m = tuple(line.double().cpu() for line in log_m)

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q of one filling, or of many."""
        parts = [line[i] for line, i in zip(self.log_m, self._indices(filling), strict=True)]
        return torch.stack(parts).sum(0)

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank."""
        self._check_blank(blank)
        return TokenDistribution(self.log_m[blank], self.supports[blank], method=self.method)

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return the distribution of one blank, which the others don't change."""
        if not given or blank in given or not set(given) <= set(range(self.blanks)):
            raise UsageError(f"the conditional of blank {blank} needs tokens of other blanks")
        for other, token in given.items():
            self.supports[other].index(token)
        return self.marginal(blank)

    def entropy(self) -> float:
        """Return the entropy in nats."""
        return float(-sum((line.exp() * line).sum() for line in self.log_m))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n fillings, as token ids [n, blanks]."""
        self._check_number(n)
        return torch.cat([self.marginal(i).sample(n, generator) for i in range(self.blanks)], dim=1)

    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats, for another such product or a joint small enough to tabulate."""
        self._check_same_tokens(other)
        if isinstance(other, Independent):
            return float(sum((a.exp() * (a - b)).sum() for a, b in zip(self.log_m, other.log_m, strict=True)))
        from unmask.joints.table import TableJoint, check_table_fits

        check_table_fits(self.supports, "the divergence from another joint", "take a smaller support")
        grids = torch.meshgrid(*(s.ids for s in self.supports), indexing="ij")
        return TableJoint(self.log_prob(*grids), self.supports, method=self.method).kl_to(other)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best sums of one entry a list: only the k best of the first i lists can be part of them."""
        best, ids = torch.zeros(1, dtype=torch.float64), torch.empty(1, 0, dtype=torch.long)
        for line, support in zip(self.log_m, self.supports, strict=True):
            top = line.topk(min(k, len(line)))
            sums = best[:, None] + top.values[None, :]
            kept = sums.flatten().topk(min(k, sums.numel()))
            before, here = kept.indices // len(top.values), kept.indices % len(top.values)
            ids = torch.cat([ids[before], support.ids[top.indices[here]][:, None]], dim=1)
            best = kept.values
        return ids, best
