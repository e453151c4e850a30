"""`unmask train`: train or adapt a masked language model from plain text files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli.settings_options import with_settings
from unmask.cli.terminal import say, speaks
from unmask.errors import UsageError
from unmask.lazy import require
from unmask.runs.kept_memory import keep_freed_memory
from unmask.text.lines import check_file
from unmask.training.settings import Settings, read_settings

HELP = {entry.name: entry.metadata["help"] for entry in fields(Settings)}


@with_settings(
    Settings,
    leave_out=("corpora", "eval_corpora", "shares", "sentence_shares", "layers", "data_licences"),
    may_be_absent=True,
)
def train(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Directory of the run; one that holds the same run is resumed."),
    ],
    corpus: Annotated[list[str] | None, typer.Option(help=HELP["corpora"])] = None,
    eval_corpus: Annotated[list[str] | None, typer.Option(help=HELP["eval_corpora"])] = None,
    share: Annotated[list[str] | None, typer.Option(help=HELP["shares"])] = None,
    sentence_share: Annotated[list[str] | None, typer.Option(help=HELP["sentence_shares"])] = None,
    layers: Annotated[str | None, typer.Option("--layers", "-l", help=HELP["layers"])] = None,
    data_licence: Annotated[list[str] | None, typer.Option(help=HELP["data_licences"])] = None,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file of settings; the options here override it.")
    ] = None,
    **given: Any,
) -> None:
    """Train a masked language model from plain text; a killed run is resumed."""
    require("training", "train", "accelerate", "matplotlib")
    from unmask.training.corpus import Corpus

    wanted = read_settings(
        settings,
        corpora=tuple(corpus) if corpus else None,
        eval_corpora=tuple(eval_corpus) if eval_corpus else None,
        shares=_named(share, "--share", float),
        sentence_shares=_named(sentence_share, "--sentence-share", float),
        layers=None if layers is None else _numbers(layers),
        data_licences=_named(data_licence, "--data-licence", str),
        **given,
    )
    for text in (*wanted.corpora, *wanted.eval_corpora):
        check_file(Corpus.parse(text).path)
    from unmask.training import train as run
    from unmask.training.report import table

    keep_freed_memory()
    result = run(wanted, out)
    if speaks():
        say(table(result.scores))
        say(f"model: {result.model}")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError:
        raise UsageError(f"expected layers as 0,1,3,5, got '{text}'") from None


def _named(given: list[str] | None, option: str, read: Callable[[str], Any]) -> dict[str, Any] | None:
    """Read NAME=VALUE each; None where nothing is given."""
    found = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        try:
            found[name] = read(value)
        except ValueError:
            sign = ""
        if not (name and sign and value):
            raise UsageError(f"expected {option} NAME={'NUMBER' if read is float else 'TEXT'}, got '{text}'")
    return found or None
