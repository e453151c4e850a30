"""Files of text, line by line: gzipped or not, and one clear line about whatever is wrong with them."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from unmask.errors import Failure, Misuse

Line = tuple[int, str]
"""A line's number, from 1 on, and its text."""


def read_lines(path: Path) -> Iterator[Line]:
    """Go through the lines of a file in UTF-8, without their ends; a name in `.gz` is unpacked."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            lines = io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n")
            for number, line in enumerate(lines, 1):
                yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise Misuse(f"{path} does not exist: check the path") from None
    except UnicodeDecodeError:
        raise Failure(f"{path} is not UTF-8 text: convert it, for example with iconv") from None
    except EOFError:
        raise Failure(f"{path} ends too early: its download or copy was cut off, get it anew") from None
    except zlib.error:
        raise Failure(f"{path} is damaged and can't be unpacked: get it anew") from None
    except OSError as error:  # gzip's BadGzipFile is one, too
        raise Failure(f"{path}: {error.strerror or error}: check the file and its permissions") from None
