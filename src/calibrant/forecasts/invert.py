"""Quantiles of forecasts whose levels were mapped.

Quantiles of the base at the levels that map to u are close to right, but steep maps turn a rounding of the level into
a jump. `refine_quantiles` therefore searches, for each quantile whose CDF is off, the least float at which the CDF
reaches u: outward from the first guess in growing steps until the CDF is on the other side of u, then by halving the
interval until its two ends are neighbouring floats.
"""

from __future__ import annotations

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.numerics import EPS, TINY, BoolArray, FloatArray, IntArray

#: A level is reached where the CDF is this close.
_CLOSE = 1e-10
#: The first step is to the next float, and each further one so many times the last.
_GROWTH = 8.0
#: Quantiles that are searched for at once.
_BATCH = 50_000
#: Steps outward, and halvings, after which two neighbouring floats are found wherever they lie.
_MAX_STEPS = 400


def base_quantiles(base: Forecast, level: FloatArray, u: FloatArray) -> FloatArray:
    """Return the base's quantiles at the levels that `u` came from: finite ones, unless u itself is 0 or 1.

    A level that rounds to 1 stands for one just below it.
    """
    level = np.where(u < 1.0, np.minimum(level, 1.0 - 0.5 * EPS), np.minimum(level, 1.0))
    return base.ppf(np.where(u > 0.0, np.maximum(level, TINY), level))


def refine_quantiles(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least floats at which the CDF of each row is at least u, near `y`; all of shape (n, m).

    `y` is kept where the CDF there is within 1e-10 of u, or jumps over u.
    """
    excess = forecast.cdf(y) - u
    is_off = np.isfinite(y) & (np.abs(excess) > _CLOSE)
    if not is_off.any():
        return y
    is_off &= (excess < 0.0) | (forecast.cdf(np.where(is_off, y - np.spacing(np.abs(y)), y)) >= u)
    rows, columns = np.nonzero(is_off)
    y = y.copy()
    for start in range(0, rows.size, _BATCH):
        i, j = rows[start : start + _BATCH], columns[start : start + _BATCH]
        with np.errstate(over="ignore"):  # of steps to beyond the last float
            y[i, j] = _least(forecast[i], y[i, j], u[i, j])
    return y


def _least(forecast: Forecast, y: FloatArray, u: FloatArray) -> FloatArray:
    """Return the least float of each row at which its CDF is at least u, searched for from y outward."""

    def reaches(rows: IntArray, at: FloatArray) -> BoolArray:
        is_reached: BoolArray = forecast[rows].cdf(at[rows]) >= u[rows]
        return is_reached

    all_rows = np.arange(y.size)
    is_high = reaches(all_rows, y)
    near, far, step = y.copy(), y.copy(), np.spacing(np.abs(y))
    left = all_rows
    for _ in range(_MAX_STEPS):
        near[left] = far[left]
        far[left] += np.where(is_high, -step, step)[left]
        step[left] *= _GROWTH
        left = left[(reaches(left, far) == is_high[left]) & np.isfinite(far[left])]
        if left.size == 0:
            break
    low, high = np.where(is_high, far, near), np.where(is_high, near, far)
    left = all_rows
    for _ in range(_MAX_STEPS):
        middle = low + 0.5 * (high - low)
        left = left[(middle[left] > low[left]) & (middle[left] < high[left])]
        if left.size == 0:
            break
        is_reached = reaches(left, middle)
        high[left[is_reached]] = middle[left[is_reached]]
        low[left[~is_reached]] = middle[left[~is_reached]]
    return high
