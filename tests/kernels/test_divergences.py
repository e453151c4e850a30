"""The logarithm and the exponential that are written out as polynomials, against numpy's in float64."""

import numpy as np
from numba import njit

from unmask.kernels.divergence_rows import exp, log


@njit
def mapped(function, values):
    found = np.empty_like(values)
    for i in range(len(values)):
        found[i] = function(values[i])
    return found


def test_the_logarithm_is_good_to_the_last_digits_of_a_float():
    values = np.exp(np.linspace(-87, 80, 40_001)).astype(np.float32)
    expected = np.log(values.astype(np.float64))
    np.testing.assert_allclose(mapped(log, values), expected, rtol=2e-7, atol=1e-7)


def test_the_exponential_is_good_to_the_last_digits_of_a_float():
    values = np.linspace(-86.9, 80, 40_001).astype(np.float32)
    expected = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(mapped(exp, values), expected, rtol=2e-7)


def test_the_exponential_of_what_is_too_small_is_the_smallest():
    values = np.array([-1e30, -500.0, -88.0, -87.0], dtype=np.float32)
    np.testing.assert_allclose(mapped(exp, values), np.full(4, np.exp(-87.0)), rtol=1e-6)
