"""Distance of levels from uniform, on both sides of many cuts."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray


@compiled
def _distance_of_line(start: float, end: float, width: float) -> float:
    """Integrate the absolute value of a line from `start` to `end` over a width."""
    if start * end >= 0.0:
        return 0.5 * width * abs(start + end)
    return 0.5 * width * (start * start + end * end) / (abs(start) + abs(end))


@compiled
def distances_of_sides(
    place: FloatArray, jump: FloatArray, slope: FloatArray, cell: IntArray, mass: FloatArray, out: FloatArray
) -> None:
    """Write int_0^1 |F(c) - c| dc of the levels in cells up to each a, and of those in cells after it, shape (A, 2).

    F is built from events, sorted by `place`: its weight rises by `jump` there and its slope by `slope`. `mass` holds
    the weight of each side, shape (A, 2); a side without weight has distance 0.
    """
    for a in range(out.shape[0]):
        last = np.zeros(2)
        height = np.zeros(2)
        rate = np.zeros(2)
        out[a] = 0.0
        for j in range(place.size):
            s = 0 if cell[j] <= a else 1
            c = place[j]
            width = c - last[s]
            if width > 0.0:
                start = height[s] / mass[a, s] - last[s]
                height[s] += rate[s] * width
                out[a, s] += _distance_of_line(start, height[s] / mass[a, s] - c, width)
                last[s] = c
            height[s] += jump[j]
            rate[s] += slope[j]
        for s in range(2):
            if mass[a, s] > 0.0 and last[s] < 1.0:
                width = 1.0 - last[s]
                start = height[s] / mass[a, s] - last[s]
                out[a, s] += _distance_of_line(start, (height[s] + rate[s] * width) / mass[a, s] - 1.0, width)
