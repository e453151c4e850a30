"""Tasks with keys: a run whose records repeat their tasks and add what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from unmask.errors import UsageError
from unmask.models.embedded import absolute
from unmask.models.masked_lm import MaskedLM
from unmask.runs.run import Run, Spread, in_batches
from unmask.runs.settings_record import RunKind

Task = dict[str, Any]
Record = dict[str, Any]
Worker = Callable[[list[Task]], list[Record]]


def worker_with(
    made_of: Callable[[MaskedLM, Any], Worker],
    mlm: MaskedLM,
    settings: Any,
    ray: str | None,
    load: Callable[[], MaskedLM] | None = None,
) -> Callable[[], Worker]:
    """Return what makes a worker of a model and settings: this model here, one loaded anew over Ray."""
    if ray is None:
        return partial(made_of, mlm, settings)
    open_model = load or partial(MaskedLM.load, absolute(mlm.name))
    return lambda: made_of(open_model(), settings)


def run_tasks(
    kind: RunKind,
    tasks: Sequence[Task],
    make_worker: Callable[[], Worker],
    settings: Mapping[str, Any],
    *,
    batch: int,
    out: Path | None = None,
    stage: str = "tasks",
    **spread: Unpack[Spread],
) -> list[Record]:
    """Return the record of every task, in their order; `batch` tasks are given to a worker at once.

    The other arguments are those of `unmask.runs.run.Run.in_file` and `Run.work`.
    """
    with Run.in_file(kind, out, settings) as run:
        run.check_keys()
        found = {record["key"]: record for record in run}
        _check_tasks(tasks, found, out)
        for record in run.work(
            tasks,
            make_worker,
            batches=partial(in_batches, size=batch),
            stage=stage,
            **spread,
        ):
            found[record["key"]] = record
    return [found[task["key"]] for task in tasks]


def _check_tasks(tasks: Iterable[Task], found: Mapping[str, Record], out: Path | None) -> None:
    """Raise if a record that is there was made of another task."""
    for task in tasks:
        record = found.get(task["key"], task)
        if any(record.get(name) != task[name] for name in task):
            raise UsageError(f"{out} holds records of other texts: give another --out, or the same options")
