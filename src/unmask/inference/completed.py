"""What one blank says given each token of another, some of them evaluated and the others completed.

Part of the cross conditionals: `unmask.inference.cross` has the idea and chooses what is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from unmask.inference.exact import decoded, gathered
from unmask.inference.kernel_ridge import KernelRidge
from unmask.inference.pair_guess import PairGuess
from unmask.inference.partial_states import PartialStates
from unmask.inference.query import Completion
from unmask.models.masked_lm import MaskedLM
from unmask.tables.token_groups import TokenGroups
from unmask.text.support import Support

COLUMN_MEMBERS = 16
"""Tokens of a group whose logits a completed row has; a row from a pass has all."""
MOST_KEPT = 2**25
"""Log-probabilities of evaluated tokens that are kept for the table; more are decoded again."""


@dataclass(frozen=True, eq=False)
class Side:
    """One blank: its tokens, and which of them the model is asked about.

    Attributes:
        support: the tokens that it may hold.
        alone: log m of each, [tokens].
        likely, random: the evaluated tokens, as indices into the support.
        stands_for: how many tokens that are not evaluated each random one stands for, [random].
        named: the tokens that were asked for by name, as indices into the support.
    """

    support: Support
    alone: Tensor
    likely: Tensor
    random: Tensor
    stands_for: Tensor
    named: Tensor

    @property
    def evaluated(self) -> Tensor:
        """All the tokens that the model is asked about: the likely ones, then the random ones."""
        return torch.cat([self.likely, self.random])

    @property
    def open(self) -> bool:
        """Whether there are tokens that the model is not asked about."""
        return len(self.evaluated) < len(self.support)


class Judgement(NamedTuple):
    """How good a completion is.

    Attributes:
        divergence: the mean KL divergence of the model's conditionals from the completed ones.
        shift: by how much that, and the error of partial passes, moves log x of likely tokens under `ag`, or
            of those asked for by name if that is more.
        source: where the two come from, as `Diagnostics.estimated_from` says it.
        partial: the part of the shift that comes from partial passes.
    """

    divergence: float
    shift: float
    source: str
    partial: float = 0.0


class CompletedConditionals:
    """What one blank says given the tokens of the other, some of them evaluated.

    Attributes:
        judgement: how good the completion is; None where nothing is completed, or nothing is known of it.
        log_mean: log of the mean conditional of the asked blank over the evaluated tokens, weighted by m and
            by how many tokens each stands for, [asked tokens]; None where there is none.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        filled: Side,
        asked: Side,
        known: PartialStates,
        completion: Completion,
        guess: PairGuess | None = None,
    ) -> None:
        """`known` are the states at the asked blank for the evaluated tokens."""
        states = known.states
        self._mlm, self._filled, self._asked, self._states = mlm, filled, asked, states
        self._guess = guess
        self._fit: KernelRidge | None = None
        self._spread = 1.0
        self._truth: tuple[Tensor, Tensor] | None = None
        self.judgement: Judgement | None = None
        self.log_mean: Tensor | None = None
        if not filled.open:
            return  # nothing to complete
        if len(states) < 2 and completion == "learned":  # nothing to learn from
            self.judgement = (
                None if guess is None else Judgement(guess.error.kl, guess.error.shift, "pair head")
            )
            return
        judged = slice(len(filled.likely), None) if len(filled.random) else slice(None)
        truth, log_z = decoded(mlm, states, asked.support)
        if truth.numel() <= MOST_KEPT:
            self._truth = truth, log_z
        without = asked.alone.to(truth).expand_as(truth[judged])
        if completion == "learned":
            guessed = self._guessed(filled.evaluated)
            if guess is not None:
                self._spread = float((guessed - guessed.mean(0)).std()) or 1.0
            points = self._points(filled.evaluated, guessed)
            self._fit = KernelRidge(points, states - guessed)
            completed = (self._fit.left_out + guessed)[judged]
            without, _ = decoded(mlm, completed.to(states.dtype), asked.support)
        self.log_mean = _log_mean(filled, truth)
        left_out = known.left_out
        corrected = None if left_out is None else decoded(mlm, left_out, asked.support)[0]
        self.judgement = _judge(filled, asked, judged, truth, without, known.whole, corrected)

    def table(self, groups: TokenGroups, columns: TokenGroups, members: int) -> tuple[Tensor, Tensor]:
        """Return log-probabilities [filled groups, asked groups], and the normalisers [filled groups].

        Args:
            groups: how the tokens of the filled blank are gathered.
            columns: how those of the asked blank are.
            members: how many tokens of a group stand for it, beside those of it that were evaluated.
        """
        mlm, filled, asked = self._mlm, self._filled, self._asked
        if self._guess is not None and not len(self._states):
            guessed = self._guess.of_groups(filled.support, groups, members)
            return decoded(mlm, guessed, asked.support, columns, members=COLUMN_MEMBERS)
        needed, group = _members(filled, groups, members)
        where = torch.full((len(filled.support),), -1)
        where[filled.evaluated] = torch.arange(len(self._states))
        known = where[needed] >= 0
        known_rows, known_z = self._known(where[needed[known]], columns)
        rows = known_rows.new_empty(len(needed), known_rows.shape[1])
        log_z = known_z.new_empty(len(needed))
        rows[known], log_z[known] = known_rows, known_z
        if self._fit is None and self._guess is None:
            rows[~known], log_z[~known] = columns.mean(asked.alone).to(rows), known_z.mean()
        else:
            completed = self._completed(needed[~known]).to(self._states.dtype)
            rows[~known], log_z[~known] = decoded(
                mlm, completed, asked.support, columns, members=COLUMN_MEMBERS
            )
        if groups.ungrouped:
            return rows, log_z
        return _mean_rows(rows, group, len(groups)), _mean(log_z, group, len(groups))

    def _known(self, evaluated: Tensor, columns: TokenGroups) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities [evaluated, asked groups] and normalisers of some evaluated tokens."""
        if self._truth is None:
            return decoded(self._mlm, self._states[evaluated], self._asked.support, columns)
        truth, log_z = (known[evaluated] for known in self._truth)
        return gathered(truth, columns), log_z

    def _completed(self, tokens: Tensor) -> Tensor:
        """Return the states for tokens that were not evaluated, [tokens, features]."""
        guessed = self._guessed(tokens)
        return guessed if self._fit is None else self._fit(self._points(tokens, guessed)) + guessed

    def _guessed(self, tokens: Tensor) -> Tensor:
        """Return what the regression starts from: the head's guesses [tokens, features], or nothing."""
        if self._guess is None:
            return torch.zeros((), device=self._mlm.tables_on)
        return self._guess(self._filled.support.ids[tokens])

    def _points(self, tokens: Tensor, guessed: Tensor) -> Tensor:
        """Return what the regression learns from, for tokens by index and their guesses."""
        ids = self._filled.support.ids[tokens].to(self._mlm.device)
        embeddings = self._mlm.input_embeddings[ids].to(self._mlm.tables_on)
        return embeddings if self._guess is None else self._guess.points(embeddings, guessed, self._spread)


