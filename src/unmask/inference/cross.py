"""Cross conditionals: the model asked about K tokens per side, and the rest completed.

With K tokens at B one knows K whole columns of p(a|b); with K at A, K whole rows of p(b|a): 2K + 1 forward
passes instead of 2V + 1. The unevaluated columns and rows are completed, so that the result is still a
pair of conditionals over all V tokens, and every joint made from it a distribution over all V^2 pairs.

- *plain*: p(a|b) = m(a) for an unevaluated b, its logits' normaliser the mean of the evaluated ones. The K
  tokens are the likeliest by m.
- *learned*: the state before the output layer is predicted from the token's input embedding, by a ridge
  regression (`unmask.inference.kernel_ridge`) fitted on the K evaluated tokens of this very text, and goes
  through the model's own output layer. Three eighths of the K tokens are the likeliest, the rest a random
  sample of the others (`unmask.inference.weighted_sampling`), so that the regression has seen the kind of
  token that it answers for.

The completed tables are never formed in full. The likeliest tokens of a blank, and all those asked for by
name, have a row or a column of their own; the others are gathered into groups
(`unmask.inference.resolution`). A group's row is the mean of the conditionals of its members, evaluated or
predicted, a few of them standing for all: that mean is what the sums over unlikely contexts consist of. (With
no candidates it is what the pair head predicts for their mean embedding.)

How far the completion may be trusted is measured, not assumed, by leaving out each evaluated token in turn
(of the random part of the sample, where there is one) and completing it from the others. `diagnostics` has

- `completion_error`: the mean KL divergence of the model's true conditional from the completed one over the
  tokens that were not evaluated, in nats;
- `estimated_error`: what that does to log q of likely pairs under `ag`, to first order. There
  log q(a, b) = log S(a, b) - log(x_a + y_b), S of likely pairs is known, and an error d(a|b) in the
  conditionals moves log x_a by sum_b d(a|b) / (x_a + y_b) over sum_b p(a|b) / (x_a + y_b). With x = 1/m(a),
  y = 1/m(b) and the left-out sample standing for all unevaluated b this is a number for each a; the estimate
  is its mean size under m, or over the tokens asked for by name if that is more, on the worse of both sides.

A model with a pair head (`unmask.models.pair_head`) has a guess at every state from the pass with both blank.
The regression then learns what is left of it, from the embedding and the guess itself. With no candidates at
all (K = 0) the guesses are the answer: one pass, and the error estimates are those that the head had on
held-out text at this distance.

With `auto` candidates K starts at 64 (with a pair head at 8) and doubles while the estimated error is above a
tolerance. Where the engine knows the model's layers, only the first 16 candidates per side have a whole pass;
all others have a partial one, corrected by what the 16 teach (`unmask.inference.partial_states`), and K goes
from 8 to 64 at once. The error of that is part of the estimate, and where it is most of it, the whole passes
double instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from unmask.diagnostics import CompletionError, Diagnostics
from unmask.errors import UsageError
from unmask.inference.completed import CompletedConditionals, Judgement, Side
from unmask.inference.evaluated_tokens import EvaluatedTokens
from unmask.inference.exact import Supports, answers, check_pair
from unmask.inference.pair_guess import PairGuess, check_has_head
from unmask.inference.query import Completion
from unmask.inference.resolution import ASKED, PREDICTED, Resolution
from unmask.inference.shared_passes import Steps, masked_states, run_together
from unmask.inference.weighted_sampling import draw
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import PairConditionals
from unmask.tables.ranking import descending, put_first
from unmask.text.cloze import Cloze

LIKELY_SHARE = 3 / 8
"""Of the candidates of a learned completion; the others are random. Halves were worse with few candidates."""
FIRST_CANDIDATES = 64
FIRST_WITH_HEAD = 8
MOST_CANDIDATES = 512
WHOLE_PASSES, MOST_WHOLE = 16, 256
"""Candidates per blank that have a whole pass where the others have a partial one: at first, and at most."""
TOLERANCE = 0.06
"""Nats of `estimated_error` down to which `auto` doubles the candidates."""


Sides: TypeAlias = tuple[Side, Side]


class Effort(NamedTuple):
    """How many tokens per blank the model is asked about, and how many of these by a whole pass."""

    candidates: int
    whole: int

    def more(self, worst: Judgement, partial: bool, most: int) -> Effort | None:
        """Return what `auto` goes on to, by where the error comes from; None if this is the most."""
        if partial and worst.partial > worst.shift / 2 and self.whole < min(MOST_WHOLE, self.candidates):
            return self._replace(whole=2 * self.whole)
        if self.candidates >= min(MOST_CANDIDATES, most):
            return None
        doubled = 2 * self.candidates
        wanted = min(max(doubled, FIRST_CANDIDATES) if partial else doubled, most)
        return Effort(wanted, self.whole if partial else wanted)


class _Completed(NamedTuple):
    """The candidates of both blanks, and the conditionals completed from them."""

    sides: Sides
    a_given_b: CompletedConditionals
    b_given_a: CompletedConditionals

    @property
    def worst(self) -> Judgement | None:
        """What the left-out candidates say of the worse side; None if there are none."""
        found = [c.judgement for c in (self.a_given_b, self.b_given_a) if c.judgement is not None]
        return max(found, key=attrgetter("shift"), default=None)

    def tables(self, cut: Resolution, cloze: Cloze) -> PairConditionals:
        """Return both tables, cut into groups of tokens, with what is known of their error."""
        (a, b), a_given_b, b_given_a = self
        a_groups, b_groups = cut.cut(a, a_given_b.log_mean), cut.cut(b, b_given_a.log_mean)
        a_table, a_log_z = a_given_b.table(b_groups, a_groups, cut.members)
        b_table, b_log_z = b_given_a.table(a_groups, b_groups, cut.members)
        diagnostics = Diagnostics(
            conditionals="cross",
            completion_error=CompletionError(
                *(d.judgement and d.judgement.divergence for d in (a_given_b, b_given_a))
            ),
            estimated_error=self.worst and self.worst.shift,
            estimated_from=self.worst and self.worst.source,
            ungrouped=(int((a_groups.counts == 1).sum()), int((b_groups.counts == 1).sum())),
        )
        return PairConditionals(
            a_table.T.contiguous(),
            b_table,
            a_groups.mean(a.alone),
            b_groups.mean(b.alone),
            a_log_z,
            b_log_z,
            a.support,
            b.support,
            diagnostics,
            a_groups=None if a_groups.ungrouped else a_groups,
            b_groups=None if b_groups.ungrouped else b_groups,
            evaluated=(a.evaluated, b.evaluated),
            cloze=cloze,
        )


class _Completer:
    """Completes the conditionals of one text from more and more candidates; what is known is kept.

    Args:
        mlm: the model.
        cloze: a text with two blanks.
        supports: the tokens that A and B may hold.
        completion: `plain` or `learned`.
        include: token ids that must be among the candidates.
        seed: of the random part of the sample.
        states: the model's states at the blanks, both masked, [2, features].

    Attributes:
        evaluated: what the model was asked, and what it came to.
    """

    def __init__(
        self,
        mlm: MaskedLM,
        cloze: Cloze,
        supports: Supports,
        completion: Completion,
        include: tuple[Sequence[int], Sequence[int]],
        seed: int,
        states: Tensor,
    ) -> None:
        self._mlm, self._supports, self._completion = mlm, supports, completion
        self._include, self._seed = include, seed
        self._alone = answers(mlm, states, supports)
        self._ranked = [descending(log_m) for log_m in self._alone]
        head = mlm.pair_head if completion == "learned" else None
        self._guesses = [None if head is None else PairGuess(mlm, cloze, states, n, 1 - n) for n in (0, 1)]
        self.evaluated = EvaluatedTokens(mlm, cloze)

    def complete(self, effort: Effort) -> Steps[_Completed]:
        """Ask about the candidates of an effort, those of earlier ones being known, and complete the rest."""
        sides = self._sides(effort.candidates)
        whole = self._sides(effort.whole) if effort.whole < effort.candidates else sides
        unknown = self.evaluated.unknown(sides, whole)
        if unknown:
            self.evaluated.learn(unknown, (yield unknown))
        a_given_b, b_given_a = (
            CompletedConditionals(
                self._mlm,
                sides[n],
                sides[1 - n],
                self.evaluated(n, sides[n], whole[n]),
                self._completion,
                self._guesses[n],
            )
            for n in (1, 0)
        )
        return _Completed(sides, a_given_b, b_given_a)

    def _sides(self, candidates: int) -> Sides:
        """Choose so many candidates of each blank; more of them hold all that fewer hold."""
        made = []
        generator = torch.Generator().manual_seed(self._seed)
        likely_share = 1.0 if self._completion == "plain" else LIKELY_SHARE
        share = max(min(1, candidates), int(likely_share * candidates))
        for support, log_m, order, include in zip(
            self._supports, self._alone, self._ranked, self._include, strict=True
        ):
            named = torch.tensor([support.index(token) for token in dict.fromkeys(include)], dtype=torch.long)
            likely = put_first(order, named)[: max(share, len(named)) if candidates else 0]
            random, stands_for = draw(log_m.cpu(), likely, candidates - len(likely), generator)
            made.append(Side(support, log_m, likely, random, stands_for, named))
        return made[0], made[1]


@torch.inference_mode()
def cross_steps(
    mlm: MaskedLM,
    cloze: Cloze,
    supports: Supports,
    candidates: int | Literal["auto"] = "auto",
    *,
    completion: Completion = "learned",
    include: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ungrouped: int | None = None,
    tolerance: float = TOLERANCE,
    partial: bool = True,
    seed: int = 0,
    states: Tensor | None = None,
) -> Steps[PairConditionals]:
    """Make cross conditionals, yielding what the model is to be asked (`unmask.inference.shared_passes`).

    Args:
        mlm: the model.
        cloze: a text with two blanks.
        supports: the tokens that A and B may hold.
        candidates: how many tokens to evaluate at each side, from 1 to the size of the support, or 0 with a
            pair head, each by a whole pass; `auto` takes 64 (with a pair head 8), then twice as many while
            the estimated error is above the tolerance, 512 at the most, and most of them by partial passes.
        completion: how to complete the others, `plain` or `learned`.
        include: token ids that must be among those evaluated at A and at B.
        ungrouped: how many of the likeliest tokens of each blank have a row or a column of their own; by
            default those that hold 95 % of the mass, from 256 to 1,024, or 128 if the model is asked about
            none.
        tolerance: the estimated error of log q, in nats, that `auto` is content with.
        partial: whether `auto` may take partial passes where the model can make them.
        seed: of the random part of the sample.
        states: the model's states at the blanks, both masked, [2, features], if they are known.
    """
    check_pair(cloze)
    most = max(len(support) for support in supports)
    if ungrouped is not None and ungrouped < 1:
        raise UsageError(f"expected at least one token ungrouped, got {ungrouped}")
    auto = candidates == "auto"
    wanted = _first_candidates(mlm, candidates, completion, most)
    if states is None:
        (states,) = masked_states(mlm, [cloze])
    completer = _Completer(mlm, cloze, supports, completion, include, seed, states)
    partial = partial and auto and completion == "learned" and mlm.active_positions(cloze) is not None
    effort = Effort(wanted, WHOLE_PASSES if partial else wanted)
    found = yield from completer.complete(effort)
    while auto and found.worst is not None and found.worst.shift > tolerance:
        further = effort.more(found.worst, partial, most)
        if further is None:
            break
        effort = further
        found = yield from completer.complete(effort)
    cut = ASKED if wanted else PREDICTED
    if ungrouped is not None:
        cut = cut._replace(least=ungrouped, most=ungrouped)
    made = found.tables(cut, cloze)
    known = replace(
        made.diagnostics,
        candidates=effort.candidates,
        completion=completion,
        seed=seed,
        passes=completer.evaluated.passes + 1,
        partial_passes=completer.evaluated.partial_passes,
        tolerance=tolerance if auto else None,
    )
    return replace(made, diagnostics=known).made_linear()


def cross_conditionals(
    mlm: MaskedLM, *question: Any, progress: Progress = silent, **options: Any
) -> PairConditionals:
    """Return the cross conditionals of one text by itself; the arguments are those of `cross_steps`."""
    return run_together(mlm, [cross_steps(mlm, *question, **options)], progress)[0]


def _first_candidates(
    mlm: MaskedLM, candidates: int | Literal["auto"], completion: Completion, most: int
) -> int:
    """Return how many tokens per blank are asked about at first; refuse a number that can't be."""
    with_head = mlm.pair_head is not None and completion == "learned"
    first = FIRST_WITH_HEAD if with_head else FIRST_CANDIDATES
    wanted = min(first, most) if candidates == "auto" else candidates
    if wanted == 0:
        check_has_head(mlm, completion)
    if not 0 <= wanted <= most:
        raise UsageError(f"expected from 0 to {most} candidates (the tokens a blank may hold), got {wanted}")
    return wanted
