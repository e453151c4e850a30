"""A run: a folder that an evaluation fills example by example, and goes on with after any interruption.

    config.json      what is measured on what, with which weights; a run with other settings is refused
    examples.jsonl   one line an example, on the disk before the next one starts
    summary.json     a function of those lines alone
    cost.json        the time and the memory that they took
    report.md, report.html

The examples are drawn anew at every start, from seed and texts, and those that have a line are skipped. So a
run killed at any moment resumes with nothing lost and nothing twice, and ends with the summary of an
unbroken one. Over Ray the driver alone writes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unmask import __version__
from unmask.errors import RunError, UsageError
from unmask.evaluation.evaluate_example import Examiner, make_examiner
from unmask.evaluation.sampling import Example, Pairs, draw_examples
from unmask.evaluation.sentences import read_sentences
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import summarise
from unmask.lazy import require
from unmask.models.embedded import absolute
from unmask.models.load import load
from unmask.models.masked_lm import DEFAULT_MEMORY, MaskedLM
from unmask.progress import Progress, silent
from unmask.runs.cost import cost, next_sitting
from unmask.runs.records import Records, write_whole

DIGESTS = ("unmask", "weights", "examples_drawn")
"""What must be the same, beside the settings, for a run to be gone on with."""
OF_A_CONFIG = {"settings", "drawn", "skipped", *DIGESTS}
OF_SETTINGS = {field.name for field in fields(Settings)}
OF_A_RECORD = {"number", "key", "ids", "blanks", "metrics", "seconds", "sitting", "clock", "peak_memory"}


def evaluate(
    settings: Settings,
    out: str | Path,
    *,
    device: str = "auto",
    memory: int | str = DEFAULT_MEMORY,
    allow_pickle: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Measure every method on every example, write the run into a folder, and return its summary.

    Args:
        settings: what is measured on what.
        out: the folder; one that holds this very run is gone on with.
        device, memory, allow_pickle: as for `unmask.load`.
        ray: the address of a Ray cluster, or `local` for one on this machine; None for this process alone.
        workers: how many Ray workers; by default as many as the cluster has GPUs, or CPUs.
        progress: told of the examples.
    """
    start = time.perf_counter()
    require("the report", "evaluate", "matplotlib")
    folder = Path(out)
    _check_folder(folder)
    sentences = read_sentences(settings.data)
    mlm = load(settings.model, device=device, memory=memory, allow_pickle=allow_pickle)
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
    examiner = Examiner(mlm, settings)
    config = {
        "settings": settings.record(),
        "drawn": len(examples),
        "weights": fingerprint(mlm),
        "examples_drawn": _drawn(examples),
        "unmask": __version__,
        "skipped": sentences.skipped | passed,
    }
    _claim(folder, config)
    with Records.open(folder / "examples.jsonl") as records:
        config = _same(folder, config, records)
        _check_records(records, examples)
        sitting = next_sitting(_whole(records, config))
        todo = [example for example in examples if example.key not in records]
        if len(records) or records.dropped:
            progress.resumed(len(records), len(examples), bool(records.dropped))
        if ray is None or not todo:
            finished = _here(examiner, todo)
        else:
            del mlm, examiner
            finished = _on_ray(
                partial(
                    make_examiner,
                    replace(settings, model=absolute(settings.model)),
                    device=device,
                    memory=memory,
                    allow_pickle=allow_pickle,
                ),
                todo,
                ray,
                workers,
            )
        for record in progress.over(finished, total=len(todo), stage="examples"):
            records.append(record | {"sitting": sitting, "clock": round(time.perf_counter() - start, 3)})
        return conclude(folder, config, records)


