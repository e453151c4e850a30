"""The compiled loop of `unmask.kernels.divergences`, and the logarithm and exponential that it is made of.

In a file of their own, which imports numba and is imported on use: compiled code is kept on disk only if it
calls functions of its own module.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PIECE = 512
"""How many columns a sum gathers in float32 before it goes to float64."""
SMALLEST = -87.0
"""Log-probabilities below this are taken for it: e^-87 is about the smallest float32."""


# x = 2^e m with m from sqrt(1/2) to sqrt(2); log m by a polynomial in m - 1
@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def log(x):  # type: ignore[no-untyped-def]
    """Return the natural logarithm of a positive, normal float32."""
    f = np.float32
    bits = np.float32(x).view(np.int32)
    e = f((bits >> np.int32(23)) - np.int32(126))
    m = np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)).view(np.float32)
    small = m < f(0.70710678)
    e = e - f(1) if small else e
    m = (m + m - f(1)) if small else m - f(1)
    z = m * m
    y = f(7.0376836292e-2)
    y = y * m + f(-1.1514610310e-1)
    y = y * m + f(1.1676998740e-1)
    y = y * m + f(-1.2420140846e-1)
    y = y * m + f(1.4249322787e-1)
    y = y * m + f(-1.6668057665e-1)
    y = y * m + f(2.0000714765e-1)
    y = y * m + f(-2.4999993993e-1)
    y = y * m + f(3.3333331174e-1)
    y = y * m * z
    y += e * f(-2.12194440e-4)
    y += z * f(-0.5)
    return m + y + e * f(0.693359375)


# x = n log 2 + r; e^r by a polynomial, times 2^n
@njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
def exp(x):  # type: ignore[no-untyped-def]
    """Return the exponential of a float32 up to 88; whatever is below SMALLEST is taken for it."""
    f = np.float32
    x = max(f(x), f(SMALLEST))
    n = np.floor(x * f(1.44269504088896341) + f(0.5))
    r = x - n * f(0.693359375)
    r = r - n * f(-2.12194440e-4)
    y = f(1.9875691500e-4)
    y = y * r + f(1.3981999507e-3)
    y = y * r + f(8.3334519073e-3)
    y = y * r + f(4.1665795894e-2)
    y = y * r + f(1.6666665459e-1)
    y = y * r + f(5.0000001201e-1)
    y = y * r * r + r + f(1)
    return y * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def rows(log_q, p, r, log_a, log_b, inverse_b, n_b, level, start, stop, found):  # type: ignore[no-untyped-def]
    """Write the four sums of each row from start to stop into found, [a, 4]."""
    columns = len(log_b)
    zero, half = np.float32(0), np.float32(0.5)
    for a in range(start, stop):
        forward, backward, shared, above = np.float64(0), np.float64(0), np.float64(0), np.float64(0)
        log_q_a, inverse_a = log_a[a], exp(-log_a[a])
        for piece in range(0, columns, PIECE):
            f, w, s, n = zero, zero, zero, zero
            end = min(piece + PIECE, columns)
            # slices, as in unmask.kernels.newman: an index that may be negative costs gathers
            log_q_, p_, r_ = log_q[a, piece:end], p[a, piece:end], r[a, piece:end]
            log_b_, inverse_b_, n_ = log_b[piece:end], inverse_b[piece:end], n_b[piece:end]
            for b in range(end - piece):
                log_cell, p_cell, r_cell = log_q_[b], p_[b], r_[b]
                q = exp(log_cell)
                g, h = q * inverse_b_[b], q * inverse_a
                log_p, log_r = log(p_cell), log(r_cell)
                log_g, log_h = log_cell - log_b_[b], log_cell - log_q_a
                log_m, log_k = log((p_cell + g) * half), log((r_cell + h) * half)
                f += n_[b] * (p_cell * (log_p - log_g) + r_cell * (log_r - log_h))
                w += n_[b] * (g * (log_g - log_p) + h * (log_h - log_r))
                s += n_[b] * (
                    (p_cell * (log_p - log_m) + g * (log_g - log_m))
                    + (r_cell * (log_r - log_k) + h * (log_h - log_k))
                )
                n += n_[b] if log_cell > level else zero
            forward += f
            backward += w
            shared += s
            above += n
        found[a, 0], found[a, 1], found[a, 2], found[a, 3] = forward, backward, shared, above
