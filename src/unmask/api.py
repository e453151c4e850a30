"""The public functions: load a model, fill blanks, score words, compare constructions.

Each is a short walk along the way of the data: text -> `Cloze` -> conditionals -> construction -> `Joint`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Unpack

import torch

from unmask.errors import UsageError
from unmask.inference.infer import conditionals, infer, joint_of
from unmask.inference.query import Query, QueryKeywords, TableKeywords, takes_query
from unmask.joints.joint import Block, Filling, Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.targets import TargetJoint
from unmask.models.load import load
from unmask.models.masked_lm import MaskedLM
from unmask.progress import Progress, silent
from unmask.text.cloze import Cloze, parse_blanks, parse_braces
from unmask.text.vocabulary import Vocabulary


@takes_query(QueryKeywords)
def fill(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Joint:
    """Return the joint distribution over the blanks of a text.

    One blank needs no construction. More than two get the grid, the chain or the tree
    (`unmask.inference.auto_method` says which). Options of the construction may also be given by their own
    names, as `order="ba"` for hcb.
    """
    return _joint_of_text(Query.of(text, query), parse_blanks, mlm, progress)


@dataclass(frozen=True)
class Score:
    """What the true tokens of a text are worth: `filling` holds them, with their joint log-probability."""

    filling: Filling
    joint: Joint
    conditional_log_probs: tuple[float, ...] = ()
    """The joint's log-probability of each true token, given the others; of a chain, it would cost passes."""
    blocks: tuple[tuple[Block, float], ...] = ()
    """Of a chain: its blocks in the order of their filling, and what each adds to the log-probability."""


@takes_query(QueryKeywords)
def score(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[QueryKeywords],
) -> Score:
    """Return the log-probability of the words in braces, `The {boy} {is} in the pool.`

    The true tokens are always among the candidates.
    """
    return scored(_joint_of_text(Query.of(text, query), parse_braces, mlm, progress))


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


@takes_query(TableKeywords)
def compare(
    text: str | Query,
    *,
    mlm: MaskedLM | None = None,
    progress: Progress = silent,
    **query: Unpack[TableKeywords],
) -> dict[str, PairJoint | TargetJoint]:
    """Return every construction's joint for one text with two blanks, made from the same conditionals."""
    for name in set(query) - TableKeywords.__optional_keys__:
        raise UsageError(f"compare makes every construction and takes no '{name}': leave it out")
    one = Query.of(text, query)
    mlm = mlm or load()
    cloze = _parse_pair(one.text, mlm.vocabulary, mlm.window, truncate=one.truncate)
    table = conditionals(mlm, cloze, one, progress)
    joints = {}
    for method in progress.over(list(CONSTRUCTIONS), total=len(CONSTRUCTIONS), stage="constructions"):
        joint = joint_of(table, replace(one, method=method, options={}))
        assert isinstance(joint, PairJoint | TargetJoint)
        joints[method] = joint
    return joints


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
    """Walk the way of the data once: the text, read by `parse`, to its joint."""
    mlm = mlm or load()
    cloze = parse(query.text, mlm.vocabulary, mlm.window, truncate=query.truncate)
    return infer(mlm, cloze, query, progress)
