"""The options of a command that are derived: the fields of a query, and those of the model that is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

from unmask.errors import UsageError
from unmask.inference.query import DEFAULTS, SPECS
from unmask.inference.target_lists import parse_targets

Command = Callable[..., None]
WRITTEN_AS = {"options": "NAME=VALUE", "targets": "WORD,WORD"}
"""How a command line writes the values of a list."""


def query_options(*names: str) -> Callable[[Command], Command]:
    """Give a command an option per named field of a query; it gets the values by name in its `**query`.

    A parameter whose type is a dataclass, as `source: ModelOptions`, becomes an option per field.
    """

    def derive(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [p for p in signature(command).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        records = {p.name: _fields_of(hints[p.name]) for p in own if is_dataclass(hints[p.name])}
        plain = [p.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
        listed = (one for p in plain for one in records.get(p.name, [p]))
        parameters = sorted(
            [*map(_parameter, names), *listed], key=lambda p: p.default is not Parameter.empty
        )

        @wraps(command)
        def with_query(**given: Any) -> None:
            for name, parts in records.items():
                given[name] = hints[name](**{part.name: given.pop(part.name) for part in parts})
            command(**{name: _read(name, value) if name in names else value for name, value in given.items()})

        with_query.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
        with_query.__annotations__ = {p.name: p.annotation for p in parameters}
        return with_query

    return derive


def _fields_of(record: Any) -> list[Parameter]:
    """Return the fields of a dataclass as parameters."""
    hints = get_type_hints(record, include_extras=True)
    return [
        Parameter(f.name, Parameter.KEYWORD_ONLY, default=f.default, annotation=hints[f.name])
        for f in fields(record)
    ]


def _parameter(name: str) -> Parameter:
    """Return a field as typer declares it; strings are read when the command runs."""
    spec, default = SPECS[name], DEFAULTS[name]
    if not spec.flags:
        kind: Any = Annotated[str, typer.Argument(help=spec.help)]
        return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind)
    option: dict[str, Any] = {"help": spec.help}
    of: Any = str
    if spec.kind.of is bool:
        of = bool
    elif spec.kind.of is int:
        bounds = spec.kind.schema
        of, option = int, option | {"min": bounds["minimum"], "max": bounds.get("maximum")}
    elif spec.kind.of in (tuple, dict):
        of, default = list[str] | None, None
        option |= {"metavar": WRITTEN_AS[name]} if name in WRITTEN_AS else {}
    kind = Annotated[of, typer.Option(*spec.flags, **option)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _read(name: str, given: Any) -> Any:
    """Return the value of a field from what was given on the command line."""
    if given is None:
        return DEFAULTS[name]
    if name == "options":
        return parse_options(given)
    if name == "targets":
        return parse_targets(given)
    return SPECS[name].kind.parse(given) if isinstance(given, str) else given


def parse_options(given: list[str]) -> dict[str, Any]:
    """Return the options of a construction, each given as NAME=VALUE."""
    from unmask.inference.methods import parse_option

    parsed: dict[str, Any] = {}
    for option in given:
        name, sign, value = option.partition("=")
        if not (name.isidentifier() and sign and value):
            raise UsageError(f"expected an option of the construction as NAME=VALUE, got '{option}'")
        if name in SPECS and SPECS[name].flags:
            raise UsageError(f"'{name}' is no option of a construction: give it as {SPECS[name].flags[0]}")
        parsed[name] = parse_option(name, value)
    return parsed
