"""Rows of a table shared out among threads, each with sums of its own.

The compiled loops release the interpreter's lock, so plain threads are enough; unlike numba's own parallel
loops they may be started from several threads at once, as a server does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Sums = TypeVar("Sums")

PARTS = 8
"""Parts of the rows for each thread: one that is held up takes fewer, and sums by part never change."""


def over_rows(
    rows: int, work: Callable[[int, int, Sums], object], make_sums: Callable[[], Sums]
) -> list[Sums]:
    """Call work(start, stop, sums) for parts of the rows, on as many threads as torch; returns their sums."""
    threads = max(1, min(torch.get_num_threads(), rows))
    parts = 1 if threads == 1 else min(rows, threads * PARTS)
    edges = [rows * part // parts for part in range(parts + 1)]
    sums = [make_sums() for _ in range(parts)]
    if threads == 1:
        work(0, rows, sums[0])
        return sums
    list(_pool(torch.get_num_threads()).map(work, edges[:-1], edges[1:], sums))
    return sums


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads, which are kept: to start them takes milliseconds, as long as a tenth of a sweep."""
    return ThreadPoolExecutor(threads, thread_name_prefix="unmask-rows")


if hasattr(os, "register_at_fork"):  # a forked process has none of its parent's threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
