"""Two splittings of the problem into rows and columns, each of which is easy by itself.

`split` is the over-relaxed Douglas-Rachford splitting (ADMM), for strict and for relaxed orders. It minimises the sum
of w_i (Q_ij - P_ij)^2 by turns over matrices with the right row sums and margins, where the nearest one is known in
closed form, and over columns that rise and are not negative, where it is found by pooling (`kernels.take_steps`). The
multipliers of the sums give a lower bound of the optimum at every check, and `certificate` says when the gap is small
enough; else it stops after `max_iter` iterations. Where rows are many, `affine_start` gives it its first multipliers.

`alternate` is Dykstra's method of alternating projections: rows onto the simplex, columns onto the order, or onto what
lies within a slack of it, with their sum, each with what the last projection on its side took off added back. It stops
in the same way.

References: Eckstein and Bertsekas (1992), Mathematical Programming 55; Boyle and Dykstra (1986), Lecture Notes in
Statistics 37; Held, Wolfe and Crowder (1974), Mathematical Programming 6, for the simplex.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant import kernels
from calibrant.kernels import Rule, SortedColumns, Workspace
from calibrant.numerics import FloatArray, IntArray
from calibrant.rank_preserving.certificate import Certificate
from calibrant.rank_preserving.column_workers import workers_of
from calibrant.rank_preserving.penalties import Penalties
from calibrant.rank_preserving.problem import unsorted
from calibrant.rank_preserving.projection import Multipliers, solve_blocks

#: Weight of a check's multipliers in the mean of a descent's, whose bound is steadier.
_WEIGHT_OF_LAST = 0.4
#: Iterations from which on a warm start pays.
_WORTH_A_START = 100
#: Iterations of `alternate` up to its first check, their growth from check to check, and most between two.
_FIRST_CHECK, _GROWTH, _LONGEST = 20, 1.25, 500
#: A warm start needs so many rows per squared column, for its windows to be enough, and so many at least.
_LEAST_ROWS_PER_SQUARE, _LEAST_ROWS = 50, 1_000
#: Rows of a window per column: the windows of all columns are this many times fewer than the rows.
_WINDOW_WIDTH = 4.0
#: Share of the rows, per column, that the narrower windows near one end may number.
_SHARE_OF_ENDS = 0.125
#: Entries from which on the search for a feasible matrix works in the memory of the state, which then comes back in
#: single precision: half a matrix is held meanwhile, and not a whole one.
_LARGE = 3_000_000
#: Residual of the warm start's linear system, in shares of its right-hand side.
_START_ACCURACY = 0.01
#: A column starts at 0 where the affine point's first entry is at most this share of its mean.
_AT_ZERO = 1e-9


def split(
    columns: SortedColumns, certificate: Certificate, *, max_iter: int, by_row: bool, penalty: float | None = None
) -> int:
    """Iterate until the gap is small enough or `max_iter` is reached; return the number of iterations.

    Multipliers of rows differ in size by orders of magnitude: where a margin moves far, they are large for a few rows,
    those of the lowest entries of its column and their neighbours in the other columns. One penalty suits either these
    rows or the many others. With `by_row` each row's penalty follows the size of its own multiplier, which saves
    most of the iterations, and where rows are many, `affine_start` gives the first multipliers. From there
    the penalty starts high, where steps are long and the bound is poor, and is lowered from check to check. A given
    `penalty` is kept.
    """
    start, n_iter = None, 0
    if by_row and penalty is None and max_iter >= _WORTH_A_START and not certificate.is_done():
        start = affine_start(columns, certificate.work, certificate.affine, max_passes=max_iter // 2)
    if start is not None:
        n_iter = start[2] + 1
        bound = certificate.take_bound(start[:2])
        certificate.record_progress(n_iter, 0.0, certificate.objective)
        if 2.0 * bound < certificate.objective:
            start = None
    certificate.work.reset(columns)
    if certificate.is_done():
        return n_iter
    penalties = Penalties([certificate], by_row=by_row, fixed=penalty)
    state, move = columns.p.copy(), np.empty_like(columns.p)
    if start is not None:
        penalties.descend(start[0], max_iter - n_iter)
        _place_at_affine(state, columns, certificate.affine, start[:2], penalties.of_rows())
        del start
    certificate.room = state if state.size >= _LARGE else None
    columns = columns.own_order()
    mean: Multipliers | None = None
    multipliers: Multipliers | None = None
    with workers_of(columns, certificate.work) as workers:
        while not certificate.is_done():  # memory: penalties of rows are made where they are used, and not kept
            n_steps, rule = min(penalties.next_interval(), max_iter - n_iter), certificate.rule(penalties.common)
            multipliers = None
            multipliers = workers.take_steps(state, move, penalties.of_rows(), rule, n_steps)
            n_iter += n_steps
            workers.pool(state, penalties.of_rows(), rule, move)
            mean = _mean_of(mean, multipliers) if penalties.is_descending else None
            if mean is not None and penalties.may_project:
                certificate.take_bound(mean)
            certificate.dual_residual = _dual_residual(columns, state, move, multipliers, penalties.of_rows())
            errors = certificate.check(n_iter, move, columns, multipliers, may_project=penalties.may_project)
            if certificate.is_done():
                break
            if certificate.is_overwritten:
                workers.pool(state, penalties.of_rows(), rule, move)
            if n_iter >= max_iter:
                break
            factor = penalties.of_rows()
            penalties.change(errors, multipliers[0])
            factor /= penalties.of_rows()
            for j, order in enumerate(columns.order):
                # state - move is a multiplier over the penalty: the multiplier stays
                state[j] = move[j] + (state[j] - move[j]) * factor[order]
            del factor
    certificate.room = None
    del workers, penalties, multipliers, mean  # memory for what follows
    if not certificate.is_done():
        certificate.finish(move, columns, state)
    return n_iter


def _mean_of(mean: Multipliers | None, last: Multipliers) -> Multipliers:
    """Return the mean of a descent's multipliers, in which the last ones weigh most; it is changed in place."""
    if mean is None:
        return last
    for before, now in zip(mean, last, strict=True):
        before *= 1.0 - _WEIGHT_OF_LAST
        before += _WEIGHT_OF_LAST * now
    return mean


