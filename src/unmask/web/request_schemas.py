"""The requests, typed: the arguments of the command line under the same names.

Where a list of texts makes sense, `text` may be one. The schema says what kind of thing each field is. How
much of it a server gives is a matter of its `Limits`, which `check_limits` holds a request to, with a line of
its own for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, create_model

from unmask.inference.methods import CHAIN_OPTIONS
from unmask.inference.query import DEFAULTS, LARGEST_SEED, SPECS, Query, TableKeywords
from unmask.inference.target_lists import TargetLists
from unmask.joints.grid import GridJoint
from unmask.joints.options import declared_options
from unmask.joints.registry import CONSTRUCTIONS
from unmask.values import Either, Real, Several, Spec, Text, ValueKind, Whole, token_kind
from unmask.web.errors import LimitExceeded
from unmask.web.request_kinds import TextOrList, TokensByBlank, TwoBlanks
from unmask.web.settings import Limits

BLANKS = "The [MASK] [MASK] playing in the park."
BRACES = "The {man} {is} playing in the park."
SEVERAL = "A [MASK] in a [MASK] [MASK] is [MASK] a guitar."
MAX_ROUNDS = 200
WIDEST_BEAM = 64
FINEST_TOLERANCE = 5e-7
NARROWER: dict[str, ValueKind] = {
    "text": Text(1),
    "include": Several(token_kind(200), "tokens, as strings or ids"),
    "targets": TargetLists(200),
    "pivot": token_kind(200),
}
"""What this server takes of a field or an option, where that is less than the library does."""
NARROWER_RANGES: dict[str, tuple[float, float]] = {
    "beam": (1, WIDEST_BEAM),
    "rounds": (0, MAX_ROUNDS),
    "sweeps": (0, MAX_ROUNDS),
    "tolerance": (FINEST_TOLERANCE, 1.0),
}
"""The same of numbers, whose range is cut to this one, whichever construction's it is."""

Asked = TypeVar("Asked", bound=type[BaseModel])


TEXTS = Spec(TextOrList(NARROWER["text"]), SPECS["text"].help)
BRACED = Spec(TextOrList(NARROWER["text"]), "A text with braces around what is scored.")


def _typed(kind: ValueKind) -> Any:
    """Return the type of a kind's values: checked by the kind, described by its schema."""
    return Annotated[Any, PlainValidator(kind.read), WithJsonSchema(kind.schema)]


def _narrow(name: str, kind: ValueKind) -> ValueKind:
    """Return what this server takes of a field or an option of that kind."""
    if name in NARROWER_RANGES:
        (least, most), known = NARROWER_RANGES[name], kind.schema
        above = known.get("exclusiveMinimum", -math.inf)
        least, most = max(known.get("minimum", least), least), min(known.get("maximum", most), most)
        if kind.of is int:
            return Whole(int(least), int(most))
        if kind.of is float:
            return Real(least, most, above if above >= least else -math.inf)
    return NARROWER.get(name, kind)


def _field(name: str, spec: Spec, default: Any) -> tuple[Any, Any]:
    described = Field(... if name == "text" else default, description=spec.help)
    return _typed(spec.kind if name == "text" else _narrow(name, spec.kind)), described


class _StrictModel(BaseModel):
    """Fields are taken as they are: no number for a truth value, no unknown name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Options(_StrictModel):
    """Options of a construction."""

    def given(self) -> dict[str, Any]:
        """Return those that were given."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


def _options() -> type[Options]:
    """Return the schema of all methods' options; each says which methods have it.

    A value is held to the kinds of all of them here, and to its method's own when the query is made.
    """
    owners: dict[str, dict[str, list[str]]] = {}
    kinds: dict[str, dict[str, ValueKind]] = {}
    methods = {name: declared_options(kind) for name, kind in (*CONSTRUCTIONS.items(), ("grid", GridJoint))}
    for method, specs in (methods | {"chain": CHAIN_OPTIONS}).items():
        for name, spec in specs.items():
            owners.setdefault(name, {}).setdefault(spec.help, []).append(method)
            kind = _narrow(name, spec.kind)
            kinds.setdefault(name, {})[repr(kind.schema)] = kind
    fields: dict[str, Any] = {}
    for name, helps in owners.items():
        told = "; ".join(f"{', '.join(methods)}: {help}" for help, methods in helps.items())
        accepted = list(kinds[name].values())
        of = _typed(Either(*accepted) if len(accepted) > 1 else accepted[0])
        fields[name] = (of | None, Field(None, description=told))
    return create_model("Options", __base__=Options, __doc__=Options.__doc__, **fields)


