"""The settings record of a run: what it is, and what must be the same to resume it.

    {"format": 2, "kind": "evaluation", "digest": "…", "settings": {…}}

It is `settings.json` in a directory and the first line of a file of records. The digest is that of the
settings that must be the same to resume; a kind of run says which others may change. A run of an earlier
version of unmask has no `format`: a file of records is resumed all the same, a directory is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unmask.errors import RunError, UsageError

FORMAT = 2
NAME = "settings.json"


@dataclass(frozen=True)
class RunKind:
    """A kind of run: what it is called and what belongs to it.

    Attributes:
        name: as in "DIR holds no evaluation".
        records: the name of the file of records in a run's directory; None for a run of checkpoints.
        may_change: the settings that need not be the same to resume a run.
        prepared: other files and directories that a run may make before its first piece of work is finished.
        earlier: the settings file that earlier versions of unmask wrote into a directory, and names in it.
        timed: whether each record says in which attempt it was made, and when.
    """

    name: str
    records: str | None = None
    may_change: frozenset[str] = frozenset()
    prepared: tuple[str, ...] = ()
    earlier: tuple[str, frozenset[str]] | None = None
    timed: bool = False

    def record(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings record of a run."""
        plain = json.loads(json.dumps(settings))
        return {"format": FORMAT, "kind": self.name, "digest": self._digest(plain), "settings": plain}

    def settings_of(self, record: object, place: Path) -> dict[str, Any]:
        """Return the settings that a record holds; raise if it is another's or damaged."""
        settings = record.get("settings") if isinstance(record, dict) else None
        if not isinstance(record, dict) or not isinstance(settings, dict) or "format" not in record:
            raise UsageError(f"{place} holds no {self.name}: give another --out")
        if record["format"] != FORMAT:
            raise UsageError(
                f"{place} holds a run of another version of unmask (format {record['format']}, this version "
                f"reads {FORMAT}): finish it with that version, or give another --out"
            )
        found = record.get("kind")
        if found != self.name:
            raise UsageError(
                f"{place} holds no {self.name} but another kind of run ({found}): give another --out"
            )
        if record.get("digest") != self._digest(settings):
            raise RunError(f"the settings in {place} are damaged: restore them, or give another --out")
        return settings

    def difference(self, kept: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
        """Say in which setting two runs differ; None if one can be resumed as the other."""
        for name in {**wanted, **kept}:
            was, now = _resolved(kept.get(name)), _resolved(wanted.get(name))
            if name not in self.may_change and was != now:
                return f"{name} was {_shown(kept.get(name))}, now {_shown(wanted.get(name))}"
        return None

    def _digest(self, settings: Mapping[str, Any]) -> str:
        fixed = {name: value for name, value in settings.items() if name not in self.may_change}
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()[:24]


def read_settings(kind: RunKind, directory: Path) -> dict[str, Any] | None:
    """Return the settings of the run in a directory; None if it is empty or absent; raise for any other."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file: give a directory for the {kind.name}")
    path = directory / NAME
    if path.is_file() and not _is_earlier(kind, directory):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise RunError(f"{path} is damaged: restore it, or give another --out") from None
        return kind.settings_of(record, directory)
    if _is_earlier(kind, directory):
        raise UsageError(
            f"{directory} holds a run of an earlier version of unmask, which this version does not resume: "
            f"finish it with that version, or give another --out"
        )
    if unknown_files(directory, ()):
        raise UsageError(f"{directory} exists and holds no {kind.name}: give an empty or a new directory")
    return None


def unknown_files(directory: Path, known: Iterable[str]) -> list[str]:
    """Return the names in a directory beside the settings record and those that are known."""
    expected = {NAME, f"{NAME}.partial", *known}
    return [p.name for p in directory.iterdir() if p.name not in expected] if directory.is_dir() else []


def _is_earlier(kind: RunKind, directory: Path) -> bool:
    """Tell whether a directory has the settings file that earlier versions wrote, without a format."""
    if kind.earlier is None:
        return False
    name, fields = kind.earlier
    try:
        found = json.loads((directory / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and "format" not in found and found.keys() >= fields


def _resolved(value: Any) -> Any:
    """Return a setting in which files, also as NAME=FILE, have one spelling from wherever one looks."""
    if isinstance(value, list):
        return [_resolved(one) for one in value]
    if not isinstance(value, str):
        return value
    if value and Path(value).is_file():  # also one with = in its name
        return str(Path(value).resolve())
    name, equals, file = value.rpartition("=")
    return name + equals + str(Path(file).resolve()) if file and Path(file).exists() else value


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
