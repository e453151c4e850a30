"""Ask a model what a cloze needs, and make the cloze's joint: the middle of the way of the data.

`joint_of_cloze` goes all of it; `conditionals` and `joint_of` are its halves, for whoever asks once and
constructs several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from unmask.diagnostics import Diagnostics
from unmask.errors import UsageError
from unmask.inference.cross import Completion, check_completion, cross_conditionals
from unmask.inference.exact import Supports, both_blank, exact_conditionals
from unmask.joints.joint import Joint
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.joints.token_distribution import TokenDistribution
from unmask.joints.values import Token
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.tables.pair_conditionals import PairConditionals
from unmask.text.cloze import Cloze
from unmask.text.support import Support

Candidates = int | Literal["auto", "all"]
SupportChoice = int | str
DEFAULT_METHOD = "ag"
BEYOND_PAIRS = ("grid", "chain")
"""The joints of any number of blanks, from `unmask.sequence`."""
LARGEST_AUTO_EXACT = 512
"""`auto` asks about every token where there are no more than this, and about some of them otherwise."""


def joint_of_cloze(
    mlm: MaskedLM,
    cloze: Cloze,
    method: str = DEFAULT_METHOD,
    *,
    candidates: Candidates = "auto",
    completion: Completion = "learned",
    support: SupportChoice = "auto",
    include: Sequence[Token] = (),
    seed: int = 0,
    progress: Progress = silent,
    **options: Any,
) -> Joint:
    """Return the joint of a cloze's blanks, however many there are; the arguments are those of `fill`."""
    check_method(method, options)
    check_completion(completion)
    if len(cloze.blanks) > 2 or method in BEYOND_PAIRS:
        from unmask.inference.auto_method import joint_of_blanks

        if completion != "learned":
            raise UsageError(
                f"completion '{completion}' is for the tables of one or two blanks, got {len(cloze.blanks)} "
                f"and method {method}: leave it out"
            )
        return joint_of_blanks(
            mlm,
            cloze,
            method=method,
            candidates=candidates,
            support=support,
            include=include,
            scoring=cloze.truth is not None,
            progress=progress,
            **options,
        )
    table = conditionals(
        mlm,
        cloze,
        candidates=candidates,
        completion=completion,
        support=support,
        include=include,
        seed=seed,
        progress=progress,
    )
    return joint_of(table, method, **options)


def check_method(method: str, options: dict[str, Any]) -> None:
    """Refuse a method that there is not before any work is done."""
    if "model" in options:
        raise UsageError("a model is given as mlm=unmask.load(...), not as model=")
    if method not in (*CONSTRUCTIONS, *BEYOND_PAIRS):
        known = ", ".join((*CONSTRUCTIONS, *BEYOND_PAIRS))
        raise UsageError(f"unknown method '{method}': expected one of {known}")


def conditionals(
    mlm: MaskedLM,
    cloze: Cloze,
    *,
    candidates: Candidates = "auto",
    completion: Completion = "learned",
    support: SupportChoice = "auto",
    include: Sequence[Token] = (),
    seed: int = 0,
    progress: Progress = silent,
) -> PairConditionals | TokenDistribution:
    """Ask the model what a cloze with two blanks needs; with one blank its answer is the distribution."""
    if not 0 <= seed < 2**63:
        raise UsageError(f"expected a seed from 0 to 2^63 - 1, got {seed}")
    tokens = check_asking(mlm, candidates, completion, support)
    if len(cloze.blanks) > 2:
        raise _too_many(cloze)
    named = tuple(int(tokens.ids[tokens.index(token)]) for token in include)
    kept = [named + ((cloze.truth[n],) if cloze.truth else ()) for n in range(len(cloze.blanks))]
    for token in cloze.truth or ():
        tokens.index(token)
    if len(cloze.blanks) == 1:
        return _one_blank(mlm, cloze, tokens, support, kept[0])
    supports, outside = _supports(mlm, cloze, tokens, support, kept)
    most = max(len(tokens_of_blank) for tokens_of_blank in supports)
    if candidates == "all" or (candidates == "auto" and most <= LARGEST_AUTO_EXACT):
        table = exact_conditionals(mlm, cloze, supports, progress)
    else:
        table = cross_conditionals(
            mlm,
            cloze,
            supports,
            candidates,
            completion=completion,
            include=(kept[0], kept[1]),
            seed=seed,
            progress=progress,
        )
    choosing = supports != (tokens, tokens)  # one pass more, which chose the likeliest
    known = table.diagnostics
    known = replace(known, mass_outside_support=outside, passes=known.passes + choosing)
    return replace(table, diagnostics=known)


