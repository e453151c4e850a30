"""Files and directories that are written whole or not at all, locks, and one line for what a disk refuses."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unmask.errors import RunError, UnmaskError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FULL_TEXTS = ("No space left", "File too large", "Disk quota exceeded")
"""What the system says, in errors of the safetensors and tokenizers writers."""
TORCH_TEXTS = ("PytorchStreamWriter", "iostream error", "unexpected pos")
"""What torch's writer says, whatever the system said to it."""


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a kill leaves the old one or the new one, never half of it."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise disk_error(error, path) from None


@contextmanager
def whole_directory(place: Path) -> Iterator[Path]:
    """A directory to write into, beside its place, to which it is moved when it is whole."""
    partial = place.with_name(place.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    shutil.rmtree(place, ignore_errors=True)
    partial.rename(place)


def lock(handle: int, place: Path) -> None:
    """Lock what a file descriptor stands for, or raise if another process has; nothing happens on Windows."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            return  # a file system without locks
        raise RunError(
            f"another process is at work in {place}: wait for it, stop it, or give another --out"
        ) from None


def disk_error(error: OSError, place: Path) -> RunError:
    """Return one line for what the file system refused."""
    if error.errno in FULL or any(words in str(error) for words in FULL_TEXTS):
        return RunError(
            f"{place}: the disk is full: make room and start the same command again; what is finished is kept"
        )
    return RunError(
        f"{error.filename or place}: {error.strerror or error}: check the path and its permissions"
    )


def write_error(error: BaseException, place: Path) -> RunError | None:
    """Return one line for a file that could not be written; None if the error is about something else.

    The writers of torch, safetensors and tokenizers raise plain errors, known by their texts alone.
    """
    if isinstance(error, UnmaskError) or not isinstance(error, Exception):
        return None
    if isinstance(error, OSError):
        return disk_error(error, place)
    if any(words in str(error) for words in (*FULL_TEXTS, *TORCH_TEXTS)):
        return disk_error(OSError(errno.ENOSPC, str(error)), place)
    return None


@contextmanager
def errors_in_one_line(place: Path) -> Iterator[None]:
    """Turn what the file system or a writer of checkpoints refuses into one clear line."""
    try:
        yield
    except Exception as error:
        told = write_error(error, place)
        if told is None:
            raise
        raise told from error
