"""Columns that rise but for falls that cost: the nearest ones."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.columns import PlaceArray
from calibrant.numerics import FloatArray, IntArray


@compiled
def _sorted_units(value: FloatArray, unit: PlaceArray, n_units: int) -> IntArray:
    """Return the places with those of each unit in the rising order of their values."""
    by = np.arange(value.size)
    for u in range(n_units):
        a, e = unit[u], unit[u + 1]
        if e > a + 1:
            by[a:e] = a + np.argsort(value[a:e], kind="mergesort")
    return by


@compiled
def rise_at_a_price(
    value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int, price: float, out: FloatArray
) -> None:
    """Write the non-negative column of least 1/2 sum_i weight_i (value_i - out_i)^2 + price x its falls.

    The falls are those from the highest entry of a unit to the lowest of the next, where that lies below it, and from
    the highest to the lowest within each unit. Within a unit the answer rises as `value` does, so all of it is one
    chain: rises cost inside a unit, falls everywhere.

    References
    ----------
    Johnson (2013), *A dynamic programming algorithm for the fused lasso and L0-segmentation*, Journal of
    Computational and Graphical Statistics 22(2): the slope of what the entries so far cost is kept as a list of knots,
    here clipped to [-price, 0], or to [-price, price] where rises cost as well.
    """
    n = value.size
    by = _sorted_units(value, unit, n_units)
    is_last = np.zeros(n, dtype=np.bool_)
    is_last[unit[1 : n_units + 1] - 1] = True
    place = np.empty(2 * n)
    slope = np.empty(2 * n)
    offset = np.empty(2 * n)
    lower = np.empty(n)
    upper = np.empty(n)
    left = n
    right = n - 1
    least = 0.0  # the slope before the first knot, and after the last
    most = 0.0
    for k in range(n):
        w = weight[by[k]]
        z = value[by[k]]
        first_slope, first_offset = w, least - w * z
        last_slope, last_offset = -w, w * z - most
        if k == n - 1:  # nothing follows: the best entry is where the slope is 0
            least = most = 0.0
        else:
            least = -price
            most = 0.0 if is_last[k] else price
        low = left
        while low <= right and first_slope * place[low] + first_offset <= least:
            first_slope += slope[low]
            first_offset += offset[low]
            low += 1
        lower[k] = (least - first_offset) / first_slope
        left = low - 1
        high = right
        while high > left and -last_slope * place[high] - last_offset >= most:
            last_slope += slope[high]
            last_offset += offset[high]
            high -= 1
        upper[k] = (most + last_offset) / -last_slope
        right = high + 1
        place[left], slope[left], offset[left] = lower[k], first_slope, first_offset - least
        place[right], slope[right], offset[right] = upper[k], last_slope, last_offset + most
    best = lower[n - 1]
    for k in range(n - 1, -1, -1):
        best = min(max(best, lower[k]), upper[k])
        out[by[k]] = max(best, 0.0)
