"""What the recipes' command lines share: options, data, and where numbers and tables go."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from pages import renew

ROOT = Path(__file__).parents[1]
SENTENCES = {"snli": "snli/dev.tsv", "xsum": "xsum/summaries.txt"}
"""The files of sentences, in the directory of the data."""


def parser_of(about: str | None, name: str, parts: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser with the options that recipes share; with parts, `--only` names some of them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the data sets")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / name, help="where the runs go")
    parser.add_argument("--ray", help="address of a Ray cluster, or local: a worker of one thread per core")
    parser.add_argument("--out", type=Path, help="another file of numbers; the pages stay as they are")
    parser.add_argument("--tables", action="store_true", help="rewrite the pages only")
    if parts:
        parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    return parser


def sentences_of(data: Path) -> list[str]:
    """Return the data sets of sentences as `evaluate` reads them."""
    return [f"{name}={data / file}" for name, file in SENTENCES.items()]


def show(made: Mapping[str, str], pages: Sequence[Path], mark: str, out: Path | None) -> None:
    """Write tables into the pages, or print them if the numbers went elsewhere."""
    if out is None:
        for page in pages:
            renew(page, mark, made)
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in made.items()))
