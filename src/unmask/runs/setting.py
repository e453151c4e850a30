"""A field of a settings dataclass that carries the help of its command-line option."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any


def setting(default: Any, help: str, *flags: str) -> Any:
    """Return a dataclass field; `flags` are those of its option where they differ from its name.

    A class as default, such as `dict`, is called for each record.
    """
    metadata = {"help": help, "flags": flags}
    if isinstance(default, type):
        factory: Callable[[], Any] = default
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)