def _place_at_affine(
    state: FloatArray,
    columns: SortedColumns,
    point: tuple[FloatArray, float],
    multipliers: Multipliers,
    penalty: FloatArray,
) -> None:
    """Set the state whose pooled columns are the affine point, and whose multipliers are these."""
    constant, slope = point
    for j, (p, order) in enumerate(zip(columns.p, columns.order, strict=True)):
        q = np.maximum(constant[j] + slope * p, 0.0)
        state[j] = q + (p - q - multipliers[0][order] - multipliers[1][j]) / penalty[order]


def _dual_residual(
    columns: SortedColumns, state: FloatArray, q: FloatArray, multipliers: Multipliers, penalty: FloatArray
) -> float:
    """Return how far the objective's slope at `q` is from what the multipliers of sums and order make of it."""
    largest = 0.0
    for j, order in enumerate(columns.order):
        of_order = penalty[order] * (state[j] - q[j])
        slope = q[j] - columns.p[j] + multipliers[0][order] + multipliers[1][j]
        largest = max(largest, float(np.abs(slope + of_order).max()))
    return largest


def affine_start(
    columns: SortedColumns, work: Workspace, point: tuple[FloatArray, float], *, max_passes: int
) -> tuple[FloatArray, FloatArray, int] | None:
    """Return multipliers of rows and columns that nearly certify the affine feasible point, and the passes they took.

    None where rows are few, or the point is the matrix itself or equal rows. The blocks in `work` are overwritten.

    With many rows in general position the columns of the best matrix are all but straight lines, that is the affine
    feasible point a_j + c P_ij, and what is hard to find is the proof: multipliers of the rows whose average over any
    stretch of any column is the distance of the affine point from the probabilities there. Only over the foot of a
    column that starts at 0, its lowest entries, it may be less; a shorter foot has larger multipliers, a longer one
    lowers the bound. Averages over windows of a few rows per column are a linear system, with fewer equations than
    rows, which conjugate gradients (`projection.solve_blocks`) solve to 1% in some twenty passes whatever the number
    of rows. Theirs is the solution of the least size, so that what pooling loses inside the windows is small. Towards
    the ends of a column, where nothing lies beyond to pool with, windows narrow down to single rows.
    """
    n_columns, n = columns.p.shape
    constant, slope = point
    least_rows = max(_LEAST_ROWS, _LEAST_ROWS_PER_SQUARE * n_columns**2)
    if not columns.is_exact or n_columns < 3 or n < least_rows or not 0.0 < slope < 1.0:
        return None
    width = _WINDOW_WIDTH * n_columns
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
    return solve_blocks(columns, work, row, total, _START_ACCURACY, max_passes)


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