def conclude(folder: Path, config: dict[str, Any], records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Write the summary, the cost and the report of a run's records; returns the summary."""
    from unmask.evaluation.report import write_report

    kept = list(records)
    summary = summarise(kept, config)
    for name, found in (("summary.json", summary), ("cost.json", cost(kept))):
        write_whole(folder / name, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_report(folder, summary, kept)
    return summary


def open_run(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the config and the records of a run, finished or not."""
    path = folder / "config.json"
    if not path.is_file():
        raise UsageError(
            f"{folder} is no evaluation run (it has no config.json): give a folder that "
            f"'unmask evaluate --out' made"
        )
    config = _read_config(path)
    kept: list[dict[str, Any]] = []
    if (folder / "examples.jsonl").is_file():
        with Records.open(folder / "examples.jsonl", writing=False) as records:
            kept = _whole(records, config)
    if not kept:
        raise UsageError(f"{folder} holds no finished example yet: start its evaluation again")
    return config, kept


def _here(examiner: Examiner, todo: list[Example]) -> Iterator[dict[str, Any]]:
    return (examiner(example) for example in todo)


def _on_ray(
    make: partial[Examiner], todo: list[Example], address: str, workers: int | None
) -> Iterator[dict[str, Any]]:
    from unmask.runs.cluster import spread

    return (record for _, record in spread(todo, make, address=address, workers=workers))


def _check_folder(folder: Path) -> None:
    """Refuse a place that can't be or is something else, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: give a folder for the run")
    if not folder.is_dir():
        return
    if (folder / "config.json").is_file():
        _read_config(folder / "config.json")
        return
    if any(not path.name.endswith(".partial") for path in folder.iterdir()):
        raise UsageError(f"{folder} exists and is no evaluation run: give an empty or a new folder")


def _claim(folder: Path, config: dict[str, Any]) -> None:
    """Make the folder of a run, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: {error.strerror or error}: check the path and its permissions") from None
    if not (folder / "config.json").is_file():
        _write_config(folder, config)


def _same(folder: Path, config: dict[str, Any], records: Records) -> dict[str, Any]:
    """Return the config of the folder's run, which a run that is gone on with keeps.

    A folder that holds another run is refused; one without a finished example is this run's from now on.
    """
    kept = _read_config(folder / "config.json")
    found, wanted = _compared(kept), _compared(config)
    differ = [name for name in wanted | found if found.get(name) != wanted.get(name)]
    if not differ:
        return kept
    if len(records):
        name = differ[0]
        said = f"{name} was {_shown(found.get(name))}, now {_shown(wanted.get(name))}"
        raise UsageError(
            f"{folder} holds another run ({said}): give another --out, or the same settings to go on with it"
        )
    _write_config(folder, config)
    return config


def _write_config(folder: Path, config: dict[str, Any]) -> None:
    write_whole(folder / "config.json", json.dumps(config, indent=1, ensure_ascii=False) + "\n")


def _compared(config: dict[str, Any]) -> dict[str, Any]:
    """Return what must be the same, flat; the place of data and model counts by content, not by name."""
    settings: dict[str, Any] = dict(config.get("settings", {}))
    kept = {name: value for name, value in settings.items() if name not in ("data", "model")}
    return kept | {name.replace("_", " "): config.get(name) for name in DIGESTS}


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise RunError(f"{path} is damaged: restore it, or give another --out") from None
    settings = config.get("settings") if isinstance(config, dict) else None
    if not isinstance(settings, dict) or not (
        config.keys() >= OF_A_CONFIG and settings.keys() >= OF_SETTINGS
    ):
        raise UsageError(
            f"{path.parent} is no evaluation run (its config.json is something else's): give a folder that "
            f"'unmask evaluate --out' made, or a new one"
        )
    return dict(config)


def _whole(records: Records, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a run's records; refuse a line that is none."""
    kept = list(records)
    methods = set(config["settings"]["methods"])
    for number, record in enumerate(kept, 1):
        metrics = record.get("metrics")
        if not (
            record.keys() >= OF_A_RECORD
            and isinstance(record["number"], int)
            and isinstance(metrics, dict)
            and metrics.keys() >= methods
        ):
            raise RunError(
                f"{records.path}: line {number} is damaged: restore the file from a copy, or delete that line"
            )
    records.check_keys()
    return kept


def _check_records(records: Records, examples: list[Example]) -> None:
    strange = records.keys - {example.key for example in examples}
    if strange:
        raise RunError(
            f"{records.path} holds {len(strange)} examples that this run has not drawn: restore the file, or "
            f"give another --out"
        )


def fingerprint(mlm: MaskedLM) -> str:
    """Return a digest of the model's weights."""
    digest = hashlib.sha256()
    for name, weight in sorted(mlm.model.state_dict().items()):
        flat = weight.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name}{list(weight.shape)}{weight.dtype}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:24]


def _drawn(examples: list[Example]) -> str:
    """Return a digest of what was drawn: texts, token ids and blanks."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.key} {example.ids} {example.blanks}\n".encode())
    return digest.hexdigest()[:24]


def _told(skipped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in skipped.items() if count) or "there is none"
