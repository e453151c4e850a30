"""The options that several commands share, and the opening of the model that they name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from unmask.errors import UsageError
from unmask.progress import Progress

if TYPE_CHECKING:
    from unmask.models.masked_lm import MaskedLM

Text = Annotated[str, typer.Argument(help="A text with blanks: [MASK], ___ or the model's own mask token.")]
Model = Annotated[
    str, typer.Option("--model", "-m", help="'english' (embedded), a directory, or a hub name.")
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="The construction of the joint ('unmask compare' shows them); for three or more blanks also "
        "grid or chain.",
    ),
]
PairMethod = Annotated[
    str, typer.Option("--method", help="The construction of the joint ('unmask compare' shows them).")
]
Candidates = Annotated[
    str,
    typer.Option(
        "--candidates", "-k", help="Tokens a blank the model is asked about: a number, all, or auto."
    ),
]
Completion = Annotated[
    str, typer.Option("--completion", help="How the other tokens are completed: learned or plain.")
]
SupportName = Annotated[
    str,
    typer.Option(
        "--support",
        help="Tokens a blank may hold: auto, words (no special ones), all, or a number of likeliest ones.",
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option("--include", help="A word that the model is asked about in any case, however unlikely."),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Of the construction, as NAME=VALUE: pivot, order, power, rounds, tolerance, sweeps; of the "
        "chain of three or more blanks: order, block, beam, pairs.",
    ),
]
PairOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", help="Of the construction, as NAME=VALUE: pivot, order, power, rounds, tolerance, sweeps."
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of whatever is drawn at random.")
]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Drop the end of a text longer than the model's window.")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]
Memory = Annotated[str, typer.Option("--memory", help="What the work may take beyond the model, as in 4GB.")]
AllowPickle = Annotated[
    bool, typer.Option("--allow-pickle", help="Read pickled weights, which can run code.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Ray workers [default: one for each GPU, or CPU].")
]
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

RESERVED = (
    "text",
    "mlm",
    "method",
    "candidates",
    "completion",
    "support",
    "include",
    "seed",
    "truncate",
    "progress",
)


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


def parse_candidates(given: str) -> Any:
    """Return the number of candidates, or the word `all` or `auto`."""
    if given in ("all", "auto"):
        return given
    try:
        return int(given)
    except ValueError:
        raise UsageError(f"expected a number of candidates, all or auto, got '{given}'") from None


def parse_names(given: str) -> tuple[str, ...]:
    """Return names that stand between commas."""
    return tuple(name.strip() for name in given.split(","))


def parse_support(given: str) -> int | str:
    """Return a number of likeliest tokens, or the name of a support."""
    return int(given) if given.isdecimal() else given


def parse_options(given: list[str] | None) -> dict[str, Any]:
    """Return the options of a construction, numbers as numbers."""
    parsed: dict[str, Any] = {}
    for option in given or []:
        name, sign, value = option.partition("=")
        if not (name.isidentifier() and sign and value):
            raise UsageError(f"expected an option of the construction as NAME=VALUE, got '{option}'")
        if name in RESERVED:
            raise UsageError(f"'{name}' is no option of a construction: give it as --{name}")
        parsed[name] = _number(value)
    return parsed


def _number(value: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def open_model(model: str, device: str, memory: str, allow_pickle: bool, bar: Progress) -> MaskedLM:
    """Open the model that a command names."""
    bar.started("loading the model", 0)
    try:
        from unmask.models.load import load

        return load(model, device=device, memory=memory, allow_pickle=allow_pickle)
    finally:
        bar.finished()


def ask(
    question: str,
    text: str,
    *,
    model: str,
    device: str,
    memory: str,
    allow_pickle: bool,
    candidates: str,
    support: str,
    options: list[str] | None = None,
    **settings: Any,
) -> tuple[Any, MaskedLM]:
    """Open the model that a command names and call the function of `unmask.api` of that name."""
    from unmask.cli.terminal import Bar

    bar = Bar()
    count, tokens = parse_candidates(candidates), parse_support(support)
    settings |= parse_options(options)
    mlm = open_model(model, device, memory, allow_pickle, bar)
    from unmask import api

    answer = getattr(api, question)(text, mlm=mlm, candidates=count, support=tokens, progress=bar, **settings)
    return answer, mlm


def require(what: str, *packages: str) -> None:
    """Refuse work whose packages are not installed."""
    from importlib.util import find_spec

    absent = [package for package in packages if find_spec(package) is None]
    if absent:
        raise UsageError(f"{what} needs {', '.join(absent)}: pip install 'unmask[train]'")
