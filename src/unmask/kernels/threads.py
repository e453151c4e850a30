"""Rows of a table shared out among threads, each with sums of its own.

The compiled loops release the interpreter's lock, so plain threads are enough; unlike numba's own parallel
loops they may be started from several threads at once, as a server does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Sums = TypeVar("Sums")


def over_rows(
    rows: int, work: Callable[[int, int, Sums], object], make_sums: Callable[[], Sums]
) -> list[Sums]:
    """Call work(start, stop, sums) for as many parts of the rows as torch has threads; returns their sums."""
    threads = max(1, min(torch.get_num_threads(), rows))
    edges = [rows * part // threads for part in range(threads + 1)]
    sums = [make_sums() for _ in range(threads)]
    if threads == 1:
        work(0, rows, sums[0])
        return sums
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:], sums))
    return sums
