"""Command-line options derived from the fields of a settings dataclass: name, type, default and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import typer

from unmask.values import ValueKind


def with_settings(
    settings: type,
    *,
    leave_out: Iterable[str] = (),
    defaults: Mapping[str, Any] | None = None,
    may_be_absent: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, in place of its `**given`, an option for each field of a settings dataclass.

    Args:
        settings: the dataclass; its fields are made by `unmask.values.setting`.
        leave_out: fields that are no options, or that the command declares by itself.
        defaults: those of this command where they differ from the field's.
        may_be_absent: an option that is not given is None, for settings that a file may hold, too.
    """
    hints = get_type_hints(settings)
    chosen = [entry for entry in fields(settings) if entry.name not in set(leave_out)]
    changed = defaults or {}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for entry in chosen:
            default = changed.get(entry.name, entry.default)
            hint = hints[entry.name]
            from_string = get_origin(hint) is Literal or _of_several_kinds(entry.metadata["kind"])
            kind = str if from_string else hint
            option = _option(entry, default if may_be_absent else None)
            parameters.append(
                inspect.Parameter(
                    entry.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    annotation=Annotated[kind | None if may_be_absent else kind, option],
                    default=None if may_be_absent else default,
                )
            )
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return command

    return decorate


def _option(entry: Field[Any], default: Any) -> Any:
    """Return the option of a field; a default that typer can't know is told in the help."""
    help = entry.metadata["help"]
    if default is not None and default != "" and not isinstance(default, bool):
        help = f"{help.removesuffix('.')} [default: {default}]."
    kind = entry.metadata["kind"]
    if _of_several_kinds(kind):
        return typer.Option(*entry.metadata["flags"], help=help, parser=kind.parse, metavar="VALUE")
    return typer.Option(*entry.metadata["flags"], help=help)


def _of_several_kinds(kind: ValueKind | None) -> bool:
    """Whether values of several Python types are taken, so that only the kind can read a string."""
    return kind is not None and kind.of is None
