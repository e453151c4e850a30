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
name, have a row or a column of their own; the others are gathered into groups of like probability
(`unmask.tables.token_groups`); `Resolution` says how many. A group's row is the mean of the conditionals of
its members, evaluated or predicted, a few of them standing for all: that mean is what the sums over unlikely
contexts consist of. (With no candidates it is what the pair head predicts for their mean embedding.)

How far the completion may be trusted is measured, not assumed, by leaving out each evaluated token in turn
(of the random part of the sample, where there is one) and completing it from the others. `diagnostics` has

- `completion_error`: the mean KL divergence of the model's true conditional from the completed one over the
  tokens that were not evaluated, in nats;
- `estimated_error`: what that does to log q of likely pairs under `ag`, to first order. There
  log q(a, b) = log S(a, b) - log(x_a + y_b), S of likely pairs is known, and an error d(a|b) in the
  conditionals moves log x_a by sum_b d(a|b) / (x_a + y_b) over sum_b p(a|b) / (x_a + y_b). With x = 1/m(a),
  y = 1/m(b) and the left-out sample standing for all unevaluated b this is a number for each a; the estimate
  is its mean size under m, on the worse of the two sides. Against exact tables it erred on the safe side.

With `auto` candidates K starts at 64 and doubles while the estimated error is above a tolerance.

A model with a pair head (`unmask.models.pair_head`) has a guess at every state from the pass with both blank.
The regression then learns what is left of it, from the embedding and the guess itself, and `auto` starts at 8
candidates. With no candidates at all (K = 0) the guesses are the answer: one pass, and the error estimates
are those that the head had on held-out text at this distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from unmask.diagnostics import CompletionError, Diagnostics
from unmask.errors import UsageError
from unmask.inference.completed import CompletedConditionals, Side
from unmask.inference.exact import Supports, answers, check_pair
from unmask.inference.pair_guess import PairGuess, check_has_head
from unmask.inference.query import Completion
from unmask.inference.shared_passes import Fillings, Steps, masked_states, run_together
from unmask.inference.weighted_sampling import draw
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import PairConditionals
from unmask.tables.token_groups import TokenGroups
from unmask.text.cloze import Cloze

LIKELY_SHARE = 3 / 8
"""Of the candidates of a learned completion; the others are random. Halves were worse with few candidates."""
FIRST_CANDIDATES = 64
FIRST_WITH_HEAD = 8
MOST_CANDIDATES = 512
TOLERANCE = 0.06
"""Nats of `estimated_error` down to which `auto` doubles the candidates."""


class Resolution(NamedTuple):
    """How finely a table is cut: the tokens with a row of their own, the groups of the others, and how many
    tokens of a group stand for it, beside those of it that were evaluated."""

    ungrouped: int
    groups: int
    members: int


ASKED, PREDICTED = Resolution(1024, 32, 8), Resolution(128, 32, 16)
"""Of a table with candidates, and of one without: no finer than the completion's own error."""


def cross_conditionals(
    mlm: MaskedLM, *question: Any, progress: Progress = silent, **options: Any
) -> PairConditionals:
    """Ask the model about `candidates` tokens per side and complete the rest, as `cross_steps` says."""
    return run_together(mlm, [cross_steps(mlm, *question, **options)], progress)[0]


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
    seed: int = 0,
    states: Tensor | None = None,
) -> Steps[PairConditionals]:
    """Make cross conditionals, yielding what the model is to be asked (`unmask.inference.shared_passes`).

    Args:
        mlm: the model.
        cloze: a text with two blanks.
        supports: the tokens that A and B may hold.
        candidates: how many tokens to evaluate at each side, from 1 to the size of the support, or 0 with a
            pair head; `auto` takes 64 (with a pair head 8), then twice as many while the estimated error is
            above the tolerance, 512 at the most.
        completion: how to complete the others, `plain` or `learned`.
        include: token ids that must be among those evaluated at A and at B.
        ungrouped: how many of the likeliest tokens of each blank have a row or a column of their own; by
            default 1,024, or 128 if the model is asked about none.
        tolerance: the estimated error of log q, in nats, that `auto` is content with.
        seed: of the random part of the sample.
        states: the model's states at the blanks, both masked, [2, features], if they are known.
    """
    check_pair(cloze)
    most = max(len(support) for support in supports)
    head = mlm.pair_head if completion == "learned" else None
    auto = candidates == "auto"
    first = FIRST_CANDIDATES if head is None else FIRST_WITH_HEAD
    wanted = min(first, most) if candidates == "auto" else candidates
    if wanted == 0:
        check_has_head(mlm, completion)
    if not 0 <= wanted <= most:
        raise UsageError(f"expected from 1 to {most} candidates (the tokens a blank may hold), got {wanted}")
    if ungrouped is not None and ungrouped < 1:
        raise UsageError(f"expected at least one token ungrouped, got {ungrouped}")
    cut = ASKED if wanted else PREDICTED
    if ungrouped is not None:
        cut = cut._replace(ungrouped=ungrouped)
    if states is None:
        (states,) = masked_states(mlm, [cloze])
    alone = answers(mlm, states, supports)
    asker = _Asker(mlm, cloze)
    guesses = [None if head is None else PairGuess(mlm, cloze, states, n, 1 - n) for n in (0, 1)]
    while True:
        sides = _sides(supports, alone, wanted, completion, include, cut, seed)
        unknown = asker.unknown(sides)
        if unknown:
            asker.learn(unknown, (yield unknown))
        a_given_b, b_given_a = (
            CompletedConditionals(mlm, sides[n], sides[1 - n], asker(n, sides[n]), completion, guesses[n])
            for n in (1, 0)
        )
        judgements = [found for found in (a_given_b.judgement, b_given_a.judgement) if found is not None]
        worst = max(judgements, key=attrgetter("shift"), default=None)
        if not auto or wanted >= min(MOST_CANDIDATES, most) or worst is None or worst.shift <= tolerance:
            break
        wanted = min(2 * wanted, most)
    a, b = sides
    ungrouped_a, ungrouped_b = (int((side.groups.counts == 1).sum()) for side in sides)
    diagnostics = Diagnostics(
        conditionals="cross",
        candidates=wanted,
        completion=completion,
        seed=seed,
        passes=asker.passes + 1,
        completion_error=CompletionError(
            *(d.judgement and d.judgement.divergence for d in (a_given_b, b_given_a))
        ),
        estimated_error=worst and worst.shift,
        estimated_from=worst and worst.source,
        ungrouped=(ungrouped_a, ungrouped_b),
        tolerance=tolerance if auto else None,
    )
    (a_table, a_log_z), (b_table, b_log_z) = a_given_b.table(), b_given_a.table()
    made = PairConditionals(
        a_table.T.contiguous(),
        b_table,
        a.groups.mean(a.alone),
        b.groups.mean(b.alone),
        a_log_z,
        b_log_z,
        *supports,
        diagnostics,
        a_groups=None if a.groups.ungrouped else a.groups,
        b_groups=None if b.groups.ungrouped else b.groups,
        evaluated=(a.evaluated, b.evaluated),
        cloze=cloze,
    )
    return made.made_linear()


