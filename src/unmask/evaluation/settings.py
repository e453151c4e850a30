"""What an evaluation depends on, and so what a run may not change in mid-way.

Where it is computed (device, memory, number of workers) is not among it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from unmask.errors import UsageError
from unmask.evaluation.sampling import Pairs
from unmask.inference.methods import parse_option
from unmask.inference.query import SPECS, Candidates, Completion, Query, SupportChoice
from unmask.joints.options import check_options
from unmask.joints.registry import CONSTRUCTIONS
from unmask.values import check_method

ASKED = ("candidates", "completion", "support", "seed")
"""The fields of a query that are settings here; the text, the method and its options differ by example."""


class Method(NamedTuple):
    """A construction with its options, under the name that the run has it by: `hcb:order=ba`."""

    label: str
    construction: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """What is measured on what.

    Attributes:
        data: the data set, as `unmask.evaluation.sentences` reads it.
        model: `english`, a directory, or a hub name.
        pairs: which pairs of positions are drawn, `random`, `contiguous` or `distance=1..8`.
        examples: how many; None for every sentence.
        methods: constructions, with options as `hcb:order=ba`; all of them if empty.
        candidates, completion, support, seed: as for `unmask.fill`; the seed is also that of the drawing.
    """

    data: str
    model: str = "english"
    pairs: str = "random"
    examples: int | None = 1000
    seed: int = field(default=Query.seed, metadata={"spec": SPECS["seed"]})
    methods: tuple[str, ...] = ()
    candidates: Candidates = field(default=Query.candidates, metadata={"spec": SPECS["candidates"]})
    completion: Completion = field(default=Query.completion, metadata={"spec": SPECS["completion"]})
    support: SupportChoice = field(default=Query.support, metadata={"spec": SPECS["support"]})

    def __post_init__(self) -> None:
        Pairs.parse(self.pairs)
        if self.examples is not None and self.examples < 1:
            raise UsageError(f"expected at least one example, got {self.examples}")
        for name in ASKED:
            object.__setattr__(self, name, getattr(self.query, name))
        if not self.methods:
            object.__setattr__(self, "methods", tuple(CONSTRUCTIONS))
        if len(set(self.methods)) < len(self.methods):
            raise UsageError(f"a method is named twice: {', '.join(self.methods)}")
        parse_methods(self.methods)

    @property
    def query(self) -> Query:
        """What is asked about each example."""
        return Query(**{name: getattr(self, name) for name in ASKED})

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self) | {"methods": list(self.methods)}


def parse_methods(given: tuple[str, ...]) -> list[Method]:
    """Read constructions with options, such as `ag` or `hcb:order=ba`; refuse what cannot be."""
    return [_parse_method(label) for label in given]


def _parse_method(label: str) -> Method:
    name, *parts = label.split(":")
    options: dict[str, Any] = {}
    for part in parts:
        option, sign, value = part.partition("=")
        if not (option.isidentifier() and sign and value):
            raise UsageError(f"expected a method as NAME or NAME:OPTION=VALUE, got '{label}'")
        options[option] = parse_option(option, value)
    query = Query(method=name, options=options)
    check_method(name, CONSTRUCTIONS)
    check_options(name, CONSTRUCTIONS[name], query.options)
    return Method(label, name, dict(query.options))
