"""Joints on a grid of candidates that back off to a chain on all other fillings.

A joint g on a grid G of K candidates per blank gives no probability to anything else, so it cannot score a
text. With the chain C of single blanks, left to right, which is a distribution over all V^n fillings,

    q(x) = C(G) g(x)   for x in the grid,       q(x) = C(x)   elsewhere,

where C(G) is the mass that the chain gives to the grid. q sums to 1 and differs from the chain only in how
the grid's mass is shared out.

- `BackoffGrid` takes a joint of n blanks on a grid, and a chain.
- `BackoffPair` joins two blanks on their likeliest tokens, and asks for conditionals only when an answer
  needs them: two passes for a pair outside the rows of the grid (both masked, and the first token filled
  in), 2K + 1 inside them, once for the pair. So most pairs of a real text take two passes. A chain that is
  searched, drawn from and summed over has to be one distribution; that is why it is not made of cross
  conditionals, whose tail is an estimate.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unmask.diagnostics import Diagnostics
from unmask.joints.blank_conditionals import MASKED, BlankConditionals
from unmask.joints.chain import STATES_AT_ONCE, Chain
from unmask.joints.grid import GridJoint
from unmask.joints.joint import Joint
from unmask.joints.registry import construct
from unmask.joints.table import EnumerableJoint, TokenDistribution
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.support import Support

ROWS_AT_ONCE = 64
ROWS_TRIED = 16
"""Of the first tokens outside the grid, how many `top` tries at the most."""


class BackoffJoint(EnumerableJoint):
    """A joint on a grid that backs off to a chain elsewhere.

    Attributes:
        inner: the joint on the grid.
        log_grid_mass: the log of the chain's mass on the grid.
    """

    inner: Joint
    log_grid_mass: float

    @abstractmethod
    def _in_grid(self, indices: list[Tensor]) -> Tensor:
        """Return which fillings [n] are in the grid."""

    @abstractmethod
    def _tail_log_prob(self, indices: list[Tensor]) -> Tensor:
        """Return the chain's log-probability of fillings [n]."""

    @abstractmethod
    def _tail_sample(self, count: int, generator: torch.Generator | None) -> list[Tensor]:
        """Draw fillings from the chain, as indices [count] per blank."""

    def _log_prob(self, indices: list[Tensor]) -> Tensor:
        flat = [i.reshape(-1) for i in indices]
        inside = self._in_grid(flat)
        found = torch.empty(len(inside), dtype=torch.float64)
        if inside.any():
            ids = self._ids([i[inside] for i in flat])
            found[inside] = self.log_grid_mass + self.inner.log_prob(ids).double().cpu()
        if not inside.all():
            found[~inside] = self._tail_log_prob([i[~inside] for i in flat])
        return found.reshape(indices[0].shape)

    def _sample(self, count: int, generator: torch.Generator | None) -> Tensor:
        """Draw from the chain, and anew from the grid where that falls into it."""
        indices = self._tail_sample(count, generator)
        drawn, inside = self._ids(indices), self._in_grid(indices)
        if inside.any():
            drawn[inside] = self.inner.sample(int(inside.sum()), generator)
        return drawn

    def _best_of_grid(self, k: int) -> tuple[Tensor, Tensor]:
        ids, log_probs = self.inner._top(k)
        return ids.cpu(), log_probs.double().cpu() + self.log_grid_mass


class BackoffGrid(BackoffJoint):
    """A joint of n blanks on a grid, and the chain of single blanks on all fillings outside it.

    Args:
        inner: the joint over the grid's candidates.
        tail: the chain of single blanks, left to right, over the same blanks and all tokens.
    """

    def __init__(self, inner: GridJoint, tail: Chain) -> None:
        self.inner, self.tail = inner, tail
        outside = inner.conditionals.outside
        before = tail.diagnostics.passes
        self.log_grid_mass = log_mass_of_grid(
            tail, inner.supports, None if outside is None else 1 - outside[-1]
        )
        diagnostics = replace(
            inner.diagnostics,
            passes=inner.diagnostics.passes + tail.diagnostics.passes - before,
            grid_mass=float(torch.tensor(self.log_grid_mass).exp()),
        )
        super().__init__(tail.supports, method=inner.method, diagnostics=diagnostics, cloze=tail.cloze)
        self._columns = [
            full.indices(part.ids) for full, part in zip(tail.supports, inner.supports, strict=True)
        ]

    def _in_grid(self, indices: list[Tensor]) -> Tensor:
        inside = [torch.isin(i, columns) for i, columns in zip(indices, self._columns, strict=True)]
        return torch.stack(inside).all(0)

    def _tail_log_prob(self, indices: list[Tensor]) -> Tensor:
        return self.tail._log_prob(indices)

    def _tail_sample(self, count: int, generator: torch.Generator | None) -> list[Tensor]:
        drawn = self.tail.sample(count, generator)
        return [support.indices(drawn[:, i]) for i, support in enumerate(self.supports)]

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The best of the grid, exactly, and the best outside it that the chain's beam finds."""
        ids, log_probs = self._best_of_grid(k)
        outside_ids, outside = self.tail._top(2 * k)
        kept = ~self._in_grid([s.indices(outside_ids[:, i]) for i, s in enumerate(self.supports)])
        ids, log_probs = torch.cat([ids, outside_ids[kept]]), torch.cat([log_probs, outside[kept]])
        best = log_probs.topk(min(k, len(log_probs)))
        return ids[best.indices], best.values


