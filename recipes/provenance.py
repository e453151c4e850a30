"""What a file of results was made with, kept the same way in all of them.

A file of results is a JSON object. Beside its numbers it has `made`: for each part of the file the date, the
model, the digest of its weights and, where the numbers depend on it, that of its pair head:

    {"made": {"blimp": {"date": "2026-11-18", "model": "english", "weights": "…", "pair_head": "…"}}, …}

A file without parts has one, `all`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unmask.models.digests import digest_of_files, digested_files
from unmask.models.pair_head import FILE as PAIR_HEAD
from unmask.runs.disk import write_whole

MADE = "made"
ALL = "all"
MODEL = "english"
Stamp = dict[str, str]
OTHER = {"model": "another model", "weights": "other weights", "pair_head": "another pair head"}


def digests(model: str = MODEL) -> Stamp:
    """Return the digests of a checkpoint, `weights` (with config and tokenizer), and of its pair head.

    The two are told apart, unlike in `weights_digest`: a new pair head leaves fine-tuning as it was.
    """
    files = digested_files(model)
    head = [f for f in files if f.name == PAIR_HEAD]
    found = {"weights": digest_of_files(f for f in files if f not in head)}
    return found | ({"pair_head": digest_of_files(head)} if head else {})


def stamp(*, pair_head: bool, model: str = MODEL) -> Stamp:
    """Return what is made now: the date, the model and its digests, the pair head's if it matters."""
    found = {"date": datetime.now(UTC).date().isoformat(), "model": model, **digests(model)}
    return found if pair_head else {name: value for name, value in found.items() if name != "pair_head"}


def read(path: Path) -> dict[str, Any]:
    """Return a file of results, with nothing in it if there is none."""
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def write(path: Path, found: Mapping[str, Any], made: Mapping[str, Stamp]) -> dict[str, Any]:
    """Write results, and what these parts were made with; other parts keep what they have. Returns all."""
    whole = {MADE: found.get(MADE, {}) | dict(made)} | {k: v for k, v in found.items() if k != MADE}
    write_whole(path, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return whole


def why_stale(recorded: Mapping[str, str] | None, now: Mapping[str, str]) -> str | None:
    """Return why what was recorded is not what would be made now; None if it is."""
    if not recorded:
        return "its weights are not recorded"
    for name, other in OTHER.items():
        was, is_now = recorded.get(name), now.get(name)
        if name in now and was != is_now:
            return f"made with {other} ({_short(was)}, now {_short(is_now)})"
    return None


def shown(recorded: Mapping[str, str] | None) -> str:
    """Say in a few words when and with which weights something was made."""
    if not recorded:
        return "made with earlier weights; date not recorded"
    head = f", pair head {_short(recorded['pair_head'])}" if "pair_head" in recorded else ""
    return f"{recorded['date']}, weights {_short(recorded['weights'])}{head}"


def _short(digest: str | None) -> str:
    return (digest or "none")[:8]
