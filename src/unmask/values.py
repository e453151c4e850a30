"""Kinds of values that a person gives: what is accepted, how it is read from a string, its JSON schema.

A `Spec` describes one value: its kind, one line of help and its flags on a command line. The fields of
`unmask.inference.query.Query` and the options of constructions have one each; the Python functions, the
command line and the HTTP schema are derived from it. The settings of runs are fields of the same make.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import Any, get_args, get_type_hints

from unmask.errors import UsageError

LONGEST_SHOWN = 60
MISFITS = (ArithmeticError, RuntimeError, TypeError, ValueError)
"""How numbers, arrays and tensors say that they can't be turned into what is wanted."""


def shown(value: object) -> str:
    """Return a value as an error message shows it: on one line, and not too long."""
    try:
        told = " ".join(repr(value).split())
    except ValueError:  # a number of more digits than Python writes
        told = f"a number of {value.bit_length()} bits" if isinstance(value, int) else type(value).__name__
    return told if len(told) <= LONGEST_SHOWN else told[: LONGEST_SHOWN - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Return a number of things in words: 1 token, 2 tokens."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def one_of(words: Iterable[str]) -> str:
    """Return a choice in words: a, b or c."""
    *most, last = list(words) or ["none"]
    return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True, eq=False)
class ValueKind:
    """What a value may be.

    Attributes:
        accept: returns the value in its plain Python form; one of the `MISFITS` says that it does not fit.
        describe: returns what is accepted, in words that follow "expected" and as JSON schema.
        of: what Python type the accepted values have, where they have one.
        parse: reads a string of a command line; what can't be read stays a string, for `accept` to judge.
    """

    accept: Callable[[Any], Any]
    describe: Callable[[], tuple[str, dict[str, Any]]]
    of: type | None = None
    parse: Callable[[str], Any] = str

    @property
    def expected(self) -> str:
        """What is accepted, in words that follow "expected"."""
        return self.describe()[0]

    @property
    def schema(self) -> dict[str, Any]:
        """What is accepted, as JSON schema."""
        return self.describe()[1]

    def read(self, value: object) -> Any:
        """Return the accepted value, or raise a ValueError that says what was expected and what came."""
        try:
            return self.accept(value)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"not valid Unicode from character {error.start + 1} on: write it in UTF-8"
            ) from None
        except MISFITS:
            raise ValueError(f"expected {self.expected}, got {shown(value)}") from None

    def check(self, name: str, value: object) -> Any:
        """Return the accepted value of that name, or raise a UsageError of one line."""
        try:
            return self.read(value)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None


def _parsed_as(number: type[int | float]) -> Callable[[str], Any]:
    def parse(text: str) -> int | float | str:
        try:
            return number(text)
        except ValueError:
            return text

    return parse


def Whole(minimum: int = 0, maximum: int | None = None) -> ValueKind:
    """Return the kind of a whole number; numpy's are accepted, truth values are not."""

    def accept(value: Any) -> int:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if number < minimum or (maximum is not None and number > maximum):
            raise ValueError
        return number

    most = "2^63 - 1" if maximum == 2**63 - 1 else maximum
    told = f"a whole number from {minimum} " + ("on" if maximum is None else f"to {most}")
    bounds = {"minimum": minimum} | ({} if maximum is None else {"maximum": maximum})
    return ValueKind(accept, lambda: (told, {"type": "integer", **bounds}), int, _parsed_as(int))


