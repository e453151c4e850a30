"""Records: an append-only file of JSON lines that survives a kill at any moment.

One line is one finished piece of work. A line counts once it has reached the disk whole; whatever a kill or
a power cut left of the last one is passed over when the file is opened again and cut off when the next record
is written, and that piece of work is done anew. Each record may carry a key (the field `key`, unless told
otherwise), which stands first in its line: the keys that are done are remembered, so that a resumed run skips
them and none is done twice. One process at a time may hold a file for writing; others may read what is there.

Opening a file changes nothing in it, and one that does not start with a record is refused: it is somebody's.

    with Records(path) as records:
        for task in tasks:
            if task.key not in records:
                records.append({"key": task.key, "result": work(task)})
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from unmask.errors import RunError, UsageError
from unmask.runs.disk import disk_error, lock


class Records:
    """A file of JSON lines, read and appended to; it and its directory are made if need be.

    The keys that it holds are remembered; a damaged last line is passed over. Without `writing` it is read as
    far as it goes, also while another process writes it.

    Attributes:
        path: the file.
        keys: the keys of the records that it holds.
        dropped: how many damaged bytes there were at its end when it was opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, key: str = "key", writing: bool = True) -> None:
        self.path = Path(path)
        self.key = key
        self.keys: set[Any] = set()
        self.dropped = 0
        self._length = 0
        self._count = 0
        try:
            new = not self.path.exists()
            if writing:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT if writing else os.O_RDONLY, 0o644)
        except OSError as error:
            raise disk_error(error, self.path) from None
        try:
            if writing:
                lock(self._file, self.path)
            self._recover()
            if new:
                _sync_directory(self.path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, record: dict[str, Any]) -> None:
        """Write one record and return when it is on the disk; a record with a key comes once."""
        key = record.get(self.key)
        if key is not None and key in self.keys:
            raise UsageError(f"{self.path} holds a record with the {self.key} {key!r} already")
        named = record if key is None else {self.key: key} | record
        try:
            line = json.dumps(named, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        except ValueError:  # NaN or infinity, or half a character
            raise RunError(
                f"{self.path}: the record {key!r} holds what JSON can't: NaN or infinity"
            ) from None
        written = 0
        try:
            os.ftruncate(self._file, self._length)  # whatever a kill left of the last line
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._length + written)
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._length)  # leave whole lines behind
            raise disk_error(error, self.path) from None
        self._length += len(line)
        self._count += 1
        if key is not None:
            self.keys.add(key)

    def clear(self) -> None:
        """Forget every record; the next one is the first."""
        self._length = self._count = 0
        self.keys.clear()

    def check_keys(self) -> None:
        """Refuse a file in which a record has no key, or the key of another one."""
        if len(self.keys) < self._count:
            raise RunError(
                f"{self.path} holds records without a {self.key}, or twice the same: restore the file from a "
                f"copy, or delete those lines"
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the records in the order in which they were written."""
        with self.path.open("rb") as lines:
            while lines.tell() < self._length:
                yield json.loads(lines.readline())

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: object) -> bool:
        return key in self.keys

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Records:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _recover(self) -> None:
        """Read the keys, and pass over what was left of a line that never reached its end."""
        damaged = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if damaged:
                    raise RunError(
                        f"{self.path}: line {damaged} is damaged, and it is not the last one: restore the "
                        f"file from a copy, or delete that line"
                    )
                record = _read(line)
                if record is None:
                    if number == 1 and not self._is_torn(line):
                        raise UsageError(
                            f"{self.path} is no file of records: restore it from a copy, or give another"
                        )
                    damaged, self.dropped = number, len(line)
                    continue
                self._length += len(line)
                self._count += 1
                if record.get(self.key) is not None:
                    self.keys.add(record[self.key])

    def _is_torn(self, line: bytes) -> bool:
        """Tell whether a first line is the start of a record, and nobody's whole line of text or JSON."""
        start = f'{{"{self.key}": '.encode()
        ours = line.startswith(start) or start.startswith(line)
        return ours and not line.endswith(b"\n") and _read(line + b"\n") is None


def _read(line: bytes) -> dict[str, Any] | None:
    """Return the record of a whole line, or None if it is no such line."""
    try:
        record = json.loads(line, parse_constant=_refuse) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _refuse(constant: str) -> None:
    """Refuse NaN and infinity, which no record is written with."""
    raise ValueError(constant)


def _sync_directory(directory: Path) -> None:
    """Have a new file's name survive a power cut, where the system can promise it."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
