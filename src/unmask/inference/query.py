"""Query: one question to a model, checked once.

Each field has a `Spec`: its kind (with range and choices), one line of help, its flags.
The keyword arguments of the Python functions, the options of the command line, the HTTP schema and the
settings of an evaluation are derived from these fields. What only a model can tell (whether a token exists,
how many candidates there can be) is checked when the query meets one, in `unmask.inference.resolve`.

This module imports nothing heavy: `unmask --help` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from inspect import Parameter, cleandoc, signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar

from unmask.errors import UsageError
from unmask.inference.method_names import method_names
from unmask.inference.target_lists import TargetLists
from unmask.values import (
    Either,
    Several,
    Spec,
    Text,
    Truth,
    ValueKind,
    Whole,
    Word,
    check_method,
    setting,
    shown,
    token_kind,
)

if TYPE_CHECKING:
    from unmask.joints.fillings import Token

Candidates = int | Literal["auto", "all"]
Completion = Literal["learned", "plain"]
SupportChoice = int | Literal["auto", "words", "all"]
Targets = Sequence["Token"] | Sequence[Sequence["Token"]]
LARGEST_SEED = 2**63 - 1


def _by_name(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return dict(value)


OPTIONS = ValueKind(
    _by_name, lambda: ("options of the method by name, as {'order': 'ba'}", {"type": "object"}), dict
)
"""Options of a construction; which there are depends on the method."""


@dataclass(frozen=True)
class Query:
    """What is asked of a model about a text, once and for all valid; the text is empty for a given cloze."""

    text: str = setting("", "A text with blanks: [MASK], ___ or the model's own mask token.", kind=Text())
    method: str = setting(
        "ag",
        "The construction of the joint ('unmask compare' shows them); for three or more blanks also grid, "
        "chain or tree.",
        "--method",
        kind=Word(method_names),
    )
    options: Mapping[str, Any] = setting(
        dict,
        "Options of the construction (pivot, order, power, rounds, tolerance, sweeps); of the chain of "
        "three or more blanks: order, block, beam, pairs.",
        "--option",
        kind=OPTIONS,
    )
    candidates: Candidates = setting(
        "auto",
        "Tokens per blank that the model is asked about: a number, all, or auto; 0 uses the pair head alone.",
        "--candidates",
        "-k",
        kind=Either(Whole(0), Word(("auto", "all"))),
    )
    completion: Completion = setting(
        "learned",
        "How the other tokens are completed: learned or plain.",
        "--completion",
        kind=Word(("learned", "plain")),
    )
    support: SupportChoice = setting(
        "auto",
        "Tokens that a blank may hold: auto, words (no special ones), all, or a number of the likeliest.",
        "--support",
        kind=Either(Whole(1), Word(("auto", "words", "all"))),
    )
    include: Sequence[Token] = setting(
        (),
        "Tokens that the model is asked about in any case, however unlikely.",
        "--include",
        kind=Several(token_kind(), "tokens, as strings or ids"),
    )
    targets: Targets | None = setting(
        None,
        "The words that a blank may hold, of any number of tokens: one list for all blanks, or one each.",
        "--targets",
        kind=TargetLists(),
    )
    seed: int = setting(0, "Seed of whatever is drawn at random.", "--seed", kind=Whole(0, LARGEST_SEED))
    truncate: bool = setting(
        False, "Drop the end of a text longer than the model's window.", "--truncate", kind=Truth()
    )

    def __post_init__(self) -> None:
        for name, spec in SPECS.items():
            if name != "method":
                object.__setattr__(self, name, spec.kind.check(name, getattr(self, name)))
        check_method(self.method, method_names())
        if self.options:
            from unmask.inference.methods import check_method_options

            object.__setattr__(self, "options", check_method_options(self.method, self.options))

    def __hash__(self) -> int:
        plain = (getattr(self, name) for name in SPECS if name != "options")
        return hash((*plain, *sorted(self.options.items())))

    @classmethod
    def of(cls, text: str | Query, keywords: Mapping[str, Any]) -> Query:
        """Return the query that keyword arguments spell; those that are no fields are the method's."""
        given = {name: value for name, value in keywords.items() if name in SPECS}
        others = {name: value for name, value in keywords.items() if name not in SPECS}
        if "model" in others:
            how = "name" if isinstance(others["model"], str) else "model, tokenizer"
            raise UsageError(f"a model is given as mlm=unmask.load({how}), not as model=")
        for name in others:
            for meant in get_close_matches(name, SPECS, n=1, cutoff=0.8):
                raise UsageError(f"unknown argument '{name}': did you mean '{meant}'?")
        if others:
            given["options"] = OPTIONS.check("options", given.get("options", {})) | others
        return replace(text, **given) if isinstance(text, Query) else cls(text, **given)


def check_progress(given: Any) -> None:
    """Refuse what can't be told of progress."""
    if not hasattr(given, "over") or not hasattr(given, "advanced"):
        raise UsageError(
            f"progress: expected an unmask.Progress, got {shown(given)}: leave it out for silence"
        )


SPECS: dict[str, Spec] = {
    f.name: Spec(f.metadata["kind"], f.metadata["help"], f.metadata["flags"]) for f in fields(Query)
}
DEFAULTS: dict[str, Any] = {
    f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(Query)
}


class TableKeywords(TypedDict, total=False):
    """The keyword arguments of functions that take every construction: a query's fields but its method's."""

    candidates: Candidates
    completion: Completion
    support: SupportChoice
    include: Sequence[Token]
    targets: Targets | None
    seed: int
    truncate: bool


class QueryKeywords(TableKeywords, total=False):
    """The keyword arguments of functions that take a query; options may be given by their names, too."""

    method: str
    options: Mapping[str, Any]
    order: str | Sequence[int]
    pivot: Token
    power: float
    rounds: int
    tolerance: float
    sweeps: int
    block: int
    beam: int
    pairs: str


Function = TypeVar("Function", bound=Callable[..., Any])


def takes_query(keywords: type) -> Callable[[Function], Function]:
    """Write the fields of a query that are among the keywords into a function's signature and docstring."""
    taken: frozenset[str] = keywords.__optional_keys__  # type: ignore[attr-defined]
    names = [name for name in SPECS if name in taken]
    types = {f.name: f.type for f in fields(Query)}

    def describe(function: Function) -> Function:
        *own, rest = signature(function).parameters.values()
        derived = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=DEFAULTS[name], annotation=types[name])
            for name in names
        ]
        options = [rest.replace(name="construction_options", annotation=Any)] if "options" in names else []
        described = signature(function).replace(parameters=[*own, *derived, *options])
        function.__signature__ = described  # type: ignore[attr-defined]
        lines = [f"    {name}: {SPECS[name].help}" for name in ("text", *names)]
        lines += [
            "    mlm: The model; the embedded one if none is given.",
            "    progress: Told of the forward passes.",
        ]
        function.__doc__ = "\n".join([f"{cleandoc(function.__doc__ or '')}\n\nArgs:", *lines])
        return function

    return describe
