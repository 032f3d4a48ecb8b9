"""Quantiles put where the CDF reaches their level, to the last bit: steep maps make a rounding a jump."""

from __future__ import annotations

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.numerics import BoolArray, FloatArray, IntArray

#: A level is reached where the CDF is this close.
_CLOSE = 1e-10
#: The first step is one bit, and each further one so many times the last.
_GROWTH = 8.0
#: Elements that are settled at once.
_BATCH = 50_000
#: Steps, and halvings, after which two neighbouring floats are found wherever they lie.
_MOST = 400


def settled(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least floats at which the CDF of each row is at least u, near `y`; all of shape (n, m).

    `y` is kept where the CDF there is within 1e-10 of u, or jumps over u.
    """
    reached = forecast._cdf(y) - u
    is_off = np.isfinite(y) & (np.abs(reached) > _CLOSE)
    if not is_off.any():
        return y
    is_off &= (reached < 0.0) | (forecast._cdf(np.where(is_off, y - np.spacing(np.abs(y)), y)) >= u)
    rows, columns = np.nonzero(is_off)
    y = y.copy()
    for start in range(0, rows.size, _BATCH):
        i, j = rows[start : start + _BATCH], columns[start : start + _BATCH]
        with np.errstate(over="ignore"):  # of steps to beyond the last float
            y[i, j] = _least(forecast._take(i), y[i, j], u[i, j])
    return y


def _least(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least float of each row at which its CDF is at least u, sought from y outward."""

    def reaches(rows: IntArray, at: FloatArray) -> BoolArray:
        is_reached: BoolArray = forecast._take(rows)._cdf(at[rows, None])[:, 0] >= u[rows]
        return is_reached

    everyone = np.arange(y.size)
    is_high = reaches(everyone, y)
    near, far, step = y.copy(), y.copy(), np.spacing(np.abs(y))
    left = everyone
    for _ in range(_MOST):  # out, until the CDF is on the other side of u
        near[left] = far[left]
        far[left] += np.where(is_high, -step, step)[left]
        step[left] *= _GROWTH
        left = left[(reaches(left, far) == is_high[left]) & np.isfinite(far[left])]
        if left.size == 0:
            break
    low, high = np.where(is_high, far, near), np.where(is_high, near, far)
    left = everyone
    for _ in range(_MOST):  # and in again, until the two are neighbours
        middle = low + 0.5 * (high - low)
        left = left[(middle[left] > low[left]) & (middle[left] < high[left])]
        if left.size == 0:
            break
        is_reached = reaches(left, middle)
        high[left[is_reached]] = middle[left[is_reached]]
        low[left[~is_reached]] = middle[left[~is_reached]]
    return high