def _sides(
    supports: Supports,
    alone: tuple[Tensor, Tensor],
    candidates: int,
    completion: Completion,
    include: tuple[Sequence[int], Sequence[int]],
    cut: Resolution,
    seed: int,
) -> tuple[Side, Side]:
    """Choose what to ask about each blank, and which tokens share a group.

    More candidates with the same seed hold all that fewer hold.
    """
    made = []
    generator = torch.Generator().manual_seed(seed)
    share = candidates if completion == "plain" else max(min(1, candidates), int(LIKELY_SHARE * candidates))
    for support, log_m, named in zip(supports, alone, include, strict=True):
        order = log_m.argsort(descending=True, stable=True).cpu()
        first = torch.tensor([support.index(token) for token in dict.fromkeys(named)], dtype=torch.long)
        ranked = torch.cat([first, order[~torch.isin(order, first)]])
        likely = ranked[: max(share, len(first)) if candidates else 0]
        random, stands_for = draw(log_m.cpu(), likely, candidates - len(likely), generator)
        single = ranked[: max(cut.ungrouped, len(likely), len(first))]
        if len(support) <= 2 * cut.ungrouped:  # groups would save little
            groups = TokenGroups.singletons(len(support))
        else:
            groups = TokenGroups.by_probability(log_m, single, cut.groups)
        made.append(Side(support, log_m, groups, likely, random, stands_for, cut.members))
    return made[0], made[1]


class _Asker:
    """Knows which tokens of the blanks the model was asked about, and what it came to."""

    def __init__(self, mlm: MaskedLM, cloze: Cloze) -> None:
        self._mlm, self._cloze = mlm, cloze
        self._known: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})

    def unknown(self, sides: tuple[Side, Side]) -> list[Fillings]:
        """Return what the model has not been asked yet about the sides' evaluated tokens."""
        asked = []
        for blank in (1, 0):
            tokens = sides[blank].support.ids[sides[blank].evaluated].tolist()
            new = [token for token in tokens if token not in self._known[blank]]
            if new:
                position = self._cloze.blanks[1 - blank]
                asked.append(Fillings(self._cloze, blank, torch.tensor(new), position))
        return asked

    def learn(self, asked: list[Fillings], states: list[Tensor]) -> None:
        """Keep the states that the model came to."""
        for one, found in zip(asked, states, strict=True):
            tokens = one.token_ids.tolist()
            self._known[one.blank].update(zip(tokens, found.to(self._mlm.tables_on), strict=True))

    def __call__(self, blank: int, side: Side) -> Tensor:
        """Return the states at the other blank for the side's evaluated tokens, [evaluated, features]."""
        known = self._known[blank]
        tokens = side.support.ids[side.evaluated].tolist()
        if not tokens:
            return torch.empty(0, self._mlm.output_layer.in_features, device=self._mlm.tables_on)
        return torch.stack([known[token] for token in tokens])

    @property
    def passes(self) -> int:
        """How many texts the model has read."""
        return sum(len(known) for known in self._known)
