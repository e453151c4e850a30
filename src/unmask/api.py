"""The public functions: load a model, fill blanks, score words, compare constructions.

Each is a short walk along the way of the data: text -> `Cloze` -> conditionals -> construction -> `Joint`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from unmask.cloze import Cloze, parse_blanks, parse_braces
from unmask.conditionals import PairConditionals, Supports, both_blank, exact_conditionals
from unmask.constructions import CONSTRUCTIONS, construct
from unmask.cross import Completion, check_completion, cross_conditionals
from unmask.errors import Misuse
from unmask.joint import Filling, Joint, Token, TokenDistribution
from unmask.mlm import DEFAULT_MEMORY, Engine, MaskedLM
from unmask.models import locate
from unmask.pair import PairJoint
from unmask.progress import Progress, silent
from unmask.vocabulary import Support, Vocabulary

Candidates = int | Literal["auto", "all"]
SupportChoice = int | str
DEFAULT_METHOD = "ag"
BEYOND_PAIRS = ("grid", "chain")
"""The joints of any number of blanks, from `unmask.sequence`."""
LARGEST_AUTO_EXACT = 512
"""`auto` asks about every token where there are no more than this, and about some of them otherwise."""


def load(
    source: str | Path = "english",
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    engine: Engine = "auto",
) -> MaskedLM:
    """Load a masked language model: the embedded one, a directory, or a hub name.

    Args:
        source: `english` (the embedded model), a checkpoint's directory, or a name on the Hugging Face hub.
        device: `auto`, `cpu`, `cuda` or `mps`.
        memory: what the work may take beyond the model, as in `4GB`.
        allow_pickle: read pickled weights (which can run code) where there are no safetensors.
        engine: `auto` runs a plain BERT by unmask's own code, which loads in a fraction of the time, and all
            else by transformers; `transformers` runs everything by it.
    """
    return MaskedLM.load(
        locate(str(source)),
        name=str(source),
        device=device,
        memory=memory,
        allow_pickle=allow_pickle,
        engine=engine,
    )


def fill(
    text: str,
    *,
    mlm: MaskedLM | None = None,
    method: str = DEFAULT_METHOD,
    candidates: Candidates = "auto",
    completion: Completion = "learned",
    support: SupportChoice = "auto",
    include: Sequence[Token] = (),
    seed: int = 0,
    truncate: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Joint:
    """Return the joint distribution over the blanks of a text.

    Args:
        text: a text with blanks, each written [MASK], ___ or as the model's own mask token.
        mlm: the model; the embedded one if none is given.
        method: the construction, one of `unmask.CONSTRUCTIONS`, or `grid` or `chain`; one blank needs none.
            More than two get the grid or the chain (`unmask.sequence.choose` says which).
        candidates: how many tokens a side the model is asked about: a number, `all` (exact), or `auto`: all
            where there are no more than 512, else 64, and twice as many, up to 512, while the completion of
            the others is estimated to be beyond its tolerance.
        completion: how the tokens that it is not asked about are completed, `learned` or `plain`.
        support: the tokens that a blank may hold: `words` (all but special and unused ones), `all`, a number
            (the likeliest words with both blank), or `auto` (words).
        include: tokens that the model is asked about in any case, at every blank.
        seed: of the random part of the candidates.
        truncate: drop the end of a text that is longer than the model's window.
        progress: told of the forward passes.
        options: of the construction, such as `pivot` for hcb.
    """
    return _joint_of_text(
        text,
        parse_blanks,
        mlm,
        method,
        candidates=candidates,
        completion=completion,
        support=support,
        include=include,
        seed=seed,
        truncate=truncate,
        progress=progress,
        **options,
    )


@dataclass(frozen=True)
class Score:
    """What the true tokens of a text are worth: `filling` holds them, with their joint log-probability."""

    filling: Filling
    joint: Joint
    conditional_log_probs: tuple[float, ...] = ()
    """The joint's log-probability of each true token, given the other; of one or two blanks."""


def score(
    text: str,
    *,
    mlm: MaskedLM | None = None,
    method: str = DEFAULT_METHOD,
    candidates: Candidates = "auto",
    completion: Completion = "learned",
    support: SupportChoice = "auto",
    include: Sequence[Token] = (),
    seed: int = 0,
    truncate: bool = False,
    progress: Progress = silent,
    **options: Any,
) -> Score:
    """Return the log-probability of the words in braces, `The {man} {is} at the casino.`

    The arguments are those of `fill`; the true tokens are always among the candidates.
    """
    return scored(
        _joint_of_text(
            text,
            parse_braces,
            mlm,
            method,
            candidates=candidates,
            completion=completion,
            support=support,
            include=include,
            seed=seed,
            truncate=truncate,
            progress=progress,
            **options,
        )
    )


def scored(joint: Joint) -> Score:
    """Return what the true tokens of a joint's text are worth."""
    truth = joint.cloze.truth if joint.cloze is not None else None
    if truth is None:
        raise Misuse("the text of this joint has no true tokens: put braces around what is to be scored")
    (filling,) = joint.describe(torch.tensor([truth]))
    if not isinstance(joint, PairJoint | TokenDistribution):  # of many blanks: conditionals would cost passes
        return Score(filling, joint)
    blanks = range(joint.blanks)
    given = [joint.conditional(i, {j: truth[j] for j in blanks if j != i}) for i in blanks]
    return Score(filling, joint, tuple(float(c.log_prob(t)) for c, t in zip(given, truth, strict=True)))


