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
    """Write the distance of the levels on the first and on the second side of each cut, shape (A, 2).

    At each event, sorted by `place`, the weight rises by `jump` and its slope by `slope`; `first` is the first cut that
    has its row on the first side, as all later ones have. `mass` holds the weight of each side, shape (A, 2); a side
    without weight has distance 0. `walks`, shape (2, 3), is room for where each side's walk is: the last place, the
    weight up to there, and its slope.
    """
    n = place.size
    for a in range(mass.shape[0]):
        for s in range(2):
            distances[a, s] = walks[s, 0] = walks[s, 1] = walks[s, 2] = 0.0
        for j in range(n + 2):  # both sides end at 1
            if j < n:
                s = 0 if first[j] <= a else 1
                c = place[j]
            else:
                s = j - n
                c = 1.0
            last, height, m = walks[s, 0], walks[s, 1], mass[a, s]
            width = c - last
            if width > 0.0 and m > 0.0:
                start = height / m - last
                height += walks[s, 2] * width
                end = height / m - c
                ends = abs(start) + abs(end)
                area = ends if start * end >= 0.0 else (start * start + end * end) / ends
                distances[a, s] += 0.5 * width * area
                walks[s, 0] = c
            if j < n:
                walks[s, 1] = height + jump[j]
                walks[s, 2] += slope[j]
