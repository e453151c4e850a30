"""What an evaluation depends on, and so what a run may not change in mid-way.

Where it is computed (device, memory, number of workers) is not among it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from unmask.errors import UsageError
from unmask.evaluation.sampling import Pairs
from unmask.inference.cross import Completion
from unmask.inference.infer import Candidates, SupportChoice
from unmask.joints.registry import CONSTRUCTIONS, construct
from unmask.tables.pair_conditionals import PairConditionals


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
        seed: of the drawing, and of the random part of the candidates.
        methods: constructions, with options as `hcb:order=ba`; all of them if empty.
        candidates, completion, support: as for `unmask.fill`.
    """

    data: str
    model: str = "english"
    pairs: str = "random"
    examples: int | None = 1000
    seed: int = 0
    methods: tuple[str, ...] = ()
    candidates: Candidates = "auto"
    completion: Completion = "learned"
    support: SupportChoice = "auto"

    def __post_init__(self) -> None:
        Pairs.parse(self.pairs)
        if self.examples is not None and self.examples < 1:
            raise UsageError(f"expected at least one example, got {self.examples}")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"expected a seed from 0 to 2^63 - 1, got {self.seed}")
        if not self.methods:
            object.__setattr__(self, "methods", tuple(CONSTRUCTIONS))
        if len(set(self.methods)) < len(self.methods):
            raise UsageError(f"a method is named twice: {', '.join(self.methods)}")
        parse_methods(self.methods)

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
        options[option] = _number(value)
    import torch

    # on tables of nothing, so that a bad option is refused before any work is done
    nothing = torch.zeros(2, 2)
    construct(name, PairConditionals.from_logits(nothing, nothing), **options | _harmless(options))
    return Method(label, name, options)


def _harmless(options: dict[str, Any]) -> dict[str, Any]:
    """A pivot is a token of the model, which is not known yet: any will do."""
    return {"pivot": 0} if "pivot" in options else {}


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
