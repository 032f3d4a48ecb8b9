"""Chains of rising maps of levels, chosen per row: indexed, and applied to many levels.

A map has straight lines between its knots (0, 0) .. (1, 1), both coordinates strictly rising. The maps of a chain
lie one after the other in `x` and `y`; map j has the knots `start[j]` to `start[j + 1]`. `chosen`, shape (n, T),
names the map that each row takes in each round.

Indexed, `knots`, shape (3, K), are the places, the heights and the slopes after each knot. Each map has one knot more,
at infinity, so that map j begins at `start[j] + j`. [0, 1] is divided into equal buckets, a power of two of them so
that v * buckets is exact, and `buckets` says at which knot each begins, so that few steps lead from there to the piece
that holds a level: those of map j lie at `bucket_start[j]` to `bucket_start[j + 1]`, with one for v = 1 and one after.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

RowArray = npt.NDArray[np.int32]
StartArray = npt.NDArray[np.int64]
KnotNumbers = npt.NDArray[np.uint32]
#: Rows that take a round together, so that the round's maps are read once.
_TOGETHER = 64


@compiled
def map_levels(
    levels: FloatArray,
    chosen: RowArray,
    rounds: StartArray,
    alpha: FloatArray,
    bucket_start: StartArray,
    buckets: KnotNumbers,
    knots: FloatArray,
    log_slope: FloatArray,
    log_slopes: FloatArray,
) -> None:
    """Map the first `rounds[0, t]` levels of each row, shape (n, m), by its map of round t, round by round, in place.

    With an `alpha` for each round, the maps are chosen on the way, and written to `chosen`: 2 t where the level in
    column `rounds[1, t]` is at most alpha, else 2 t + 1. With `log_slopes`, of the shape of the levels, the
    log of the slope of each map is added to it, `log_slope` holding that of the piece after each knot. The sums are
    those of NumPy's `interp`.
    """
    n_mapped, column = rounds[0], rounds[1]
    at, height, slope = knots[0], knots[1], knots[2]
    one = np.uint32(1)
    n = levels.shape[0]
    for first in range(0, n, _TOGETHER):
        end = first + _TOGETHER if first + _TOGETHER < n else n
        for t in range(chosen.shape[1]):
            for i in range(first, end):
                if alpha.size > 0:
                    chosen[i, t] = 2 * t + (0 if levels[i, column[t]] <= alpha[t] else 1)
                j = chosen[i, t]
                own = np.uint32(bucket_start[j])
                n_buckets = float(bucket_start[j + 1] - bucket_start[j] - 2)
                for q in range(n_mapped[t]):
                    v = inside(levels[i, q])
                    c = np.uint32(own + np.uint32(v * n_buckets))
                    p = last_knot(buckets[c], buckets[c + one], v, at)
                    if log_slopes.size > 0:
                        log_slopes[i, q] += log_slope[p]
                    u, most = slope[p] * (v - at[p]) + height[p], height[p + one]
                    levels[i, q] = u if u < most else most


@compiled
def inside(v: float) -> float:
    """Return the nearest number in [0, 1]; 0 for NaN, which has no knot."""
    v = v if v > 0.0 else 0.0
    return v if v < 1.0 else 1.0


@compiled
def last_knot(p: np.uint32, high: np.uint32, v: float, at: FloatArray) -> np.uint32:
    """Return the last knot at or below v, of the knots `p` to `high`; without a branch where there are two or less."""
    one = np.uint32(1)
    p = np.uint32(p + np.uint32(at[p + one] <= v))
    if at[p + one] <= v:
        above = np.uint32(high + one)
        while above > np.uint32(p + one):
            middle = np.uint32((p + above) >> one)
            if at[middle] <= v:
                p = middle
            else:
                above = middle
    return p
