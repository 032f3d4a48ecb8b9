"""Distance of weighted levels from uniform, on both sides of many cuts: int_0^1 |F(c) - c| dc, exactly.

The distribution F of the levels on a side has straight lines between events, so that one walk over the sorted
events of all rows adds up triangles and trapezia.
"""

from __future__ import annotations

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray


@compiled
def distances_of_sides(
    place: FloatArray,
    jump: FloatArray,
    slope: FloatArray,
    first: IntArray,
    mass: FloatArray,
    walks: FloatArray,
    distances: FloatArray,
) -> None:
    """Write the distance of the levels on the first side of each cut, then on the second sides, shape (2 A,).

    At each event, sorted by `place`, the weight rises by `jump` and its slope by `slope`; `first` is the first cut that
    has its row on the first side, as all later ones have: its sides follow each other. `mass` holds the weight of each
    side, above 0. `walks`, shape (3, 2 A), is room for where each side's walk is: the last place, the weight up to
    there, and its slope.
    """
    n, n_sides = place.size, mass.size
    last, height, steepness = walks[0], walks[1], walks[2]
    for i in range(n_sides):
        distances[i] = last[i] = height[i] = steepness[i] = 0.0
    for j in range(n + 1):
        low, high, c = 0, n_sides, 1.0  # all sides end at 1
        more = steeper = 0.0
        if j < n:
            low, high, c = first[j], first[j] + n_sides // 2, place[j]
            more, steeper = jump[j], slope[j]
        for i in range(low, high):
            width = c - last[i]
            start = height[i] / mass[i] - last[i]
            height[i] += steepness[i] * width
            end = height[i] / mass[i] - c
            ends = abs(start) + abs(end)
            area = ends if start * end >= 0.0 else (start * start + end * end) / ends
            distances[i] += 0.5 * width * area
            last[i] = c
            height[i] += more
            steepness[i] += steeper
