"""Curves of decoding: what each scheme gives at how many passes, and how many passes ours saves.

A family of schemes (`independent`, `tree`, ...) is a curve: a point for each number of passes or each bound,
the mean over texts. How many passes a family needs for a log-probability of the truth is read off its curve
by linear interpolation; a level is a share of the way from independent answers in one pass to one by one. The
saving at a level is the passes that the best of our families needs per pass of the best independent one.
Texts differ more than schemes do, so each point also has its differences from one by one over the same texts.
Intervals are by bootstrap over texts (Efron 1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.evaluation.decoding import ONE_BY_ONE
from unmask.evaluation.intervals import RESAMPLES, SEED, Estimate

Values = NDArray[np.float64]
INDEPENDENT, OURS = ("independent", "entropy bound"), ("tree", "tree bound", "pairs")
LEVELS = (0.5, 0.75, 0.9)
MEASURES = ("passes", "log_prob", "hits", "sample_passes", "sample_log_prob", "seconds")
DIFFERENCES = {"log_prob": "less_one_by_one", "sample_log_prob": "sample_less_one_by_one"}
"""What is also told less that of one by one, and under which name."""
TARGET = 2 / 3
"""The claim: ours needs at most so many passes per pass of the best independent scheme."""


def summarise_decoding(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return curves and savings for each data set and each share of masked tokens."""
    found = []
    for data in dict.fromkeys(r["data"] for r in records):
        for rate in dict.fromkeys(r["rate"] for r in records):
            here = [r for r in records if (r["data"], r["rate"]) == (data, rate)]
            if here:
                found.append({"data": data, "rate": rate, **_curves(here)})
    return found


def _curves(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    blanks = np.array([len(r["blanks"]) for r in records], dtype=float)
    tables = tabulate(records)
    rng = np.random.default_rng(SEED)
    drawn = rng.multinomial(len(blanks), np.full(len(blanks), 1 / len(blanks)), size=RESAMPLES)
    weights = np.concatenate([np.ones((1, len(blanks))), drawn])
    points = {name: _point(table, blanks, weights) for name, table in tables.items()}
    for point in points.values():
        for measure, difference in DIFFERENCES.items():
            point[difference] = point[measure] - points[ONE_BY_ONE][measure]
    return {
        "texts": len(records),
        "blanks": float(blanks.mean()),
        "points": {
            name: {measure: _estimate(values) for measure, values in point.items()}
            for name, point in points.items()
        },
        "savings": {
            f"{level:g}": {side: _estimate(values) for side, values in _saving(points, level).items()}
            for level in LEVELS
        },
    }


def tabulate(records: Sequence[dict[str, Any]]) -> dict[str, Values]:
    """Return the measures of each scheme, [measures, texts].

    A text with no more blanks than a scheme has passes is filled one by one.
    """
    names = dict.fromkeys(name for r in records for name in r["schemes"])
    return {
        name: np.array(
            [[r["schemes"].get(name, r["schemes"][ONE_BY_ONE])[m] for r in records] for m in MEASURES],
            dtype=float,
        )
        for name in names
    }


def _point(table: Values, blanks: Values, weights: Values) -> dict[str, Values]:
    """Return the point of a scheme for each resampling, the sample itself first: [resamples] per measure.

    Passes and seconds are per text; log-probabilities and hits are per blank.
    """
    texts, all_blanks = weights.sum(axis=1), weights @ blanks
    by_text = ("passes", "sample_passes", "seconds")
    return {
        measure: weights @ table[i] / (texts if measure in by_text else all_blanks)
        for i, measure in enumerate(MEASURES)
    }


def _saving(points: dict[str, dict[str, Values]], level: float) -> dict[str, Values]:
    """Return the passes that each side needs for a level, and ours per independent one, [resamples] each.

    `tree` is by itself, too: it is what `unmask sample --passes` does.
    """
    start, end = points["independent:1"]["log_prob"], points[ONE_BY_ONE]["log_prob"]
    wanted = start + level * (end - start)
    needed = {
        side: np.array([_needed(points, families, n, w) for n, w in enumerate(wanted)])
        for side, families in (("independent", INDEPENDENT), ("ours", OURS), ("tree", ("tree",)))
    }
    return {**needed, "ratio": needed["ours"] / needed["independent"]}


def _needed(
    points: dict[str, dict[str, Values]], families: Sequence[str], sample: int, wanted: float
) -> float:
    """Return the fewest passes by which one of some families reaches a log-probability."""
    last = points[ONE_BY_ONE]
    fewest = float(last["passes"][sample])
    for family in families:
        curve = [
            (float(point["passes"][sample]), float(point["log_prob"][sample]))
            for name, point in points.items()
            if name.rpartition(":")[0] == family
        ]
        end = (float(last["passes"][sample]), float(last["log_prob"][sample]))
        fewest = min(fewest, passes_for(wanted, [*curve, end]))
    return fewest


def passes_for(wanted: float, curve: Sequence[tuple[float, float]]) -> float:
    """Return the fewest passes by which a curve of (passes, log-probability) reaches a log-probability.

    Between two points the curve is a straight line; infinity if it never gets there.
    """
    ordered = sorted(curve)
    if ordered[0][1] >= wanted:
        return ordered[0][0]
    for (before, low), (after, high) in pairwise(ordered):
        if high >= wanted:
            return before + (after - before) * (wanted - low) / (high - low)
    return float("inf")


def _estimate(values: Values) -> dict[str, Any]:
    """Return the first of some values with the interval of the others, which are resamples."""
    return Estimate.of_resamples(values[0], values[1:])._asdict()