def _with_query_fields(names: Iterable[str], **own: Spec) -> Callable[[Asked], Asked]:
    """Give a request these fields of a query, with their defaults, ranges and help, or with its own."""
    specs = SPECS | {"text": Spec(NARROWER["text"], SPECS["text"].help)} | own
    fields = {name: _field(name, specs[name], DEFAULTS[name]) for name in names if name != "options"}
    if "options" in names:
        options = _options()
        empty = Field(default_factory=options, description=SPECS["options"].help)
        fields["options"] = (options, empty)

    def derive(kind: Asked) -> Asked:
        return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **fields)  # type: ignore

    return derive


FIELDS_WITHOUT_METHOD = ("text", *(name for name in SPECS if name in TableKeywords.__optional_keys__))
Positive = Annotated[int, Field(ge=1)]
METHOD, TOKEN = SPECS["method"].kind, NARROWER["pivot"]
Method = Annotated[str, PlainValidator(METHOD.read), WithJsonSchema(METHOD.schema)]
Token = Annotated[str | int, PlainValidator(TOKEN.read), WithJsonSchema(TOKEN.schema)]
GIVEN, PAIR = TokensByBlank(TOKEN), TwoBlanks()
GivenTokens = Annotated[dict[str, str | int], PlainValidator(GIVEN.read), WithJsonSchema(GIVEN.schema)]
BlankPair = Annotated[list[int], PlainValidator(PAIR.read), WithJsonSchema(PAIR.schema)]


class TextRequest(_StrictModel):
    """What every request has: a model, and the fields of a query."""

    model: str | None = Field(None, description="A name that GET /v1/models lists; null for the first.")

    @property
    def model_name(self) -> str:
        """The model, which the service has named where the request did not."""
        assert self.model is not None
        return self.model

    @property
    def is_list(self) -> bool:
        """Whether the request is about a list of texts."""
        return isinstance(getattr(self, "text"), list)  # noqa: B009

    @property
    def texts(self) -> list[str]:
        """The texts that it is about."""
        text: str | list[str] = getattr(self, "text")  # noqa: B009
        return text if isinstance(text, list) else [text]

    @property
    def queries(self) -> list[Query]:
        """The query that is asked about each text."""
        given = {name: getattr(self, name) for name in SPECS if name in type(self).model_fields}
        if "options" in given:
            given["options"] = given["options"].given()
        one = Query(**{**given, "text": ""})
        return [replace(one, text=text) for text in self.texts]


def _examples(*requests: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(requests)})


@_with_query_fields(SPECS, text=TEXTS)
class FillRequest(TextRequest):
    """The likeliest fillings of a text's blanks."""

    model_config = _examples(
        {"text": BLANKS, "method": "ag", "top": 5},
        {"text": BLANKS, "candidates": 64, "include": ["dog"], "top": 5},
        {"text": BLANKS, "targets": [["man", "woman"], ["is", "was"]]},
        {"text": SEVERAL, "method": "tree", "top": 5},
        {"text": [BLANKS, SEVERAL], "method": "chain", "candidates": 8, "top": 1},
    )
    top: Positive = Field(10, description="How many fillings.")


@_with_query_fields(SPECS, text=BRACED)
class ScoreRequest(TextRequest):
    """What the words in braces are worth."""

    model_config = _examples({"text": BRACES, "method": "ag"}, {"text": [BRACES, "The {man} is."]})


@_with_query_fields(SPECS, text=TEXTS)
class SampleRequest(TextRequest):
    """Fillings drawn from the joint."""

    model_config = _examples({"text": BLANKS, "number": 5, "seed": 1})
    number: Positive = Field(10, description="How many fillings to draw.")
    sampling_seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="Seed of the drawing alone, if it is to differ from `seed`."
    )


