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
    left = np.empty(n + 1)
    right = np.empty(n + 1)
    left_row = np.empty(n + 1, np.int32)
    right_row = np.empty(n + 1, np.int32)
    slope0 = (y0[1:] - y0[:-1]) / (x0[1:] - x0[:-1])
    slope1 = (y1[1:] - y1[:-1]) / (x1[1:] - x1[:-1])
    for k in range(n_lines):
        a = 0
        b = 0
        for r in range(n):  # without branches, which nobody could predict
            i = order[k, r]
            v = values[k, r]
            s = int(side[i])
            left[a] = v
            right[b] = v
            left_row[a] = i
            right_row[b] = i
            a += 1 - s
            b += s
        _map_rising(left, a, x0, y0, slope0)
        _map_rising(right, b, x1, y1, slope1)
        left[a] = np.inf
        right[b] = np.inf
        a = 0
        b = 0
        for r in range(n):
            u = left[a]
            v = right[b]
            takes_left = int(u <= v)
            values[k, r] = u if takes_left else v
            order[k, r] = left_row[a] if takes_left else right_row[b]
            a += takes_left
            b += 1 - takes_left


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
    n = levels.shape[0]
    for i in range(n):
        for t in range(column.size):
            j = 2 * t + (0 if levels[i, column[t]] <= alpha[t] else 1)
            chosen[i, t] = j
            _map_all(x, y, start[j], start[j + 1], levels[i])


@compiled
def push_levels(levels: FloatArray, chosen: RowArray, start: StartArray, x: FloatArray, y: FloatArray) -> None:
    """Push levels, shape (n, m), through the chain of each row, in place."""
    n = levels.shape[0]
    for i in range(n):
        for t in range(chosen.shape[1]):
            j = chosen[i, t]
            _map_all(x, y, start[j], start[j + 1], levels[i])


@compiled
def pull_levels(levels: FloatArray, chosen: RowArray, start: StartArray, x: FloatArray, y: FloatArray) -> None:
    """Pull levels, shape (n, m), back through the chain of each row, in place: the inverse of `push_levels`."""
    n = levels.shape[0]
    for i in range(n):
        for t in range(chosen.shape[1] - 1, -1, -1):
            j = chosen[i, t]
            _map_all(y, x, start[j], start[j + 1], levels[i])


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
def _map_all(x: FloatArray, y: FloatArray, first: int, last: int, levels: FloatArray) -> None:
    """Map levels, in place. Each is first looked for beside the one before: those of rising points lie side by side."""
    p = first
    left = x[p]
    right = x[p + 1]
    slope = (y[p + 1] - y[p]) / (right - left)
    for q in range(levels.size):
        v = levels[q]
        if v <= 0.0:
            levels[q] = 0.0
        elif v >= 1.0:
            levels[q] = 1.0
        else:
            if v < left or v >= right:
                low = p
                high = p + 1
                step = 1
                while high < last - 1 and x[high] <= v:
                    low = high
                    high = min(high + step, last - 1)
                    step *= 2
                step = 1
                while low > first and x[low] > v:
                    high = low
                    low = max(low - step, first)
                    step *= 2
                p = _interval(x, low, high + 1, v)
                left = x[p]
                right = x[p + 1]
                slope = (y[p + 1] - y[p]) / (right - left)
            levels[q] = min(slope * (v - left) + y[p], y[p + 1])


@compiled
def _map_rising(values: FloatArray, n: int, x: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Map the first `n` of rising values in [0, 1], in place, in one walk along the knots."""
    p = 0
    last = x.size - 2
    for r in range(n):
        v = values[r]
        while p < last and x[p + 1] <= v:
            p += 1
        values[r] = min(slope[p] * (v - x[p]) + y[p], y[p + 1])
