"""The options of constructions, described where they are declared: in the signature of the class.

An option is a keyword argument whose annotation carries a `Spec`: its kind, its range, one line of help. To
add an option, add the argument; Python, the command line and HTTP read its annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from typing import Annotated, Any, get_type_hints

from unmask.errors import UsageError
from unmask.values import Real, Spec, Whole, one_of

Tolerance = Annotated[
    float | None, Spec(Real(above=0), "The norm of the gradient at which the solver stops.")
]
MOST_SWEEPS = 10_000
"""Newton's method takes over long before, where sweeps crawl."""
Sweeps = Annotated[int, Spec(Whole(0, MOST_SWEEPS), "Sweeps before Newton's method takes over.")]


@cache
def declared_options(kind: type) -> dict[str, Spec]:
    """Return the options that a class of joints declares in its signature, by name."""
    hints = get_type_hints(kind.__init__, include_extras=True)  # type: ignore[misc]
    return {
        name: spec
        for name, hint in hints.items()
        for spec in getattr(hint, "__metadata__", ())
        if isinstance(spec, Spec)
    }


def check_options(what: str, kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a class of joints as it takes them; `what` names it in an error."""
    known, parameters = declared_options(kind), signature(kind).parameters
    checked = {}
    for name, value in options.items():
        if name not in known:
            raise unknown_option(what, name, known)
        if value is not None or parameters[name].default is not None:
            checked[name] = known[name].kind.check(f"option '{name}' of {what}", value)
    return checked


def unknown_option(what: str, name: object, known: Mapping[str, Spec]) -> UsageError:
    """Return the error of an option that there is not."""
    return UsageError(f"{what} has no option '{name}': expected {one_of(known)}")
