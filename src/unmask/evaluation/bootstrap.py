"""Percentile bootstrap: how far a mean over examples might be from that over all sentences like them.

The n examples are drawn n times with replacement, many times over; the middle 95% of the means that result is
the interval (Efron 1979). scipy draws the examples; all columns are resampled together, so the interval of a
difference between two methods is that of the paired comparison, which sees through what is hard or easy for
both, and the means of all columns are one matrix product.
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
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    # of equal values the resampled means differ by their rounding
    return Intervals(mean, np.minimum(low, mean), np.maximum(high, mean))
