"""Names that are imported when they are first asked for, and packages that may not be installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from unmask.errors import UsageError


def lazy_attributes(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`, given the names that each module is home to, a space between them."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def getattr_(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home_of[name]), name)

    return getattr_


def require(what: str, extra: str, *packages: str) -> None:
    """Raise unless the packages of an optional extra are installed; `what` names the work that needs them."""
    absent = [package for package in packages if find_spec(package) is None]
    if absent:
        raise UsageError(f"{what} needs {', '.join(absent)}: pip install 'unmask[{extra}]'")
