"""Anderson's extrapolation on iterations whose answer is known."""

import numpy as np
import pytest

from unmask.kernels.anderson import Anderson


@pytest.mark.parametrize("modes", [1, 3, 5])
def test_a_linear_iteration_with_few_slow_modes_is_solved_once_each_has_been_seen(modes):
    """theta <- theta* + M (theta - theta*), M diagonal: each slow mode costs a round."""
    generator = np.random.default_rng(modes)
    answer, start = generator.standard_normal(50), generator.standard_normal(50)
    rates = np.zeros(50)
    rates[:modes] = np.linspace(0.99, 0.5, modes)
    memory, theta = Anderson(np.ones(50)), start
    for _ in range(modes + 2):  # one more for all that arrives at once
        theta = memory.next(theta, answer + rates * (theta - answer))
    np.testing.assert_allclose(theta, answer, atol=1e-5)
    assert np.abs(rates ** (modes + 2) * (start - answer)).max() > 1e-3  # plain rounds are far from it


def test_a_step_too_far_is_not_taken():
    memory = Anderson(np.ones(1))
    theta = memory.next(np.zeros(1), np.ones(1))
    assert memory.next(theta, np.array([1.999])) == pytest.approx(1.999)  # points to 1001


def test_weights_are_multiplicities():
    generator = np.random.default_rng(0)
    rounds = [(generator.standard_normal(3), generator.standard_normal(3)) for _ in range(4)]
    counts = np.array([1, 4, 2])
    lumped, repeated = Anderson(counts.astype(float)), Anderson(np.ones(7))
    for theta, landing in rounds:
        expected = repeated.next(theta.repeat(counts), landing.repeat(counts))
        np.testing.assert_allclose(lumped.next(theta, landing).repeat(counts), expected, atol=1e-9)
