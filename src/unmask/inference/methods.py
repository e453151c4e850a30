"""The methods that a query may name, and the options of each.

A method is a construction of pairs (`unmask.joints.registry`), or `grid`, `chain` or `tree`, which join any
number of blanks. With three or more blanks a construction joins the pairs of a chain, so it has the chain's
options, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from unmask.errors import UsageError
from unmask.joints.grid import GridJoint
from unmask.joints.options import declared_options, unknown_option
from unmask.joints.registry import CONSTRUCTIONS
from unmask.values import Several, Spec, ValueKind, Whole, Word

ORDERS = ("left-to-right", "confidence")


NUMBERS = Several(Whole(0), "blanks' numbers")


def _order(value: Any) -> Any:
    """Return a word, or the blanks' numbers; a command line writes them with commas."""
    if isinstance(value, str):
        return value if value in ORDERS else NUMBERS.accept(int(n) for n in value.split(","))
    return NUMBERS.accept(value if isinstance(value, list | tuple) else [value])


BLANK_ORDER = ValueKind(
    _order,
    lambda: (
        "'left-to-right', 'confidence' or the blanks' numbers as 2,0,1",
        {"anyOf": [Word(ORDERS).schema, NUMBERS.schema]},
    ),
)
CHAIN_OPTIONS = {
    "order": Spec(BLANK_ORDER, "The order in which a chain fills its blanks."),
    "block": Spec(Whole(1, 2), "Blanks per block of a chain."),
    "beam": Spec(Whole(1), "Partial fillings that the search for a chain's likeliest keeps."),
    "pairs": Spec(Word(lambda: CONSTRUCTIONS), "The construction that joins a chain's blocks of two."),
}


def _tables_of_options(method: str, pairs: object) -> Iterator[Mapping[str, Spec]]:
    """Yield the options of a method, its own first, then what it has where it joins the pairs of a chain."""
    if method == "grid":
        yield declared_options(GridJoint)
        return
    if method == "tree":
        return
    if method in CONSTRUCTIONS:
        yield declared_options(CONSTRUCTIONS[method])
    if method != "product":
        yield CHAIN_OPTIONS
    joined = (
        pairs if isinstance(pairs, str) and pairs in CONSTRUCTIONS else "ag" if method == "chain" else None
    )
    if joined is not None:
        yield declared_options(CONSTRUCTIONS[str(joined)])


def check_method_options(method: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a method as it takes them, whatever the number of blanks.

    An option that means something for two blanks and something else for more is held to either.
    """
    tables = list(_tables_of_options(method, options.get("pairs")))
    checked = {}
    for name, value in options.items():
        specs = [table[name] for table in tables if name in table]
        if not specs:
            what = "the grid" if method == "grid" else method
            raise unknown_option(
                what, name, {known: spec for table in tables for known, spec in table.items()}
            )
        checked[name] = _first_accepted(f"option '{name}' of {method}", specs, value)
    return checked


def _first_accepted(what: str, specs: list[Spec], value: object) -> Any:
    refused: list[UsageError] = []
    for spec in specs:
        try:
            return spec.kind.check(what, value)
        except UsageError as error:
            refused.append(error)
    raise refused[0]


def parse_option(name: str, text: str) -> Any:
    """Read the value of an option of that name, whatever has it, as a command line spells it."""
    kinds = [*map(declared_options, (*CONSTRUCTIONS.values(), GridJoint))]
    known = chain.from_iterable(table.items() for table in (*kinds, CHAIN_OPTIONS))
    return next((spec.kind.parse(text) for found, spec in known if found == name), text)
