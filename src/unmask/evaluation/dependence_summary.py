"""How well each proxy of dependence ranks and predicts the mutual information, with 95 % intervals.

Ranks are compared by Spearman's correlation. A proxy need not be in nats, so what it predicts is the best
rising function of it (isotonic regression), fitted on four fifths of the pairs and held against the others.
Intervals are by bootstrap over pairs (Efron 1979).

The reference is an estimate itself. How well the estimates by the even and by the odd draws rank pairs alike
says how much its noise can lower a proxy's correlation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unmask.evaluation.dependence_proxies import PROXIES
from unmask.evaluation.intervals import RESAMPLES, SEED, Estimate

Values = NDArray[np.float64]
DISTANCES = {"1": (1, 1), "2": (2, 2), "3–4": (3, 4), "5–8": (5, 8), "9–16": (9, 16)}
OURS = "pair head"
FOLDS, BINS = 5, 10
FEWEST = 10
"""Pairs below which a group is not judged."""


def summarise_dependence(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what the page tells, from the records of `measure_dependence`."""
    pairs = [r for r in records if not r["exact"]]
    truth = np.array([r["information"] for r in pairs])
    scores = {name: np.array([r["proxies"][name] for r in pairs]) for name in PROXIES}
    groups = {"all": np.ones(len(pairs), dtype=bool)}
    for data in dict.fromkeys(r["data"] for r in pairs):
        groups[data] = np.array([r["data"] == data for r in pairs])
    for name, (nearest, furthest) in DISTANCES.items():
        groups[f"distance {name}"] = np.array([nearest <= r["distance"] <= furthest for r in pairs])
    return {
        "pairs": len(pairs),
        "reference": _reference(records),
        "groups": {
            name: _judged(truth[rows], {proxy: score[rows] for proxy, score in scores.items()})
            for name, rows in groups.items()
            if rows.sum() >= FEWEST
        },
        "predicted": {
            proxy: {
                "passes": PROXIES[proxy].passes,
                "r2": explained(score, truth),
                "bins": _bins(score, truth),
            }
            for proxy, score in scores.items()
        },
    }


def _judged(truth: Values, scores: dict[str, Values]) -> dict[str, Any]:
    """Return the rank correlations of one group of pairs, and ours less the best of the others."""
    value, drawn = rank_correlations(truth, np.stack(list(scores.values())))
    names = list(scores)
    best = max((name for name in names if name != OURS), key=lambda name: value[names.index(name)])
    ours, other = names.index(OURS), names.index(best)
    return {
        "pairs": len(truth),
        "information": float(truth.mean()),
        "spearman": {name: _estimate(value[i], drawn[:, i]) for i, name in enumerate(names)},
        "best_other": best,
        "gain": _estimate(value[ours] - value[other], drawn[:, ours] - drawn[:, other]),
    }


def rank_correlations(truth: Values, scores: Values, *, resamples: int = RESAMPLES) -> tuple[Values, Values]:
    """Return Spearman's correlation of each row of scores with the truth, and those of resampled pairs.

    `truth` is [pairs] and `scores` [proxies, pairs]; the results are [proxies] and [resamples, proxies]. All
    proxies see the same resampled pairs, so their differences are paired.
    """
    from scipy.stats import rankdata

    rows = np.concatenate([truth[None], scores])

    def correlated(which: NDArray[np.int64]) -> Values:
        ranks = rankdata(rows[:, which], axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        spread = np.sqrt((ranks**2).sum(axis=1))
        with np.errstate(invalid="ignore"):
            found = ranks[1:] @ ranks[0] / (spread[1:] * spread[0])
        return np.asarray(
            np.nan_to_num(found).clip(-1, 1)
        )  # a proxy that is the same for all pairs ranks nothing

    rng = np.random.default_rng(SEED)
    drawn = [correlated(rng.integers(len(truth), size=len(truth))) for _ in range(resamples)]
    return correlated(np.arange(len(truth))), np.stack(drawn)


def explained(score: Values, truth: Values) -> dict[str, float]:
    """Return the share of the truth's variance that a rising function of a score predicts, with its interval.

    The function is fitted on other pairs than it is held against. The interval is by bootstrap over pairs of
    what was predicted.
    """
    fold = np.random.default_rng(SEED).permutation(len(truth)) % FOLDS
    predicted = np.empty_like(truth)
    for number in range(FOLDS):
        learned, asked = fold != number, fold == number
        predicted[asked] = rising_fit(score[learned], truth[learned], score[asked])
    drawn = np.random.default_rng(SEED).integers(len(truth), size=(RESAMPLES, len(truth)))
    values = [_share_explained(truth[rows], predicted[rows]) for rows in drawn]
    return _estimate(_share_explained(truth, predicted), np.array(values))


def rising_fit(score: Values, truth: Values, asked: Values) -> Values:
    """Return the best rising function of a score at other scores; pairs of one score have one value."""
    from scipy.optimize import isotonic_regression

    known, which, count = np.unique(score, return_inverse=True, return_counts=True)
    means = np.bincount(which, truth) / count
    return np.asarray(np.interp(asked, known, isotonic_regression(means, weights=count).x))


def _share_explained(truth: Values, predicted: Values) -> float:
    spread = ((truth - truth.mean()) ** 2).sum()
    return float(1 - ((truth - predicted) ** 2).sum() / spread) if spread > 0 else 0.0


def _bins(score: Values, truth: Values) -> list[dict[str, float]]:
    """Return tenths of the pairs by a score: the mean score, and the quartiles of the truth."""
    tenths = np.array_split(np.argsort(score, kind="stable"), BINS)
    return [
        {
            "score": float(score[rows].mean()),
            "mean": float(truth[rows].mean()),
            "low": float(np.quantile(truth[rows], 0.25)),
            "high": float(np.quantile(truth[rows], 0.75)),
        }
        for rows in tenths
        if len(rows)
    ]


def _reference(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how good the reference is: the mass drawn, the bracket, noise, and errors of exact pairs."""
    estimates = {r["key"]: r for r in records if not r["exact"]}
    exact = [(r["information"], estimates[r["key"].removesuffix(":exact")]) for r in records if r["exact"]]
    errors = np.array([estimate["information"] - truth for truth, estimate in exact])

    def mean(name: str) -> float:
        return float(np.mean([r[name] for r in estimates.values()]))

    halves = np.array([r["halves"] for r in estimates.values()])
    return {
        # the mean of two halves has half of their difference as its standard error
        "noise": float(np.sqrt(((halves[:, 0] - halves[:, 1]) ** 2).mean()) / 2),
        "halves_spearman": float(rank_correlations(halves[:, 0], halves[:, 1:].T, resamples=1)[0][0]),
        "information": mean("information"),
        "upper": mean("upper"),
        "left": mean("left"),
        "exact_pairs": len(exact),
        "exact_information": float(np.mean([truth for truth, _ in exact])) if exact else None,
        "mean_error": float(errors.mean()) if exact else None,
        "mean_absolute_error": float(np.abs(errors).mean()) if exact else None,
        "largest_error": float(np.abs(errors).max()) if exact else None,
    }


def _estimate(value: float, drawn: Values) -> dict[str, Any]:
    return Estimate.of_resamples(value, drawn)._asdict()
