"""`unmask train`: train or adapt a masked language model from plain text files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unmask.cli import options as o
from unmask.cli.terminal import say, speaks


def train(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Directory of the run; one that holds this run is gone on with."),
    ],
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE of text (.gz too): a paragraph a line, blank lines between documents. Repeatable."
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None, typer.Option(help="NAME=FILE of text to evaluate on, never trained on. Repeatable.")
    ] = None,
    hold_out: Annotated[
        int | None,
        typer.Option(help="Hold out one document in so many of each corpus; 0: none [default: 100]."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file of settings; the options here override it.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="bert-tiny, bert-mini, bert-base, xlm-r-base, a config file, a checkpoint or english."
        ),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Tokens to train, or to cut a checkpoint's to.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    warmup: Annotated[
        int | None, typer.Option(help="Steps of rising learning rate [default: a twentieth].")
    ] = None,
    decay: Annotated[
        int | None, typer.Option(help="Steps of falling learning rate at the end [default: half].")
    ] = None,
    average: Annotated[
        int | None, typer.Option(help="Give the mean of so many checkpoints, the last ones [default: 1].")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Rows of a step, over all processes.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens in a row.")] = None,
    packing: Annotated[
        bool | None,
        typer.Option("--packing/--alone", help="Several short documents in a row, or each in its own."),
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Share of the tokens that are predicted.")] = None,
    whole_words: Annotated[bool | None, typer.Option(help="Mask whole words.")] = None,
    next_sentence: Annotated[bool | None, typer.Option(help="Learn next-sentence prediction too.")] = None,
    compatibility: Annotated[float | None, typer.Option(help="Weight of the compatibility penalty.")] = None,
    body_rate: Annotated[float | None, typer.Option(help="Peak learning rate of the encoder.")] = None,
    head_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate of embeddings and head.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of order, masks and fresh weights.")] = None,
    courteous: Annotated[
        bool, typer.Option(help="Started with nice, use only the cores that others leave free.")
    ] = False,
) -> None:
    """Train a masked language model from plain text; a killed run goes on where it was."""
    o.require("training", "accelerate", "matplotlib")
    from unmask.training import read_settings
    from unmask.training import train as run
    from unmask.training.report import table

    wanted = read_settings(
        settings,
        corpora=tuple(corpus) if corpus else None,
        held_out_corpora=tuple(held_out) if held_out else None,
        hold_out=hold_out,
        start=start,
        vocabulary=vocabulary,
        steps=steps,
        warmup=warmup,
        decay=decay,
        average=average,
        batch=batch,
        max_length=max_length,
        packing=packing,
        rate=rate,
        whole_words=whole_words,
        next_sentence=next_sentence,
        compatibility=compatibility,
        body_rate=body_rate,
        head_rate=head_rate,
        seed=seed,
    )
    result = run(wanted, out, courteous=courteous)
    if speaks():
        say(table(result.scores))
        say(f"model: {result.model}")


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="train")(train)
