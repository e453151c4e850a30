"""Shares and means with their 95 % intervals, by formula or by bootstrap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Z = 1.959964
RESAMPLES = 2000
LEVEL = 0.95
SEED = 0
AT_ONCE = 2**22
"""Numbers of a resampling that are held at once."""


class Estimate(NamedTuple):
    """A number with the ends of its 95 % interval; None where there is too little to tell it from."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of_resamples(cls, value: float, drawn: NDArray[np.float64]) -> Estimate:
        """Return a number with the middle 95 % of what resamples gave, [resamples]."""
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return cls(float(value), float(low), float(high))


def share(hits: float, total: int) -> Estimate:
    """Return a share with Wilson's interval."""
    if total == 0:
        return Estimate(None, None, None)
    p = hits / total
    centre = (p + Z * Z / (2 * total)) / (1 + Z * Z / total)
    half = Z / (1 + Z * Z / total) * math.sqrt(p * (1 - p) / total + Z * Z / (4 * total * total))
    # where nothing, or all, was hit an end is 0 or 1, which rounding may miss on either side
    return Estimate(p, 0.0 if hits == 0 else centre - half, 1.0 if hits == total else centre + half)


def mean(values: Sequence[float]) -> Estimate:
    """Return a mean with the interval of the normal approximation; values that are all alike give none."""
    if not values:
        return Estimate(None, None, None)
    centre = math.fsum(values) / len(values)
    if min(values) == max(values):
        return Estimate(centre, None, None)
    spread = math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))
    half = Z * spread / math.sqrt(len(values))
    return Estimate(centre, centre - half, centre + half)


def shown(estimate: Estimate, scale: float = 1.0, digits: int = 1) -> str:
    """Write a number with its interval for people."""
    value, low, high = ("-" if v is None else f"{scale * v:.{digits}f}" for v in estimate)
    return value if estimate.low is None else f"{value} [{low}, {high}]"


class Intervals(NamedTuple):
    """The means of columns and their intervals, each [columns]."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def intervals(values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> Intervals:
    """Return mean and percentile interval of each column of values, [examples, columns], by bootstrap.

    The n examples are drawn n times with replacement, many times over; the middle 95% of the means that
    result is the interval (Efron 1979). All columns are resampled together, so the interval of a difference
    between two methods is that of the paired comparison, which sees through what is hard or easy for both,
    and the means of all columns are one matrix product.
    """
    from scipy.stats import bootstrap

    count, mean = len(values), values.mean(axis=0)
    if count == 1:
        return Intervals(mean, mean, mean)

    def means(drawn: NDArray[np.int64], axis: int) -> NDArray[np.float64]:  # noqa: ARG001
        """Return the means [columns, resamples] of the examples drawn, [resamples, examples]."""
        rows = drawn + count * np.arange(len(drawn))[:, None]
        times = np.bincount(rows.ravel(), minlength=rows.size).reshape(rows.shape)
        return np.asarray(times @ values / count).T

    low, high = bootstrap(
        (np.arange(count),),
        means,
        n_resamples=resamples,
        batch=max(1, AT_ONCE // count),
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    # of equal values the resampled means differ by their rounding
    return Intervals(mean, np.minimum(low, mean), np.maximum(high, mean))
