"""Warm start: the affine solution with dual multipliers that nearly certify it. Used where rows are many.

With many rows in general position the columns of the best matrix are all but straight lines, that is the affine
feasible point a_j + c P_ij, and what is hard to find is the proof: multipliers of the rows whose average over any
stretch of any column is the distance of the affine point from the probabilities there. Only over the foot of a column
that starts at 0, its lowest entries, it may be less. Averages over windows of a few rows per column are a linear
system, with fewer equations than rows, which conjugate gradients (`projection.solve_blocks`) solve to 1% in some
twenty passes whatever the number of rows. Theirs is the solution of the least size, so that what pooling loses inside
the windows is small. Towards the ends of a column, where nothing lies beyond to pool with, windows narrow down to
single rows. A shorter foot has larger multipliers; a longer one lowers the bound.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.kernels import SortedColumns, Workspace
from calibrant.numerics import FloatArray, IntArray
from calibrant.rank_preserving.projection import solve_blocks

#: Rows per squared column from which on there are windows enough, and rows at least.
_LEAST_ROWS_PER_SQUARE, _LEAST_ROWS = 50, 1_000
#: Rows of a window per column: the windows of all columns are this many times fewer than the rows.
_WIDTH = 4.0
#: Share of the rows, per column, that the narrower windows near one end may number.
_SHARE_OF_ENDS = 0.125
#: Residual of the linear system, in shares of its right-hand side.
_ACCURACY = 0.01
#: A column starts at 0 where the affine point's first entry is at most this share of its mean.
_AT_ZERO = 1e-9


def affine_start(
    columns: SortedColumns, work: Workspace, point: tuple[FloatArray, float], *, max_passes: int
) -> tuple[FloatArray, FloatArray, int] | None:
    """Return multipliers of rows and columns that nearly certify the affine feasible point, and the passes they took.

    None where rows are few, or the point is the matrix itself or equal rows. The blocks in `work` are overwritten.
    """
    n_columns, n = columns.p.shape
    constant, slope = point
    if n_columns < 3 or n < max(_LEAST_ROWS, _LEAST_ROWS_PER_SQUARE * n_columns**2) or not 0.0 < slope < 1.0:
        return None
    width = _WIDTH * n_columns
    rows_per_step = max(_SHARE_OF_ENDS * n / (n_columns * (1.0 + math.log(width))), 1.0)
    foot = int(n_columns * math.sqrt(n))
    row, total = np.zeros(n), np.empty(n_columns)
    for j, (p, order, count) in enumerate(zip(columns.p, columns.order, columns.n_ties.tolist(), strict=True)):
        is_at_zero = constant[j] + slope * p[0] <= _AT_ZERO * (p.mean() + _AT_ZERO)
        first = min(foot, count // 4) if is_at_zero else 0
        window = windows(count - first, int(width), rows_per_step) + first
        if first:
            window = np.append(0, window)
        work.block[j, : window.size] = window
        work.n_blocks[j] = window.size - 1
        work.n_zero[j] = first > 0  # the foot may lie below 0
        edges = columns.edges(j)[window[first > 0 :]]
        weight = columns.weight[order]
        distance = weight * (p - np.maximum(constant[j] + slope * p, 0.0))
        mass = np.add.reduceat(weight, edges[:-1])
        average = np.add.reduceat(distance, edges[:-1]) / mass
        row[order[edges[0] :]] += np.repeat(average, np.diff(edges))
        total[j] = float(np.sum(mass * average))
    return solve_blocks(columns, work, row, total, _ACCURACY, max_passes)


def windows(count: int, width: int, rows_per_step: float) -> IntArray:
    """Return the edges of windows of `width` ties, narrower near both ends: there by 1 per `rows_per_step` passed."""
    near: list[int] = []
    end = 0
    while True:
        size = int(max(1.0, end / rows_per_step))
        if size >= width or 2 * (end + size) >= count:
            break
        near.append(size)
        end += size
    middle = np.linspace(end, count - end, max((count - 2 * end) // width, 1) + 1).astype(np.int64)
    first = np.cumsum([0, *near])
    return np.concatenate((first, middle[1:], count - first[-2::-1]))
