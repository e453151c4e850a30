"""The requests, typed: the arguments of the command line under the same names.

The schema says what kind of thing each field is. How much of it a server gives is a matter of its `Limits`,
which `check_limits` holds a request to, with a line of its own for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, create_model

from unmask.inference.query import DEFAULTS, LARGEST_SEED, SPECS, Query, TableKeywords
from unmask.inference.target_lists import TargetLists
from unmask.joints.options import declared_options
from unmask.joints.registry import CONSTRUCTIONS
from unmask.values import Either, Real, Several, Spec, Text, ValueKind, Whole, Word, token_kind
from unmask.web.errors import LimitExceeded
from unmask.web.settings import Limits

BLANKS = "The [MASK] [MASK] playing in the park."
BRACES = "The {man} {is} playing in the park."
MAX_ROUNDS = 200
FINEST_TOLERANCE = 5e-7
NARROWER: dict[str, ValueKind] = {
    "text": Text(1),
    "method": Word(lambda: CONSTRUCTIONS),
    "include": Several(token_kind(200), "tokens, as strings or ids"),
    "targets": TargetLists(200),
    "pivot": token_kind(200),
}
"""What this server takes of a field or an option, where that is less than the library does."""
NARROWER_RANGES: dict[str, tuple[float, float]] = {
    "rounds": (0, MAX_ROUNDS),
    "sweeps": (0, MAX_ROUNDS),
    "tolerance": (FINEST_TOLERANCE, 1.0),
}
"""The same of numbers, whose range is cut to this one, whichever construction's it is."""

Asked = TypeVar("Asked", bound=type[BaseModel])


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
    return _typed(_narrow(name, spec.kind)), described


class _StrictModel(BaseModel):
    """Fields are taken as they are: no number for a truth value, no unknown name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Options(_StrictModel):
    """Options of a construction."""

    def given(self) -> dict[str, Any]:
        """Return those that were given."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


def _options() -> type[Options]:
    """Return the schema of all constructions' options; each says which constructions have it.

    A value is held to the kinds of all of them here, and to its method's own when the query is made.
    """
    owners: dict[str, dict[str, list[str]]] = {}
    kinds: dict[str, dict[str, ValueKind]] = {}
    for method, construction in CONSTRUCTIONS.items():
        for name, spec in declared_options(construction).items():
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


def _with(names: Iterable[str], **own: Spec) -> Callable[[Asked], Asked]:
    """Give a request these fields of a query, with their defaults, ranges and help, or with its own."""
    specs = SPECS | own
    fields = {name: _field(name, specs[name], DEFAULTS[name]) for name in names if name != "options"}
    if "options" in names:
        options = _options()
        empty = Field(default_factory=options, description=SPECS["options"].help)
        fields["options"] = (options, empty)

    def derive(kind: Asked) -> Asked:
        return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **fields)  # type: ignore

    return derive


EVERY_METHOD = ("text", *(name for name in SPECS if name in TableKeywords.__optional_keys__))
Positive = Annotated[int, Field(ge=1)]
METHOD, TOKEN = NARROWER["method"], NARROWER["pivot"]
Method = Annotated[str, PlainValidator(METHOD.read), WithJsonSchema(METHOD.schema)]
Token = Annotated[str | int, PlainValidator(TOKEN.read), WithJsonSchema(TOKEN.schema)]


class TextRequest(_StrictModel):
    """What every request has: a model, and the fields of a query."""

    model: str | None = Field(None, description="A name that GET /v1/models lists; null for the first.")

    @property
    def query(self) -> Query:
        """The query that is asked."""
        given = {name: getattr(self, name) for name in SPECS if name in type(self).model_fields}
        if "options" in given:
            given["options"] = given["options"].given()
        return Query(**given)


def _examples(*requests: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(requests)})


@_with(SPECS)
class FillRequest(TextRequest):
    """The likeliest fillings of a text's blanks."""

    model_config = _examples(
        {"text": BLANKS, "method": "ag", "top": 5},
        {"text": BLANKS, "candidates": 64, "include": ["dog"], "top": 5},
        {"text": BLANKS, "targets": [["man", "woman"], ["is", "was"]]},
    )
    top: Positive = Field(10, description="How many fillings.")


@_with(SPECS, text=Spec(SPECS["text"].kind, "A text with braces around what is scored."))
class ScoreRequest(TextRequest):
    """What the words in braces are worth."""

    model_config = _examples({"text": BRACES, "method": "ag"})


@_with(SPECS)
class SampleRequest(TextRequest):
    """Fillings drawn from the joint."""

    model_config = _examples({"text": BLANKS, "number": 5, "seed": 1})
    number: Positive = Field(10, description="How many fillings to draw.")
    sampling_seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="Seed of the drawing alone, if it is to differ from `seed`."
    )


@_with(EVERY_METHOD)
class CompareRequest(TextRequest):
    """Every construction side by side."""

    model_config = _examples({"text": BLANKS, "top": 3, "candidates": 64, "support": 500})
    top: Positive = Field(3, description="How many fillings of each.")


@_with(set(SPECS) - {"targets"})
class ConditionalRequest(TextRequest):
    """One blank's distribution, the other one being known."""

    model_config = _examples({"text": BLANKS, "given": "man", "given_blank": 0, "top": 5})
    given: Token = Field(description="The token that the other blank holds, as a string or an id.")
    given_blank: Literal[0, 1] = Field(0, description="Which blank holds it, from 0.")
    top: Positive = Field(10, description="How many tokens.")


@_with(set(EVERY_METHOD) - {"targets"})
class MapRequest(TextRequest):
    """The joint of the likeliest tokens of both blanks, by one construction or several."""

    model_config = _examples({"text": BLANKS, "methods": ["ag", "product"], "size": 8})
    methods: list[Method] = Field(["ag"], min_length=1, max_length=4, description="The constructions.")
    size: Positive = Field(16, description="How many tokens at each side.")


@_with(set(SPECS) - {"targets"})
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
    query = request.query
    if len(query.text) > limits.text:
        raise LimitExceeded(
            f"the text has {len(query.text):,} characters, this server takes {limits.text:,}: shorten it"
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
