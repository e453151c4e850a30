"""Free memory: `check_room` raises if there is too little, and `FreedMemory` gives back what was freed.

The C library keeps what is freed for later. Between the tables of a cache, which stay, lie the gaps of those
that were only needed for an answer, and such a heap grows for hours: after a few hundred answers a server
held three times as much as it used. glibc's `malloc_trim` gives the pages of all gaps back, which
takes milliseconds.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import torch

INTERVAL = 1.0
"""Seconds between two calls: answers from a cache come faster than that and free little."""


class NoRoom(MemoryError):
    """There is too little free memory to begin something."""


def check_room(size: int) -> None:
    """Raise NoRoom if the system has not so many bytes more; asking takes no time."""
    try:
        torch.empty(size, dtype=torch.uint8)
    except RuntimeError as error:
        raise NoRoom(f"less than {size:,} bytes are free") from error


class FreedMemory:
    """Gives freed memory back from time to time, where the C library knows how (glibc)."""

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval, self._last = interval, 0.0
        self._lock = threading.Lock()
        self._trim = _malloc_trim()

    def give_back(self) -> None:
        """Give back what is free, if the last time was long enough ago."""
        if self._trim is None:
            return
        with self._lock:
            now = time.monotonic()
            if now - self._last < self._interval:
                return
            self._last = now
        self._trim(0)


def _malloc_trim() -> Callable[[int], int] | None:
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # no glibc: musl, macOS, Windows
        return None
    return found
