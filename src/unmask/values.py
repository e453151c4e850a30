"""Kinds of values that a person gives: what is accepted, how it is read from a string, its JSON schema.

A `Spec` describes one value: its kind, one line of help and its flags on a command line. The fields of
`unmask.inference.query.Query` and the options of constructions carry one each; the Python functions, the
command line and the HTTP schema are derived from it.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from unmask.errors import UsageError

LONGEST_SHOWN = 60


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


class ValueKind(ABC):
    """What a value may be."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What is accepted, in words that follow "expected"."""

    @property
    @abstractmethod
    def schema(self) -> dict[str, Any]:
        """What is accepted, as JSON schema."""

    @abstractmethod
    def accept(self, value: Any) -> Any:
        """Return the value in its plain Python form; a ValueError or TypeError says that it does not fit."""

    number: ClassVar[type[int | float] | None] = None
    """What a command line's string is read as, where that is a number."""

    def parse(self, text: str) -> Any:
        """Read a string of a command line; what can't be read stays a string, for `accept` to judge."""
        try:
            return text if self.number is None else self.number(text)
        except ValueError:
            return text

    def read(self, value: object) -> Any:
        """Return the accepted value, or raise a ValueError that says what was expected and what came."""
        try:
            return self.accept(value)
        except UnicodeEncodeError as error:
            raise ValueError(
                f"not valid Unicode from character {error.start + 1} on: write it in UTF-8"
            ) from None
        except (ValueError, TypeError):
            raise ValueError(f"expected {self.expected}, got {shown(value)}") from None

    def check(self, name: str, value: object) -> Any:
        """Return the accepted value of that name, or raise a UsageError of one line."""
        try:
            return self.read(value)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None


@dataclass(frozen=True)
class Whole(ValueKind):
    """A whole number; numpy's are accepted, truth values are not."""

    number = int
    minimum: int = 0
    maximum: int | None = None

    @property
    def expected(self) -> str:
        """The range."""
        if self.maximum is None:
            return f"a whole number from {self.minimum} on"
        most = "2^63 - 1" if self.maximum == 2**63 - 1 else self.maximum
        return f"a whole number from {self.minimum} to {most}"

    @property
    def schema(self) -> dict[str, Any]:
        """An integer."""
        most = {} if self.maximum is None else {"maximum": self.maximum}
        return {"type": "integer", "minimum": self.minimum, **most}

    def accept(self, value: Any) -> int:
        """Return an int."""
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
        if number < self.minimum or (self.maximum is not None and number > self.maximum):
            raise ValueError
        return number


@dataclass(frozen=True)
class Real(ValueKind):
    """A finite number, from `minimum` on or `above` it."""

    number = float
    minimum: float = -math.inf
    maximum: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    @property
    def expected(self) -> str:
        """The range."""
        bounds = [
            (self.minimum, "from"),
            (self.above, "above"),
            (self.maximum, "to"),
            (self.below, "below"),
        ]
        return " ".join(["a number", *(f"{word} {n:g}" for n, word in bounds if math.isfinite(n))])

    @property
    def schema(self) -> dict[str, Any]:
        """A number."""
        names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        bounds = zip(names, (self.minimum, self.maximum, self.above, self.below), strict=True)
        return {"type": "number", **{name: n for name, n in bounds if math.isfinite(n)}}

    def accept(self, value: Any) -> int | float:
        """Return an int or a float."""
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = value if isinstance(value, int) else float(value)
        if not (math.isfinite(number) and self.minimum <= number <= self.maximum):
            raise ValueError
        if not self.above < number < self.below:
            raise ValueError
        return number


@dataclass(frozen=True)
class Truth(ValueKind):
    """True or False, and no number for it."""

    expected = "True or False"
    schema = {"type": "boolean"}  # noqa: RUF012  # a property of the base

    def accept(self, value: Any) -> bool:
        """Return a bool."""
        if not isinstance(value, bool):
            raise TypeError
        return value


