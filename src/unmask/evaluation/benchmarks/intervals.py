"""Shares and means with their 95 % intervals, and rank correlation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Z = 1.959964


class Estimate(NamedTuple):
    """A number with the ends of its 95 % interval; None where there is too little to tell it from."""

    value: float | None
    low: float | None
    high: float | None


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


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation; None if one of the two does not vary."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(spearmanr(one, other).statistic)


def shown(estimate: Estimate, scale: float = 1.0, digits: int = 1) -> str:
    """Write a number with its interval for people."""
    value, low, high = ("-" if v is None else f"{scale * v:.{digits}f}" for v in estimate)
    return value if estimate.low is None else f"{value} [{low}, {high}]"