def _judge(
    filled: Side,
    asked: Side,
    judged: slice,
    truth: Tensor,
    without: Tensor,
    whole: Tensor,
    corrected: Tensor | None,
) -> Judgement:
    """Compare conditionals with their completions, all as log-probabilities.

    Args:
        filled: the blank that holds the contexts.
        asked: the blank that the conditionals are of.
        judged: which of the evaluated contexts were left out.
        truth: the conditionals of all evaluated contexts, [evaluated, asked tokens].
        without: the completed ones of those left out, [judged, asked tokens].
        whole: which of the evaluated contexts had a whole pass; the others had a partial one.
        corrected: what these would have been corrected to after a partial one, [whole, asked tokens]; None if
            there are no others.
    """
    p = truth.exp()
    m = asked.alone.float().exp()
    stands_for = filled.stands_for.to(p)
    if not len(stands_for):  # no random sample: all that were evaluated alike
        stands_for = p.new_full((len(without),), (len(filled.support) - len(filled.evaluated)) / len(without))
    divergences = (p[judged] * (truth[judged] - without)).sum(1)
    log_m = filled.alone[filled.evaluated].to(p)
    weight = ((-asked.alone.to(p)).exp()[None, :] + (-log_m).exp()[:, None]).reciprocal_()
    wrong = stands_for @ ((without.exp() - p[judged]) * weight[judged])
    by_partial = torch.zeros_like(wrong)
    if corrected is not None:
        by_partial = _wrong_by_partial(p, weight, log_m, whole, corrected)
    p *= weight
    total = (p.sum(0) + stands_for @ p[judged]).clamp_min(torch.finfo(p.dtype).tiny)
    divergence = float(stands_for @ divergences / stands_for.sum())

    def size(wrong: Tensor) -> float:
        shifts = (wrong / total).abs()
        named = shifts[asked.named.to(shifts.device)].mean() if len(asked.named) else 0.0
        return max(float(m @ shifts), float(named))

    return Judgement(divergence, size(wrong + by_partial), "left-out candidates", size(by_partial))


