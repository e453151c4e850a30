"""The public functions: fill blanks, score words, compare constructions.

Each follows the data: text -> `Cloze` -> conditionals -> construction -> `Joint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, Unpack, overload

import torch

from unmask.errors import UsageError
from unmask.inference.infer import conditionals_of_many, infer, infer_many, joint_of, parts_of
from unmask.inference.query import SPECS, Query, QueryKeywords, TableKeywords, check_progress, takes_query
from unmask.inference.results import Results
from unmask.joints.joint import Block, Filling, Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.targets import TargetJoint
from unmask.models.in_memory import check_mlm
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.vocabulary import Vocabulary

Texts: TypeAlias = list[str] | tuple[str, ...]
Compared: TypeAlias = dict[str, PairJoint | TargetJoint]
"""Every construction's joint, by name."""


@overload
def fill(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Joint: ...
@overload
def fill(
    text: Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Results[Joint]: ...
@takes_query(QueryKeywords)
def fill(
    text: str | Query | Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Joint | Results[Joint]:
    """Return the joint distribution over the blanks of a text, or of each text of a list.

    One blank needs no construction. More than two get the grid, the chain or the tree
    (`unmask.inference.auto_method` says which). Options of the construction may also be given by their own
    names, as `order="ba"` for hcb.
    """
    check_progress(progress)
    if isinstance(text, str | Query):
        return _joint_of_text(Query.of(text, query), parse_blanks, mlm, progress)
    texts = _read_all(text, query, parse_blanks, mlm)
    return Results(texts.texts, lambda chosen: texts.joints(chosen, progress), _ranked)


@dataclass(frozen=True)
class Score:
    """What the true tokens of a text are worth: `filling` holds them, with their joint log-probability."""

    filling: Filling
    joint: Joint
    conditional_log_probs: tuple[float, ...] = ()
    """The joint's log-probability of each true token given the others; empty for a chain."""
    blocks: tuple[tuple[Block, float], ...] = ()
    """Of a chain: its blocks in the order of their filling, and what each adds to the log-probability."""


@overload
def score(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Score: ...
@overload
def score(
    text: Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Results[Score]: ...
@takes_query(QueryKeywords)
def score(
    text: str | Query | Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Score | Results[Score]:
    """Return the log-probability of the words in braces, `The {boy} {is} in the pool.`; a list gives several.

    The true tokens are always among the candidates.
    """
    check_progress(progress)
    if isinstance(text, str | Query):
        return scored(_joint_of_text(Query.of(text, query), parse_braces, mlm, progress))
    texts = _read_all(text, query, parse_braces, mlm)
    return Results(
        texts.texts,
        lambda chosen: map(scored, texts.joints(chosen, progress)),
        lambda score, _: [_record(score.joint, score.filling)],
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


@overload
def compare(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[TableKeywords],
) -> Compared: ...
@overload
def compare(
    text: Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[TableKeywords],
) -> Results[Compared]: ...
@takes_query(TableKeywords)
def compare(
    text: str | Query | Texts,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[TableKeywords],
) -> Compared | Results[Compared]:
    """Return every construction's joint for a text with two blanks, or for each text of a list.

    All of them are made from the same conditionals.
    """
    check_progress(progress)
    for name in set(query) - TableKeywords.__optional_keys__ - {"model"}:
        raise UsageError(f"compare makes every construction and takes no '{name}': leave it out")
    if isinstance(text, str | Query):
        one = Query.of(text, query)
        mlm = load() if mlm is None else check_mlm(mlm)
        cloze = _parse_pair(one.text, mlm.vocabulary, mlm.window, truncate=one.truncate)
        return next(_compared(mlm, [cloze], one, progress))
    texts = _read_all(text, query, _parse_pair, mlm)

    def answers(chosen: Sequence[int]) -> Iterator[Compared]:
        return _compared(texts.mlm, [texts.clozes[n] for n in chosen], texts.query, progress)

    def records(joints: Compared, top: int) -> list[dict[str, Any]]:
        return [{"method": name} | row for name, joint in joints.items() for row in _ranked(joint, top)]

    return Results(texts.texts, answers, records)


def _compared(mlm: MaskedLM, clozes: Sequence[Cloze], query: Query, progress: Progress) -> Iterator[Compared]:
    for part in parts_of(clozes):
        for table in conditionals_of_many(mlm, part, query, progress):
            joints: Compared = {}
            for method in progress.over(list(CONSTRUCTIONS), total=len(CONSTRUCTIONS), stage="constructions"):
                joint = joint_of(table, replace(query, method=method, options={}))
                assert isinstance(joint, PairJoint | TargetJoint)
                joints[method] = joint
            yield joints


def _parse_pair(text: str, vocabulary: Vocabulary, window: int, *, truncate: bool) -> Cloze:
    """Read a text with two blanks, over which constructions differ."""
    cloze = parse_blanks(text, vocabulary, window, truncate=truncate)
    if len(cloze.blanks) == 1:
        raise UsageError(
            "expected a text with two blanks to compare methods, got one: use fill, where all methods agree"
        )
    if len(cloze.blanks) > 2:
        raise UsageError(
            f"expected a text with two blanks to compare methods, got {len(cloze.blanks)}: leave two, or use "
            f"fill with one method"
        )
    return cloze


def _joint_of_text(
    query: Query, parse: Callable[..., Cloze], mlm: MaskedLM | None, progress: Progress
) -> Joint:
    """Return the joint of one text, read by `parse`."""
    mlm = load() if mlm is None else check_mlm(mlm)
    cloze = parse(query.text, mlm.vocabulary, mlm.window, truncate=query.truncate)
    return infer(mlm, cloze, query, progress)


@dataclass(frozen=True)
class _ReadTexts:
    """A list of texts, read, and what is asked about each."""

    texts: list[str]
    clozes: list[Cloze]
    query: Query
    mlm: MaskedLM

    def joints(self, chosen: Sequence[int], progress: Progress) -> Iterator[Joint]:
        """Yield the joints of some of the texts."""
        return infer_many(self.mlm, [self.clozes[n] for n in chosen], self.query, progress)


def _read_all(
    texts: Any, keywords: Mapping[str, Any], parse: Callable[..., Cloze], mlm: MaskedLM | None
) -> _ReadTexts:
    """Read every text of a list before the first is answered; an error names the text."""
    array = hasattr(texts, "tolist") and getattr(texts, "ndim", 1) != 0  # or a column of a table
    if not isinstance(texts, list | tuple) and not array:
        SPECS["text"].kind.check("text", texts)
    query, given = Query.of("", keywords), list(texts)
    if not given:
        raise UsageError("text: expected a text, or a list of at least one, got an empty list")
    read = [SPECS["text"].kind.check(f"text {n}", text) for n, text in enumerate(given)]
    mlm = load() if mlm is None else check_mlm(mlm)
    clozes = []
    for n, text in enumerate(read):
        try:
            clozes.append(parse(text, mlm.vocabulary, mlm.window, truncate=query.truncate))
        except UsageError as error:
            raise UsageError(f"text {n}: {error}") from None
    return _ReadTexts(read, clozes, query, mlm)


def _ranked(joint: Joint, top: int) -> list[dict[str, Any]]:
    return [{"rank": rank} | _record(joint, filling) for rank, filling in enumerate(joint.top(top), 1)]


def _record(joint: Joint, filling: Filling) -> dict[str, Any]:
    beside = filling.unrestricted_log_prob
    return {
        "filled": filling.text,
        "tokens": list(filling.tokens),
        "log_prob": filling.log_prob,
        "probability": math.exp(filling.log_prob),
        **({} if beside is None else {"unrestricted_log_prob": beside}),
        "passes": joint.diagnostics.passes,
        "estimated_error": joint.diagnostics.estimated_error,
    }