def compare(
    text: str,
    *,
    mlm: MaskedLM | None = None,
    candidates: Candidates = "auto",
    completion: Completion = "learned",
    support: SupportChoice = "auto",
    include: Sequence[Token] = (),
    seed: int = 0,
    truncate: bool = False,
    progress: Progress = silent,
) -> dict[str, PairJoint]:
    """Return every construction's joint for one text with two blanks, made from the same conditionals."""
    joint = _joint_of_text(
        text,
        _parse_pair,
        mlm,
        "product",
        candidates=candidates,
        completion=completion,
        support=support,
        include=include,
        seed=seed,
        truncate=truncate,
        progress=progress,
    )
    assert isinstance(joint, PairJoint)
    joints = {}
    for method in progress.over(list(CONSTRUCTIONS), total=len(CONSTRUCTIONS), stage="constructions"):
        joints[method] = construct(method, joint.conditionals)
        joints[method].cloze = joint.cloze
    return joints


def _parse_pair(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool) -> Cloze:
    """Read a text with two blanks, over which constructions differ."""
    cloze = parse_blanks(text, vocabulary, window, truncate=truncate)
    if len(cloze.blanks) == 1:
        raise Misuse(
            "constructions differ for two blanks only, and the text has one: fill it with any one method"
        )
    if len(cloze.blanks) > 2:
        raise Misuse(
            f"constructions are compared on two blanks, and the text has {len(cloze.blanks)}: leave two, or "
            f"fill them by one method"
        )
    return cloze


def _joint_of_text(
    text: str,
    parse: Callable[..., Cloze],
    mlm: MaskedLM | None,
    method: str,
    *,
    candidates: Candidates,
    completion: Completion,
    support: SupportChoice,
    include: Sequence[Token],
    seed: int,
    truncate: bool,
    progress: Progress,
    **options: Any,
) -> Joint:
    """Walk the way of the data once: the text, read by `parse`, to its joint."""
    check_text(text)
    check_method(method, options)
    check_completion(completion)
    mlm = mlm or load()
    return joint_of_cloze(
        mlm,
        parse(text, mlm.vocabulary, mlm.window, truncate=truncate),
        method,
        candidates=candidates,
        completion=completion,
        support=support,
        include=include,
        seed=seed,
        progress=progress,
        **options,
    )


def joint_of_cloze(
    mlm: MaskedLM,
    cloze: Cloze,
    method: str = "ag",
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
        from unmask.sequence.choose import joint_of_blanks

        if completion != "learned":
            raise Misuse(
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
    return joint_of(table, cloze, method, **options)


def check_text(text: str) -> None:
    """Refuse what is not one text before any work is done."""
    if not isinstance(text, str):
        raise Misuse(
            f"expected one text, as a string, got {type(text).__name__}: ask about one text at a time"
        )


def check_method(method: str, options: dict[str, Any]) -> None:
    """Refuse a method that there is not before any work is done."""
    if "model" in options:
        raise Misuse("a model is given as mlm=unmask.load(...), not as model=")
    if method not in (*CONSTRUCTIONS, *BEYOND_PAIRS):
        known = ", ".join((*CONSTRUCTIONS, *BEYOND_PAIRS))
        raise Misuse(f"unknown method '{method}': expected one of {known}")


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
        raise Misuse(f"expected a seed from 0 to 2^63 - 1, got {seed}")
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
    table.evidence["mass_outside_support"] = outside
    if supports != (tokens, tokens):
        table.evidence["passes"] += 1  # the one that chose the likeliest
    return table


def check_asking(
    mlm: MaskedLM, candidates: Candidates, completion: Completion, support: SupportChoice
) -> Support:
    """Refuse ways of asking a model that can't be, before any work is done; returns the support's tokens."""
    check_completion(completion)
    tokens = Support.by_kind(mlm.vocabulary, support)
    _check_candidates(candidates, min(support, len(tokens)) if isinstance(support, int) else len(tokens))
    return tokens


def _too_many(cloze: Cloze) -> Misuse:
    told = "; ".join([*cloze.notes, f"the text has {len(cloze.blanks)} blanks"])
    return Misuse(f"{told}, and one or two can be filled jointly: leave two")


def _check_candidates(candidates: Candidates, most: int) -> None:
    """Refuse a number of candidates that can't be, before any work is done."""
    if candidates in ("auto", "all"):
        return
    if not isinstance(candidates, int):
        raise Misuse(f"expected a number of candidates, all or auto, got '{candidates}'")
    if not 1 <= candidates <= most:
        raise Misuse(f"expected from 1 to {most} candidates (the tokens a blank may hold), got {candidates}")


def _one_blank(
    mlm: MaskedLM, cloze: Cloze, tokens: Support, support: SupportChoice, include: tuple[int, ...]
) -> TokenDistribution:
    """Return the plain model's answer, over the likeliest tokens alone if a number of them is asked for."""
    state = mlm.states(torch.tensor([cloze.ids]), cloze.blanks[0])[0]
    logits = mlm.decoder(tokens.ids)(state).to(mlm.tables_on).double()
    evidence: dict[str, Any] = {"passes": 1}
    if isinstance(support, int) and support < len(tokens):
        kept = tokens.likeliest(logits, support, include)
        inside = tokens.indices(kept.ids).to(logits.device)
        evidence["mass_outside_support"] = (max(0.0, 1 - float(logits.softmax(0)[inside].sum())),)
        tokens, logits = kept, logits[inside]
    return TokenDistribution(logits.log_softmax(0), tokens, method="mlm", evidence=evidence, cloze=cloze)


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


def joint_of(table: PairConditionals | TokenDistribution, cloze: Cloze, method: str, **options: Any) -> Joint:
    """Make the joint of a cloze from what the model said."""
    if isinstance(table, TokenDistribution):
        if options:
            raise Misuse(f"one blank needs no construction, so it has no option '{next(iter(options))}'")
        return table
    joint = construct(method, table, **options)
    joint.cloze = cloze
    return joint
