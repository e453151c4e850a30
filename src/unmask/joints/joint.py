"""Joint: the contract that every distribution over blanks fulfils.

A joint is a `torch.distributions.Distribution` with `event_shape == (blanks,)`: a value is a filling, one
token id per blank. `log_prob`, `sample`, `entropy` and `torch.distributions.kl_divergence`
(`unmask.joints.kl`) are torch's; beside them are `marginal`, `conditional`, `mutual_information` and
`top`. Blanks are numbered from 0. Where a person types, tokens are strings: `joint.log_prob(["boy", "is"])`.

A subclass supplies the methods with a leading underscore; arguments are checked here, once for all.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict, Unpack

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.joints.fillings import (
    Token,
    Value,
    check_generator,
    index_filling,
    index_fillings,
    sample_size,
    whole_number,
)
from unmask.text.cloze import Cloze
from unmask.text.support import Support

if TYPE_CHECKING:
    from unmask.joints.table import TokenDistribution

LARGEST_TABLE = 2**21
"""The most fillings that are enumerated."""
Block = tuple[int, ...]
"""Blanks that are filled together, by their numbers."""


@dataclass(frozen=True)
class Filling:
    """One way to fill the blanks, with its probability."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    text: str
    log_prob: float
    unrestricted_log_prob: float | None = None
    """In the joint over all tokens, where the filling is one of targets."""


class Origin(TypedDict, total=False):
    """Where a joint comes from: how it was made, and the text that its blanks stand in."""

    diagnostics: Diagnostics | None
    cloze: Cloze | None


class _Fillings(constraints.Constraint):
    """Token ids of the supports, one per blank."""

    is_discrete = True
    event_dim = 1

    def __init__(self, supports: Sequence[Support]) -> None:
        self.supports = supports

    def check(self, value: Tensor) -> Tensor:
        """Return which fillings are in the supports, [...]."""
        inside = [torch.isin(value[..., i], s.ids.to(value.device)) for i, s in enumerate(self.supports)]
        return torch.stack(inside).all(0)


