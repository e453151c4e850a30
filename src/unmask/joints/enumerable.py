"""EnumerableJoint: a joint that is known by its rule, not by its table.

Fillings can be scored, drawn and searched by a few evaluations of the rule, over all V^n of them. What
needs a sum over all (marginals, conditionals, entropy, divergences) enumerates them: exact where they are
few enough, refused elsewhere with their number and the remedy. `estimate_entropy` works anywhere, with its
standard error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from unmask.joints.joint import Joint, check_enumerable
from unmask.joints.table import TableJoint, TokenDistribution


class EnumerableJoint(Joint):
    """A joint with `log_prob`, `sample` and `top` of its own, and the rest by enumeration."""

    tractable: ClassVar[bool] = False

    @cached_property
    def table(self) -> TableJoint:
        """All fillings written down, where they are few enough."""
        check_enumerable(
            self.supports,
            f"a sum over a {self.method} joint",
            "draw samples (`sample`), estimate (`estimate_entropy`), or use a smaller support",
        )
        log_q = self.log_prob(self.enumerate_support()).reshape([len(s) for s in self.supports])
        return TableJoint(log_q, self.supports, method=self.method, cloze=self.cloze)

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        return self.table.entropy()

    def estimate_entropy(
        self, samples: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean of -log q over samples, and its standard error."""
        log_q = self.log_prob(self.sample(samples, generator)).double()
        return -log_q.mean(), log_q.std() / samples**0.5 if samples > 1 else torch.tensor(torch.inf)

    def _log_prob_of_all(self) -> Tensor:
        return self.table.log_q.flatten()

    def _marginal(self, blank: int) -> TokenDistribution:
        return self.table.marginal(blank)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        return self.table._conditional(blank, given)
