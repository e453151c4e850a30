"""The questions, answered: each a few lines over the library's own functions, run in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from unmask import serialize as answers
from unmask.api import scored
from unmask.errors import UsageError
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.web import request_schemas as q
from unmask.web.conditionals_cache import Library
from unmask.web.deadline import Watch

Answer = dict[str, Any]


def fill(question: q.FillQuestion, library: Library, watch: Watch) -> Answer:
    """Return the likeliest fillings."""
    said = library.said(question.model, question.query, "blanks", watch)
    joint = said.joint(question.query, watch)
    return answers.fill_answer(joint, said.mlm, question.top)


def score(question: q.ScoreQuestion, library: Library, watch: Watch) -> Answer:
    """Return what the words in braces are worth."""
    said = library.said(question.model, question.query, "braces", watch)
    joint = said.joint(question.query, watch)
    return answers.score_answer(scored(joint), said.mlm)


def sample(question: q.SampleQuestion, library: Library, watch: Watch) -> Answer:
    """Return fillings drawn from the joint."""
    said = library.said(question.model, question.query, "blanks", watch)
    joint = said.joint(question.query, watch)
    seed = question.query.seed if question.sampling_seed is None else question.sampling_seed
    return answers.sample_answer(joint, said.mlm, question.number, seed)


def compare(question: q.CompareQuestion, library: Library, watch: Watch) -> Answer:
    """Return every construction's answer."""
    said = library.said(question.model, question.query, "blanks", watch)
    joints = {}
    for method in watch.over(list(CONSTRUCTIONS), total=len(CONSTRUCTIONS), stage="constructions"):
        joints[method] = _pair(said.joint(replace(question.query, method=method), watch))
    return answers.compare_answer(joints, said.mlm, question.top, watch)


def conditional(question: q.ConditionalQuestion, library: Library, watch: Watch) -> Answer:
    """Return one blank's distribution, the other one being known."""
    said = library.said(question.model, question.query, "blanks", watch)
    joint = _pair(said.joint(question.query, watch))
    return answers.conditional_answer(joint, said.mlm, question.given_blank, question.given, question.top)


def heat_map(question: q.MapQuestion, library: Library, watch: Watch) -> Answer:
    """Return the joint of the likeliest tokens."""
    said = library.said(question.model, question.query, "blanks", watch)
    methods = list(dict.fromkeys(question.methods))
    joints = {}
    for method in watch.over(methods, total=len(methods), stage="constructions"):
        joints[method] = _pair(said.joint(replace(question.query, method=method), watch))
    return answers.map_answer(joints, said.mlm, question.size)


def compatibility(question: q.CompatibilityQuestion, library: Library, watch: Watch) -> Answer:
    """Return how well the conditionals fit together, and the joint to them."""
    said = library.said(question.model, question.query, "blanks", watch)
    joint = _pair(said.joint(question.query, watch))
    return answers.compatibility_answer(joint, said.mlm)


def _pair(joint: Any) -> PairJoint:
    if not isinstance(joint, PairJoint):
        raise UsageError("this is a question about two blanks, and the text has one: blank another word")
    return joint


ASKING: dict[type[q.Question], Callable[[Any, Library, Watch], Answer]] = {
    q.FillQuestion: fill,
    q.ScoreQuestion: score,
    q.SampleQuestion: sample,
    q.CompareQuestion: compare,
    q.ConditionalQuestion: conditional,
    q.MapQuestion: heat_map,
    q.CompatibilityQuestion: compatibility,
}


def ask(question: q.Question, library: Library, watch: Watch) -> Answer:
    """Answer a question of any kind."""
    return ASKING[type(question)](question, library, watch)