class Joint(Distribution, ABC):
    """A distribution over the fillings of one or more blanks.

    Attributes:
        supports: the tokens that each blank may hold.
        method: the name of the construction.
        cloze: the text that the blanks stand in, if there is one.
        tractable: whether marginals, conditionals and the entropy are sums that this class does cheaply;
            where it is False they enumerate all fillings, and cost as many evaluations of `log_prob`.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {}
    has_enumerate_support = True
    tractable: ClassVar[bool] = True

    def __init__(self, supports: tuple[Support, ...], *, method: str, **origin: Unpack[Origin]) -> None:
        super().__init__(event_shape=torch.Size([len(supports)]), validate_args=False)
        self.supports = supports
        self.method = method
        self.cloze = origin.get("cloze")
        self._diagnostics = origin.get("diagnostics") or Diagnostics()

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(support):,}" for support in self.supports)
        where = "" if self.cloze is None else f" of '{'[MASK]'.join(self.cloze.pieces)}'"
        return f"<{self.method} joint over {sizes} tokens{where}>"

    @property
    def blanks(self) -> int:
        """The number of blanks."""
        return len(self.supports)

    @property
    def diagnostics(self) -> Diagnostics:
        """How the distribution came about, as of now: some joints run the model when they are used."""
        return self._diagnostics

    @property
    def support(self) -> constraints.Constraint:
        """The fillings, as torch.distributions names them."""
        return _Fillings(self.supports)

    def log_prob(self, value: Value) -> Tensor:
        """Return the log-probability of fillings: token ids [..., blanks] -> [...], in float64.

        A filling may also be a list of tokens, one per blank, and for a single blank the token itself.
        """
        return self._log_prob(index_fillings(value, self.supports))

    def sample(
        self, sample_shape: Sequence[int] | int = torch.Size(), generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw fillings, as token ids `[*sample_shape, blanks]`; a number n stands for (n,)."""
        check_generator(generator)
        shape = sample_size(sample_shape)
        count = shape.numel()
        drawn = self._sample(count, generator) if count else torch.empty(0, self.blanks, dtype=torch.long)
        return drawn.reshape(*shape, self.blanks)

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank, whatever the others hold."""
        return self._marginal(self._check_blank(blank))

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return the distribution of one blank when others hold tokens, `given={0: "boy"}`.

        Blanks that are not given are summed over.
        """
        blank = self._check_blank(blank)
        others = [i for i in range(self.blanks) if i != blank]
        if not isinstance(given, Mapping) or not set(given) <= set(others) or bool(given) != bool(others):
            wanted = f"tokens of other blanks, out of {others}" if others else "nothing: there is one blank"
            raise UsageError(f"the conditional of blank {blank} is given {wanted}, got {given!r}")
        return self._conditional(blank, {int(i): self.supports[i].index(given[i]) for i in given})

    @abstractmethod
    def entropy(self) -> Tensor:
        """Return the entropy in nats."""

    def mutual_information(self) -> Tensor:
        """Return how many nats the blanks tell of each other: sum of marginal entropies less the entropy."""
        apart = torch.stack([self.marginal(i).entropy() for i in range(self.blanks)]).sum()
        return (apart - self.entropy()).clamp_min(0.0)  # never negative but by rounding

    @property
    def mode(self) -> Tensor:
        """The likeliest filling, as token ids [blanks]."""
        return self._top(1)[0][0]

    @property
    def mean(self) -> Tensor:
        """Refused: ids are names of tokens, and have no mean."""
        raise UsageError(
            "token ids are names and have no mean or variance: see `marginal`, `top` or `entropy`"
        )

    @property
    def variance(self) -> Tensor:
        """Refused, as the mean is."""
        return self.mean

    def cdf(self, value: Any) -> Tensor:  # noqa: ARG002
        """Refused: tokens have no order."""
        raise UsageError("token ids are names and have no order to sum along: see `log_prob` or `marginal`")

    icdf = cdf

    def rsample(self, sample_shape: Any = ()) -> Tensor:  # noqa: ARG002
        """Refused: tokens are discrete."""
        raise UsageError("tokens are discrete, so no gradient passes through a sample: use `sample`")

    def expand(self, batch_shape: Any, _instance: Any = None) -> Joint:  # noqa: ARG002
        """Refused: a joint is that of one text."""
        raise UsageError("a joint has no batch of texts: give `fill` a list of texts")

    def top(self, k: int = 10) -> list[Filling]:
        """Return the k likeliest fillings, best first."""
        return self._fillings(*self._top(whole_number(k, "a number of fillings", 1)))

    def factors(self, value: Value) -> list[tuple[Block, float]]:
        """Return the factors whose product is q of one filling: blanks that are filled together, and log q.

        Most joints have one factor over all their blanks; a chain has one per block.
        """
        log_q = self._log_prob(index_filling(value, self.supports))
        return [(tuple(range(self.blanks)), float(log_q))]

    def mass_outside_candidates(self) -> float | None:
        """Return the probability of fillings with a token the model was not asked about; None if exact."""
        return None

    def describe(self, value: Value, log_probs: Tensor | None = None) -> list[Filling]:
        """Return fillings, one or many, with tokens, text and log-probability."""
        indices = [i.reshape(-1) for i in index_fillings(value, self.supports)]
        return self._fillings(self._ids(indices), self._log_prob(indices) if log_probs is None else log_probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:  # noqa: ARG002
        """Return all fillings, [fillings, blanks], where they are few enough to be written down."""
        check_enumerable(self.supports, "a list of all fillings", "draw samples, or use a smaller support")
        return torch.stack(
            [part.flatten() for part in torch.meshgrid(*(s.ids for s in self.supports), indexing="ij")], dim=1
        )

    def _log_prob_of_all(self) -> Tensor:
        """Return log q of all fillings in the order of `enumerate_support`."""
        return self.log_prob(self.enumerate_support())

    @abstractmethod
    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        """Return log q of fillings, given as indices into the supports, one tensor [...] per blank."""

    @abstractmethod
    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw `count` fillings, at least one, as token ids [count, blanks]."""

    @abstractmethod
    def _marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank."""

    @abstractmethod
    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        """Return the distribution of one blank, given others as indices into their supports."""

    @abstractmethod
    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """Return the k likeliest fillings, [k, blanks] token ids and [k] log-probabilities."""

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

    def _ids(self, indices: Sequence[Tensor]) -> Tensor:
        """Return fillings as token ids [..., blanks], from indices into the supports."""
        return torch.stack([s.ids[i.cpu()] for s, i in zip(self.supports, indices, strict=True)], dim=-1)

    def _check_blank(self, blank: Any) -> int:
        number = whole_number(blank, "the number of a blank", 0)
        if number >= self.blanks:
            raise UsageError(f"there is no blank {number}: they are numbered from 0 to {self.blanks - 1}")
        return number


def check_enumerable(supports: Sequence[Support], what: str, instead: str) -> None:
    """Raise unless all fillings are few enough to be enumerated, naming how many there are."""
    cells = math.prod(len(support) for support in supports)
    if cells > LARGEST_TABLE:
        sizes = " × ".join(f"{len(support):,}" for support in supports)
        raise UsageError(
            f"{what} needs all {sizes} = {float(cells):.3g} fillings, and at most {LARGEST_TABLE:,} are "
            f"summed over: {instead}"
        )
