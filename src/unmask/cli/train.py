"""`unmask train`: train or adapt a masked language model from plain text files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli.terminal import say, speaks
from unmask.errors import UsageError
from unmask.lazy import require


def train(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Directory of the run; one that holds the same run is resumed."),
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
    tokenizer: Annotated[
        str | None,
        typer.Option(help="A tokenizer's directory [default: the checkpoint's, or a trained one]."),
    ] = None,
    vocabulary: Annotated[
        int | None, typer.Option(help="Tokens to train, or to cut a checkpoint's to.")
    ] = None,
    vocabulary_kind: Annotated[
        str | None,
        typer.Option(help="Of a trained one: wordpiece or unigram [default: unigram for xlm-r]."),
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--cased", help="Of a trained vocabulary [default: lowercase].")
    ] = None,
    layers: Annotated[
        str | None,
        typer.Option("--layers", "-l", help="Layers of the checkpoint to keep, as 0,1,3,5 [default: all]."),
    ] = None,
    dropout: Annotated[float | None, typer.Option(help="While training [default: 0].")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Share of a corpus in proportion to its size to this power [1].")
    ] = None,
    share: Annotated[
        list[str] | None, typer.Option(help="NAME=SHARE of a corpus, instead of --alpha. Repeatable.")
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
    masked: Annotated[
        float | None, typer.Option(help="Of these, how many become the mask token [0.8; mask-only: 1].")
    ] = None,
    randomised: Annotated[
        float | None, typer.Option(help="And how many a random token; the rest stay [0.1; mask-only: 0].")
    ] = None,
    whole_words: Annotated[bool | None, typer.Option(help="Mask whole words.")] = None,
    next_sentence: Annotated[bool | None, typer.Option(help="Learn next-sentence prediction too.")] = None,
    compatibility: Annotated[float | None, typer.Option(help="Weight of the compatibility penalty.")] = None,
    optimizer: Annotated[
        str | None, typer.Option(help="adamw, or muon for the encoder's matrices [default: adamw].")
    ] = None,
    body_rate: Annotated[float | None, typer.Option(help="Peak learning rate of the encoder.")] = None,
    head_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate of embeddings and head.")
    ] = None,
    accumulate: Annotated[
        int | None, typer.Option(help="Parts in which a process works its rows off, to save memory.")
    ] = None,
    save_every: Annotated[int | None, typer.Option(help="Steps between checkpoints [default: 200].")] = None,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations [default: 200].")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Of the result, for its card.")] = None,
    data_licence: Annotated[
        list[str] | None, typer.Option(help="NAME=LICENCE of a corpus, for the card. Repeatable.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of order, masks and fresh weights.")] = None,
    courteous: Annotated[
        bool, typer.Option(help="Started with nice, use only the cores that others leave free.")
    ] = False,
) -> None:
    """Train a masked language model from plain text; a killed run is resumed."""
    require("training", "train", "accelerate", "matplotlib")
    from unmask.training import read_settings
    from unmask.training import train as run
    from unmask.training.report import table

    wanted = read_settings(
        settings,
        corpora=tuple(corpus) if corpus else None,
        held_out_corpora=tuple(held_out) if held_out else None,
        hold_out=hold_out,
        start=start,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        vocabulary_kind=vocabulary_kind,
        lowercase=lowercase,
        layers=None if layers is None else _numbers(layers),
        dropout=dropout,
        alpha=alpha,
        shares=_named(share, "--share", float),
        masked=masked,
        randomised=randomised,
        optimizer=optimizer,
        accumulate=accumulate,
        save_every=save_every,
        evaluate_every=evaluate_every,
        licence=licence,
        data_licences=_named(data_licence, "--data-licence", str),
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


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(name="train")(train)
