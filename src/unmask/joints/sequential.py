"""SequentialJoint: a joint that is known by its rule, not by its table.

Fillings can be scored, drawn and searched by running the model a few times, over all V^n of them. What needs
a sum over all (marginals, entropy, divergences) is exact where there are few enough to write down, and is
refused with the remedy elsewhere; `estimated_entropy` works anywhere, with its standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import torch

from unmask.joints.joint import Joint, Token, TokenDistribution
from unmask.joints.table import LARGEST_TABLE, TableJoint, check_table_fits


class SequentialJoint(Joint):
    """A joint with `log_prob`, `sample` and `top` of its own, and the rest by its table if that is small."""

    @property
    def countable(self) -> bool:
        """Whether all fillings are few enough to be summed over."""
        return math.prod(len(support) for support in self.supports) <= LARGEST_TABLE

    @cached_property
    def table(self) -> TableJoint:
        """All fillings written down, where they are few enough."""
        check_table_fits(
            self.supports,
            f"a sum over a {self.method} joint",
            "draw samples (`sample`), or estimate (`estimated_entropy`), or take a smaller support",
        )
        grids = torch.meshgrid(*(support.ids for support in self.supports), indexing="ij")
        return TableJoint(self.log_prob(*grids), self.supports, method=self.method, cloze=self.cloze)

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank, whatever the others hold."""
        self._check_blank(blank)
        return self.table.marginal(blank)

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return the distribution of one blank when others hold the given tokens."""
        self._check_blank(blank)
        return self.table.conditional(blank, given)

    def entropy(self) -> float:
        """Return the entropy in nats."""
        return self.table.entropy()

    def estimated_entropy(self, n: int, generator: torch.Generator | None = None) -> tuple[float, float]:
        """Return the mean of -log q over n samples, and its standard error."""
        log_q = self.log_prob(*self.sample(n, generator).unbind(1)).double()
        return -float(log_q.mean()), float(log_q.std() / n**0.5) if n > 1 else float("inf")

    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats; the other must be over the same blanks and tokens."""
        return self.table.kl_to(other)
