"""Lists of allowed words as a person gives them: one for all blanks, or one per blank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unmask.values import Text, ValueKind, Whole


@dataclass(frozen=True)
class TargetLists(ValueKind):
    """One list of words (or of token ids), or a list of such lists, kept as a tuple of tuples; or None."""

    longest: int | None = None
    """The most characters of a word."""
    expected: str = (
        "a list of different words (or of token ids), or one such list per blank, "
        "as [['he', 'she'], ['was', 'were']]"
    )

    @property
    def schema(self) -> dict[str, Any]:
        """An array, or an array of arrays; null for none."""
        lists = [
            {"type": "array", "items": kind.schema, "minItems": 1, "uniqueItems": True}
            for kind in self._kinds
        ]
        return {
            "anyOf": [*lists, {"type": "array", "items": {"anyOf": lists}, "minItems": 1}, {"type": "null"}]
        }

    @property
    def _kinds(self) -> tuple[ValueKind, ValueKind]:
        return Text(1, self.longest), Whole(0)

    def accept(self, value: Any) -> tuple[tuple[str | int, ...], ...] | None:
        """Return a tuple of tuples, one for all blanks or one per blank."""
        if value is None:
            return None
        given = _listed(value)
        if all(isinstance(one, list | tuple) for one in given):
            return tuple(self._one_list(_listed(one)) for one in given)
        return (self._one_list(given),)

    def _one_list(self, given: list[Any]) -> tuple[str | int, ...]:
        words, ids = self._kinds
        kind = words if all(isinstance(one, str) for one in given) else ids
        accepted = tuple(kind.accept(one) for one in given)
        if len(set(accepted)) < len(accepted) or any(str(one).isspace() for one in accepted):
            raise ValueError
        return accepted


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
