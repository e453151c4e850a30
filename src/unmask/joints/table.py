"""TableJoint, a joint that is small enough to be held as one table, and EnumerableJoint, one known by a rule.

log q is a tensor [tokens of blank 0, tokens of blank 1, ...]; every method of the contract is a sum over some
of its axes. Sums run in float64. `TokenDistribution` is the table of one blank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Unpack

import numpy as np
import torch
from torch import Tensor

from unmask.joints.fillings import whole_number
from unmask.joints.joint import Joint, Origin, check_enumerable
from unmask.text.support import Support

INSTEAD = (
    "use the method tree, draw samples (`sample`), estimate (`estimate_entropy`), or use a smaller support"
)
"""What to do where there are too many fillings."""


class TableJoint(Joint):
    """A joint held as log-probabilities [tokens of blank 0, tokens of blank 1, ...]."""

    def __init__(
        self, log_q: Tensor, supports: tuple[Support, ...], *, method: str, **origin: Unpack[Origin]
    ) -> None:
        super().__init__(supports, method=method, **origin)
        self.log_q = log_q

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        probs = self.log_q.double().exp()
        summands: Tensor = torch.special.xlogy(probs, probs)
        return -summands.sum()

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        return self.log_q[tuple(i.to(self.log_q.device) for i in indices)]

    def _log_prob_of_all(self) -> Tensor:
        return self.log_q.flatten()

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        weights = self.log_q.double().exp().flatten().cpu()
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


class TokenDistribution(TableJoint):
    """The distribution of one blank: log-probabilities [support].

    `marginal` and `conditional` return it, and it is the plain answer of a masked language model.
    """

    def __init__(self, log_probs: Tensor, support: Support, *, method: str, **origin: Unpack[Origin]) -> None:
        super().__init__(log_probs, (support,), method=method, **origin)

    @property
    def log_probs(self) -> Tensor:
        """The log-probabilities, [support]."""
        return self.log_q

    @property
    def probs(self) -> Tensor:
        """The probabilities, [support]."""
        return self.log_q.exp()

    def _marginal(self, blank: int) -> TokenDistribution:  # noqa: ARG002
        return self

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:  # noqa: ARG002
        return self


class EnumerableJoint(Joint):
    """A joint with `log_prob`, `sample` and `top` of its own over all V^n fillings; the rest by enumeration.

    What needs a sum over fillings is exact where they are few enough, and refused elsewhere with their number
    and the remedy: a conditional sums over the blanks that are not given, all else over every blank.
    `estimate_entropy` works anywhere, with its standard error.
    """

    tractable: ClassVar[bool] = False

    @cached_property
    def table(self) -> TableJoint:
        """All fillings written down, where they are few enough."""
        check_enumerable(self.supports, f"a sum over a {self.method} joint", INSTEAD)
        log_q = self.log_prob(self.enumerate_support()).reshape([len(s) for s in self.supports])
        return TableJoint(log_q, self.supports, method=self.method, cloze=self.cloze)

    def entropy(self) -> Tensor:
        """Return the entropy in nats."""
        return self.table.entropy()

    def estimate_entropy(
        self, samples: int, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mean of -log q over samples, and its standard error."""
        drawn = self.sample(whole_number(samples, "a number of samples", 1), generator)
        log_q = self.log_prob(drawn).double()
        return -log_q.mean(), log_q.std() / samples**0.5 if samples > 1 else torch.tensor(torch.inf)

    def _log_prob_of_all(self) -> Tensor:
        return self.table.log_q.flatten()

    def _marginal(self, blank: int) -> TokenDistribution:
        return self.table.marginal(blank)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        if "table" in vars(self):  # all fillings are known by now
            return self.table._conditional(blank, given)
        free = [i for i in range(self.blanks) if i not in given]
        supports = tuple(self.supports[i] for i in free)
        check_enumerable(supports, f"a conditional of a {self.method} joint", INSTEAD)
        axes = torch.meshgrid(*(torch.arange(len(s)) for s in supports), indexing="ij")
        places = dict(zip(free, axes, strict=True))
        indices = [
            places[i] if i in places else torch.full_like(axes[0], given[i]) for i in range(self.blanks)
        ]
        return TableJoint(self._log_prob(indices), supports, method=self.method)._marginal(free.index(blank))
