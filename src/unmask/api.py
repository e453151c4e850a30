"""The public functions: load a model, fill blanks, score words, compare constructions.

Each is a short walk along the way of the data: text -> `Cloze` -> conditionals -> construction -> `Joint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unmask.errors import UsageError
from unmask.inference.cross import Completion, check_completion
from unmask.inference.infer import DEFAULT_METHOD, Candidates, SupportChoice, check_method, joint_of_cloze
from unmask.joints.joint import Block, Filling, Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.joints.values import Token
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.vocabulary import Vocabulary


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
            More than two get the grid or the chain (`unmask.inference.auto_method` says which).
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
    """The joint's log-probability of each true token, given the others; of a chain, it would cost passes."""
    blocks: tuple[tuple[Block, float], ...] = ()
    """Of a chain: its blocks in the order of their filling, and what each adds to the log-probability."""


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
    """Return the log-probability of the words in braces, `The {boy} {is} in the pool.`

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
        raise UsageError("the text of this joint has no true tokens: put braces around what is to be scored")
    factors = joint.factors(truth)
    log_prob = torch.tensor([math.fsum(part for _, part in factors)], dtype=torch.float64)
    (filling,) = joint.describe(torch.tensor([truth]), log_prob)
    if not joint.tractable:  # conditionals would cost passes
        return Score(filling, joint, blocks=tuple(factors))
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
    return joints


def _parse_pair(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool) -> Cloze:
    """Read a text with two blanks, over which constructions differ."""
    cloze = parse_blanks(text, vocabulary, window, truncate=truncate)
    if len(cloze.blanks) == 1:
        raise UsageError(
            "constructions differ for two blanks only, and the text has one: fill it with any one method"
        )
    if len(cloze.blanks) > 2:
        raise UsageError(
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


def check_text(text: str) -> None:
    """Refuse what is not one text before any work is done."""
    if not isinstance(text, str):
        raise UsageError(
            f"expected one text, as a string, got {type(text).__name__}: ask about one text at a time"
        )
