"""`unmask embed`: contextual vectors of the tokens, words or sentences of a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from unmask.cli import options as o
from unmask.cli.query_options import query_options
from unmask.cli.terminal import Bar, print_json, say, tell
from unmask.text.lines import check_file
from unmask.values import plural

Layers = Annotated[
    str,
    typer.Option(
        "--layers",
        "-l",
        help="A layer's number (0: embeddings), last, last4 (mean), last4-concat, mean:2,3, static.",
    ),
]
Split = Annotated[
    str, typer.Option("--split", help="Plain text falls into words, or at spaces only: words or spaces.")
]
Long = Annotated[
    str, typer.Option("--long", help="Texts beyond the model's window: split, truncate or refuse.")
]


@query_options()
def embed(
    texts: o.Texts,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to: .npy, .parquet or .safetensors.")],
    source: o.EncoderOptions,
    layers: Layers = "last",
    unit: Annotated[
        str, typer.Option("--unit", help="What gets a vector: token, word, type (distinct word) or sentence.")
    ] = "word",
    pooling: Annotated[
        str, typer.Option("--pooling", help="mean or first of the sub-tokens; mean or cls of sentences.")
    ] = "mean",
    split: Split = "words",
    long: Long = "split",
    standardiser: Annotated[
        Path | None, typer.Option("--standardiser", help="Statistics from 'unmask isotropy' to even out by.")
    ] = None,
    ray: o.Ray = None,
    json: o.Json = False,
) -> None:
    """Write contextual vectors of a file's tokens, words or sentences; a killed run is resumed."""
    check_file(texts)
    from unmask.embeddings.formats import check_format

    check_format(out)
    from unmask.embeddings.files import Settings, embed_file

    chosen: dict[str, Any] = {"unit": unit, "pooling": pooling, "split": split, "long": long}
    settings = Settings(
        texts=texts,
        layers=layers,
        **chosen,
        standardiser=str(standardiser) if standardiser else None,
        **asdict(source),
    )
    result = embed_file(settings, out, ray=ray, progress=Bar())
    answer = result.record() | {"model": source.model, **chosen}
    if json:
        print_json(answer)
        return
    tell(notes(answer))
    say(
        f"{plural(answer['rows'], 'vector')} of {plural(answer['width'], 'dimension')} from "
        f"{plural(answer['texts'], 'text')} (layers {layers} of {source.model}): {out}"
    )


def notes(answer: dict[str, Any]) -> list[str]:
    """Say what happened to texts and words that did not come through whole."""
    found = []
    if answer["overlong"]:
        how = "split into pieces" if answer["long"] == "split" else "cut at its end"
        found.append(f"{plural(answer['overlong'], 'text')} longer than the model's window: {how}")
    if answer["vanished"]:
        found.append(f"of {plural(answer['vanished'], 'word')} the tokenizer leaves nothing: no vector")
    return found
