"""Texts to be embedded, one a line: plain, or JSON lines with a `text` or the `words` of each.

`.gz` files are read as they are, `-` is standard input. Texts are streamed; a file need not fit in memory.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TypeVar

from unmask.errors import Failure, Misuse

Text = str | Sequence[str]
Item = TypeVar("Item")


def open_text(path: str | Path) -> IO[str]:
    """Open a file of text, compressed or not; `-` is standard input."""
    path = str(path)
    if path == "-":
        return sys.stdin
    if Path(path).is_dir():
        raise Misuse(f"'{path}' is a directory: give a file")
    try:
        if path.endswith(".gz"):
            return gzip.open(path, "rt", encoding="utf-8")
        return Path(path).open(encoding="utf-8", newline="")
    except OSError as error:
        raise Misuse(f"'{path}' can't be opened ({error.strerror}): check the path") from None


def lines_of(path: str | Path) -> Iterator[tuple[int, str]]:
    """Return the lines of a file with their numbers from 1, without their ends."""
    number = 0
    stream = open_text(path)
    try:
        for number, line in enumerate(stream, 1):
            yield number, line.rstrip("\r\n").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Misuse(f"{path}, line {number + 1}: expected UTF-8 text: convert the file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Failure(f"{path}: the compressed file is damaged ({error}): take another copy") from None
    finally:
        if stream is not sys.stdin:
            stream.close()


def read_texts(path: str | Path) -> Iterator[Text]:
    """Return the texts of a file; empty lines are skipped."""
    return (text for _, text in numbered_texts(path))


def numbered_texts(path: str | Path) -> Iterator[tuple[int, Text]]:
    """Return the texts of a file, each with the number of its line from 0; empty lines are skipped."""
    structured = str(path).removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    for number, line in lines_of(path):
        if not line.strip():
            continue
        yield number - 1, _structured(path, number, line) if structured else line


def _structured(path: str | Path, number: int, line: str) -> Text:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise Misuse(f"{path}, line {number}: expected JSON, got a syntax error ({error.msg})") from None
    found = record.get("text", record.get("words")) if isinstance(record, dict) else None
    if isinstance(found, str):
        return found
    if isinstance(found, list) and found and all(isinstance(word, str) and word.strip() for word in found):
        return found
    raise Misuse(f'{path}, line {number}: expected {{"text": "..."}} or {{"words": ["...", ...]}}')


def chunks_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Return items in lists of a size; the last may be shorter."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
