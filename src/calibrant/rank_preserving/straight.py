"""Multipliers that all but prove the closed form: where rows are many, the search starts from there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.numerics import FloatArray
from calibrant.rank_preserving.closed_form import closed_line
from calibrant.rank_preserving.polish import Workspace, solve_blocks
from calibrant.rank_preserving.problem import PlaceArray, Problem

#: Rows per squared column from which on there are windows enough, and rows at least.
_LEAST_ROWS_PER_SQUARE, _LEAST_ROWS = 50, 1_000
#: Rows of a window per column: the windows of all columns are this many times fewer than the rows.
_WIDTH = 4.0
#: Share of the rows, per column, that the narrower windows near one end may number.
_ENDS = 0.125
#: Residual of the linear system, in shares of its right-hand side.
_ACCURACY = 0.01
#: A column starts at 0 where the closed form's first entry is at most this share of its mean.
_AT_ZERO = 1e-9


@dataclass(frozen=True, slots=True)
class Start:
    """Where a search starts: a matrix a_j + c P, multipliers of rows and columns, and the passes they took."""

    constant: FloatArray
    slope: float
    lift: FloatArray
    shift: FloatArray
    n_passes: int


def straight_start(problem: Problem, space: Workspace, *, max_passes: int) -> Start | None:
    """Return the closed form with multipliers that come close to proving it optimal, or None where rows are few.

    Notes
    -----
    With many rows in general position the columns of the best matrix are all but straight lines, that is the closed
    form, and it is the proof that is hard to find. It needs multipliers of the rows whose average over any stretch of
    any column is the distance of the closed form from the probabilities there, save at the foot of the column that
    stands at 0. Over windows of a few rows per column this is a linear system with fewer equations than rows at
    random places: conjugate gradients take some twenty passes whatever the number of rows. They find the solution of
    the least size, so that what pooling loses between the windows' edges is small. Towards the ends of a column,
    where nothing lies beyond to pool with, windows narrow down to single rows.

    The multipliers at the foot are the larger, the shorter the foot; a longer one moves the bound away.
    """
    n_columns, n = problem.p.shape
    constant, slope = closed_line(problem)
    if n_columns < 3 or n < max(_LEAST_ROWS, _LEAST_ROWS_PER_SQUARE * n_columns**2) or not 0.0 < slope < 1.0:
        return None
    width = _WIDTH * n_columns
    pace = max(_ENDS * n / (n_columns * (1.0 + math.log(width))), 1.0)
    foot = int(n_columns * math.sqrt(n))
    row, total = np.zeros(n), np.empty(n_columns)
    for j, (p, order, count) in enumerate(zip(problem.p, problem.order, problem.n_units, strict=True)):
        first = min(foot, int(count) // 4) if constant[j] + slope * p[0] <= _AT_ZERO * (p.mean() + _AT_ZERO) else 0
        window = _windows(int(count) - first, int(width), pace) + first
        if first:
            window = np.concatenate((np.zeros(1, dtype=np.int32), window))
        space.block[j, : window.size] = window
        space.n_blocks[j] = window.size - 1
        space.n_zero[j] = first > 0  # the foot may lie below 0
        edges = problem.edges(j)[window[first > 0 :]]
        weight = problem.weight[order]
        distance = weight * (p - np.maximum(constant[j] + slope * p, 0.0))
        mass = np.add.reduceat(weight, edges[:-1])
        average = np.add.reduceat(distance, edges[:-1]) / mass
        row[order[edges[0] :]] += np.repeat(average, np.diff(edges))
        total[j] = float(np.sum(mass * average))
    lift, shift, n_passes = solve_blocks(problem, problem.order, space, row, total, _ACCURACY, max_passes)
    return Start(constant, slope, lift, shift, n_passes)


def _windows(count: int, width: int, pace: float) -> PlaceArray:
    """Return the edges of windows of `width` units, narrower near both ends, as 1 / `pace` of the distance from it."""
    near: list[int] = []
    end = 0
    while True:
        size = int(max(1.0, end / pace))
        if size >= width or 2 * (end + size) >= count:
            break
        near.append(size)
        end += size
    middle = np.linspace(end, count - end, max((count - 2 * end) // width, 1) + 1).astype(np.int32)
    first = np.cumsum([0, *near], dtype=np.int32)
    edges: PlaceArray = np.concatenate((first, middle[1:], count - first[-2::-1])).astype(np.int32)
    return edges
