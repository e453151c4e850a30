"""What a run took: time and memory, a function of its records alone, so that a kill loses nothing of it.

Every record says how long its example took and how large its process had become by then; the driver adds
which attempt of the run it belongs to (a run that was killed once has two) and how long that had lasted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


def peak_memory() -> int | None:
    """Return the most bytes that this process has had in memory; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def next_attempt(records: Iterable[dict[str, Any]]) -> int:
    """Return the number of the attempt that starts now, from 1 on."""
    return 1 + max((int(record.get("attempt", 0)) for record in records), default=0)


def cost(records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return what a run's records took, in all and by attempt.

    `seconds` are those of the clock, from the start of an attempt, the loading of the model included, to its
    last example; `seconds_of_work` those that the examples took, added over all workers; `peak_memory` that
    of the largest process, in bytes.
    """
    attempts: dict[int, list[dict[str, Any]]] = {}
    for record in records:
        attempts.setdefault(record["attempt"], []).append(record)
    parts = [_cost(attempts[number]) for number in sorted(attempts)]
    return _total(parts) | {"attempts": parts}


def _cost(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "examples": len(records),
        "seconds": max(record["clock"] for record in records),
        "seconds_of_work": round(sum(record["seconds"]["all"] for record in records), 3),
        "peak_memory": max((r["peak_memory"] for r in records if r["peak_memory"] is not None), default=None),
    }


def _total(parts: list[dict[str, Any]]) -> dict[str, Any]:
    peaks = [part["peak_memory"] for part in parts if part["peak_memory"] is not None]
    sums = {
        name: round(sum(part[name] for part in parts), 3)
        for name in ("examples", "seconds", "seconds_of_work")
    }
    return sums | {"peak_memory": max(peaks, default=None)}
