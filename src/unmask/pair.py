"""PairJoint: everything that a joint of two blanks can be asked, derived from one primitive.

A construction supplies `log_block(rows, columns)`, the log-probabilities of a block of pairs. All the rest
is derived here once, by streaming over blocks of rows, so that no table of all pairs is ever held: at
V = 30,000 it would have a billion cells. Sums run in float64.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.conditionals import EVERYTHING, Index, PairConditionals, row_blocks
from unmask.errors import Misuse
from unmask.joint import Joint, Token, TokenDistribution, Tokens

PAIRS_AT_ONCE = 1024


class _Totals(NamedTuple):
    """What one pass over all pairs gives: log marginals [a] and [b], entropy."""

    a: Tensor
    b: Tensor
    entropy: float


class PairJoint(Joint):
    """A joint distribution q(a, b) over two blanks, made from their conditionals."""

    def __init__(self, conditionals: PairConditionals, *, method: str) -> None:
        supports = (conditionals.a_support, conditionals.b_support)
        super().__init__(supports, method=method, evidence=dict(conditionals.evidence))
        self.conditionals = conditionals

    @abstractmethod
    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log q of a block of pairs, [rows, columns]."""

    def row_blocks(self) -> Iterator[slice]:
        """Go through the rows in blocks of a bounded number of cells."""
        return row_blocks(*self.conditionals.shape)

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q(a, b) of one pair of tokens, or of many."""
        a, b = (i.to(self.conditionals.device) for i in self._indices(filling))
        found = torch.empty(a.numel(), dtype=torch.float64, device=a.device)
        order = a.reshape(-1).argsort(stable=True)  # pairs of one row come together: few rows a block
        for part in torch.split(order, PAIRS_AT_ONCE):
            rows, i = torch.unique(a.reshape(-1)[part], return_inverse=True)
            columns, j = torch.unique(b.reshape(-1)[part], return_inverse=True)
            found[part] = self.log_block(rows, columns).double()[i, j]
        return found.reshape(a.shape)

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank, whatever the other holds."""
        self._check_blank(blank)
        log_probs = self._totals.a if blank == 0 else self._totals.b
        return TokenDistribution(log_probs, self.supports[blank], method=self.method)

    def conditional(self, blank: int, given: Mapping[int, Token]) -> TokenDistribution:
        """Return the distribution of one blank when the other holds a token: `given={0: "man"}`."""
        self._check_blank(blank)
        if set(given) != {1 - blank}:
            raise Misuse(
                f"the conditional of blank {blank} needs a token for blank {1 - blank}: "
                f"given={{{1 - blank}: ...}}"
            )
        index = self.supports[1 - blank].indices(given[1 - blank])
        if index.numel() != 1:
            raise Misuse(f"a conditional is given one token of blank {1 - blank}, got {index.numel()}")
        index = index.reshape(1).to(self.conditionals.device)
        line = self.log_block(EVERYTHING, index)[:, 0] if blank == 0 else self.log_block(index, EVERYTHING)[0]
        return TokenDistribution(line.double().log_softmax(0), self.supports[blank], method=self.method)

    def entropy(self) -> float:
        """Return the entropy of the pair in nats."""
        return self._totals.entropy

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n pairs, as token ids [n, 2]: the first token by its marginal, the second given the first."""
        self._check_number(n)
        first = torch.multinomial(self._totals.a.exp().cpu(), n, replacement=True, generator=generator)
        second = torch.empty_like(first)
        for row in torch.unique(first):
            here = first == row
            line = self.log_block(row[None].to(self.conditionals.device), EVERYTHING)[0].double()
            weights = (line - line.max()).exp().cpu()
            second[here] = torch.multinomial(weights, int(here.sum()), replacement=True, generator=generator)
        return torch.stack([self.supports[0].ids[first], self.supports[1].ids[second]], dim=1)

    def kl_to(self, other: Joint) -> float:
        """Return KL(self || other) in nats; the other must be of two blanks over the same tokens."""
        self._check_same_tokens(other)
        assert isinstance(other, PairJoint)
        total = 0.0
        for rows in self.row_blocks():
            log_q = self.log_block(rows, EVERYTHING).double()
            total += float((log_q.exp() * (log_q - other.log_block(rows, EVERYTHING))).sum())
        return total

    def mass(self, rows: Tensor, columns: Tensor) -> float:
        """Return the probability of a block of pairs, given by indices into the supports."""
        parts = (rows[part] for part in row_blocks(len(rows), len(columns)))
        return math.fsum(float(self.log_block(part, columns).double().exp().sum()) for part in parts)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        columns = self.conditionals.shape[1]
        best = torch.empty(0, dtype=self.conditionals.dtype, device=self.conditionals.device)
        where = torch.empty(0, dtype=torch.long, device=self.conditionals.device)
        for rows in self.row_blocks():
            block = self.log_block(rows, EVERYTHING).flatten()
            found = block.topk(min(k, len(block)))
            best = torch.cat([best, found.values])
            where = torch.cat([where, found.indices + rows.start * columns])
            kept = best.topk(min(k, len(best)))
            best, where = kept.values, where[kept.indices]
        a, b = (where // columns).cpu(), (where % columns).cpu()
        return torch.stack([self.supports[0].ids[a], self.supports[1].ids[b]], dim=1), best

    @cached_property
    def _totals(self) -> _Totals:
        rows_done: list[Tensor] = []
        b = torch.full(
            (self.conditionals.shape[1],), -torch.inf, dtype=torch.float64, device=self.conditionals.device
        )
        entropy = 0.0
        for rows in self.row_blocks():
            log_q = self.log_block(rows, EVERYTHING).double()
            rows_done.append(log_q.logsumexp(1))
            b = torch.logaddexp(b, log_q.logsumexp(0))
            entropy -= float((log_q.exp() * log_q).sum())
        return _Totals(torch.cat(rows_done), b, entropy)


class NormalisedJoint(PairJoint):
    """A joint known up to a constant: `log_weight` of a block, normalised by one pass over all pairs."""

    @abstractmethod
    def log_weight(self, rows: Index, columns: Index) -> Tensor:
        """Return log q of a block of pairs but for a constant, [rows, columns]."""

    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log q of a block of pairs, [rows, columns]."""
        return self.log_weight(rows, columns) - self._log_total

    @cached_property
    def _log_total(self) -> float:
        total = torch.tensor(-torch.inf, dtype=torch.float64)
        for rows in self.row_blocks():
            weights = self.log_weight(rows, EVERYTHING).double().flatten()
            total = torch.logaddexp(total, weights.logsumexp(0).cpu())
        return float(total)
