"""One resumable run, for all that takes long: evaluations, scores of files, vectors, benchmarks, training.

A run has a place, a directory or a file of records, which one process at a time may hold. Its settings are
written there first (`unmask.runs.settings_record`); a place that holds other settings or something else is
refused and left as it is. Then each task becomes one record, on the disk before the next one starts. The
same command started again skips the tasks that have a record, so that a run killed at any moment ends
as an unbroken one does, with nothing lost and nothing twice.

    KIND = RunKind("count of words", records="counts.jsonl")

    with Run.in_directory(KIND, out, settings.to_dict()) as run:
        for record in run.work(tasks, make_worker, progress=progress):
            ...
        write_whole(out / "total.json", json.dumps(summary(run)))
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from unmask.progress import Progress, silent
from unmask.runs import cluster
from unmask.runs.claim import SETTINGS, claim_directory, claim_file, locked, write_settings
from unmask.runs.cost import next_attempt
from unmask.runs.disk import errors_in_one_line
from unmask.runs.records import Records
from unmask.runs.settings_record import RunKind, read_settings

Record = dict[str, Any]
Task = TypeVar("Task")
Result = TypeVar("Result")
Worker = Callable[[list[Task]], list[Result]]


class Spread(TypedDict, total=False):
    """Where the work of a run is done, and who is told of it: arguments of `Run.work` that are passed on."""

    ray: str | None
    workers: int | None
    progress: Progress


class Run:
    """A run that this process holds; make one with `Run.in_directory` or `Run.in_file`.

    Attributes:
        kind: what kind of run it is.
        place: its directory or file; None for a run that is kept nowhere.
        settings: those that it was begun with.
        dropped: how many bytes of a record that never reached its end there were.
        began: when this attempt began, by `time.perf_counter`.
    """

    def __init__(
        self, kind: RunKind, place: Path | None, settings: dict[str, Any], records: Records | None = None
    ) -> None:
        self.kind, self.place, self.settings = kind, place, settings
        self.dropped = records.dropped if records is not None else 0
        self._records = records
        self.began = time.perf_counter()
        self._attempt = next_attempt(self) if kind.timed else 0

    @classmethod
    @contextmanager
    def in_directory(cls, kind: RunKind, place: Path, settings: Mapping[str, Any]) -> Iterator[Run]:
        """Hold a directory: a new one, an empty one, or one that holds the same run."""
        wanted = kind.record(settings)
        if os.environ.get("RANK", "0") != "0":  # the other processes of one run share the main one's claim
            with errors_in_one_line(place):
                yield cls(kind, place, wanted["settings"])
            return
        read_settings(kind, place)
        with errors_in_one_line(place), locked(place):
            kept = claim_directory(kind, place, wanted)
            records = Records(place / kind.records) if kind.records else None
            try:
                yield cls(kind, place, kept, records)
            finally:
                if records is not None:
                    records.close()

    @classmethod
    @contextmanager
    def in_file(cls, kind: RunKind, place: Path | None, settings: Mapping[str, Any]) -> Iterator[Run]:
        """Hold a file of records: a new one, or one that holds the same run; None keeps no records."""
        wanted = kind.record(settings)
        if place is None:
            yield cls(kind, None, wanted["settings"])
            return
        with errors_in_one_line(place), Records(place) as records:
            yield cls(kind, place, claim_file(kind, records, wanted), records)

    def __iter__(self) -> Iterator[Record]:
        """Go through the records, in the order in which they were made."""
        return (r for r in self._records or () if r.get("key") != SETTINGS)

    def __contains__(self, key: object) -> bool:
        return self._records is not None and key in self._records

    def check_keys(self) -> None:
        """Raise if a record has no key, or the key of another one."""
        if self._records is not None:
            self._records.check_keys()

    def append(self, record: Record) -> Record:
        """Keep a record, with the attempt and its time if the kind wants them; return it as it is kept."""
        if self.kind.timed:
            clock = round(time.perf_counter() - self.began, 3)
            record = record | {"attempt": self._attempt, "clock": clock}
        if self._records is not None:
            self._records.append(record)
        return record

    def update_settings(self, settings: Mapping[str, Any]) -> None:
        """Write the settings of now into the directory, of which some may have changed."""
        if self.place is not None and os.environ.get("RANK", "0") == "0":
            record = self.kind.record(settings)
            write_settings(self.place, record)
            self.settings = record["settings"]

    def work(
        self,
        tasks: Iterable[Task],
        make_worker: Callable[[], Worker[Task, Result]],
        *,
        key: Callable[[Any], Any] = itemgetter("key"),
        batches: Callable[[Iterable[Task]], Iterable[list[Task]]] | None = None,
        keep: Callable[[Result], Record] | None = None,
        ordered: bool = False,
        ray: str | None = None,
        workers: int | None = None,
        total: int | None = None,
        done: int | None = None,
        units: Callable[[list[Result]], int] = len,
        stage: str = "tasks",
        progress: Progress = silent,
    ) -> Iterator[Record]:
        """Do the tasks that have no record, here or on a Ray cluster; yield each record once it is kept.

        Args:
            tasks: what is to be done; a stream is read as the work goes on.
            make_worker: makes what turns a batch of tasks into their results; called if there is anything to
                do, and on a cluster once in each worker process.
            key: the key of a task, which its record has too.
            batches: cuts tasks into batches; by default each is one.
            keep: turns a result into its record, for work that keeps files of its own; by default it is one.
            ordered: yield records in the order of the tasks; otherwise as they are finished.
            ray: the address of a Ray cluster, or `local`; without it the work is done here.
            workers: how many, on a cluster.
            total, done: units of all tasks, and of those done before; known of a sequence.
            units: how many units a batch of results counts for.
            stage: what the units are called.
            progress: told of them.
        """
        cluster.check_workers(workers, ray)
        if isinstance(tasks, Sequence):
            total, done = len(tasks), sum(key(task) in self for task in tasks)
        total, done = total or 0, done or 0
        if done or self.dropped:
            progress.resumed(done, total, bool(self.dropped))
        todo = (task for task in tasks if key(task) not in self)
        cut = (batches or partial(in_batches, size=1))(todo)
        results = finished(cut, make_worker, address=ray, workers=workers, ordered=ordered)
        for batch in progress.over(results, total=max(0, total - done), size=units, stage=stage):
            for result in batch:
                yield self.append(keep(result) if keep is not None else result)  # type: ignore[arg-type]


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
    """Yield what a worker makes of each batch; the arguments are those of `Run.work`.

    Without a batch there is no worker and no cluster.
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
