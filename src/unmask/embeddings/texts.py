"""Texts to be embedded, one per line: plain, or JSON lines with a `text` or the `words` of each.

`.gz` files are read as they are, `-` is standard input. Texts are streamed; a file need not fit in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unmask.errors import UsageError
from unmask.text.lines import read_lines, read_objects

Text = str | Sequence[str]


def read_texts(path: str | Path) -> Iterator[Text]:
    """Return the texts of a file; empty lines are skipped."""
    return (text for _, text in numbered_texts(path))


def numbered_texts(path: str | Path) -> Iterator[tuple[int, Text]]:
    """Return the texts of a file, each with the number of its line from 0; empty lines are skipped."""
    if not str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        yield from ((number - 1, line) for number, line in read_lines(path) if line.strip())
        return
    for number, record in read_objects(path):
        found: Any = record.get("text", record.get("words"))
        words = isinstance(found, list) and found
        if not (isinstance(found, str) or (words and all(isinstance(w, str) and w.strip() for w in words))):
            raise UsageError(
                f'{path}, line {number}: expected {{"text": "..."}} or {{"words": ["...", ...]}}'
            )
        yield number - 1, found
