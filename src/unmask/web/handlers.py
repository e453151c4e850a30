"""Handlers: each request answered in a few lines over the cache's own functions, in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from unmask import serialize as answers
from unmask.api import scored
from unmask.errors import UsageError
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.web import request_schemas as requests
from unmask.web.conditionals_cache import ConditionalsCache
from unmask.web.deadline import Deadline

Answer = dict[str, Any]


def fill(request: requests.FillRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return the likeliest fillings."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joint = found.joint(request.query, deadline)
    return answers.fill_answer(joint, found.mlm, request.top)


def score(request: requests.ScoreRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return what the words in braces are worth."""
    found = cache.conditionals_of(request.model, request.query, "braces", deadline)
    joint = found.joint(request.query, deadline)
    return answers.score_answer(scored(joint), found.mlm)


def sample(request: requests.SampleRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return fillings drawn from the joint."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joint = found.joint(request.query, deadline)
    seed = request.query.seed if request.sampling_seed is None else request.sampling_seed
    return answers.sample_answer(joint, found.mlm, request.number, seed)


def compare(request: requests.CompareRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return every construction's answer."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joints = {}
    for method in deadline.over(list(CONSTRUCTIONS), total=len(CONSTRUCTIONS), stage="constructions"):
        joints[method] = _pair(found.joint(replace(request.query, method=method), deadline))
    return answers.compare_answer(joints, found.mlm, request.top, deadline)


def conditional(request: requests.ConditionalRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return one blank's distribution, the other one being known."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joint = _pair(found.joint(request.query, deadline))
    return answers.conditional_answer(joint, found.mlm, request.given_blank, request.given, request.top)


def heat_map(request: requests.MapRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return the joint of the likeliest tokens."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    methods = list(dict.fromkeys(request.methods))
    joints = {}
    for method in deadline.over(methods, total=len(methods), stage="constructions"):
        joints[method] = _pair(found.joint(replace(request.query, method=method), deadline))
    return answers.map_answer(joints, found.mlm, request.size)


def compatibility(
    request: requests.CompatibilityRequest, cache: ConditionalsCache, deadline: Deadline
) -> Answer:
    """Return how well the conditionals fit together, and the joint to them."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joint = _pair(found.joint(request.query, deadline))
    return answers.compatibility_answer(joint, found.mlm)


def _pair(joint: Any) -> PairJoint:
    if not isinstance(joint, PairJoint):
        raise UsageError("this request is about two blanks, and the text has one: blank another word")
    return joint


HANDLERS: dict[type[requests.TextRequest], Callable[[Any, ConditionalsCache, Deadline], Answer]] = {
    requests.FillRequest: fill,
    requests.ScoreRequest: score,
    requests.SampleRequest: sample,
    requests.CompareRequest: compare,
    requests.ConditionalRequest: conditional,
    requests.MapRequest: heat_map,
    requests.CompatibilityRequest: compatibility,
}


def handle(request: requests.TextRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Answer a request of any kind."""
    return HANDLERS[type(request)](request, cache, deadline)
