"""Files of text, line by line: gzipped or not, and one clear line about whatever is wrong with them."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from unmask.errors import RunError, UsageError

Line = tuple[int, str]
"""A line's number, from 1 on, and its text."""


def read_lines(path: str | Path) -> Iterator[Line]:
    """Go through the lines of a file in UTF-8, without their ends; `.gz` is unpacked, `-` standard input."""
    number = 0
    try:
        with open_bytes(str(path)) as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist: check the path") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory: name a file in it") from None
    except UnicodeDecodeError:
        raise UsageError(
            f"{path}, line {number} is not UTF-8 text: convert the file, for example with iconv"
        ) from None
    except EOFError:
        raise RunError(f"{path} ends too early: its download or copy was cut off, get it anew") from None
    except (gzip.BadGzipFile, zlib.error):
        raise RunError(f"{path} is damaged and can't be unpacked: get it anew") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}: check the file and its permissions") from None


def open_bytes(path: str) -> AbstractContextManager[Iterable[bytes]]:
    """Open a file, unpacked if it is `.gz`, or standard input for `-`."""
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    return gzip.open(path) if path.endswith(".gz") else Path(path).open("rb")
