"""Handlers: each request answered in a few lines over the joints of its texts, and the routes to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from unmask import serialize as answers
from unmask.api import scored
from unmask.errors import UsageError
from unmask.inference.query import Query
from unmask.joints.joint import Joint
from unmask.joints.pair import PairJoint
from unmask.joints.registry import CONSTRUCTIONS
from unmask.joints.targets import TargetJoint
from unmask.models.masked_lm import MaskedLM
from unmask.web import request_schemas as requests
from unmask.web import response_schemas as responses
from unmask.web.conditionals_cache import ConditionalsCache, Reading
from unmask.web.deadline import Deadline

Answer = dict[str, Any] | list[dict[str, Any]]
Checked = TypeVar("Checked", bound=Joint)


def fill(request: requests.FillRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Fill the blanks of a text jointly, or of each text of a list: the likeliest fillings."""
    return _each(request, cache, deadline, lambda joint, mlm: answers.fill_answer(joint, mlm, request.top))


def score(request: requests.ScoreRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Score the words in braces under the joint of their blanks, in a text or in each text of a list."""
    return _each(
        request, cache, deadline, lambda joint, mlm: answers.score_answer(scored(joint), mlm), "braces"
    )


def sample(request: requests.SampleRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Draw fillings from the joint of a text's blanks, or of each text of a list."""
    seed = request.queries[0].seed if request.sampling_seed is None else request.sampling_seed
    return _each(
        request, cache, deadline, lambda joint, mlm: answers.sample_answer(joint, mlm, request.number, seed)
    )


def compare(request: requests.CompareRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Show what every construction makes of one text with two blanks, or of each text of a list."""
    found = []
    for query in request.queries:
        asked = {method: replace(query, method=method) for method in CONSTRUCTIONS}
        joints, mlm = _by_method(request, asked, cache, deadline, "pair", _comparable)
        found.append(answers.compare_answer(joints, mlm, request.top, deadline))
    return found if request.is_list else found[0]


def conditional(request: requests.ConditionalRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Fix the token of one blank, and see the distribution of another one move."""

    def answer(joint: Joint, mlm: MaskedLM) -> dict[str, Any]:
        blank = _asked_blank(joint, request.blank, request.given_blank)
        return answers.conditional_answer(joint, mlm, blank, request.given_blank, request.given, request.top)

    return _each(request, cache, deadline, answer)


def marginals(request: requests.MarginalsRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return every blank's distribution, given the tokens of some; a tree also tells how they are joined."""
    given = {int(blank): token for blank, token in request.given.items()}
    return _each(
        request,
        cache,
        deadline,
        lambda joint, mlm: answers.marginals_answer(joint, mlm, given, request.top),
    )


def heat_map(request: requests.MapRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Return the joint of the likeliest tokens of two blanks, with its marginals: a heat map."""
    (query,) = request.queries
    asked = {method: replace(query, method=method) for method in request.methods}
    if "product" in asked and cache.blanks(request.model_name, query, deadline) > 2:
        asked["product"] = replace(asked["product"], candidates="auto")  # it is over every token
    joints, mlm = _by_method(request, asked, cache, deadline, "blanks", _summable)
    row, column = request.blanks
    return answers.map_answer(joints, mlm, request.size, (row, column))


def compatibility(
    request: requests.CompatibilityRequest, cache: ConditionalsCache, deadline: Deadline
) -> Answer:
    """Say how well the model's conditionals fit together, and the joint to them."""
    return _each(
        request, cache, deadline, lambda joint, mlm: answers.compatibility_answer(_pair(joint), mlm), "pair"
    )


def _each(
    request: requests.TextRequest,
    cache: ConditionalsCache,
    deadline: Deadline,
    answer: Callable[[Joint, MaskedLM], dict[str, Any]],
    reading: Reading = "blanks",
) -> Answer:
    """Answer about the text of a request, or about each text of a list."""
    found = cache.use(request.model_name, request.queries, reading, deadline, answer)
    return found if request.is_list else found[0]


def _by_method(
    request: requests.TextRequest,
    asked: Mapping[str, Query],
    cache: ConditionalsCache,
    deadline: Deadline,
    reading: Reading,
    check: Callable[[Joint], Checked],
) -> tuple[dict[str, Checked], MaskedLM]:
    """Return the joints of a text's blanks by several methods, each of them checked, and the model."""
    found = cache.use(
        request.model_name,
        list(asked.values()),
        reading,
        deadline,
        lambda joint, mlm: (check(joint), mlm),
    )
    return dict(zip(asked, (joint for joint, _ in found), strict=True)), found[0][1]


def _asked_blank(joint: Joint, blank: int | None, given_blank: int) -> int:
    """Return the blank whose distribution is asked for: of two blanks it is the other one."""
    _several_blanks(joint)
    if blank is not None:
        return blank
    if joint.blanks > 2:
        raise UsageError(f"the text has {joint.blanks} blanks: say whose distribution is asked for, as blank")
    return 1 - min(given_blank, 1)


def _several_blanks(joint: Joint) -> Joint:
    if joint.blanks < 2:
        raise UsageError("this request is about two blanks, and the text has one: blank another word")
    return joint


def _summable(joint: Joint) -> Joint:
    """Return a joint of several blanks whose marginals need no forward pass."""
    if not _several_blanks(joint).tractable:
        raise UsageError(f"a map of {joint.blanks} blanks is made by a tree, not a {joint.method}: use tree")
    return joint


def _comparable(joint: Joint) -> PairJoint | TargetJoint:
    """Return a joint by which constructions are compared."""
    if not isinstance(joint, TargetJoint) or joint.blanks < 2:
        return _pair(joint)
    if not isinstance(joint.source, PairJoint):
        raise UsageError("targets: constructions are compared over words of one token each: use fill")
    return joint


def _pair(joint: Joint) -> PairJoint:
    if not isinstance(_several_blanks(joint), PairJoint):
        raise UsageError(
            f"this request is about a construction for two blanks, not {joint.method}: use one of "
            f"{', '.join(CONSTRUCTIONS)}"
        )
    assert isinstance(joint, PairJoint)
    return joint


class Route(NamedTuple):
    """A path under which a kind of request is answered, and by what."""

    path: str
    handler: Callable[[Any, ConditionalsCache, Deadline], Answer]
    request: type[requests.TextRequest]
    response: type[BaseModel]
    takes_lists: bool = False
    """Whether its text may be a list, which gets a list of answers."""


ROUTES = (
    Route("/v1/fill", fill, requests.FillRequest, responses.FillResponse, takes_lists=True),
    Route("/v1/score", score, requests.ScoreRequest, responses.ScoreResponse, takes_lists=True),
    Route("/v1/sample", sample, requests.SampleRequest, responses.SampleResponse, takes_lists=True),
    Route("/v1/compare", compare, requests.CompareRequest, responses.CompareResponse, takes_lists=True),
    Route("/v1/conditional", conditional, requests.ConditionalRequest, responses.ConditionalResponse),
    Route("/v1/marginals", marginals, requests.MarginalsRequest, responses.MarginalsResponse),
    Route("/v1/map", heat_map, requests.MapRequest, responses.MapResponse),
    Route("/v1/compatibility", compatibility, requests.CompatibilityRequest, responses.CompatibilityResponse),
)
_HANDLERS = {route.request: route.handler for route in ROUTES}


def handle(request: requests.TextRequest, cache: ConditionalsCache, deadline: Deadline) -> Answer:
    """Answer a request of any kind."""
    return _HANDLERS[type(request)](request, cache, deadline)
