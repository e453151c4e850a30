"""An evaluation: a run that measures every method on every example.

    settings.json    what is measured on what, with which weights; a run with other settings is refused
    examples.jsonl   one line per example, on the disk before the next one starts
    summary.json     a function of those lines alone
    cost.json        the time and the memory that they took
    report.md, report.html

The examples are drawn anew at every start, from seed and texts, and those that have a line are skipped
(`unmask.runs.run`). Over Ray the driver alone writes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import fields
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from unmask import __version__
from unmask.errors import RunError, UsageError
from unmask.evaluation.evaluate_example import Evaluator
from unmask.evaluation.sampling import Example, Pairs, draw_examples
from unmask.evaluation.sentences import read_sentences
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import summarise
from unmask.lazy import require
from unmask.models.digests import parameters_digest, state_digest
from unmask.models.embedded import absolute
from unmask.models.masked_lm import DEFAULT_MEMORY, MaskedLM
from unmask.progress import Progress, silent
from unmask.runs.cost import cost
from unmask.runs.disk import write_whole
from unmask.runs.records import Records
from unmask.runs.run import Run
from unmask.runs.settings_record import NAME, RunKind, read_settings
from unmask.values import plural

EVALUATION = RunKind(
    "evaluation",
    records="examples.jsonl",
    may_change=frozenset({"data", "model", "drawn", "skipped"}),  # texts and weights count by content
    prepared=("summary.json", "cost.json", "report.md", "report.html"),
    earlier=("config.json", frozenset({"settings", "examples_drawn"})),
    timed=True,
)
RECORD_FIELDS = {"number", "key", "ids", "blanks", "metrics", "seconds", "attempt", "clock", "peak_memory"}
SETTINGS_FIELDS = {field.name for field in fields(Settings)} | {"drawn", "skipped"}


def evaluate(
    settings: Settings,
    out: str | Path,
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    pair_head: str | Path | None = "auto",
    ray: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure every method on every example, write the run into a directory, and return its summary.

    Args:
        settings: what is measured on what.
        out: the directory. A directory that holds the same run is resumed.
        device, memory, allow_pickle, pair_head: as for `unmask.load`.
        ray: the address of a Ray cluster, or `local` for one on this machine; None for this process alone.
        workers: how many Ray workers; by default as many as the cluster has GPUs, or CPUs.
        progress: told of the examples.
    """
    start = time.perf_counter()
    require("the report", "evaluate", "matplotlib")
    directory = Path(out)
    read_settings(EVALUATION, directory)  # refuse what is something else's before any work
    sentences = read_sentences(settings.data)
    loading = {"device": device, "memory": memory, "allow_pickle": allow_pickle, "pair_head": pair_head}
    open_model = partial(MaskedLM.load, absolute(settings.model), **loading)  # type: ignore[arg-type]
    mlm = open_model()
    examples, passed = draw_examples(
        sentences.texts,
        mlm.vocabulary,
        mlm.window,
        pairs=Pairs.parse(settings.pairs),
        examples=settings.examples,
        seed=settings.seed,
    )
    if not examples:
        raise UsageError(
            f"no sentence of {settings.data} can be used ({_told(sentences.skipped | passed)}): expected "
            f"sentences with such a pair ({settings.pairs}) that fit the model's window of {mlm.window}"
        )
    # raises for options that this model does not have, before the directory is claimed
    evaluator = Evaluator(mlm, settings)
    record = settings.to_dict() | {
        "unmask": __version__,
        "weights": state_digest(mlm.model),
        "examples_drawn": _drawn(examples),
        "drawn": len(examples),
        "skipped": sentences.skipped | passed,
    }
    if mlm.pair_head is not None:
        record["pair_head"] = parameters_digest(mlm.pair_head)
    if ray is not None:
        del mlm, evaluator  # each worker loads the model, and this process needs it no longer
    with Run.in_directory(EVALUATION, directory, record) as run:
        run.began = start
        _check_drawn(run, examples)
        _check_records(run, run.settings, directory / "examples.jsonl")
        run.check_keys()
        for _ in run.work(
            examples,
            (lambda: evaluator) if ray is None else lambda: Evaluator(open_model(), settings),
            key=attrgetter("key"),
            ray=ray,
            workers=workers,
            stage="examples",
            progress=progress,
        ):
            pass
        return conclude(directory, run.settings, run)


def conclude(directory: Path, settings: dict[str, Any], records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Write the summary, the cost and the report of a run's records; returns the summary."""
    from unmask.evaluation.report import write_report

    kept = list(records)
    summary = summarise(kept, settings)
    for name, found in (("summary.json", summary), ("cost.json", cost(kept))):
        write_whole(directory / name, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_report(directory, summary, kept)
    return summary


def open_run(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the settings and the records of a run, finished or not."""
    begun = any((directory / name).is_file() for name in (NAME, "config.json"))
    settings = read_settings(EVALUATION, directory) if begun else None
    if settings is None or not settings.keys() >= SETTINGS_FIELDS:
        raise UsageError(
            f"{directory} holds no evaluation: give a directory that 'unmask evaluate --out' made"
        )
    kept: list[dict[str, Any]] = []
    if (directory / "examples.jsonl").is_file():
        with Records(directory / "examples.jsonl", writing=False) as records:
            kept = _check_records(records, settings, records.path)
            records.check_keys()
    if not kept:
        raise UsageError(f"{directory} holds no finished example yet: start its evaluation again")
    return settings, kept


def _check_records(
    records: Iterable[dict[str, Any]], settings: dict[str, Any], path: Path
) -> list[dict[str, Any]]:
    """Return a run's records; raise for a line that is none."""
    kept = list(records)
    methods = set(settings["methods"])
    for number, record in enumerate(kept, 1):
        metrics = record.get("metrics")
        if not (
            record.keys() >= RECORD_FIELDS
            and isinstance(record["number"], int)
            and isinstance(metrics, dict)
            and metrics.keys() >= methods
        ):
            raise RunError(
                f"{path}: line {number} is damaged: restore the file from a copy, or delete that line"
            )
    return kept


def _check_drawn(run: Run, examples: list[Example]) -> None:
    """Raise for records of examples that this run has not drawn."""
    drawn = {example.key for example in examples}
    strange = sum(record.get("key", examples[0].key) not in drawn for record in run)
    if strange:
        raise RunError(
            f"{run.place} holds {plural(strange, 'example')} that this run has not drawn: restore "
            f"examples.jsonl, or give another --out"
        )


def _drawn(examples: list[Example]) -> str:
    """Return a digest of what was drawn: texts, token ids and blanks."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.key} {example.ids} {example.blanks}\n".encode())
    return digest.hexdigest()[:24]


def _told(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in skipped.items() if count) or "there is none"
