"""Handlers: each request answered in a few lines over the cache's own functions, and the routes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from pydantic import BaseModel

from unmask import serialize as answers
from unmask.api import scored
from unmask.errors import UsageError
from unmask.joints.joint import Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.targets import TargetJoint
from unmask.models.masked_lm import MaskedLM
from unmask.web import request_schemas as requests
from unmask.web import response_schemas as responses
from unmask.web.conditionals_cache import ConditionalsCache, Reading
from unmask.web.deadline import Deadline

Answer = dict[str, Any]


def fill(request: requests.FillRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Fill one or two blanks of a text jointly: the likeliest fillings."""
    return answers.fill_answer(*_joint(request, cache, deadline), request.top)


def score(request: requests.ScoreRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Score the words in braces under the joint of their blanks."""
    joint, mlm = _joint(request, cache, deadline, "braces")
    return answers.score_answer(scored(joint), mlm)


def sample(request: requests.SampleRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Draw fillings from the joint."""
    seed = request.query.seed if request.sampling_seed is None else request.sampling_seed
    return answers.sample_answer(*_joint(request, cache, deadline), request.number, seed)


def compare(request: requests.CompareRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Show what every construction makes of one text with two blanks."""
    joints, mlm = _pairs(request, list(CONSTRUCTIONS), cache, deadline)
    return answers.compare_answer(joints, mlm, request.top, deadline)


def conditional(request: requests.ConditionalRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Fix the token of one blank, and see the other's distribution move."""
    joint, mlm = _joint(request, cache, deadline)
    return answers.conditional_answer(_pair(joint), mlm, request.given_blank, request.given, request.top)


def heat_map(request: requests.MapRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return the joint of the likeliest tokens of both blanks, with its marginals: a heat map."""
    joints, mlm = _pairs(request, list(dict.fromkeys(request.methods)), cache, deadline)
    return answers.map_answer(joints, mlm, request.size)


def compatibility(
    request: requests.CompatibilityRequest, cache: ConditionalsCache, deadline: Deadline
) -> Answer:
    """Say how well the model's conditionals fit together, and the joint to them."""
    joint, mlm = _joint(request, cache, deadline)
    return answers.compatibility_answer(_pair(joint), mlm)


def _joint(
    request: requests.TextRequest, cache: ConditionalsCache, deadline: Deadline, reading: Reading = "blanks"
) -> tuple[Joint, MaskedLM]:
    """Return the joint that a request is about, and the model."""
    found = cache.conditionals_of(request.model, request.query, reading, deadline)
    return found.joint(request.query, deadline), found.mlm


def _pairs(
    request: requests.TextRequest, methods: Sequence[str], cache: ConditionalsCache, deadline: Deadline
) -> tuple[dict[str, PairJoint | TargetJoint], MaskedLM]:
    """Return the joints of two blanks by several constructions, and the model."""
    found = cache.conditionals_of(request.model, request.query, "blanks", deadline)
    joints: dict[str, PairJoint | TargetJoint] = {}
    for method in deadline.over(methods, total=len(methods), stage="constructions"):
        joint = found.joint(replace(request.query, method=method), deadline)
        joints[method] = joint if _restricts_a_pair(joint) else _pair(joint)
    return joints, found.mlm


def _restricts_a_pair(joint: Joint) -> TypeGuard[TargetJoint]:
    if not isinstance(joint, TargetJoint) or joint.blanks < 2:
        return False
    if not isinstance(joint.source, PairJoint):
        raise UsageError("targets: constructions are compared over words of one token each: use fill")
    return True


def _pair(joint: Joint) -> PairJoint:
    if not isinstance(joint, PairJoint):
        raise UsageError("this request is about two blanks, and the text has one: blank another word")
    return joint


class Route(NamedTuple):
    """A path under which a kind of request is answered, and by what."""

    path: str
    handler: Callable[[Any, ConditionalsCache, Deadline], Answer]
    request: type[requests.TextRequest]
    response: type[BaseModel]


ROUTES = (
    Route("/v1/fill", fill, requests.FillRequest, responses.FillResponse),
    Route("/v1/score", score, requests.ScoreRequest, responses.ScoreResponse),
    Route("/v1/sample", sample, requests.SampleRequest, responses.SampleResponse),
    Route("/v1/compare", compare, requests.CompareRequest, responses.CompareResponse),
    Route("/v1/conditional", conditional, requests.ConditionalRequest, responses.ConditionalResponse),
    Route("/v1/map", heat_map, requests.MapRequest, responses.MapResponse),
    Route("/v1/compatibility", compatibility, requests.CompatibilityRequest, responses.CompatibilityResponse),
)
_HANDLERS = {route.request: route.handler for route in ROUTES}


def handle(request: requests.TextRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Answer a request of any kind."""
    return _HANDLERS[type(request)](request, cache, deadline)
