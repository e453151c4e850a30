"""What is answered over HTTP, described for OpenAPI.

The answers themselves are the dictionaries of `unmask.serialize`, sent as they are; these classes say what is
in them, and the tests hold the two together.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

Solver = dict[str, float | int | bool | str | None]
Options = dict[str, str | int | float | list[int]]


class ErrorResponse(BaseModel):
    """What went wrong, in one line that says how to mend it."""

    error: str = Field(examples=["the text has no blank: write [MASK] or ___ for each token to be filled"])


class FillingResponse(BaseModel):
    """One way to fill the blanks."""

    tokens: list[str] = Field(description="As the tokenizer spells them.")
    ids: list[int]
    text: str = Field(description="The whole text with the tokens in the blanks.")
    log_prob: float
    probability: float
    unrestricted_log_prob: float | None = Field(
        None, description="With targets: in the joint over all tokens, as `score` has it."
    )


class TextResponse(BaseModel):
    """What every answer about a text rests on."""

    model: str
    backend: str = Field(description="Whose model it is: light (our own) or transformers.")
    length: int = Field(description="Tokens of the text, special ones included.")
    blank_positions: list[int]
    support: str = Field(description="Which tokens a blank may hold.")
    support_sizes: list[int]
    mass_outside_support: list[float]
    conditionals: str = Field(
        description="exact; cross (some tokens evaluated, the rest completed); grid, chain, tree, product "
        "or targets."
    )
    candidates: int | None
    completion: str | None
    completion_error: dict[str, float | None] | None = Field(
        description="Left-out error of the completion, nats."
    )
    estimated_error: float | None = Field(None, description="What that does to log q of likely pairs, nats.")
    estimated_from: str | None = Field(None, description="Left-out candidates, or the pair head.")
    ungrouped: list[int] | None = Field(
        None, description="Tokens of each blank with a row or column of their own."
    )
    seed: int | None
    tolerance: float | None = Field(None, description="The estimated error that auto candidates aim at.")
    mass_outside_given_others: list[float] | None = Field(
        None, description="Of a grid: mass outside the candidates given the other blanks, per blank."
    )
    grid_mass: float | None = Field(None, description="The grid's probability under the chain behind it.")
    reason: str | None = Field(None, description="Why this joint was chosen, where there was a choice.")
    passes: int = Field(description="Forward passes made; a partial one counts by its share of the text.")
    partial_passes: int = Field(0, description="Passes that computed the blanks and what is near alone.")
    notes: list[str] = Field(description="What a person should be told.")


class MethodResponse(TextResponse):
    """An answer by one construction."""

    method: str
    solver: Solver = Field(description="What the construction's solver did.")
    options: Options = Field(description="The construction's options as they were resolved.")


class FillResponse(MethodResponse):
    """The likeliest fillings; the JSON of `unmask fill --json`."""

    entropy: float | None = Field(description="In nats; null for a chain, which can't sum over all fillings.")
    mutual_information: float | None = Field(
        description="What the blanks tell of each other, in nats; null for a chain."
    )
    mass_outside_candidates: float | None
    targets_log_prob: float | None = Field(
        None, description="With targets of one length: what they hold of the joint over all tokens."
    )
    fillings: list[FillingResponse]


class ScoredBlank(BaseModel):
    """One scored token."""

    token: str
    id: int
    log_prob_given_others: float
    marginal_log_prob: float


class ScoredBlock(BaseModel):
    """Blanks that a chain fills together."""

    blanks: list[int]
    tokens: list[str]
    log_prob: float = Field(description="Given the blocks before.")


class ScoreResponse(MethodResponse, FillingResponse):
    """What the words in braces are worth; the JSON of `unmask score --json`."""

    blanks: list[ScoredBlank] | None = Field(None, description="Each token; not of a chain.")
    blocks: list[ScoredBlock] | None = Field(None, description="Of a chain: its blocks, first to last.")


class SampleResponse(MethodResponse):
    """Drawn fillings; the JSON of `unmask sample --json`."""

    sampling_seed: int
    samples: list[FillingResponse]


class ComparedMethod(BaseModel):
    """One construction in a comparison."""

    entropy: float
    mutual_information: float
    kl_from_product: float
    average_kl: float
    mass_outside_candidates: float | None
    agrees_with_product: bool
    solver: Solver
    options: Options
    fillings: list[FillingResponse]


class CompareResponse(TextResponse):
    """Every construction; the JSON of `unmask compare --json`."""

    incompatibility: float
    methods: dict[str, ComparedMethod]


class TokenResponse(BaseModel):
    """A token."""

    token: str
    id: int
    text: str = Field(description="As it looks in a text.")


class ConditionalToken(TokenResponse):
    """A token of the asked blank, before and after the other one is known."""

    probability: float = Field(description="Under the joint, given the token of the other blank.")
    log_prob: float
    marginal_probability: float = Field(description="Under the joint, whatever the other blanks hold.")
    model_probability: float | None = Field(
        description="By the model's own conditional, given that token; null unless there are two blanks."
    )


class ConditionalResponse(MethodResponse):
    """One blank's distribution, the other one being known."""

    blank: int
    given_blank: int
    given: TokenResponse
    given_probability: float = Field(description="How likely the given token is by itself, under the joint.")
    entropy: float = Field(description="Of the asked blank, given the token, in nats.")
    marginal_entropy: float = Field(description="Of the asked blank, whatever the other holds, in nats.")
    information: float = Field(description="KL of the one from the other: what the token tells, in nats.")
    tokens: list[ConditionalToken]


