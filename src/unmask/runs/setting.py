"""A field of a settings dataclass that carries the help of its command-line option, and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from types import UnionType
from typing import Any, get_args, get_type_hints

from unmask.values import Real, Text, Truth, ValueKind, Whole

KINDS: dict[Any, ValueKind] = {int: Whole(), float: Real(), bool: Truth(), str: Text(expected="a text")}
"""What a field of a type may be unless it says more."""


def setting(default: Any, help: str, *flags: str, kind: ValueKind | None = None) -> Any:
    """Return a dataclass field; `flags` are those of its option where they differ from its name.

    A class as default, such as `dict`, is called for each record. A field whose default is None may be None.
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
