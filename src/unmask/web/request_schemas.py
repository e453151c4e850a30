"""The requests, typed: the arguments of the command line under the same names.

The schema says what kind of thing each field is. How much of it a server gives is a matter of its `Limits`,
which `check_limits` holds a request to, with a line of its own for each.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from unmask.joints.registry import CONSTRUCTIONS
from unmask.web.errors import LimitExceeded
from unmask.web.settings import Limits

BLANKS = "The [MASK] [MASK] playing in the park."
BRACES = "The {man} {is} playing in the park."
LARGEST_SEED = 2**63 - 1
MAX_ROUNDS = 200
FINEST_TOLERANCE = 5e-7


def _known(method: str) -> str:
    if method not in CONSTRUCTIONS:
        raise ValueError(f"expected one of {', '.join(CONSTRUCTIONS)}")
    return method


Method = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(CONSTRUCTIONS)})]
Positive = Annotated[int, Field(ge=1)]
Token = Annotated[str, Field(min_length=1, max_length=200)] | Annotated[int, Field(ge=0)]


class _StrictModel(BaseModel):
    """Fields are taken as they are: no number for a truth value, no unknown name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Options(_StrictModel):
    """Options of a construction."""

    pivot: Token | None = Field(None, description="hcb: the pivot token, as a string or an id")
    order: Literal["ab", "ba"] | None = Field(None, description="hcb: which blank the pivot is taken from")
    rounds: int | None = Field(None, ge=1, le=MAX_ROUNDS, description="ag-published: how many rounds")
    sweeps: int | None = Field(None, ge=0, le=MAX_ROUNDS, description="ag: sweeps before Newton's method")
    tolerance: float | None = Field(
        None, ge=FINEST_TOLERANCE, le=1.0, description="ag: the gradient at which the solver stops"
    )

    def given(self) -> dict[str, Any]:
        """Return those that were given."""
        return self.model_dump(exclude_none=True)


class TextRequest(_StrictModel):
    """What every request has: a text, a model, and how much the model is asked about it."""

    text: str = Field(
        min_length=1, description="A text with blanks: [MASK], ___ or the model's own mask token."
    )
    model: str | None = Field(None, description="A name that GET /v1/models lists; null for the first.")
    candidates: Positive | Literal["auto", "all"] = Field(
        "auto", description="Tokens a side that the model is asked about."
    )
    completion: Literal["learned", "plain"] = Field(
        "learned", description="How the other tokens are completed."
    )
    support: Positive | Literal["auto", "words", "all"] = Field(
        "auto", description="Tokens that a blank may hold; a number for the likeliest."
    )
    include: list[Token] = Field(
        default_factory=list,
        description="Tokens that the model is asked about in any case, at every blank, however unlikely.",
    )
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="Seed of whatever is drawn at random.")
    truncate: bool = Field(False, description="Drop the end of a text longer than the model's window.")


class MethodRequest(TextRequest):
    """A request about one construction."""

    method: Method = Field("ag", description="The construction of the joint.")
    options: Options = Field(
        default_factory=lambda: Options.model_validate({}), description="Options of the construction."
    )


def _examples(*requests: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(requests)})


def _example(**fields: Any) -> ConfigDict:
    return _examples(fields)


class FillRequest(MethodRequest):
    """The likeliest fillings of a text's blanks."""

    model_config = _examples(
        {"text": BLANKS, "method": "ag", "top": 5},
        {"text": BLANKS, "candidates": 64, "include": ["dog"], "top": 5},
    )
    top: Positive = Field(10, description="How many fillings.")


class ScoreRequest(MethodRequest):
    """What the words in braces are worth."""

    model_config = _example(text=BRACES, method="ag")
    text: str = Field(min_length=1, description="A text with braces around what is scored.")


class SampleRequest(MethodRequest):
    """Fillings drawn from the joint."""

    model_config = _example(text=BLANKS, number=5, seed=1)
    number: Positive = Field(10, description="How many fillings to draw.")
    sampling_seed: int | None = Field(
        None, ge=0, le=LARGEST_SEED, description="Seed of the drawing alone, if it is to differ from `seed`."
    )


class CompareRequest(TextRequest):
    """Every construction side by side."""

    model_config = _example(text=BLANKS, top=3, candidates=64, support=500)
    top: Positive = Field(3, description="How many fillings of each.")


class ConditionalRequest(MethodRequest):
    """One blank's distribution, the other one being known."""

    model_config = _example(text=BLANKS, given="man", given_blank=0, top=5)
    given: Token = Field(description="The token that the other blank holds, as a string or an id.")
    given_blank: Literal[0, 1] = Field(0, description="Which blank holds it, from 0.")
    top: Positive = Field(10, description="How many tokens.")


class MapRequest(TextRequest):
    """The joint of the likeliest tokens of both blanks, by one construction or several."""

    model_config = _example(text=BLANKS, methods=["ag", "product"], size=8)
    methods: list[Method] = Field(["ag"], min_length=1, max_length=4, description="The constructions.")
    size: Positive = Field(16, description="How many tokens at each side.")


class CompatibilityRequest(MethodRequest):
    """How well the model's conditionals fit together, and the joint to them."""

    model_config = _example(text=BLANKS, method="ag")


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
    if len(request.text) > limits.text:
        raise LimitExceeded(
            f"the text has {len(request.text):,} characters, this server takes {limits.text:,}: shorten it"
        )
    if len(request.include) > limits.include:
        raise LimitExceeded(
            f"include: {len(request.include):,} tokens were given, and this server takes "
            f"{limits.include:,}: give fewer"
        )
    for name, limit in LIMITED_FIELDS.items():
        asked, most = getattr(request, name, None), getattr(limits, limit)
        if isinstance(asked, int) and asked > most:
            raise LimitExceeded(
                f"{name}: {asked:,} were asked for, and this server gives {most:,}: ask for fewer"
            )