class BackoffPair(BackoffJoint):
    """A joint of two blanks on the likeliest tokens of each, and the chain elsewhere.

    The first blank's candidates are the likeliest with both masked, the second's the likeliest under the
    chain: the mean of p(b|a) over them.

    Args:
        conditionals: of the two blanks.
        method: the construction that joins the candidates.
        candidates: how many per blank.
        options: of the construction.
    """

    def __init__(
        self, conditionals: BlankConditionals, *, method: str = "ag", candidates: int, **options: Any
    ) -> None:
        known = Diagnostics(conditionals="chain", candidates=candidates)
        super().__init__(conditionals.supports, method=method, diagnostics=known, cloze=conditionals.cloze)
        self.conditionals = conditionals
        self._count, self._options = candidates, options

    @property
    def diagnostics(self) -> Diagnostics:
        """How the distribution came about, with the forward passes so far."""
        known = replace(self._diagnostics, passes=self.conditionals.passes)
        if "inner" not in vars(self):
            return known
        mass = float(torch.tensor(self.log_grid_mass).exp())
        return replace(known, grid_mass=mass, solver=self.inner.diagnostics.solver)

    @cached_property
    def _alone(self) -> tuple[Tensor, Tensor]:
        """log m(a) and log m(b), over the supports."""
        a, b = self.conditionals.log_probs_of_all(self.conditionals.all_masked)
        return a[0].cpu(), b[0].cpu()

    @cached_property
    def _a(self) -> Tensor:
        """The first blank's candidates, as indices into its support."""
        log_a = self._alone[0]
        return log_a.topk(min(self._count, len(log_a))).indices.sort().values

    @cached_property
    def _given_a(self) -> tuple[Tensor, Tensor]:
        """log p(b|a) of the candidates a, [K, second], and the logits' normalisers, [K]."""
        logits = self._logits_given(self._a)
        log_z = logits.logsumexp(-1)
        return logits - log_z[:, None], log_z

    @property
    def _rows(self) -> Tensor:
        return self._given_a[0]

    @cached_property
    def _b(self) -> Tensor:
        """The second blank's candidates, as indices into its support."""
        marginal = (self._alone[0][self._a, None] + self._rows).logsumexp(0)
        return marginal.topk(min(self._count, len(marginal))).indices.sort().values

    @cached_property
    def log_grid_mass(self) -> float:  # type: ignore[override]
        """The log of the chain's mass on the grid."""
        return float((self._alone[0][self._a, None] + self._rows[:, self._b]).flatten().logsumexp(0))

    @cached_property
    def inner(self) -> Joint:  # type: ignore[override]
        """The joint on the grid."""
        first, second = self.supports
        kept = Support(first.ids[self._a], first.vocabulary), Support(second.ids[self._b], second.vocabulary)
        logits = self.conditionals.logits_given(1, kept[1].ids, 0).cpu().double()
        table = PairConditionals.from_logits(
            logits[:, self._a].T,
            self._rows[:, self._b] + self._given_a[1][:, None],
            self._alone[0][self._a],
            self._alone[1][self._b],
            a_support=kept[0],
            b_support=kept[1],
        )
        return construct(self.method, table, **self._options)

    def _marginal(self, blank: int) -> TokenDistribution:
        """The first blank's marginal is known without a sum over all pairs."""
        if blank != 0:
            return super()._marginal(blank)
        log_q = self._alone[0].clone()
        outside = (1 - self._rows[:, self._b].exp().sum(1)).clamp_min(0.0).log()
        inside = self.inner.marginal(0).log_prob(self.supports[0].ids[self._a][:, None]).double().cpu()
        log_q[self._a] = torch.logaddexp(log_q[self._a] + outside, inside + self.log_grid_mass)
        return TokenDistribution(log_q, self.supports[0], method=self.method)

    def _in_grid(self, indices: list[Tensor]) -> Tensor:
        """Its columns are not asked for unless a pair is in its rows."""
        a, b = indices
        found = torch.isin(a, self._a)
        if found.any():
            found[found.clone()] = torch.isin(b[found], self._b)
        return found

    def _tail_log_prob(self, indices: list[Tensor]) -> Tensor:
        a, b = indices
        found = self._alone[0][a]
        distinct, which = torch.unique(a, return_inverse=True)
        for start in range(0, len(distinct), ROWS_AT_ONCE):
            rows = self._rows_given(distinct[start : start + ROWS_AT_ONCE])
            here = (which >= start) & (which < start + len(rows))
            found[here] += rows[which[here] - start, b[here]]
        return found

    def _tail_sample(self, count: int, generator: torch.Generator | None) -> list[Tensor]:
        a = torch.multinomial(self._alone[0].exp(), count, replacement=True, generator=generator)
        b = torch.empty_like(a)
        distinct, which = torch.unique(a, return_inverse=True)
        for start in range(0, len(distinct), ROWS_AT_ONCE):
            for i, row in enumerate(self._rows_given(distinct[start : start + ROWS_AT_ONCE]), start):
                here = which == i
                b[here] = torch.multinomial(row.exp(), int(here.sum()), replacement=True, generator=generator)
        return [a, b]

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The best of the grid, of its rows, and of other rows as long as m(a) alone could be among them."""
        ids, log_probs = self._best_of_grid(k)
        log_a = self._alone[0]
        rows = log_a[self._a, None] + self._rows
        rows[:, self._b] = -torch.inf
        ids, log_probs = self._merged(ids, log_probs, self._a, rows, k)
        others = log_a.clone()
        others[self._a] = -torch.inf
        reached = float(log_probs[-1]) if len(log_probs) == k else -torch.inf
        tried = others.topk(min(ROWS_TRIED, len(others)))
        tried_rows = tried.indices[tried.values > reached]
        if len(tried_rows):
            rows = log_a[tried_rows, None] + self._rows_given(tried_rows)
            ids, log_probs = self._merged(ids, log_probs, tried_rows, rows, k)
        return ids, log_probs

    def _merged(
        self, ids: Tensor, log_probs: Tensor, a: Tensor, rows: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        """Return the k best of some pairs and those of rows, [rows, second]."""
        best = rows.flatten().topk(min(k, rows.numel()))
        found = self._ids([a[best.indices // rows.shape[1]], best.indices % rows.shape[1]])
        possible = best.values > -torch.inf
        ids, log_probs = torch.cat([ids, found[possible]]), torch.cat([log_probs, best.values[possible]])
        kept = log_probs.topk(min(k, len(log_probs)))
        return ids[kept.indices], kept.values

    def _rows_given(self, a: Tensor) -> Tensor:
        """Return log p(b|a) for tokens a, as indices into the support, [a, second]."""
        known = torch.isin(a, self._a)
        rows = torch.empty(len(a), len(self.supports[1]), dtype=torch.float64)
        if known.any():
            rows[known] = self._rows[torch.searchsorted(self._a, a[known])]
        if not known.all():
            rows[~known] = self._logits_given(a[~known]).log_softmax(-1)
        return rows

    def _logits_given(self, a: Tensor) -> Tensor:
        """Return the second blank's logits with each token in the first, [a, second]."""
        return self.conditionals.logits_given(0, self.supports[0].ids[a], 1).cpu().double()


def log_mass_of_grid(chain: Chain, supports: tuple[Support, ...], last: Tensor | None = None) -> float:
    """Return the log of a left-to-right chain's mass on a grid.

    `last` is the mass inside the grid at the last blank given each filling of the others, [K, ..., K], if
    that is known: the grid's own table was made from these very texts.
    """
    columns = [full.indices(part.ids) for full, part in zip(chain.supports, supports, strict=True)]
    prefixes = torch.full((1, chain.blanks), MASKED)
    log_mass = torch.zeros(1, dtype=torch.float64)
    for blank, part in enumerate(supports):
        if last is not None and blank + 1 == chain.blanks:
            log_mass = log_mass + last.double().flatten().log()
            break
        lines = torch.cat(
            [chain.conditionals.log_probs(some, blank).cpu() for some in prefixes.split(STATES_AT_ONCE)]
        )
        log_mass = (log_mass[:, None] + lines[:, columns[blank]]).flatten()
        if blank + 1 < chain.blanks:
            prefixes = prefixes.repeat_interleave(len(part), dim=0)
            prefixes[:, blank] = part.ids.repeat(len(prefixes) // len(part))
    return float(log_mass.logsumexp(0))