def check_asking(
    mlm: MaskedLM, candidates: Candidates, completion: Completion, support: SupportChoice
) -> Support:
    """Refuse ways of asking a model that can't be, before any work is done; returns the support's tokens."""
    check_completion(completion)
    tokens = Support.by_kind(mlm.vocabulary, support)
    _check_candidates(candidates, min(support, len(tokens)) if isinstance(support, int) else len(tokens))
    return tokens


def _too_many(cloze: Cloze) -> UsageError:
    told = "; ".join([*cloze.notes, f"the text has {len(cloze.blanks)} blanks"])
    return UsageError(
        f"{told}, and a table of conditionals is of one or two: leave two, or join all of them by "
        f"unmask.fill or the command 'unmask fill'"
    )


def _check_candidates(candidates: Candidates, most: int) -> None:
    """Refuse a number of candidates that can't be, before any work is done."""
    if candidates in ("auto", "all"):
        return
    if not isinstance(candidates, int):
        raise UsageError(f"expected a number of candidates, all or auto, got '{candidates}'")
    if not 1 <= candidates <= most:
        raise UsageError(
            f"expected from 1 to {most} candidates (the tokens a blank may hold), got {candidates}"
        )


def _one_blank(
    mlm: MaskedLM, cloze: Cloze, tokens: Support, support: SupportChoice, include: tuple[int, ...]
) -> TokenDistribution:
    """Return the plain model's answer, over the likeliest tokens alone if a number of them is asked for."""
    state = mlm.states(torch.tensor([cloze.ids]), cloze.blanks[0])[0]
    logits = mlm.decoder(tokens.ids)(state).to(mlm.tables_on).double()
    outside = 0.0
    if isinstance(support, int) and support < len(tokens):
        kept = tokens.likeliest(logits, support, include)
        inside = tokens.indices(kept.ids).to(logits.device)
        outside = max(0.0, 1 - float(logits.softmax(0)[inside].sum()))
        tokens, logits = kept, logits[inside]
    known = Diagnostics(
        conditionals="exact", passes=1, candidates=len(tokens), mass_outside_support=(outside,)
    )
    return TokenDistribution(logits.log_softmax(0), tokens, method="mlm", diagnostics=known, cloze=cloze)


def _supports(
    mlm: MaskedLM,
    cloze: Cloze,
    tokens: Support,
    support: SupportChoice,
    include: Sequence[tuple[int, ...]],
) -> tuple[Supports, tuple[float, float]]:
    """Return the tokens of each blank, and the mass that the model puts outside them with both blank."""
    if not isinstance(support, int) or support >= len(tokens):
        return (tokens, tokens), (0.0, 0.0)
    alone = both_blank(mlm, cloze, (tokens, tokens))
    a, b = (tokens.likeliest(log_m, support, kept) for log_m, kept in zip(alone, include, strict=True))
    inside = [float(log_m[tokens.indices(s.ids)].exp().sum()) for log_m, s in zip(alone, (a, b), strict=True)]
    return (a, b), (max(0.0, 1 - inside[0]), max(0.0, 1 - inside[1]))


def joint_of(table: PairConditionals | TokenDistribution, method: str, **options: Any) -> Joint:
    """Make the joint of a cloze from what the model said."""
    if isinstance(table, TokenDistribution):
        if options:
            raise UsageError(f"one blank needs no construction, so it has no option '{next(iter(options))}'")
        return table
    return construct(method, table, **options)