def Real(
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> ValueKind:
    """Return the kind of a finite number, from `minimum` on or `above` it."""

    def accept(value: Any) -> int | float:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = value if isinstance(value, int) else float(value)
        if not (math.isfinite(number) and minimum <= number <= maximum and above < number < below):
            raise ValueError
        return number

    bounds = [
        ("from", "minimum", minimum),
        ("above", "exclusiveMinimum", above),
        ("to", "maximum", maximum),
        ("below", "exclusiveMaximum", below),
    ]
    given = [(word, name, bound) for word, name, bound in bounds if math.isfinite(bound)]
    told = " ".join(["a number", *(f"{word} {bound:g}" for word, _, bound in given)])
    schema = {"type": "number", **{name: bound for _, name, bound in given}}
    return ValueKind(accept, lambda: (told, schema), float, _parsed_as(float))


def Truth() -> ValueKind:
    """Return the kind of True and False, for which no number stands."""

    def accept(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    return ValueKind(accept, lambda: ("True or False", {"type": "boolean"}), bool)


def Text(
    shortest: int = 0,
    longest: int | None = None,
    expected: str = "one text, as a string of whole characters",
) -> ValueKind:
    """Return the kind of a string without lone surrogates, halves of characters that no tokenizer reads."""

    def accept(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError
        value.encode()  # a UnicodeEncodeError is a ValueError
        if len(value) < shortest or (longest is not None and len(value) > longest):
            raise ValueError
        return str(value)

    bounds = {"minLength": shortest or None, "maxLength": longest}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return ValueKind(accept, lambda: (expected, {"type": "string", **given}), str)


def Word(choices: tuple[str, ...] | Callable[[], Iterable[str]]) -> ValueKind:
    """Return the kind of one of several words; a function gives them where they are not known at import."""

    def words() -> list[str]:
        return list(choices() if callable(choices) else choices)

    def accept(value: Any) -> str:
        if not isinstance(value, str) or value not in words():
            raise ValueError
        return str(value)

    def describe() -> tuple[str, dict[str, Any]]:
        return one_of(f"'{word}'" for word in words()), {"type": "string", "enum": words()}

    return ValueKind(accept, describe, str)


def Either(*kinds: ValueKind) -> ValueKind:
    """Return the kind of a value of one of several kinds: the first that accepts it."""

    def accept(value: Any) -> Any:
        for kind in kinds:
            try:
                return kind.accept(value)
            except MISFITS:
                continue
        raise ValueError

    def describe() -> tuple[str, dict[str, Any]]:
        told = ", or ".join(kind.expected for kind in kinds)
        return told, {"anyOf": [kind.schema for kind in kinds]}

    def parse(text: str) -> Any:
        return next((found for kind in kinds if (found := kind.parse(text)) != text), text)

    return ValueKind(accept, describe, parse=parse)


def Interval() -> ValueKind:
    """Return the kind of two numbers, the lower one first; on a command line LOW,HIGH."""

    def accept(value: Any) -> tuple[float, float]:
        if isinstance(value, str | bytes | Mapping):
            raise TypeError
        low, high = (float(Real().accept(one)) for one in value)
        if low > high:
            raise ValueError
        return low, high

    def parse(text: str) -> Any:
        low, comma, high = text.partition(",")
        try:
            return (float(low), float(high)) if comma else text
        except ValueError:
            return text

    pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    return ValueKind(accept, lambda: ("a range of two numbers, the lower one first", pair), parse=parse)


def Several(kind: ValueKind, what: str) -> ValueKind:
    """Return the kind of a list of values of one kind, kept as a tuple."""

    def accept(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str | bytes | Mapping):
            raise TypeError
        return tuple(kind.accept(one) for one in value)

    return ValueKind(accept, lambda: (f"a list of {what}", {"type": "array", "items": kind.schema}), tuple)


def token_kind(longest: int | None = None) -> ValueKind:
    """Return the kind of one token: a string, or an id."""
    return Either(Text(1, longest, "a token as a string"), Whole(0))


@dataclass(frozen=True)
class Spec:
    """One value described: its kind, one line of help, and its flags on a command line."""

    kind: ValueKind
    help: str
    flags: tuple[str, ...] = ()


KINDS: dict[Any, ValueKind] = {int: Whole(), float: Real(), bool: Truth(), str: Text(expected="a text")}
"""What a field of a type may be unless it says more."""


def setting(default: Any, help: str, *flags: str, kind: ValueKind | None = None) -> Any:
    """Return a dataclass field that carries the help and the kind of its option.

    `flags` are those of the option where they differ from its name. A class as default, such as `dict`, is
    called for each record. A field whose default is None may be None.
    """
    metadata = {"help": help, "flags": flags, "kind": kind}
    if isinstance(default, type):
        factory: Callable[[], Any] = default
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def check_settings(settings: Any) -> None:
    """Bring every field of a settings record to its plain form; raise for one that is not of its kind."""
    hints = get_type_hints(type(settings))
    for entry in fields(settings):
        hint = hints[entry.name]
        # the first of `int | None`, or of `float | tuple[float, float]`
        hint = get_args(hint)[0] if isinstance(hint, UnionType) else hint
        kind, value = entry.metadata.get("kind") or KINDS.get(hint), getattr(settings, entry.name)
        if kind is not None and not (value is None and entry.default is None):
            value = kind.check(entry.name, value)
            whole = hint is float and isinstance(value, int)
            object.__setattr__(settings, entry.name, float(value) if whole else value)


def check_method(method: object, known: Iterable[str]) -> None:
    """Refuse a method that is not among the known ones."""
    names = tuple(known)
    if not isinstance(method, str) or method not in names:
        raise UsageError(f"unknown method {shown(method)}: expected one of {', '.join(names)}")
