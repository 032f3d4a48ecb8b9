"""Rows of one-vs-rest probabilities as distributions: the multiplier of each row by Newton's method within a bracket.

`calibrant.maps.coupling` says what is minimised and where it is from. Each step evaluates the probabilities at the
multiplier, and their sum's excess over one. The next multiplier is Newton's where it stays inside the bracket and the
last step at least halved the excess, else the middle of the bracket. It stops where the excess, or the bracket, is of
the size of rounding. Each row's result depends on that row only.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import EPS, TINY, FloatArray

#: At least every second step halves the bracket or the excess: more than enough for float64.
_MOST_STEPS = 200


@compiled
def couple_rows(rates: FloatArray, out: FloatArray) -> int:
    """Write the most likely distribution of each row of `rates`, shape (n, K), up to rounding of its sum.

    Return the number of steps that all rows took.
    """
    n, k = rates.shape
    n_steps = 0
    for i in range(n):
        total = 0.0
        for j in range(k):
            total += rates[i, j]
        low = 1.0 - 2.0 * total if total > 1.0 else 0.0
        high = k / (k - 1.0) if total < 1.0 else 0.0
        multiplier, before = 0.0, np.inf
        for _ in range(_MOST_STEPS):
            n_steps += 1
            excess, slope = -1.0, 0.0
            m = multiplier
            for j in range(k):
                r = rates[i, j]
                away = 1.0 - m if m > 0.0 else 1.0 + m
                root = np.sqrt(away * away + 4.0 * abs(m) * (r if m > 0.0 else 1.0 - r))
                # the one form of the root for each sign of 1 - m that subtracts no like numbers
                if m <= 1.0:
                    p = 2.0 * r / max(1.0 - m + root, TINY)
                else:
                    p = (m - 1.0 + root) / (2.0 * m)
                p = min(p, 1.0)
                out[i, j] = p
                excess += p
                slope += p * (1.0 - p) / max(root, TINY)
            if excess > 0.0:
                high = m
            else:
                low = m
            if abs(excess) <= k * EPS or high - low <= EPS:
                break
            newton = m - excess / slope if slope > 0.0 else np.inf
            is_good = abs(excess) < 0.5 * before and low < newton < high
            multiplier = newton if is_good else 0.5 * (low + high)
            before = abs(excess)
    return n_steps
