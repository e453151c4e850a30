"""The joint of a block of two blanks: on the likeliest tokens as a construction has it, the chain elsewhere.

With C(a, b) = m(a) p(b|a) the chain of the two blanks, G the grid of the K likeliest tokens of each and g
the joint of the model's conditionals on it,

    q(a, b) = C(G) g(a, b)   on the grid,       q(a, b) = C(a, b)   elsewhere.

This sums to 1 over all V^2 pairs, every conditional in it is the model's own answer, and a pair costs the
passes that it needs and no more: two outside the rows of the grid (both blank, and the first token filled
in), 2K + 1 inside them, once for the block. So most pairs of a real text take two passes.

Why not `cross_conditionals`, which make joints over all pairs elsewhere in this package: their tail is an
estimate, good where the tokens asked for are among those that the model was asked about. A chain that is
searched, drawn from and summed over has to be one distribution, whatever it is asked for. What was measured
is in docs/background/several-blanks.md.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unmask.inference.exact import exact_conditionals
from unmask.joints.joint import Joint, TokenDistribution, Tokens
from unmask.joints.registry import construct
from unmask.joints.sequential import SequentialJoint
from unmask.models.masked_lm import MaskedLM
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support

LARGEST_EXACT_PAIR = 512
PAIR_CANDIDATES = 16
"""Tokens a blank on which the pairs of a chain are joined."""
ROWS_AT_ONCE = 64
ROWS_TRIED = 16
"""Of the first tokens outside the grid, how many `top` tries at the most."""


def joined_on(supports: tuple[Support, Support], candidates: int) -> int:
    """Return on how many tokens a blank a pair is joined: on all if there are few."""
    most = max(len(support) for support in supports)
    return most if most <= max(candidates, LARGEST_EXACT_PAIR) else candidates


def pair_joint(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: tuple[Support, Support],
    *,
    method: str = "ag",
    candidates: int = PAIR_CANDIDATES,
    states: Tensor | None = None,
    **options: Any,
) -> Joint:
    """Make the joint of a block of two: of all pairs if there are few tokens, with a tail otherwise.

    The arguments are those of `TailedPair`.
    """
    if joined_on(supports, candidates) > candidates:
        return construct(method, exact_conditionals(mlm, cloze, supports), **options)
    return TailedPair(mlm, cloze, supports, method=method, candidates=candidates, states=states, **options)


class TailedPair(SequentialJoint):
    """A joint of two blanks on the likeliest tokens of each, with the chain as its tail.

    The model is asked when an answer needs it. The first blank's candidates are the likeliest with both
    masked, the second's the likeliest under the chain: the mean of p(b|a) over them.

    Args:
        mlm: the model.
        cloze: a text with two blanks.
        supports: the tokens that each may hold.
        method: the construction that joins the candidates.
        candidates: how many a blank.
        states: the model's states at the two blanks, both masked, [2, features], if they are known already.
        options: of the construction.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: tuple[Support, Support],
        *,
        method: str = "ag",
        candidates: int = PAIR_CANDIDATES,
        states: Tensor | None = None,
        **options: Any,
    ) -> None:
        super().__init__(supports, method=method, evidence={"passes": 0}, cloze=cloze)
        self._mlm, self._text, self._options = mlm, cloze, options
        self._count, self._states = candidates, states

    @cached_property
    @torch.inference_mode()
    def _alone(self) -> tuple[Tensor, Tensor]:
        """log m(a) and log m(b), over the supports: one pass."""
        states = self._states
        if states is None:
            states = self._mlm.states_at(torch.tensor([self._text.ids]), self._text.blanks)[0]
        self.evidence["passes"] += 1
        a, b = (
            self._mlm.decoder(support.ids)(state).cpu().double().log_softmax(-1)
            for support, state in zip(self.supports, states, strict=True)
        )
        return a, b

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
    def _log_inside(self) -> float:
        """The log of the chain's mass on the grid."""
        return float((self._alone[0][self._a, None] + self._rows[:, self._b]).flatten().logsumexp(0))

    @cached_property
    @torch.inference_mode()
    def inner(self) -> Joint:
        """The joint on the grid."""
        first, second = self.supports
        kept = Support(first.ids[self._a], first.vocabulary), Support(second.ids[self._b], second.vocabulary)
        states = self._mlm.filled_states(self._text, 1, kept[1].ids, self._text.blanks[0])
        self.evidence["passes"] += len(self._b)
        a_given_b = self._mlm.decoder(kept[0].ids)(states).cpu().double().T
        table = PairConditionals.from_logits(
            a_given_b,
            self._rows[:, self._b] + self._given_a[1][:, None],
            self._alone[0][self._a],
            self._alone[1][self._b],
            a_support=kept[0],
            b_support=kept[1],
        )
        joint = construct(self.method, table, **self._options)
        self.evidence["mass_of_grid"] = float(torch.tensor(self._log_inside).exp())
        if "converged" in joint.evidence:
            self.evidence["converged"] = joint.evidence["converged"]
        return joint

    def log_prob(self, *filling: Tokens) -> Tensor:
        """Return log q of one pair, or of many."""
        a, b = self._indices(filling)
        shape, a, b = a.shape, a.reshape(-1), b.reshape(-1)
        found = self._alone[0][a]
        distinct, which = torch.unique(a, return_inverse=True)
        for start in range(0, len(distinct), ROWS_AT_ONCE):
            rows = self._rows_given(distinct[start : start + ROWS_AT_ONCE])
            here = (which >= start) & (which < start + len(rows))
            found[here] += rows[which[here] - start, b[here]]
        in_grid = self._in_grid(a, b)
        if in_grid.any():
            ids = (s.ids[i[in_grid]] for s, i in zip(self.supports, (a, b), strict=True))
            found[in_grid] = self._log_inside + self.inner.log_prob(*ids).double().cpu()
        return found.reshape(shape)

    def marginal(self, blank: int) -> TokenDistribution:
        """Return the distribution of one blank; the first one's is known without a sum over all pairs."""
        if blank != 0:
            return super().marginal(blank)
        log_q = self._alone[0].clone()
        outside = (1 - self._rows[:, self._b].exp().sum(1)).clamp_min(0.0).log()
        inside = self.inner.marginal(0).log_prob(self.supports[0].ids[self._a]).double().cpu()
        log_q[self._a] = torch.logaddexp(log_q[self._a] + outside, inside + self._log_inside)
        return TokenDistribution(log_q, self.supports[0], method=self.method)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw n pairs, [n, 2]: by the chain, and anew by the grid where that falls into it."""
        self._check_number(n)
        a = torch.multinomial(self._alone[0].exp(), n, replacement=True, generator=generator)
        b = torch.empty_like(a)
        distinct, which = torch.unique(a, return_inverse=True)
        for start in range(0, len(distinct), ROWS_AT_ONCE):
            for i, row in enumerate(self._rows_given(distinct[start : start + ROWS_AT_ONCE]), start):
                here = which == i
                b[here] = torch.multinomial(row.exp(), int(here.sum()), replacement=True, generator=generator)
        drawn = torch.stack([self.supports[0].ids[a], self.supports[1].ids[b]], dim=1)
        in_grid = self._in_grid(a, b)
        if in_grid.any():
            drawn[in_grid] = self.inner.sample(int(in_grid.sum()), generator)
        return drawn

    def _top(self, k: int) -> tuple[Tensor, Tensor]:
        """The best of the grid, of its rows, and of other rows as long as m(a) alone could be among them."""
        ids, log_probs = self.inner._top(k)
        ids, log_probs = ids.cpu(), log_probs.double().cpu() + self._log_inside
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
        first, second = best.indices // rows.shape[1], best.indices % rows.shape[1]
        found = torch.stack([self.supports[0].ids[a[first]], self.supports[1].ids[second]], dim=1)
        possible = best.values > -torch.inf
        ids, log_probs = torch.cat([ids, found[possible]]), torch.cat([log_probs, best.values[possible]])
        kept = log_probs.topk(min(k, len(log_probs)))
        return ids[kept.indices], kept.values

    def _in_grid(self, a: Tensor, b: Tensor) -> Tensor:
        """Which pairs are in the grid; its columns are not asked for unless a pair is in its rows."""
        found = torch.isin(a, self._a)
        if found.any():
            found[found.clone()] = torch.isin(b[found], self._b)
        return found

    def _rows_given(self, a: Tensor) -> Tensor:
        """Return log p(b|a) for tokens a, as indices into the support, [a, second]."""
        known = torch.isin(a, self._a)
        rows = torch.empty(len(a), len(self.supports[1]), dtype=torch.float64)
        if known.any():
            rows[known] = self._rows[torch.searchsorted(self._a, a[known])]
        if not known.all():
            rows[~known] = self._logits_given(a[~known]).log_softmax(-1)
        return rows

    @torch.inference_mode()
    def _logits_given(self, a: Tensor) -> Tensor:
        """Ask the model about the second blank with each token in the first, [a, second]."""
        ids = self.supports[0].ids[a]
        states = self._mlm.filled_states(self._text, 0, ids, self._text.blanks[1])
        self.evidence["passes"] += len(ids)
        return self._mlm.decoder(self.supports[1].ids)(states).cpu().double()
