"""One process at a time: a lock on an open file or directory, which ends with its process."""

from __future__ import annotations

import errno
from pathlib import Path

from unmask.errors import RunError


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
