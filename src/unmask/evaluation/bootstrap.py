"""Percentile bootstrap: how far a mean over examples might be from that over all sentences like them.

The n examples are drawn n times with replacement, many times over; the middle 95% of the means that result is
the interval (Efron 1979). All columns are resampled together, so the interval of a difference between two
methods is that of the paired comparison, which sees through what is hard or easy for both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0
AT_ONCE = 2**22
"""Numbers of a resampling that are held at once."""


class Intervals(NamedTuple):
    """The means of columns and their intervals, each [columns]."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def intervals(
    values: NDArray[np.float64], *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = SEED
) -> Intervals:
    """Return mean and percentile interval of each column of values, [examples, columns]."""
    count = len(values)
    generator = np.random.default_rng(seed)
    means = []
    left = resamples
    while left:
        part = min(left, max(1, AT_ONCE // count))
        times = generator.multinomial(count, np.full(count, 1 / count), size=part)
        means.append(times @ values / count)
        left -= part
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2], axis=0)
    mean = values.mean(axis=0)
    # of equal values the resampled means differ by their rounding
    return Intervals(mean, np.minimum(low, mean), np.maximum(high, mean))
