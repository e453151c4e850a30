"""The tasks of a benchmark: those done before are read, the others done here or on a Ray cluster.

A task is a dictionary with a `key`; its record repeats all of it and adds what was found. Records are written
as they are finished, by this process alone, behind a first one that holds the settings; a killed run goes on
with the tasks that have no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from unmask.errors import UsageError
from unmask.progress import Progress, silent
from unmask.runs.cluster import check_workers, spread
from unmask.runs.records import Records

Task = dict[str, Any]
Record = dict[str, Any]
Worker = Callable[[list[Task]], list[Record]]
SETTINGS = "settings"


def run_tasks(
    tasks: Sequence[Task],
    make_worker: Callable[[], Worker],
    settings: dict[str, Any],
    *,
    at_once: int,
    out: Path | None = None,
    ray: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
    stage: str = "tasks",
) -> list[Record]:
    """Return the record of every task, in their order.

    Args:
        tasks: what is to be done.
        make_worker: makes what turns some tasks into their records; called if there is anything to do, and on
            a cluster once in each worker process.
        settings: all that the records depend on beside the tasks; records of others are refused.
        at_once: how many tasks a worker is given.
        out: the file of records.
        ray: the address of a Ray cluster, or `local`; without it the work is done here.
        workers: how many, on a cluster.
        progress: told of tasks.
        stage: what they are called.
    """
    check_workers(workers, ray)
    records = None if out is None else Records.open(out)
    try:
        done = {} if records is None else _done(records, settings, tasks)
        todo = [task for task in tasks if task["key"] not in done]
        if records is not None and (len(todo) < len(tasks) or records.dropped):
            progress.resumed(len(tasks) - len(todo), len(tasks), bool(records.dropped))
        chunks = [todo[i : i + at_once] for i in range(0, len(todo), at_once)]
        finished = _worked(chunks, make_worker, ray, workers)
        for found in progress.over(finished, total=len(todo), size=len, stage=stage):
            for record in found:
                done[record["key"]] = record
                if records is not None:
                    records.append(record)
    finally:
        if records is not None:
            records.close()
    return [done[task["key"]] for task in tasks]


def _worked(
    chunks: Sequence[list[Task]], make_worker: Callable[[], Worker], ray: str | None, workers: int | None
) -> Iterable[list[Record]]:
    """Go through the records of the chunks, as they are finished."""
    if not chunks:
        return []
    if ray is None:
        return map(make_worker(), chunks)
    return _spread(chunks, make_worker, ray, workers)


def _spread(
    chunks: Sequence[list[Task]], make_worker: Callable[[], Worker], ray: str, workers: int | None
) -> Iterator[list[Record]]:
    for _, found in spread(chunks, make_worker, address=ray, workers=workers):
        yield found


def _done(records: Records, settings: dict[str, Any], tasks: Sequence[Task]) -> dict[str, Record]:
    """Return the records that there are, by key; refuse those of another run."""
    wanted = {"key": SETTINGS, **settings}
    if not len(records):
        records.append(wanted)
        return {}
    records.check_keys()
    found = {record["key"]: record for record in records}
    first = found.pop(SETTINGS, {})
    changed = [name for name in wanted if first.get(name) != wanted[name]]
    if changed:
        raise UsageError(
            f"{records.path} holds the records of another run (it differs in {', '.join(changed)}): give "
            f"another --out, or the same options"
        )
    for task in tasks:
        record = found.get(task["key"], task)
        if any(record.get(name) != task[name] for name in task):
            raise UsageError(
                f"{records.path} holds records of other texts: give another --out, or the same options"
            )
    return found