@_with_query_fields(FIELDS_WITHOUT_METHOD, text=TEXTS)
class CompareRequest(TextRequest):
    """Every construction side by side."""

    model_config = _examples({"text": BLANKS, "top": 3, "candidates": 64, "support": 500})
    top: Positive = Field(3, description="How many fillings of each.")


@_with_query_fields(set(SPECS) - {"targets"})
class ConditionalRequest(TextRequest):
    """One blank's distribution, the token of another one being known."""

    model_config = _examples(
        {"text": BLANKS, "given": "man", "given_blank": 0, "top": 5},
        {"text": SEVERAL, "method": "tree", "given": "man", "given_blank": 0, "blank": 3, "top": 5},
    )
    given: Token = Field(description="The token that a blank holds, as a string or an id.")
    given_blank: int = Field(0, ge=0, description="Which blank holds it, from 0.")
    blank: int | None = Field(
        None, ge=0, description="Whose distribution is asked for, from 0; null for the other one of two."
    )
    top: Positive = Field(10, description="How many tokens.")


@_with_query_fields(set(SPECS) - {"targets"})
class MarginalsRequest(TextRequest):
    """Every blank's distribution, the tokens of some being known."""

    model_config = _examples(
        {"text": SEVERAL, "method": "tree", "top": 5},
        {"text": SEVERAL, "method": "tree", "given": {"0": "man"}, "top": 5},
    )
    given: GivenTokens = Field({}, description="The tokens that some blanks hold, by the blanks' numbers.")
    top: Positive = Field(10, description="How many tokens of each blank.")


@_with_query_fields(set(FIELDS_WITHOUT_METHOD) - {"targets"})
class MapRequest(TextRequest):
    """The joint of the likeliest tokens of two blanks, by one method or several."""

    model_config = _examples(
        {"text": BLANKS, "methods": ["ag", "product"], "size": 8},
        {"text": SEVERAL, "methods": ["tree", "product"], "blanks": [1, 2], "size": 8},
    )
    methods: list[Method] = Field(["ag"], min_length=1, max_length=4, description="The methods.")
    size: Positive = Field(16, description="How many tokens at each side.")
    blanks: BlankPair = Field([0, 1], description="Which two blanks, from 0.")


@_with_query_fields(set(SPECS) - {"targets"})
class CompatibilityRequest(TextRequest):
    """How well the model's conditionals fit together, and the joint to them."""

    model_config = _examples({"text": BLANKS, "method": "ag"})


LIMITED_FIELDS = {
    "candidates": "candidates",
    "support": "support",
    "top": "top",
    "number": "samples",
    "size": "map_size",
}
"""A numeric field of a request -> the limit that it is held to."""


def check_limits(request: TextRequest, limits: Limits) -> None:
    """Refuse a request that asks for more than the limits allow."""
    if len(request.texts) > limits.texts:
        raise LimitExceeded(
            f"text: {len(request.texts):,} texts were given, and this server takes {limits.texts:,}: give "
            f"fewer"
        )
    query, *_ = request.queries
    longest = max(map(len, request.texts))
    if longest > limits.text:
        which = "the longest text" if request.is_list else "the text"
        raise LimitExceeded(
            f"{which} has {longest:,} characters, this server takes {limits.text:,}: shorten it"
        )
    if len(query.include) > limits.include:
        raise LimitExceeded(
            f"include: {len(query.include):,} tokens were given, and this server takes "
            f"{limits.include:,}: give fewer"
        )
    words = sum(map(len, query.targets or ()))  # type: ignore[arg-type]
    if words > limits.include:
        raise LimitExceeded(
            f"targets: {words:,} words were given, and this server takes {limits.include:,}: give fewer"
        )
    for name, limit in LIMITED_FIELDS.items():
        asked, most = getattr(request, name, None), getattr(limits, limit)
        if isinstance(asked, int) and asked > most:
            raise LimitExceeded(
                f"{name}: {asked:,} were asked for, and this server gives {most:,}: ask for fewer"
            )
