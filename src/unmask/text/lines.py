"""Files of text, line by line: gzipped or not, and one clear line about whatever is wrong with them."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from unmask.errors import RunError, UsageError

Line = tuple[int, str]
"""A line's number, from 1 on, and its text."""


def read_lines(path: str | Path) -> Iterator[Line]:
    """Go through the lines of a file in UTF-8, without their ends; `.gz` is unpacked, `-` standard input."""
    with errors_in_one_line(path), open_bytes(str(path)) as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise UsageError(
                    f"{path}, line {number} is not UTF-8 text: convert the file, for example with iconv"
                ) from None


def read_objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Go through the objects of a file of JSON lines, each with the number of its line."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            found, wrong = json.loads(line), line[:40]
        except json.JSONDecodeError as error:
            found, wrong = None, f"a syntax error ({error.msg})"
        if not isinstance(found, dict):
            raise UsageError(f"{path}, line {number}: expected a JSON object such as {{...}}, got {wrong}")
        yield number, found


def check_file(path: str | Path) -> None:
    """Refuse a file that can't be opened, before anything is imported to read it."""
    with errors_in_one_line(path), open_bytes(str(path)):
        pass


@contextmanager
def errors_in_one_line(path: str | Path) -> Iterator[None]:
    """Say in one clear line why a file can't be read."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: check the path") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory: name a file in it") from None
    except EOFError:
        raise RunError(f"{path} ends too early: its download or copy was cut off, get it anew") from None
    except (gzip.BadGzipFile, zlib.error):
        raise RunError(f"{path} is damaged and can't be unpacked: get it anew") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}: check the file and its permissions") from None


def open_bytes(path: str) -> AbstractContextManager[IO[bytes]]:
    """Open a file, unpacked if it is `.gz`, or standard input for `-`."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")  # type: ignore[return-value]
    except ValueError:  # a NUL or half a character
        raise UsageError(f"expected the path of a file, got {path!r}") from None
