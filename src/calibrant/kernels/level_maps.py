"""Chains of rising maps of levels, chosen per row: indexed, and applied to many levels.

A map is piecewise linear between its knots (0, 0) .. (1, 1), both coordinates strictly rising. The maps of a chain
lie one after the other in `x` and `y`; map j has the knots `start[j]` to `start[j + 1]`. `chosen`, shape (n, T),
names the map that each row takes in each round.

Indexed, each map has one knot more, at infinity, so that map j begins at `start[j] + j`. [0, 1] is cut into equal
cells, a power of two of them so that v * cells is exact, and `cells` says at which knot each begins: those of map j
lie at `cell_start[j]` to `cell_start[j + 1]`, with one for v = 1 and one after it.
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
#: A map of at most this many knots per level is walked along, in place of looking each level up.
_WALKED = 2
_STEEPEST = 1e300


@compiled
def index_knots(
    x: FloatArray,
    y: FloatArray,
    start: StartArray,
    cell_start: StartArray,
    at: FloatArray,
    height: FloatArray,
    slope: FloatArray,
    cells: KnotNumbers,
) -> None:
    """Write the knots of the maps with the one at infinity, the slope after each, and the knot that each cell has."""
    for j in range(start.size - 1):
        first = start[j]
        base = first + j
        m = start[j + 1] - first
        for p in range(m):
            at[base + p] = x[first + p]
            height[base + p] = y[first + p]
        for p in range(m - 1):
            rate = (y[first + p + 1] - y[first + p]) / (x[first + p + 1] - x[first + p])
            slope[base + p] = min(rate, _STEEPEST)  # infinity times nothing would be NaN
        slope[base + m - 1] = 0.0
        at[base + m] = np.inf
        height[base + m] = 1.0
        slope[base + m] = 0.0
        n_cells = cell_start[j + 1] - cell_start[j] - 2
        p = base
        for c in range(n_cells + 1):
            while at[p + 1] <= c / n_cells:
                p += 1
            cells[cell_start[j] + c] = p
        cells[cell_start[j] + n_cells + 1] = p


@compiled
def push_levels(
    levels: FloatArray,
    chosen: RowArray,
    start: StartArray,
    cell_start: StartArray,
    at: FloatArray,
    height: FloatArray,
    slope: FloatArray,
    cells: KnotNumbers,
) -> None:
    """Push levels, shape (n, m), through the chain of each row, in place."""
    n, m = levels.shape
    for block in range(0, n, _TOGETHER):
        end = min(block + _TOGETHER, n)
        for t in range(chosen.shape[1]):
            for i in range(block, end):
                j = chosen[i, t]
                if start[j + 1] - start[j] <= _WALKED * m:
                    _map_by_walk(levels[i], np.uint32(start[j] + j), at, height, slope)
                else:
                    _map_by_cells(levels[i], cells[cell_start[j] : cell_start[j + 1]], at, height, slope)


@compiled
def choose_maps(
    levels: FloatArray,
    column: StartArray,
    n_needed: StartArray,
    alpha: FloatArray,
    cell_start: StartArray,
    at: FloatArray,
    height: FloatArray,
    slope: FloatArray,
    cells: KnotNumbers,
    chosen: RowArray,
) -> None:
    """Write the map of each row in each round: 2 t where the level in `column[t]` is at most `alpha[t]`, else 2 t + 1.

    `levels`, shape (n, Q), holds the probabilities at the thresholds, and the first `n_needed[t]` of them, which later
    rounds ask for, are pushed through the map on the way.
    """
    n = levels.shape[0]
    for block in range(0, n, _TOGETHER):
        end = min(block + _TOGETHER, n)
        for t in range(column.size):
            for i in range(block, end):
                j = 2 * t + (0 if levels[i, column[t]] <= alpha[t] else 1)
                chosen[i, t] = j
                own = cells[cell_start[j] : cell_start[j + 1]]
                _map_by_cells(levels[i, : n_needed[t]], own, at, height, slope)


@compiled
def push_slopes(
    levels: FloatArray,
    log_slopes: FloatArray,
    chosen: RowArray,
    cell_start: StartArray,
    at: FloatArray,
    height: FloatArray,
    slope: FloatArray,
    cells: KnotNumbers,
    log_slope: FloatArray,
) -> None:
    """Push levels through the chain of each row, in place, and add the log of the chain's slope there.

    `log_slope` holds that of the piece after each knot, with that of the last piece at 1 too.
    """
    n, m = levels.shape
    for block in range(0, n, _TOGETHER):
        end = min(block + _TOGETHER, n)
        for t in range(chosen.shape[1]):
            for i in range(block, end):
                j = chosen[i, t]
                own = cells[cell_start[j] : cell_start[j + 1]]
                for q in range(m):
                    v = _inside(levels[i, q])
                    p = _knot_before(v, own, at)
                    log_slopes[i, q] += log_slope[p]
                    levels[i, q] = min(slope[p] * (v - at[p]) + height[p], height[p + np.uint32(1)])


@compiled
def push_lines(
    values: FloatArray,
    side: npt.NDArray[np.uint8],
    cell_start: StartArray,
    at: FloatArray,
    height: FloatArray,
    slope: FloatArray,
    cells: KnotNumbers,
) -> None:
    """Push the levels of each row, a column of `values`, through the map that its `side` names, in place."""
    n_lines, n = values.shape
    last = np.array([cell_start[j + 1] - cell_start[j] - 2 for j in range(cell_start.size - 1)])
    for k in range(n_lines):
        line = values[k]
        for i in range(n):
            v = _inside(line[i])
            j = side[i]
            c = np.uint32(cell_start[j]) + np.uint32(v * last[j])
            p = _settle(cells[c], cells[c + np.uint32(1)], v, at)
            line[i] = min(slope[p] * (v - at[p]) + height[p], height[p + np.uint32(1)])


@compiled
def _inside(v: float) -> float:
    """Return the nearest number in [0, 1]; 0 for NaN, which has no knot."""
    v = v if v > 0.0 else 0.0
    return v if v < 1.0 else 1.0


@compiled
def _knot_before(v: float, cells: KnotNumbers, at: FloatArray) -> np.uint32:
    """Return the knot that v, in [0, 1], follows."""
    c = np.uint32(v * float(cells.size - 2))
    return _settle(cells[c], cells[c + np.uint32(1)], v, at)


@compiled
def _settle(p: np.uint32, high: np.uint32, v: float, at: FloatArray) -> np.uint32:
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
def _map_by_cells(
    levels: FloatArray, cells: KnotNumbers, at: FloatArray, height: FloatArray, slope: FloatArray
) -> None:
    """Map levels, in place, each looked up by itself. The sums are those of NumPy's `interp`."""
    for q in range(levels.size):
        v = _inside(levels[q])
        p = _knot_before(v, cells, at)
        levels[q] = min(slope[p] * (v - at[p]) + height[p], height[p + np.uint32(1)])


@compiled
def _map_by_walk(levels: FloatArray, first: np.uint32, at: FloatArray, height: FloatArray, slope: FloatArray) -> None:
    """Map levels, in place, along the knots from `first` on: fast where they rise, as those of rising points do."""
    one = np.uint32(1)
    p = first
    left, right = at[p], at[p + one]
    low, high, rate = height[p], height[p + one], slope[p]
    for q in range(levels.size):
        v = _inside(levels[q])
        if v < left or v >= right:
            if v < left:
                p = first
            while at[p + one] <= v:
                p = np.uint32(p + one)
            left, right = at[p], at[p + one]
            low, high, rate = height[p], height[p + one], slope[p]
        levels[q] = min(rate * (v - left) + low, high)
