"""Independent: every blank filled as if the others did not exist.

    q(x) = prod_i m_i(x_i),

m_i being the model's answer at blank i with all of them masked: what fill-mask pipelines give, as one
distribution. For two blanks it is the construction `product`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import torch
from torch import Tensor

from unmask.joints.joint import Joint, Origin
from unmask.joints.table import TokenDistribution
from unmask.text.support import Support


class Independent(Joint):
    """The product of the all-masked distributions, log m_i [tokens of blank i]."""

    def __init__(
        self, log_m: tuple[Tensor, ...], supports: tuple[Support, ...], **origin: Unpack[Origin]
    ) -> None:
        super().__init__(supports, method="product", **origin)
        self.log_m = tuple(line.double().cpu() for line in log_m)

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        return torch.stack([self.marginal(i).entropy() for i in range(self.blanks)]).sum()

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        return torch.stack([line[i] for line, i in zip(self.log_m, indices, strict=True)]).sum(0)

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        return torch.cat([self.marginal(i)._sample(count, generator) for i in range(self.blanks)], dim=1)

    def _marginal(self, blank: int) -> TokenDistribution:
        return TokenDistribution(self.log_m[blank], self.supports[blank], method=self.method)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:  # noqa: ARG002
        return self._marginal(blank)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best sums of one entry per list: only the k best of the first i lists can be part of them."""
        best, ids = torch.zeros(1, dtype=torch.float64), torch.empty(1, 0, dtype=torch.long)
        for line, support in zip(self.log_m, self.supports, strict=True):
            top = line.topk(min(k, len(line)))
            sums = best[:, None] + top.values[None, :]
            kept = sums.flatten().topk(min(k, sums.numel()))
            before, here = kept.indices // len(top.values), kept.indices % len(top.values)
            ids = torch.cat([ids[before], support.ids[top.indices[here]][:, None]], dim=1)
            best = kept.values
        return ids, best
