"""Lists of allowed words as a person gives them: one for all blanks, or one per blank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unmask.values import Text, ValueKind, Whole

EXPECTED = (
    "a list of different words (or of token ids), or one such list per blank, "
    "as [['he', 'she'], ['was', 'were']]"
)


def TargetLists(longest: int | None = None) -> ValueKind:
    """Return the kind of one list of words (or of token ids), or of a list of such lists; or None.

    They are kept as a tuple of tuples. `longest` is the most characters of a word.
    """
    words, ids = Text(1, longest), Whole(0)

    def one_list(given: list[Any]) -> tuple[str | int, ...]:
        kind = words if all(isinstance(one, str) for one in given) else ids
        accepted = tuple(kind.accept(one) for one in given)
        if len(set(accepted)) < len(accepted) or any(str(one).isspace() for one in accepted):
            raise ValueError
        return accepted

    def accept(value: Any) -> tuple[tuple[str | int, ...], ...] | None:
        if value is None:
            return None
        given = _listed(value)
        if all(isinstance(one, list | tuple) for one in given):
            return tuple(one_list(_listed(one)) for one in given)
        return (one_list(given),)

    def describe() -> tuple[str, dict[str, Any]]:
        lists = [
            {"type": "array", "items": kind.schema, "minItems": 1, "uniqueItems": True}
            for kind in (words, ids)
        ]
        several = {"type": "array", "items": {"anyOf": lists}, "minItems": 1}
        return EXPECTED, {"anyOf": [*lists, several, {"type": "null"}]}

    return ValueKind(accept, describe, tuple)


def _listed(value: Any) -> list[Any]:
    """Return the items of a list that is not empty."""
    if isinstance(value, str | bytes | Mapping):
        raise TypeError
    items = list(value)
    if not items:
        raise ValueError
    return items


def parse_targets(given: list[str]) -> list[list[str]]:
    """Read the lists of a command line, each given as WORD,WORD."""
    return [[word.strip() for word in one.split(",")] for one in given]
