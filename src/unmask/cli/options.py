"""The options that several commands share, and the opening of the model that they name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from unmask.errors import UsageError
from unmask.inference.query import LARGEST_SEED, SPECS
from unmask.progress import Progress

if TYPE_CHECKING:
    from unmask.models.causal_lm import CausalLM
    from unmask.models.masked_lm import MaskedLM

Model = Annotated[
    str, typer.Option("--model", "-m", help="'english' (embedded), a directory, or a hub name.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Memory = Annotated[str, typer.Option("--memory", help="What the work may take beyond the model, as in 4GB.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Read pickled weights, which can run code.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Ray workers [default: one for each GPU, or CPU].")
]
Seed = Annotated[int, typer.Option(*SPECS["seed"].flags, min=0, max=LARGEST_SEED, help=SPECS["seed"].help)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Spread the work over a Ray cluster: one started here, or that of the address (or 'auto').",
    ),
]
Top = Annotated[int, typer.Option("--top", "-t", min=1, help="How many fillings to show.")]


class SpreadCommand(TyperCommand):
    """A command with `--ray [ADDRESS]`; without an address, a cluster is started on this machine.

    typer has no options whose value may be left out, so the value is put in before it reads the arguments.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments, after `local` has been put behind a bare `--ray`."""
        return super().parse_args(ctx, with_local_cluster(args))


def with_local_cluster(arguments: list[str]) -> list[str]:
    """Put `local` behind a `--ray` that nothing, another option or a file follows."""
    full: list[str] = []
    for i, argument in enumerate(arguments):
        if argument == "--":  # from here on everything is an argument, whatever it looks like
            return full + arguments[i:]
        full.append(argument)
        if argument == "--ray":
            after = arguments[i + 1] if i + 1 < len(arguments) else "-"
            if after.startswith("-") or Path(after).exists():
                full.append("local")
    return full


def refuse_given(ctx: typer.Context, names: Iterable[str], why: str) -> None:
    """Refuse options (by their parameters' names) that were given and that nothing would heed."""
    for parameter in ctx.command.params:
        source = ctx.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is not None and source.name != "DEFAULT":
            raise UsageError(f"{parameter.opts[0]} {why}")


def check_place(out: Path) -> None:
    """Refuse a file that can't be written, before hours of work have gone into what it is to hold."""
    if out.is_dir():
        raise UsageError(f"'{out}' is a directory: give the name of a file in it")
    if not out.parent.is_dir():
        raise UsageError(
            f"there is no directory '{out.parent}' for '{out.name}': make it, or give another name"
        )


def parse_names(given: str) -> tuple[str, ...]:
    """Return names that stand between commas."""
    return tuple(name.strip() for name in given.split(","))


def open_language_model(
    model: str, device: str, memory: str, allow_pickle: bool, bar: Progress
) -> MaskedLM | CausalLM:
    """Open the model that a command names, masked or causal."""
    bar.started("loading the model", 0)
    try:
        from unmask.models.load import load_language_model

        return load_language_model(model, device=device, memory=memory, allow_pickle=allow_pickle)
    finally:
        bar.finished()


def open_model(model: str, device: str, memory: str, allow_pickle: bool, bar: Progress) -> MaskedLM:
    """Open the model that a command names."""
    bar.started("loading the model", 0)
    try:
        from unmask.models.load import load

        return load(model, device=device, memory=memory, allow_pickle=allow_pickle)
    finally:
        bar.finished()
