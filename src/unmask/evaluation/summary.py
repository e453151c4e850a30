"""The summary of a run: a function of its records alone, whatever their order in the file.

Perplexities are exp of mean losses; every number has a bootstrap interval, and every two methods a paired
comparison of their losses a token, in nats. Breakdowns are by the distance of the blanks, by whether each
true token starts a word or goes on inside one, and by frequency: how often the rarer of the two true tokens
occurs in the sentences of this very sample (all their tokens), in three parts as equal as can be.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.evaluation.intervals import LEVEL, RESAMPLES, intervals

Record = dict[str, Any]
Column = Callable[[dict[str, Any]], float]


COLUMNS: dict[str, Column] = {
    "p_ppl": lambda m: -m["log_prob"] / 2,  # the example's part of log P-PPL
    "u_ppl": lambda m: -(m["log_a_given_b"] + m["log_b_given_a"]) / 2,
    "a_kl": lambda m: m["a_kl"],
    "g_kl": lambda m: m["g_kl"],
    "reverse_kl": lambda m: m["reverse_kl"],
    "jsd": lambda m: m["jsd"],
    "recall@1": lambda m: m["rank"] <= 1,
    "recall@5": lambda m: m["rank"] <= 5,
    "recall@10": lambda m: m["rank"] <= 10,
}
PERPLEXITIES = ("p_ppl", "u_ppl")
DISTANCES = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, None))


def summarise(records: Iterable[Record], settings: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run's records."""
    ordered = sorted(records, key=lambda record: int(record["number"]))
    methods = list(settings["methods"])
    table = {
        name: np.array([[float(column(r["metrics"][m])) for m in methods] for r in ordered])
        for name, column in COLUMNS.items()
    }
    errors = [r["completion_error"] for r in ordered if r["completion_error"]]
    known = [e for error in errors for e in error.values() if e is not None]
    incompatible = intervals(np.array([[float(r["incompatibility"])] for r in ordered]))
    return {
        "model": settings["model"],
        "data": settings["data"],
        "pairs": settings["pairs"],
        "candidates": settings["candidates"],
        "support": settings["support"],
        "examples": len(ordered),
        "drawn": settings["drawn"],
        "asked_for": settings["examples"],
        "skipped": settings["skipped"],
        "intervals": {"kind": "percentile bootstrap", "level": LEVEL, "resamples": RESAMPLES},
        "passes": float(np.mean([r["passes"] for r in ordered])),
        "completion_error": float(np.mean(known)) if known else None,
        "mass_outside_support": float(np.mean([r["mass_outside_support"] for r in ordered])),
        "incompatibility": _entry(*(float(v[0]) for v in incompatible)),
        "methods": _methods(methods, table, ordered),
        "comparisons": _comparisons(methods, table),
        "breakdowns": {
            "distance": _breakdown(methods, table, ordered, [_distance(r) for r in ordered], _DISTANCE_NAMES),
            "word class": _breakdown(methods, table, ordered, [_word_class(r) for r in ordered]),
            "frequency": _breakdown(methods, table, ordered, *_frequency(ordered)),
        },
    }


def _entry(value: float, low: float, high: float) -> dict[str, float]:
    return {"value": value, "low": low, "high": high}


def _metric(name: str, of_losses: NDArray[np.float64]) -> dict[str, float]:
    """Return a metric with its interval, given those of the mean of its column."""
    return _entry(*(float(v) for v in (np.exp(of_losses) if name in PERPLEXITIES else of_losses)))


def _methods(
    methods: list[str], table: dict[str, NDArray[np.float64]], ordered: list[Record]
) -> dict[str, dict[str, Any]]:
    """Return every metric of every method with its interval: the breakdown into one group."""
    (everything,) = _breakdown(methods, table, ordered, ["all"] * len(ordered))
    found: dict[str, dict[str, Any]] = everything["methods"]
    for method in methods:
        found[method]["not_converged"] = sum(method in r["not_converged"] for r in ordered)
    return found


def _comparisons(methods: list[str], table: dict[str, NDArray[np.float64]]) -> list[dict[str, Any]]:
    """Return the paired difference of every two methods, first less second, in every metric."""
    pairs = list(itertools.combinations(range(len(methods)), 2))
    found = []
    for name, values in table.items() if pairs else ():
        first, second = (values[:, list(side)] for side in zip(*pairs, strict=True))
        each = intervals(first - second)
        found += [
            {"metric": name, "first": methods[i], "second": methods[j]}
            | _entry(float(each.mean[k]), float(each.low[k]), float(each.high[k]))
            for k, (i, j) in enumerate(pairs)
        ]
    return found


def _breakdown(
    methods: list[str],
    table: dict[str, NDArray[np.float64]],
    ordered: list[Record],
    groups: Sequence[str],
    order: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Return every metric of each group of examples that there is."""
    found = []
    # [examples, methods * metrics]: one bootstrap for all of them
    columns = np.stack(list(table.values()), axis=-1).reshape(len(groups), -1)
    for group in order or sorted(set(groups)):
        here = np.array([g == group for g in groups])
        if not here.any():
            continue
        entry: dict[str, Any] = {"group": group, "examples": int(here.sum()), "methods": {}}
        each = iter(np.stack(intervals(columns[here]), axis=-1))
        for method in methods:
            ranks = [r["metrics"][method]["rank"] for r, inside in zip(ordered, here, strict=True) if inside]
            entry["methods"][method] = {name: _metric(name, next(each)) for name in table}
            entry["methods"][method]["median_rank"] = float(np.median(ranks))
        found.append(entry)
    return found


def _name(low: int, high: int | None) -> str:
    return f"{low} or more" if high is None else str(low) if low == high else f"{low}-{high}"


_DISTANCE_NAMES = [_name(*edges) for edges in DISTANCES]


def _distance(record: Record) -> str:
    apart = int(record["distance"])
    return next(_name(low, high) for low, high in DISTANCES if high is None or apart <= high)


def _word_class(record: Record) -> str:
    return ", ".join("inside" if inside else "start" for inside in record["inside"])


def _frequency(ordered: list[Record]) -> tuple[list[str], list[str]]:
    """Return the group of each example by how often its rarer true token occurs in the sample."""
    occurs = Counter(token for record in ordered for token in record["ids"])
    rarer = [min(occurs[record["ids"][i]] for i in record["blanks"]) for record in ordered]
    first, second = (int(q) for q in np.quantile(rarer, [1 / 3, 2 / 3], method="lower"))
    names = [
        f"rare (up to {first} times)",
        f"middle (up to {second} times)",
        f"common (more than {second} times)",
    ]
    return [names[(n > first) + (n > second)] for n in rarer], names
