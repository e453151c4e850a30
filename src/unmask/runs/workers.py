"""Batches of tasks, worked off here or on a Ray cluster, in their order or as they are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from unmask.runs import cluster

Task = TypeVar("Task")
Result = TypeVar("Result")


def in_batches(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    """Return tasks in lists of a size; the last may be shorter."""
    rest = iter(tasks)
    while batch := list(islice(rest, size)):
        yield batch


def finished(
    batches: Iterable[list[Task]],
    make_worker: Callable[[], Callable[[list[Task]], Result]],
    *,
    address: str | None = None,
    workers: int | None = None,
    ordered: bool = False,
) -> Iterator[Result]:
    """Yield what a worker makes of each batch; without a batch there is no worker and no cluster.

    Args:
        batches: read as the work goes on.
        make_worker: called here once, or once in each worker process of a cluster.
        address: of a Ray cluster, or `local`; None for this process alone.
        workers: how many, on a cluster.
        ordered: in the order of the batches; otherwise as they are finished.
    """
    coming = iter(batches)
    first = next(coming, None)
    if first is None:
        return
    everything = chain([first], coming)
    if address is None:
        yield from map(make_worker(), everything)
        return
    numbered = cluster.spread(everything, make_worker, address=address, workers=workers)
    yield from in_order(numbered) if ordered else (result for _, result in numbered)


def in_order(numbered: Iterable[tuple[int, Result]]) -> Iterator[Result]:
    """Hold back what is finished early until its turn comes."""
    waiting: dict[int, Result] = {}
    turn = 0
    for number, result in numbered:
        waiting[number] = result
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
