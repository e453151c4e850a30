"""Kinds of values that only requests have: texts, tokens by their blanks, two blanks."""

from __future__ import annotations

import re
from typing import Any

from unmask.values import ValueKind, Whole


def TextOrList(one: ValueKind) -> ValueKind:
    """Return the kind of a text, or of a list of at least one."""

    def accept(value: Any) -> Any:
        if not isinstance(value, list):
            return one.accept(value)
        if not value:
            raise ValueError
        return [one.accept(text) for text in value]

    several = {"type": "array", "items": one.schema, "minItems": 1}
    told = f"{one.expected}, or a list of at least one"
    return ValueKind(accept, lambda: (told, {"anyOf": [one.schema, several]}))


def TokensByBlank(token: ValueKind) -> ValueKind:
    """Return the kind of tokens that some blanks hold, by the blanks' numbers."""

    def accept(value: Any) -> dict[str, str | int]:
        if not isinstance(value, dict) or not all(re.fullmatch("[0-9]{1,4}", blank) for blank in value):
            raise TypeError
        return {blank: token.accept(held) for blank, held in value.items()}

    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]{1,4}$"},
        "additionalProperties": token.schema,
    }
    return ValueKind(accept, lambda: ("tokens by the numbers of their blanks, as {'0': 'man'}", schema))


def TwoBlanks() -> ValueKind:
    """Return the kind of two different blanks, by their numbers."""

    def accept(value: Any) -> list[int]:
        first, second = (Whole(0).accept(number) for number in value)
        if first == second or not isinstance(value, list):
            raise ValueError
        return [first, second]

    schema = {"type": "array", "items": Whole(0).schema, "minItems": 2, "maxItems": 2, "uniqueItems": True}
    return ValueKind(accept, lambda: ("the numbers of two different blanks, as [0, 1]", schema))