@dataclass(frozen=True)
class Text(ValueKind):
    """A string without halves of characters (lone surrogates), which no tokenizer reads."""

    shortest: int = 0
    longest: int | None = None
    expected: str = "one text, as a string of whole characters"

    @property
    def schema(self) -> dict[str, Any]:
        """A string."""
        most = {} if self.longest is None else {"maxLength": self.longest}
        return {"type": "string", **({"minLength": self.shortest} if self.shortest else {}), **most}

    def accept(self, value: Any) -> str:
        """Return a str."""
        if not isinstance(value, str):
            raise TypeError
        value.encode()  # a UnicodeEncodeError is a ValueError
        if len(value) < self.shortest or (self.longest is not None and len(value) > self.longest):
            raise ValueError
        return str(value)


@dataclass(frozen=True)
class Word(ValueKind):
    """One of several words; a function gives them where they are not known at import."""

    choices: tuple[str, ...] | Callable[[], Iterable[str]]

    @property
    def words(self) -> tuple[str, ...]:
        """The words."""
        return tuple(self.choices() if callable(self.choices) else self.choices)

    @property
    def expected(self) -> str:
        """The words."""
        return one_of(f"'{word}'" for word in self.words)

    @property
    def schema(self) -> dict[str, Any]:
        """An enumeration."""
        return {"type": "string", "enum": list(self.words)}

    def accept(self, value: Any) -> str:
        """Return one of the words."""
        if not isinstance(value, str) or value not in self.words:
            raise ValueError
        return str(value)


@dataclass(frozen=True)
class Either(ValueKind):
    """A value of one of several kinds: the first that accepts it."""

    kinds: tuple[ValueKind, ...]

    @property
    def expected(self) -> str:
        """What each expects."""
        return ", or ".join(kind.expected for kind in self.kinds)

    @property
    def schema(self) -> dict[str, Any]:
        """Any of the schemas."""
        return {"anyOf": [kind.schema for kind in self.kinds]}

    def accept(self, value: Any) -> Any:
        """Return what the first kind makes of it."""
        for kind in self.kinds:
            try:
                return kind.accept(value)
            except (ValueError, TypeError):
                continue
        raise ValueError

    def parse(self, text: str) -> Any:
        """Read it as the first kind that does not leave it a string."""
        return next((found for kind in self.kinds if (found := kind.parse(text)) != text), text)


@dataclass(frozen=True)
class Interval(ValueKind):
    """Two numbers, the lower one first; on a command line LOW,HIGH."""

    expected = "a range of two numbers, the lower one first"
    schema = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}  # noqa: RUF012

    def accept(self, value: Any) -> tuple[float, float]:
        """Return a pair of floats."""
        if isinstance(value, str | bytes | Mapping):
            raise TypeError
        low, high = (float(Real().accept(one)) for one in value)
        if low > high:
            raise ValueError
        return low, high

    def parse(self, text: str) -> Any:
        """Read two numbers with a comma between them."""
        low, comma, high = text.partition(",")
        try:
            return (float(low), float(high)) if comma else text
        except ValueError:
            return text


def token_kind(longest: int | None = None) -> Either:
    """Return the kind of one token: a string, or an id."""
    return Either((Text(1, longest, "a token as a string"), Whole(0)))


@dataclass(frozen=True)
class Several(ValueKind):
    """A list of values of one kind, kept as a tuple."""

    kind: ValueKind
    what: str

    @property
    def expected(self) -> str:
        """What it is a list of."""
        return f"a list of {self.what}"

    @property
    def schema(self) -> dict[str, Any]:
        """An array."""
        return {"type": "array", "items": self.kind.schema}

    def accept(self, value: Any) -> tuple[Any, ...]:
        """Return a tuple."""
        if isinstance(value, str | bytes | Mapping):
            raise TypeError
        return tuple(self.kind.accept(one) for one in value)


@dataclass(frozen=True)
class Spec:
    """One value described: its kind, one line of help, and its flags on a command line."""

    kind: ValueKind
    help: str
    flags: tuple[str, ...] = ()