def _wrong_by_partial(p: Tensor, weight: Tensor, log_m: Tensor, whole: Tensor, corrected: Tensor) -> Tensor:
    """Return by how much the weighted sum of conditionals over partial passes is wrong, [asked tokens].

    A ratio estimate: the relative error of that sum over the tokens with a whole pass, as if these had been
    drawn in proportion to sqrt(m), times the sum over the others.
    """
    share = (-log_m[whole] / 2).softmax(0)
    exact = p[whole]
    relative = (share @ ((corrected.exp() - exact) * weight[whole])) / (
        share @ (exact * weight[whole])
    ).clamp_min(torch.finfo(p.dtype).tiny)
    partial = torch.ones(len(p), dtype=torch.bool, device=p.device)
    partial[whole] = False
    return relative * (p[partial] * weight[partial]).sum(0)


def _log_mean(filled: Side, log_rows: Tensor) -> Tensor:
    """Return log of the mean of the evaluated tokens' conditionals [evaluated, asked tokens]."""
    weight = filled.alone[filled.evaluated].to(log_rows)
    weight[len(filled.likely) :] += filled.stands_for.to(weight).log1p()
    return (log_rows + weight[:, None]).logsumexp(0).log_softmax(0)


def _members(side: Side, groups: TokenGroups, members: int) -> tuple[Tensor, Tensor]:
    """Return the tokens whose conditionals make up the groups', and the group of each.

    A token alone is its group's only one. A group has those that were evaluated, and `members` others spread
    evenly over it.
    """
    if groups.ungrouped:
        every = torch.arange(len(side.support))
        return every, every
    chosen = torch.zeros(len(side.support), dtype=torch.bool)
    chosen[side.evaluated] = True
    chosen[groups.representatives(members)] = True
    needed = chosen.nonzero()[:, 0]
    return needed, groups.group_of[needed]


def _mean_rows(log_rows: Tensor, group: Tensor, groups: int) -> Tensor:
    """Return the log of the mean probability of the rows of each group, [groups, columns]."""
    counts = torch.bincount(group, minlength=groups)
    table = torch.empty(groups, log_rows.shape[1], dtype=log_rows.dtype, device=log_rows.device)
    single = counts[group] == 1
    table[group[single]] = log_rows[single]
    for shared in (counts > 1).nonzero()[:, 0].tolist():
        table[shared] = log_rows[group == shared].logsumexp(0) - counts[shared].log()
    return table


def _mean(values: Tensor, group: Tensor, groups: int) -> Tensor:
    sums = torch.zeros(groups, dtype=values.dtype, device=values.device).index_add_(0, group, values)
    return sums / torch.bincount(group, minlength=groups).to(sums)