def alternate(columns: SortedColumns, certificate: Certificate, *, max_iter: int) -> int:
    """Iterate until the gap is small enough or `max_iter` is reached; return the number of iterations."""
    columns, rule = columns.own_order(), certificate.rule(1.0)
    q = unsorted(columns.p, columns.order)
    taken_from_rows, taken_from_columns = np.zeros_like(q), np.zeros_like(q)
    n_iter, next_check, interval = 0, _FIRST_CHECK, float(_FIRST_CHECK)
    while not certificate.is_done():
        q += taken_from_rows
        row_multipliers = simplex_thresholds(np.sort(q, axis=1)[:, ::-1], np.ones((1, len(columns.p))), 1.0)
        taken_from_rows = np.minimum(q, row_multipliers[:, None])
        q -= taken_from_rows
        q += taken_from_columns
        projected, column_multipliers = _project_columns(q, columns, certificate.work, rule)
        taken_from_columns = q - projected
        q = projected
        n_iter += 1
        if n_iter >= min(next_check, max_iter):
            by_place, sorted_now = _by_place(q, columns), certificate.columns.in_order(columns.order)
            certificate.check(n_iter, by_place, sorted_now, (row_multipliers, column_multipliers))
            interval = min(interval * _GROWTH, _LONGEST)
            next_check = n_iter + int(interval)
            if n_iter >= max_iter:
                certificate.finish(_by_place(q, columns), sorted_now, by_place)
                break
    return n_iter


def simplex_thresholds(falling: FloatArray, weight: FloatArray, total: FloatArray | float) -> FloatArray:
    """Return s of each falling row of values, with sum_k weight_k max(value_k - s, 0) = total."""
    excess = (np.cumsum(weight * falling, axis=1) - total) / np.cumsum(weight, axis=1)
    kept = np.count_nonzero(falling > excess, axis=1) - 1
    return np.asarray(excess[np.arange(len(excess)), np.maximum(kept, 0)])


def _by_place(q: FloatArray, columns: SortedColumns) -> FloatArray:
    """Return a matrix as sorted columns; of what a slack leaves below 0, 0: the order is kept as well as before."""
    return np.stack([np.maximum(q[order, j], 0.0) for j, order in enumerate(columns.order)])


def _project_columns(
    values: FloatArray, columns: SortedColumns, work: Workspace, rule: Rule | None
) -> tuple[FloatArray, FloatArray]:
    """Return the nearest matrix whose columns obey the order and have their sum, and the margins' multipliers.

    A column's pooling moves along with a constant added to it: what is left is the one constant that meets the sum. If
    the order is kept, entries are not negative either, as clipping at 0 leaves a rising column the nearest. It does
    not within a slack, where signs are left to the rows.
    """
    place = np.empty(columns.p.shape)
    for j, order in enumerate(columns.order):
        for a, e in columns.free[columns.free_start[j] : columns.free_start[j + 1]]:
            order[a:e] = order[a:e][np.argsort(values[order[a:e], j], kind="stable")]
        place[j] = values[order, j]
    base = float(np.abs(place).max()) + 1.0  # above 0 all over, so that pooling does not clip
    place += base
    kernels.pool_columns(columns.replace(p=place), work, columns.weight, rule, place)
    weight = columns.weight[columns.order]
    if rule is None:
        threshold = simplex_thresholds(place[:, ::-1], weight[:, ::-1], columns.margins[:, None])
        place -= threshold[:, None]
        np.maximum(place, 0.0, out=place)
    else:
        threshold = (np.einsum("jk,jk->j", weight, place) - columns.margins) / columns.total
        place -= threshold[:, None]
    return unsorted(place, columns.order), threshold - base
