"""A run: a folder that an evaluation fills example by example, and goes on with after any interruption.

    config.json      what is measured on what, with which weights; a run with other settings is refused
    examples.jsonl   one line an example, on the disk before the next one starts
    summary.json     a function of those lines alone
    report.md, report.html

The examples are drawn anew at every start, from seed and texts, and those that have a line are skipped. So a
run killed at any moment resumes with nothing lost and nothing twice, and ends with the summary of an
unbroken one. Over Ray the driver alone writes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from unmask import __version__, api
from unmask.errors import Failure, Misuse
from unmask.evaluation.drawing import Example, Pairs, draw_examples
from unmask.evaluation.examine import Examiner, make_examiner
from unmask.evaluation.sentences import read_sentences
from unmask.evaluation.settings import Settings
from unmask.evaluation.summary import summarise
from unmask.mlm import DEFAULT_MEMORY, MaskedLM
from unmask.progress import Progress, silent
from unmask.records import Records, write_whole

DIGESTS = ("unmask", "weights", "examples_drawn")
"""What must be the same, beside the settings, for a run to be gone on with."""


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
    folder = Path(out)
    _check_folder(folder)
    sentences = read_sentences(settings.data)
    mlm = api.load(settings.model, device=device, memory=memory, allow_pickle=allow_pickle)
    examples, passed = draw_examples(
        sentences.texts,
        mlm.vocabulary,
        mlm.window,
        pairs=Pairs.parse(settings.pairs),
        examples=settings.examples,
        seed=settings.seed,
    )
    if not examples:
        raise Misuse(
            f"no sentence of {settings.data} can be used ({_told(sentences.skipped | passed)}): expected "
            f"sentences of two tokens or more that fit the model's window of {mlm.window}"
        )
    config = {
        "settings": settings.record(),
        "weights": fingerprint(mlm),
        "examples_drawn": _drawn(examples),
        "unmask": __version__,
        "skipped": sentences.skipped | passed,
    }
    _claim(folder, config)
    with Records.open(folder / "examples.jsonl") as records:
        _check_records(records, examples)
        todo = [example for example in examples if example.key not in records]
        if ray is None:
            finished = _here(Examiner(mlm, settings), todo)
        else:
            del mlm
            finished = _on_ray(
                partial(
                    make_examiner,
                    _absolute(settings),
                    device=device,
                    memory=memory,
                    allow_pickle=allow_pickle,
                ),
                todo,
                ray,
                workers,
            )
        for record in progress.over(finished, total=len(todo), stage="examples"):
            records.append(record)
        return conclude(folder, config, records)


def conclude(folder: Path, config: dict[str, Any], records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Write the summary and the report of a run's records; returns the summary."""
    from unmask.evaluation.report import write_report

    kept = list(records)
    summary = summarise(kept, config)
    write_whole(folder / "summary.json", json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    write_report(folder, summary, kept)
    return summary


def open_run(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the config and the records of a run, finished or not."""
    path = folder / "config.json"
    if not path.is_file():
        raise Misuse(
            f"{folder} is no evaluation run (it has no config.json): give a folder that "
            f"'unmask evaluate --out' made"
        )
    config = _read_config(path)
    with Records.open(folder / "examples.jsonl") as records:
        kept = list(records)
    if not kept:
        raise Misuse(f"{folder} holds no finished example yet: start its evaluation again")
    return config, kept


def _here(examiner: Examiner, todo: list[Example]) -> Iterator[dict[str, Any]]:
    return (examiner(example) for example in todo)


def _on_ray(
    make: partial[Examiner], todo: list[Example], address: str, workers: int | None
) -> Iterator[dict[str, Any]]:
    from unmask.cluster import spread

    return (record for _, record in spread(todo, make, address=address, workers=workers))


def _absolute(settings: Settings) -> Settings:
    """Name a model's directory so that a worker elsewhere on this machine finds it."""
    from dataclasses import replace

    directory = Path(settings.model)
    return replace(settings, model=str(directory.resolve())) if directory.is_dir() else settings


def _check_folder(folder: Path) -> None:
    """Refuse a place that can't be or is something else, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise Misuse(f"{folder} is a file: give a folder for the run")
    if (folder / "config.json").is_file() or not folder.is_dir():
        return
    if any(not path.name.endswith(".partial") for path in folder.iterdir()):
        raise Misuse(f"{folder} exists and is no evaluation run: give an empty or a new folder")


def _claim(folder: Path, config: dict[str, Any]) -> None:
    """Take a new folder, or one that holds this very run; refuse any other."""
    path = folder / "config.json"
    if path.is_file():
        found, wanted = (_compared(c) for c in (_read_config(path), config))
        differ = [name for name in wanted | found if found.get(name) != wanted.get(name)]
        if differ:
            name = differ[0]
            said = f"{name} was {_shown(found.get(name))}, now {_shown(wanted.get(name))}"
            raise Misuse(
                f"{folder} holds another run ({said}): give another --out, or the same settings to go on "
                f"with it"
            )
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror or error}: check the path and its permissions") from None
    write_whole(path, json.dumps(config, indent=1, ensure_ascii=False) + "\n")


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
        return dict(config)
    except (OSError, ValueError):
        raise Failure(f"{path} is damaged: restore it, or give another --out") from None


def _check_records(records: Records, examples: list[Example]) -> None:
    strange = records.keys - {example.key for example in examples}
    if strange:
        raise Failure(
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
