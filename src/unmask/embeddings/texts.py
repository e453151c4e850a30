"""Texts to be embedded, one per line: plain, or JSON lines with a `text` or the `words` of each.

`.gz` files are read as they are, `-` is standard input. Texts are streamed; a file need not fit in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from unmask.errors import UsageError
from unmask.text.lines import read_lines

Text = str | Sequence[str]


def read_texts(path: str | Path) -> Iterator[Text]:
    """Return the texts of a file; empty lines are skipped."""
    return (text for _, text in numbered_texts(path))


def numbered_texts(path: str | Path) -> Iterator[tuple[int, Text]]:
    """Return the texts of a file, each with the number of its line from 0; empty lines are skipped."""
    structured = str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    for number, line in read_lines(path):
        if not line.strip():
            continue
        yield number - 1, _structured(path, number, line) if structured else line


def _structured(path: str | Path, number: int, line: str) -> Text:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}, line {number}: expected JSON, got a syntax error ({error.msg})") from None
    found = record.get("text", record.get("words")) if isinstance(record, dict) else None
    if isinstance(found, str):
        return found
    if isinstance(found, list) and found and all(isinstance(word, str) and word.strip() for word in found):
        return found
    raise UsageError(f'{path}, line {number}: expected {{"text": "..."}} or {{"words": ["...", ...]}}')
