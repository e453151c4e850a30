"""Joint: the contract that every distribution over blanks fulfils.

It looks like `torch.distributions` to whoever knows that: `log_prob`, `sample`, `entropy`, and beside
them `marginal`, `conditional`, `mutual_information`, `top` and `kl_to`. Blanks are numbered from 0,
tokens are given as strings or as ids, and samples come back as ids, one row a filling.
`TokenDistribution` is the joint of one blank: what `marginal` and `conditional` return, and the plain
MLM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from unmask.errors import UsageError
from unmask.text.cloze import Cloze
from unmask.text.support import Support

Token: TypeAlias = int | str
Tokens: TypeAlias = Token | Sequence[Token] | Tensor
"""One token, several, or a tensor of ids of any shape."""


@dataclass(frozen=True)
class Filling:
    """One way to fill the blanks, with its probability."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    text: str
    log_prob: float


class Joint(ABC):
    """A distribution over the fillings of one or more blanks.

    Attributes:
        supports: the tokens that each blank may hold.
        method: the name of the construction.
        evidence: how the distribution came about (candidates, sweeps, errors), for reports.
        cloze: the text that the blanks stand in, if there is one.
    """

    def __init__(
        self,
        supports: tuple[Support, ...],
        *,
        method: str,
        evidence: dict[str, Any] | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        self.supports = supports
        self.method = method
        self.evidence = evidence or {}
        self.cloze = cloze

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(support):,}" for support in self.supports)
        where = "" if self.cloze is None else f" of '{'[MASK]'.join(self.cloze.pieces)}'"
        return f"<{self.method} joint over {sizes} tokens{where}>"

    @property
    def blanks(self) -> int:
        """How many blanks there are."""
        return len(self.supports)

    @abstractmethod
    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return the log-probability of fillings: one argument a blank, all of one shape."""

    @abstractmethod
    def marginal(self, blank: int) -> Joint:
        """Return the distribution of one blank, whatever the others hold."""

    @abstractmethod
    def conditional(self, blank: int, given: Mapping[int, Token]) -> Joint:
        """Return the distribution of one blank when the others hold the given tokens."""

    @abstractmethod
    def entropy(self) -> float:
        """Return the entropy in nats."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n fillings, as token ids [n, blanks]."""

    @abstractmethod
    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats."""

    @abstractmethod
    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k likeliest fillings, [k, blanks] token ids and [k] log-probabilities."""

    def top(self, k: int = 10) -> list[Filling]:
        """Return the k likeliest fillings, best first."""
        if k < 1:
            raise UsageError(f"expected to be asked for at least one filling, got {k}")
        return self._fillings(*self._top(k))

    def mutual_information(self) -> float:
        """Return how many nats the blanks tell of each other: sum of marginal entropies less the entropy."""
        return sum(self.marginal(i).entropy() for i in range(self.blanks)) - self.entropy()

    def describe(self, ids: Tensor, log_probs: Tensor | None = None) -> list[Filling]:
        """Return fillings, given as ids [n, blanks], with tokens, text and log-probability."""
        return self._fillings(ids, self.log_prob(*ids.unbind(-1)) if log_probs is None else log_probs)

    def _fillings(self, ids: Tensor, log_probs: Tensor) -> list[Filling]:
        return [
            self._filling(tuple(row), lp) for row, lp in zip(ids.tolist(), log_probs.tolist(), strict=True)
        ]

    def _filling(self, ids: tuple[int, ...], log_prob: float) -> Filling:
        tokens = tuple(
            str(i) if s.vocabulary is None else s.vocabulary.token(i)
            for i, s in zip(ids, self.supports, strict=True)
        )
        known = self.cloze is not None and len(self.cloze.blanks) == len(ids)
        text = self.cloze.filled(ids) if known and self.cloze is not None else " ".join(tokens)
        return Filling(ids, tokens, text, log_prob)

    def _indices(self, filling: tuple[Tokens, ...]) -> list[Tensor]:
        """Return a filling as indices into the supports, all of one shape."""
        if len(filling) != self.blanks:
            raise UsageError(f"expected {self.blanks} tokens, one a blank, got {len(filling)}")
        indices = [s.indices(tokens) for s, tokens in zip(self.supports, filling, strict=True)]
        try:
            shape = torch.broadcast_shapes(*(i.shape for i in indices))
        except RuntimeError:
            shapes = " and ".join(str(list(i.shape)) for i in indices)
            raise UsageError(f"expected as many tokens for each blank, got shapes {shapes}") from None
        return [i.expand(shape) for i in indices]

    def _check_same_tokens(self, other: Joint) -> None:
        same = [a.same_tokens(b) for a, b in zip(self.supports, other.supports, strict=False)]
        if len(self.supports) != len(other.supports) or not all(same):
            raise UsageError("KL compares distributions over the same blanks and the same tokens")

    def _check_number(self, n: int) -> None:
        if n < 1:
            raise UsageError(f"expected to draw at least one sample, got {n}")

    def _check_blank(self, blank: int) -> None:
        if not 0 <= blank < self.blanks:
            raise UsageError(f"there is no blank {blank}: they are numbered from 0 to {self.blanks - 1}")


class TokenDistribution(Joint):
    """The distribution of one blank, held as log-probabilities [support]."""

    def __init__(
        self,
        log_probs: Tensor,
        support: Support,
        *,
        method: str,
        evidence: dict[str, Any] | None = None,
        cloze: Cloze | None = None,
    ) -> None:
        super().__init__((support,), method=method, evidence=evidence, cloze=cloze)
        self.log_probs = log_probs

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return the log-probability of tokens."""
        (indices,) = self._indices(filling)
        return self.log_probs[indices.to(self.log_probs.device)]

    def marginal(self, blank: int) -> TokenDistribution:
        """Return this distribution: there is but one blank."""
        self._check_blank(blank)
        return self

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return this distribution: there is nothing to be given."""
        self._check_blank(blank)
        if given:
            raise UsageError("there is but one blank, so nothing else can be given")
        return self

    def entropy(self) -> float:
        """Return the entropy in nats."""
        log_probs = self.log_probs.double()
        return float(-(log_probs.exp() * log_probs).sum())

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n tokens, as ids [n, 1]."""
        self._check_number(n)
        drawn = torch.multinomial(
            self.log_probs.double().exp().cpu(), n, replacement=True, generator=generator
        )
        return self.supports[0].ids[drawn][:, None]

    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats; the other must be of one blank over the same tokens."""
        self._check_same_tokens(other)
        assert isinstance(other, TokenDistribution)
        log_probs = self.log_probs.double()
        return float((log_probs.exp() * (log_probs - other.log_probs.double())).sum())

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        best = self.log_probs.topk(min(k, len(self.log_probs)))
        return self.supports[0].ids[best.indices.cpu()][:, None], best.values
