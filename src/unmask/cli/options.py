"""The options that several commands share, and the opening of the model that they name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from unmask.errors import UsageError
from unmask.progress import Progress

if TYPE_CHECKING:
    from unmask.embeddings.encoder import Encoder
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
PairHead = Annotated[
    str,
    typer.Option(
        "--pair-head",
        help="What 'unmask distill' made: a directory or file; auto (beside the weights, if there); or none.",
    ),
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
Texts = Annotated[
    str, typer.Argument(help="A file with a text per line, or .jsonl with text or words; - for stdin.")
]
Top = Annotated[int, typer.Option("--top", "-t", min=1, help="How many fillings to show.")]


@dataclass(frozen=True)
class EncoderOptions:
    """The model that a command names, and how it is opened; `query_options` makes options of the fields."""

    model: Model = "english"
    device: Device = "auto"
    allow_pickle: AllowPickle = False

    def encoder(self) -> Encoder:
        """Open the model's encoder."""
        from unmask.embeddings.encoder import Encoder

        return Encoder.load(self.model, device=self.device, allow_pickle=self.allow_pickle)


@dataclass(frozen=True)
class ModelOptions(EncoderOptions):
    """The same for commands that run the whole model, within a budget of memory."""

    memory: Memory = "4GB"
    pair_head: PairHead = "auto"

    @property
    def loading(self) -> dict[str, Any]:
        """How the model is opened: the keyword arguments of `unmask.load`."""
        head = None if self.pair_head == "none" else self.pair_head
        opened = {"device": self.device, "memory": self.memory, "allow_pickle": self.allow_pickle}
        return opened | {"pair_head": head}

    def open(self, bar: Progress) -> MaskedLM:
        """Open the model."""
        bar.started("loading the model", 0)
        try:
            from unmask.models.masked_lm import MaskedLM

            return MaskedLM.load(self.model, **self.loading)
        finally:
            bar.finished()

    def open_language_model(self, bar: Progress) -> MaskedLM | CausalLM:
        """Open the model, masked or causal."""
        bar.started("loading the model", 0)
        try:
            from unmask.models.load import load_language_model

            return load_language_model(self.model, **self.loading)
        finally:
            bar.finished()


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
