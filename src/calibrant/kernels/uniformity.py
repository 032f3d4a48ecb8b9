"""Distance of weighted levels from uniform, on both sides of many cuts: int_0^1 |F(c) - c| dc, exactly.

The distribution F of the levels on a side has straight lines between events, so that one walk over the sorted
events of all rows adds up triangles and trapezia.
"""

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
    place: FloatArray, jump: FloatArray, slope: FloatArray, first: IntArray, mass: FloatArray
) -> FloatArray:
    """Return the distance of the levels on the first and on the second side of each cut, shape (A, 2).

    At each event, sorted by `place`, the weight rises by `jump` and its slope by `slope`; `first` is the first cut that
    has its row on the first side, as all later ones have. `mass` holds the weight of each side, shape (A, 2); a side
    without weight has distance 0.
    """
    out = np.zeros((len(mass), 2))
    for a in range(out.shape[0]):
        last = np.zeros(2)
        height = np.zeros(2)
        rate = np.zeros(2)
        for j in range(place.size):
            s = 0 if first[j] <= a else 1
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
    return out
