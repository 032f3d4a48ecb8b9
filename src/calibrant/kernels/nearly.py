"""Columns that rise but for a slack, or but for falls that cost: the nearest ones."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.columns import PlaceArray
from calibrant.numerics import FloatArray

#: Halvings of the range of the levels: below the last bit of a number of the size of the range.
_HALVINGS = 60


@compiled
def rise_with_slack(
    value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int, slack: float, out: FloatArray
) -> None:
    """Write the nearest non-negative column of which no entry lies more than `slack` below one before it.

    Entries lie between a rising level and that level less the slack; the level minimises a sum of convex functions of
    each entry's own, hence is found by halving its range for all units at once: where the sum of the slopes at the
    middle is least over the units from one on, those lie above the middle and the others below.
    """
    n = value.size
    top = 0.0
    for k in range(n):
        top = max(top, value[k])
    top += slack
    low = np.zeros(n_units)
    high = np.full(n_units, top)
    slope = np.empty(n_units)
    for _ in range(_HALVINGS):
        u = 0
        while u < n_units:
            end = u
            middle = 0.5 * (low[u] + high[u])
            while end < n_units and low[end] == low[u] and high[end] == high[u]:
                s = 0.0
                for k in range(unit[end], unit[end + 1]):
                    if value[k] > middle:
                        s -= weight[k] * (value[k] - middle)
                    elif middle > slack and middle - slack > value[k]:
                        s += weight[k] * (middle - slack - value[k])
                slope[end] = s
                end += 1
            cut = end
            least = 0.0
            tail = 0.0
            for v in range(end - 1, u - 1, -1):
                tail += slope[v]
                if tail < least:
                    least = tail
                    cut = v
            for v in range(u, cut):
                high[v] = middle
            for v in range(cut, end):
                low[v] = middle
            u = end
    for u in range(n_units):
        level = 0.5 * (low[u] + high[u])
        floor = max(level - slack, 0.0)
        for k in range(unit[u], unit[u + 1]):
            out[k] = min(max(value[k], floor), level)


@compiled
def rise_at_a_price(
    value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int, price: float, out: FloatArray
) -> None:
    """Write the non-negative column b of least 1/2 sum_i weight_i (value_i - b_i)^2 + price sum_u max(b_u - b_u+1, 0).

    References
    ----------
    Johnson (2013), *A dynamic programming algorithm for the fused lasso and L0-segmentation*, Journal of
    Computational and Graphical Statistics 22(2): the slope of what the units so far cost is kept as a list of knots,
    here clipped to [-price, 0], since only falls cost.
    """
    m = n_units
    mean = np.empty(m)
    mass = np.empty(m)
    for u in range(m):
        w = 0.0
        s = 0.0
        for k in range(unit[u], unit[u + 1]):
            w += weight[k]
            s += weight[k] * value[k]
        mass[u] = w
        mean[u] = s / w
    place = np.empty(2 * m)
    slope = np.empty(2 * m)
    offset = np.empty(2 * m)
    lower = np.empty(m)
    upper = np.empty(m)
    left = m
    right = m - 1
    for u in range(m - 1):
        first_slope, first_offset = mass[u], -mass[u] * mean[u] - (price if u > 0 else 0.0)
        last_slope, last_offset = -mass[u], mass[u] * mean[u]
        low = left
        while low <= right and first_slope * place[low] + first_offset <= -price:
            first_slope += slope[low]
            first_offset += offset[low]
            low += 1
        lower[u] = (-price - first_offset) / first_slope
        left = low - 1
        high = right
        while high > left and -last_slope * place[high] - last_offset >= 0.0:
            last_slope += slope[high]
            last_offset += offset[high]
            high -= 1
        upper[u] = last_offset / -last_slope
        right = high + 1
        place[left], slope[left], offset[left] = lower[u], first_slope, first_offset + price
        place[right], slope[right], offset[right] = upper[u], last_slope, last_offset
    u = m - 1
    first_slope, first_offset = mass[u], -mass[u] * mean[u] - (price if u > 0 else 0.0)
    low = left
    while low <= right and first_slope * place[low] + first_offset <= 0.0:
        first_slope += slope[low]
        first_offset += offset[low]
        low += 1
    best = -first_offset / first_slope
    mean[u] = best
    for u in range(m - 2, -1, -1):
        best = min(max(best, lower[u]), upper[u])
        mean[u] = best
    for u in range(m):
        q = max(mean[u], 0.0)
        for k in range(unit[u], unit[u + 1]):
            out[k] = q
