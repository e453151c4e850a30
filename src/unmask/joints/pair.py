"""PairJoint: everything that a joint of two blanks can be asked, derived from one primitive.

A construction supplies `log_block(rows, columns)`, the log-probabilities of a block of pairs. All the rest
is derived here once, by streaming over blocks of rows, so that no table of all pairs is ever held: at
V = 30,000 it would have a billion cells. A block has the precision of the tables; sums over blocks run in
float64.

Rows and columns are those of the conditionals' tables. Where one of them stands for several tokens
(`unmask.tables.token_groups`), a block holds what a pair has but for w, the log-probability of each
token within its group:

    log q(a, b) = log_block(group of a, group of b) + w(a) + w(b),

and w cancels in whatever compares two joints over the same groups.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unmask.diagnostics import SolverDiagnostics
from unmask.errors import UsageError
from unmask.joints.joint import Joint
from unmask.joints.table import TokenDistribution
from unmask.tables.pair_conditionals import EVERYTHING, Index, PairConditionals, row_blocks

PAIRS_AT_ONCE = 1024


class Marginals(NamedTuple):
    """log q(a) [a] and log q(b) [b], of a single token each."""

    a: Tensor
    b: Tensor


class PairJoint(Joint):
    """A joint distribution q(a, b) over two blanks, made from their conditionals.

    A construction names itself in the class attribute `method`.
    """

    method: str

    def __init__(self, conditionals: PairConditionals) -> None:
        if not isinstance(conditionals, PairConditionals):
            raise UsageError(
                f"expected the conditionals of two blanks, as PairConditionals.from_logits makes them, got "
                f"{type(conditionals).__name__}"
            )
        super().__init__(
            (conditionals.a_support, conditionals.b_support),
            method=self.method,
            diagnostics=conditionals.diagnostics,
            cloze=conditionals.cloze,
        )
        self.conditionals = conditionals
        self.groups = conditionals.groups

    def _record(self, solver: SolverDiagnostics | None = None, **options: Any) -> None:
        """Add what the solver did, and the options as they were resolved, to the diagnostics."""
        self._diagnostics = replace(self._diagnostics, solver=solver, options=options)

    @abstractmethod
    def log_block(self, rows: Index, columns: Index) -> Tensor:
        """Return log q of a block of pairs, a single one of each group, [rows, columns]."""

    def row_blocks(self) -> Iterator[slice]:
        """Go through the rows in blocks of a bounded number of cells."""
        return row_blocks(*self.conditionals.shape)

    def place(self, a: int, b: int) -> tuple[tuple[Tensor, Tensor], tuple[float, float]]:
        """Return the row and the column, [1] each, of two tokens (indices into the supports), and their w."""
        first, second = self.groups
        places = (first.group_of[a : a + 1], second.group_of[b : b + 1])
        row, column = (place.to(self.conditionals.device) for place in places)
        return (row, column), (float(first.log_within[a]), float(second.log_within[b]))

    def log_tokens(self, a: Tensor, b: Tensor) -> Tensor:
        """Return log q of all pairs of the tokens a and b, given as indices into the supports, [a, b]."""
        rows, i = torch.unique(self._group_of(0, a), return_inverse=True)
        columns, j = torch.unique(self._group_of(1, b), return_inverse=True)
        block = self.log_block(rows, columns).double()[i[:, None], j[None, :]]
        return block + self._log_within(0)[a, None] + self._log_within(1)[None, b]

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        a, b = (i.to(self.conditionals.device) for i in indices)
        found = torch.empty(a.numel(), dtype=torch.float64, device=a.device)
        order = a.reshape(-1).argsort(stable=True)  # pairs of one row come together: few rows per block
        for part in torch.split(order, PAIRS_AT_ONCE):
            rows, i = torch.unique(a.reshape(-1)[part], return_inverse=True)
            columns, j = torch.unique(b.reshape(-1)[part], return_inverse=True)
            found[part] = self.log_tokens(rows, columns)[i, j]
        return found.reshape(a.shape)

    def _marginal(self, blank: int) -> TokenDistribution:
        log_probs = self.groups[blank].spread(self.log_marginals[blank])
        return TokenDistribution(log_probs, self.supports[blank], method=self.method)

    def _conditional(self, blank: int, given: Mapping[int, int]) -> TokenDistribution:
        index = torch.tensor([given[1 - blank]], device=self.conditionals.device)
        group = self._group_of(1 - blank, index)
        return TokenDistribution(self._given(blank, group), self.supports[blank], method=self.method)

    def entropy(self) -> Tensor:
        """Return the entropy of the pair in nats."""
        within = (
            float((self.marginal(blank).log_probs.exp() * self._log_within(blank)).sum())
            for blank in (0, 1)
            if not self.groups[blank].ungrouped
        )
        return torch.tensor(self._totals[1] - math.fsum(within), dtype=torch.float64)

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw the first token by its marginal, the second given the first."""
        weights = self.marginal(0).log_probs.exp().cpu()
        first = torch.multinomial(weights, count, replacement=True, generator=generator)
        second = torch.empty_like(first)
        groups = self._group_of(0, first.to(self.conditionals.device)).cpu()
        for group in torch.unique(groups):
            here = groups == group
            weights = self._given(1, group[None].to(self.conditionals.device)).exp().cpu()
            second[here] = torch.multinomial(weights, int(here.sum()), replacement=True, generator=generator)
        return self._ids([first, second])

    def mass_outside_candidates(self) -> float | None:
        """Return the probability of pairs with a token the model was not asked about; None if exact."""
        evaluated = self.conditionals.evaluated
        if evaluated is None:
            return None
        if not all(len(tokens) for tokens in evaluated):
            return 1.0  # the model was asked about none
        inside = self.mass(*(e.sort().values.to(self.conditionals.device) for e in evaluated))
        return max(0.0, 1.0 - inside)

    def mass(self, a: Tensor, b: Tensor) -> float:
        """Return the probability of a block of pairs, given by indices into the supports."""
        parts = (a[part] for part in row_blocks(len(a), len(b)))
        return math.fsum(float(self.log_tokens(part, b).exp().sum()) for part in parts)

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """Find the groups whose best pairs are the k best, then the k best of the pairs in them."""
        columns = self.conditionals.shape[1]
        a_best, b_best = self._best_within_group(0), self._best_within_group(1)
        best = torch.empty(0, dtype=torch.float64, device=self.conditionals.device)
        where = torch.empty(0, dtype=torch.long, device=self.conditionals.device)
        for rows in self.row_blocks():
            block = (self.log_block(rows, EVERYTHING) + a_best[rows, None] + b_best).flatten()
            found = block.topk(min(k, len(block)))
            best = torch.cat([best, found.values.double()])
            where = torch.cat([where, found.indices + rows.start * columns])
            kept = best.topk(min(k, len(best)))
            best, where = kept.values, where[kept.indices]
        if all(groups.ungrouped for groups in self.groups):
            a, b = where // columns, where % columns
        else:
            a, b, best = self._best_within(where // columns, where % columns, k)
        return self._ids([a, b]), best

    def _best_within(self, rows: Tensor, columns: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the k best pairs of tokens (a, b, log q) in some pairs of groups."""
        found = []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            tokens = [
                (groups.group_of == group).nonzero()[:, 0].to(rows.device)
                for groups, group in zip(self.groups, (row, column), strict=True)
            ]
            # of a group no more than its k best can be among the k best pairs
            a, b = (t[self._log_within(n)[t].topk(min(k, len(t))).indices] for n, t in enumerate(tokens))
            pairs = torch.cartesian_prod(a, b)
            found.append((pairs, self.log_tokens(a, b).flatten()))
        pairs, values = torch.cat([p for p, _ in found]), torch.cat([v for _, v in found])
        kept = values.topk(min(k, len(values)))
        return pairs[kept.indices, 0], pairs[kept.indices, 1], kept.values

    @property
    def log_marginals(self) -> Marginals:
        """The log marginals of single tokens, summed in log space and float64."""
        return self._totals[0]

    @cached_property
    def _totals(self) -> tuple[Marginals, float]:
        """The marginals and the groups' entropy, from one pass over all pairs."""
        rows_done: list[Tensor] = []
        b = torch.full(
            (self.conditionals.shape[1],), -torch.inf, dtype=torch.float64, device=self.conditionals.device
        )
        a_log, b_log = self._log_count(0), self._log_count(1)
        entropy = 0.0
        for rows in self.row_blocks():
            log_q = self.log_block(rows, EVERYTHING).double()
            rows_done.append((log_q + b_log).logsumexp(1))
            b = torch.logaddexp(b, (log_q + a_log[rows, None]).logsumexp(0))
            entropy -= float(((log_q + self.log_counts(rows)).exp() * log_q).sum())
        return Marginals(torch.cat(rows_done), b), entropy

    def _given(self, blank: int, group: Tensor) -> Tensor:
        """Return the log-probabilities of one blank's tokens when the other holds a token of a group."""
        block = (
            self.log_block(EVERYTHING, group)[:, 0] if blank == 0 else self.log_block(group, EVERYTHING)[0]
        )
        line = block.double()
        return self.groups[blank].spread(line - (line + self._log_count(blank)).logsumexp(0))

    def _group_of(self, blank: int, tokens: Tensor) -> Tensor:
        return self.groups[blank].group_of.to(tokens.device)[tokens]

    def _log_within(self, blank: int) -> Tensor:
        return self.groups[blank].log_within.to(self.conditionals.device)

    def _best_within_group(self, blank: int) -> Tensor:
        groups = self.groups[blank]
        best = torch.full_like(groups.counts, -torch.inf).scatter_reduce(
            0, groups.group_of, groups.log_within, "amax"
        )
        return best.to(self.conditionals.device)

    def _log_count(self, blank: int) -> Tensor:
        return self.groups[blank].counts.log().to(self.conditionals.device)

    def log_counts(self, rows: slice) -> Tensor:
        """Return log of the pairs of tokens in each pair of groups of a block of rows, [rows, columns]."""
        return self._log_count(0)[rows, None] + self._log_count(1)


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
        totals = []
        for rows in self.conditionals.cached_blocks():
            weights = self.log_weight(rows, EVERYTHING)
            if not self.groups[1].ungrouped:
                weights = weights + self._log_count(1).to(weights.dtype)
            totals.append(weights.logsumexp(1).double() + self._log_count(0)[rows])
        return float(torch.cat(totals).logsumexp(0))
