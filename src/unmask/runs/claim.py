"""Whose a place is: a run takes a new directory or file, or the one that it began, and refuses any other.

A place in which nothing is finished is taken over, and what was prepared there is removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from unmask.errors import UsageError
from unmask.runs.disk import lock, write_whole
from unmask.runs.records import Records
from unmask.runs.settings_record import NAME, RunKind, read_settings, unknown_files

SETTINGS = "settings"
"""The key of the settings record in a file of records."""


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other processes out of a directory; it is made if need be, and removed if it stays empty."""
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY)
    try:
        lock(handle, directory)
        yield
    finally:
        os.close(handle)
        if made:
            with suppress(OSError):
                directory.rmdir()  # which a directory that holds anything refuses


def claim_directory(kind: RunKind, directory: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the run in a directory, which are from now on the wanted ones if it had none."""
    kept = read_settings(kind, directory)
    differs = kind.difference(kept, wanted["settings"]) if kept is not None else None
    if kept is not None and differs is None:
        return kept
    if differs is not None:
        if _is_begun(kind, directory):
            raise _other_run(directory, differs)
        for name in (*kind.prepared, *([kind.records] if kind.records else [])):
            remove(directory / name)
    write_settings(directory, wanted)
    return dict(wanted["settings"])


def _is_begun(kind: RunKind, directory: Path) -> bool:
    """Tell whether a run has finished anything, or its directory holds something that is not its own."""
    if kind.records and (directory / kind.records).is_file():
        with Records(directory / kind.records, writing=False) as records:
            if len(records):
                return True
    return bool(unknown_files(directory, (*kind.prepared, kind.records or NAME)))


def claim_file(kind: RunKind, records: Records, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the run in a file of records; one without settings takes the wanted ones.

    The settings line of an earlier version of unmask is the settings themselves.
    """
    first = next(iter(records), None)
    if first is not None:
        if first.pop("key", None) != SETTINGS:
            raise UsageError(f"{records.path} holds no {kind.name}: give another --out")
        kept = kind.settings_of(first, records.path) if "format" in first else first
        differs = kind.difference(kept, wanted["settings"])
        if differs is None:
            return kept
        if len(records) > 1:
            raise _other_run(records.path, differs)
        records.clear()
    records.append({"key": SETTINGS, **wanted})
    return dict(wanted["settings"])


def _other_run(place: Path, differs: str) -> UsageError:
    return UsageError(
        f"{place} holds another run ({differs}): give another --out, or the same settings to resume it"
    )


def write_settings(directory: Path, record: dict[str, Any]) -> None:
    """Write the settings record of a directory."""
    write_whole(directory / NAME, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def remove(path: Path) -> None:
    """Remove a file or a directory, if it is there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
