"""Memory that is freed is kept for the next step while a model trains.

A step makes the same large arrays as the one before. glibc gives arrays of more than a few megabytes back to
the system as soon as they are freed, and the system hands the next step the same pages, each cleared and
mapped anew. That holds for the whole process, so only a command does it, never the library by itself.
"""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # the numbers of glibc's malloc.h
KEPT = 2**31 - 1
"""Bytes that may lie free at the heap's end before any are given back."""
AT_ONCE = 2**28
"""Bytes that are asked of the system at once."""


def keep_freed_memory() -> bool:
    """Keep what is freed from now on; return whether the C library knows how (glibc does)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # no glibc: musl, macOS, Windows
        return False
    wanted = {TRIM_THRESHOLD: KEPT, MMAP_THRESHOLD: KEPT, TOP_PAD: AT_ONCE}
    return all(mallopt(parameter, value) == 1 for parameter, value in wanted.items())
