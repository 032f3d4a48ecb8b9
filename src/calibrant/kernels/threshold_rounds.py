"""Chains of monotone maps of levels, chosen per row: the fit's state pushed on, and the chain applied to new rows.

A map is piecewise linear between its knots (0, 0) .. (1, 1), both coordinates strictly rising. The maps of a chain
lie one after the other in `x` and `y`; map j has the knots `start[j]` to `start[j + 1]`. `chosen`, shape (n, T),
names the map that each row takes in each round.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.kernels.threshold_search import RowArray
from calibrant.numerics import FloatArray

StartArray = npt.NDArray[np.int64]
SideArray = npt.NDArray[np.uint8]


@compiled
def push_state(
    values: FloatArray,
    order: RowArray,
    side: SideArray,
    x0: FloatArray,
    y0: FloatArray,
    x1: FloatArray,
    y1: FloatArray,
) -> None:
    """Map the sorted `values` of each line by the map of each row's `side`, and sort again by one merge.

    A rising map leaves each side sorted, so that no line is ever sorted twice.
    """
    n_lines, n = values.shape
    n_left = 0
    for i in range(n):
        if side[i] == 0:
            n_left += 1
    value = np.empty(n)
    row = np.empty(n, np.int32)
    for k in range(n_lines):
        a = 0
        b = n_left
        p = 0
        q = 0
        for r in range(n):
            i = order[k, r]
            v = values[k, r]
            if side[i] == 0:
                while p < x0.size - 2 and x0[p + 1] <= v:
                    p += 1
                value[a] = _at(x0, y0, p, v)
                row[a] = i
                a += 1
            else:
                while q < x1.size - 2 and x1[q + 1] <= v:
                    q += 1
                value[b] = _at(x1, y1, q, v)
                row[b] = i
                b += 1
        a = 0
        b = n_left
        for r in range(n):
            if b >= n or (a < n_left and value[a] <= value[b]):
                values[k, r] = value[a]
                order[k, r] = row[a]
                a += 1
            else:
                values[k, r] = value[b]
                order[k, r] = row[b]
                b += 1


@compiled
def choose_maps(
    levels: FloatArray,
    column: StartArray,
    alpha: FloatArray,
    start: StartArray,
    x: FloatArray,
    y: FloatArray,
    chosen: RowArray,
) -> None:
    """Write the map of each row in each round: 2 t where the level in `column[t]` is at most `alpha[t]`, else 2 t + 1.

    `levels`, shape (n, Q), holds the probabilities at the thresholds, and is pushed through the maps on the way.
    """
    n, width = levels.shape
    for i in range(n):
        for t in range(column.size):
            j = 2 * t + (0 if levels[i, column[t]] <= alpha[t] else 1)
            chosen[i, t] = j
            for q in range(width):
                levels[i, q] = _map(x, y, start[j], start[j + 1], levels[i, q])


@compiled
def push_levels(levels: FloatArray, chosen: RowArray, start: StartArray, x: FloatArray, y: FloatArray) -> None:
    """Push levels, shape (n, m), through the chain of each row, in place."""
    n, m = levels.shape
    for i in range(n):
        for t in range(chosen.shape[1]):
            j = chosen[i, t]
            for q in range(m):
                levels[i, q] = _map(x, y, start[j], start[j + 1], levels[i, q])


@compiled
def pull_levels(levels: FloatArray, chosen: RowArray, start: StartArray, x: FloatArray, y: FloatArray) -> None:
    """Pull levels, shape (n, m), back through the chain of each row, in place: the inverse of `push_levels`."""
    n, m = levels.shape
    for i in range(n):
        for t in range(chosen.shape[1] - 1, -1, -1):
            j = chosen[i, t]
            for q in range(m):
                levels[i, q] = _map(y, x, start[j], start[j + 1], levels[i, q])


@compiled
def push_slopes(
    levels: FloatArray, slopes: FloatArray, chosen: RowArray, start: StartArray, x: FloatArray, y: FloatArray
) -> None:
    """Push levels through the chain of each row, in place, and add to `slopes` the log of the chain's slope there."""
    n, m = levels.shape
    for i in range(n):
        for t in range(chosen.shape[1]):
            j = chosen[i, t]
            first = start[j]
            last = start[j + 1]
            for q in range(m):
                v = min(max(levels[i, q], 0.0), 1.0)
                p = _interval(x, first, last, v)
                slopes[i, q] += np.log((y[p + 1] - y[p]) / (x[p + 1] - x[p]))
                levels[i, q] = _at(x, y, p, v)


@compiled
def _at(x: FloatArray, y: FloatArray, p: int, v: float) -> float:
    """Return the map of v, which lies between the knots p and p + 1: the sum that NumPy's `interp` takes."""
    slope = (y[p + 1] - y[p]) / (x[p + 1] - x[p])
    mapped: float = slope * (v - x[p]) + y[p]
    highest: float = y[p + 1]
    return min(mapped, highest)


@compiled
def _interval(x: FloatArray, first: int, last: int, v: float) -> int:
    """Return the knot that v follows, of the knots `first` to `last` - 2."""
    low = first
    high = last - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if x[middle] <= v:
            low = middle
        else:
            high = middle
    return low


@compiled
def _map(x: FloatArray, y: FloatArray, first: int, last: int, v: float) -> float:
    """Return the map of a level."""
    if v <= 0.0:
        return 0.0
    if v >= 1.0:
        return 1.0
    return _at(x, y, _interval(x, first, last, v), v)
