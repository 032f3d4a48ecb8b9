"""Chains of rising maps of levels, chosen per row: indexed, and applied to many levels.

A map has straight lines between its knots (0, 0) .. (1, 1), both coordinates strictly rising. The maps of a chain
lie one after the other in `x` and `y`; map j has the knots `start[j]` to `start[j + 1]`. `chosen`, shape (n, T),
names the map that each row takes in each round.

Indexed, `knots` are the places, the heights and the slopes after each knot. Each map has one knot more, at infinity, so
that map j begins at `start[j] + j`. [0, 1] is divided into equal buckets, a power of two of them so that v * buckets is
exact, and `buckets` says at which knot each begins, so that few steps lead from there to the piece that holds a level:
those of map j lie at `bucket_start[j]` to `bucket_start[j + 1]`, with one for v = 1 and one after it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

RowArray = npt.NDArray[np.int32]
StartArray = npt.NDArray[np.int64]
KnotNumbers = npt.NDArray[np.uint32]
Knots = tuple[FloatArray, FloatArray, FloatArray]
#: Rows that take a round together, so that the round's maps are read once.
_TOGETHER = 64
#: A map of at most this many knots per level is walked along, in place of looking each level up.
_WALKED = 2


@compiled
def map_levels(
    levels: FloatArray,
    chosen: RowArray,
    start: StartArray,
    bucket_start: StartArray,
    knots: Knots,
    buckets: KnotNumbers,
) -> None:
    """Map levels, shape (n, m), by the chain of each row, in place."""
    n, m = levels.shape
    for first in range(0, n, _TOGETHER):
        end = min(first + _TOGETHER, n)
        for t in range(chosen.shape[1]):
            for i in range(first, end):
                j = chosen[i, t]
                if start[j + 1] - start[j] <= _WALKED * m:
                    _map_by_walk(levels[i], np.uint32(start[j] + j), knots)
                else:
                    _map_by_buckets(levels[i], buckets[bucket_start[j] : bucket_start[j + 1]], knots)


@compiled
def choose_maps(
    levels: FloatArray,
    column: StartArray,
    n_needed: StartArray,
    alpha: FloatArray,
    bucket_start: StartArray,
    knots: Knots,
    buckets: KnotNumbers,
    chosen: RowArray,
) -> None:
    """Write the map of each row in each round: 2 t where the level in `column[t]` is at most `alpha[t]`, else 2 t + 1.

    `levels`, shape (n, Q), holds the probabilities at the thresholds, and the first `n_needed[t]` of them, which later
    rounds ask for, are mapped on the way.
    """
    n = levels.shape[0]
    for first in range(0, n, _TOGETHER):
        end = min(first + _TOGETHER, n)
        for t in range(column.size):
            for i in range(first, end):
                j = 2 * t + (0 if levels[i, column[t]] <= alpha[t] else 1)
                chosen[i, t] = j
                own = buckets[bucket_start[j] : bucket_start[j + 1]]
                _map_by_buckets(levels[i, : n_needed[t]], own, knots)


@compiled
def map_slopes(
    levels: FloatArray,
    log_slopes: FloatArray,
    chosen: RowArray,
    bucket_start: StartArray,
    knots: Knots,
    buckets: KnotNumbers,
    log_slope: FloatArray,
) -> None:
    """Map levels by the chain of each row, in place, and add the log of the chain's slope there.

    `log_slope` holds that of the piece after each knot, with that of the last piece at 1 too.
    """
    at, height, slope = knots
    n, m = levels.shape
    for first in range(0, n, _TOGETHER):
        end = min(first + _TOGETHER, n)
        for t in range(chosen.shape[1]):
            for i in range(first, end):
                j = chosen[i, t]
                own = buckets[bucket_start[j] : bucket_start[j + 1]]
                for q in range(m):
                    v = inside(levels[i, q])
                    p = _knot_before(v, own, at)
                    log_slopes[i, q] += log_slope[p]
                    levels[i, q] = min(slope[p] * (v - at[p]) + height[p], height[p + np.uint32(1)])


@compiled
def inside(v: float) -> float:
    """Return the nearest number in [0, 1]; 0 for NaN, which has no knot."""
    v = v if v > 0.0 else 0.0
    return v if v < 1.0 else 1.0


@compiled
def _knot_before(v: float, buckets: KnotNumbers, at: FloatArray) -> np.uint32:
    """Return the last knot at or below v, in [0, 1]."""
    c = np.uint32(v * float(buckets.size - 2))
    return last_knot(buckets[c], buckets[c + np.uint32(1)], v, at)


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


@compiled
def _map_by_buckets(levels: FloatArray, buckets: KnotNumbers, knots: Knots) -> None:
    """Map levels, in place, each looked up by itself. The sums are those of NumPy's `interp`."""
    at, height, slope = knots
    for q in range(levels.size):
        v = inside(levels[q])
        p = _knot_before(v, buckets, at)
        levels[q] = min(slope[p] * (v - at[p]) + height[p], height[p + np.uint32(1)])


@compiled
def _map_by_walk(levels: FloatArray, first: np.uint32, knots: Knots) -> None:
    """Map levels, in place, along the knots from `first` on: fast where they rise, as those of rising points do."""
    at, height, slope = knots
    one = np.uint32(1)
    p = first
    left, right = at[p], at[p + one]
    low, high, rate = height[p], height[p + one], slope[p]
    for q in range(levels.size):
        v = inside(levels[q])
        if v < left or v >= right:
            if v < left:
                p = first
            while at[p + one] <= v:
                p = np.uint32(p + one)
            left, right = at[p], at[p + one]
            low, high, rate = height[p], height[p + one], slope[p]
        levels[q] = min(rate * (v - left) + low, high)
