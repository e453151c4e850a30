"""Bootstrap intervals cover what they promise, and pair what is paired."""

import numpy as np
import pytest

from unmask.evaluation import intervals as module
from unmask.evaluation.intervals import intervals


def test_intervals_cover_the_true_mean_about_as_often_as_they_say():
    """400 samples of 60; with a true coverage of 93.5 to 95% fewer than 357 hits are a 1e-3 event."""
    generator = np.random.default_rng(1)
    samples = generator.exponential(2.0, size=(60, 400))
    found = intervals(samples, resamples=600)
    hits = int(((found.low <= 2.0) & (found.high >= 2.0)).sum())
    assert 357 <= hits <= 396


def test_the_interval_of_a_difference_is_that_of_the_pairs():
    generator = np.random.default_rng(2)
    hard = 5 * generator.standard_normal(200)
    values = np.stack([hard, hard + 0.1 + 0.05 * generator.standard_normal(200)], axis=1)
    apart = intervals(values[:, 1:] - values[:, :1])
    assert 0.08 < apart.low[0] < 0.1 < apart.high[0] < 0.12
    each = intervals(values)
    assert each.high[0] - each.low[0] > 1


def test_the_same_seed_gives_the_same_interval_however_it_is_cut(monkeypatch):
    values = np.random.default_rng(3).standard_normal((50, 2))
    first, other = intervals(values), intervals(values, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(first, intervals(values), strict=True))
    assert not np.array_equal(first.low, other.low)
    monkeypatch.setattr(module, "AT_ONCE", 500)
    again = intervals(values)
    assert again.low == pytest.approx(first.low)
    assert again.mean == pytest.approx(values.mean(0))


def test_one_example_has_an_interval_of_no_width():
    found = intervals(np.array([[2.0, 3.0]]))
    assert [*found.low, *found.high] == [2, 3, 2, 3]


@pytest.mark.parametrize("count", range(2, 40))
def test_the_interval_of_equal_values_holds_their_mean(count):
    found = intervals(np.full((count, 1), 0.1), resamples=50)
    assert found.low[0] <= found.mean[0] <= found.high[0]
    assert found.high[0] - found.low[0] < 1e-15