class MarginalToken(TokenResponse):
    """A token of a blank, before and after the given ones are known."""

    probability: float = Field(description="Given the tokens that are known.")
    marginal_probability: float = Field(description="Whatever the other blanks hold.")


class BlankMarginal(BaseModel):
    """One blank's distribution."""

    given: TokenResponse | None = Field(description="The token that it is known to hold, if any.")
    entropy: float = Field(description="Given the tokens that are known, in nats.")
    marginal_entropy: float = Field(description="Whatever the other blanks hold, in nats.")
    tokens: list[MarginalToken]


class MarginalsResponse(MethodResponse):
    """Every blank's distribution, the tokens of some being known."""

    blanks: list[BlankMarginal]
    edges: list[list[int]] | None = Field(description="Of a tree: the blanks that it joins, [parent, child].")
    information: list[list[float]] | None = Field(
        description="Of a tree: what every two blanks tell each other, the others masked, in nats, "
        "[blanks][blanks]."
    )


class MappedMethod(BaseModel):
    """One construction's part of a heat map."""

    probabilities: list[list[float]] = Field(description="[rows][columns]")
    row_marginals: list[float]
    column_marginals: list[float]
    mass_shown: float = Field(description="The probability of all pairs shown.")
    entropy: float
    mutual_information: float
    solver: Solver
    options: Options


class MapResponse(TextResponse):
    """The joint of the likeliest tokens of two blanks."""

    blanks: list[int] = Field(description="Which two blanks, from 0.")

    rows: list[TokenResponse] = Field(description="Tokens of the first blank, likeliest first.")
    columns: list[TokenResponse] = Field(description="Tokens of the second blank, likeliest first.")
    methods: dict[str, MappedMethod]


class CompatibilityResponse(MethodResponse):
    """How well the model's conditionals fit together, and the joint to them."""

    incompatibility: float = Field(description="0 if both conditionals come from one joint (Arnold & Press).")
    average_kl: float = Field(
        description="A-KL: how far the joint's conditionals are from the model's, nats."
    )


class ModelResponse(BaseModel):
    """A model that may be asked."""

    name: str
    loaded: bool
    architecture: str | None = Field(description="Known once it is loaded, as the next four.")
    vocabulary: int | None
    window: int | None
    mask: str | None = Field(description="Its own spelling of a blank.")
    pair_head: bool | None = Field(description="Whether it has a pair head, which `candidates: 0` needs.")


class ModelsResponse(BaseModel):
    """What this server offers."""

    models: list[ModelResponse]
    default: str
    methods: dict[str, str] = Field(description="The methods, each with a line on what it is.")
    limits: dict[str, float] = Field(description="How much may be asked for.")


class HealthResponse(BaseModel):
    """Whether the server is at work."""

    status: str = Field(examples=["ready"], description="ready, or starting while the first model loads.")
    version: str
    busy: int
    waiting: int


def event_stream(answer: Any) -> dict[str, Any]:
    """Describe an answer as JSON, and as server-sent events for whoever accepts those."""
    told = (
        "Server-sent events, for `Accept: text/event-stream`: `progress` with `stage`, `done` and `total`, "
        "then one `answer` event with the JSON answer, or one `error` event with `status` and `error`."
    )
    return {
        "model": answer,
        "description": "The answer.",
        "content": {"text/event-stream": {"schema": {"type": "string", "description": told}}},
    }
