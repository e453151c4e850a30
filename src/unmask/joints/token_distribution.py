"""TokenDistribution: the joint of one blank, held as log-probabilities.

`marginal` and `conditional` return it, and it is the plain answer of a masked language model.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.joints.joint import Joint
from unmask.text.cloze import Cloze
from unmask.text.support import Support


class TokenDistribution(Joint):
    """The distribution of one blank: log-probabilities [support]."""

    def __init__(
        self,
        log_probs: Tensor,
        support: Support,
        *,
        method: str,
        diagnostics: Diagnostics | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        super().__init__((support,), method=method, diagnostics=diagnostics, cloze=cloze)
        self.log_probs = log_probs

    @property
    def probs(self) -> Tensor:
        """The probabilities, [support]."""
        return self.log_probs.exp()

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        probs = self.log_probs.double().exp()
        summands: Tensor = torch.special.xlogy(probs, probs)
        return -summands.sum()

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        return self.log_probs[indices[0].to(self.log_probs.device)]

    def _log_prob_of_all(self) -> Tensor:
        return self.log_probs

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        weights = self.log_probs.double().exp().cpu()
        drawn = torch.multinomial(weights, count, replacement=True, generator=generator)
        return self.supports[0].ids[drawn][:, None]

    def _marginal(self, blank: int) -> TokenDistribution:  # noqa: ARG002
        return self

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:  # noqa: ARG002
        return self

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        best = self.log_probs.topk(min(k, len(self.log_probs)))
        return self.supports[0].ids[best.indices.cpu()][:, None], best.values
