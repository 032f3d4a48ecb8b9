"""Dykstra's alternating projections: rows onto the simplex, columns onto the order with their sum."""

from __future__ import annotations

import numpy as np

from calibrant import kernels
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.certify import Certifier
from calibrant.rank_preserving.problem import PlaceArray, Problem

_FIRST_LOOK, _GROWTH, _LONGEST_LOOK = 20, 1.25, 500


def alternate(problem: Problem, certifier: Certifier, *, max_iter: int) -> int:
    """Iterate until the certifier is content or `max_iter` is reached; return the number of iterations.

    References
    ----------
    Boyle and Dykstra (1986), *A method for finding projections onto the intersection of convex sets in Hilbert
    spaces*, Lecture Notes in Statistics 37.
    """
    n_columns, n = problem.p.shape
    order = problem.order.copy() if problem.runs.size else problem.order
    q = _unsorted(problem.p, order)
    lift, shift = np.zeros(n), np.zeros(n_columns)
    row_memory, column_memory = np.zeros((n, n_columns)), np.zeros((n, n_columns))
    columns = _Columns(problem)
    n_iter, next_look, look = 0, _FIRST_LOOK, float(_FIRST_LOOK)
    while not certifier.is_done():
        q += row_memory
        lift = simplex_thresholds(q)
        row_memory = np.minimum(q, lift[:, None])
        q -= row_memory
        q += column_memory
        projected, shift = columns.project(q, order)
        column_memory = q - projected
        q = projected
        n_iter += 1
        if n_iter >= min(next_look, max_iter):
            place = np.stack([q[order[j], j] for j in range(n_columns)])
            certifier.look(n_iter, place, order, lift, shift)
            look = min(look * _GROWTH, _LONGEST_LOOK)
            next_look = n_iter + int(look)
            if n_iter >= max_iter and not certifier.is_done():
                place = np.stack([q[order[j], j] for j in range(n_columns)])
                certifier.finish(place, order, np.empty_like(place))
                break
    return n_iter


def simplex_thresholds(values: FloatArray) -> FloatArray:
    """Return what to take off each row, so that what stays above 0 sums to one: the projection onto the simplex.

    References
    ----------
    Held, Wolfe and Crowder (1974), *Validation of subgradient optimization*, Mathematical Programming 6.
    """
    falling = np.sort(values, axis=1)[:, ::-1]
    excess = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, values.shape[1] + 1)
    kept = np.count_nonzero(falling > excess, axis=1) - 1
    threshold: FloatArray = excess[np.arange(values.shape[0]), kept]
    return threshold


class _Columns:
    """The projection of columns onto those that rise, are not negative and have their sum."""

    def __init__(self, problem: Problem) -> None:
        n_columns, n = problem.p.shape
        self.problem = problem
        self.block = np.empty((n_columns, n + 1), dtype=np.int32)
        for j, count in enumerate(problem.n_units):
            self.block[j, : count + 1] = np.arange(count + 1)
        self.n_blocks = problem.n_units.copy()
        self.level, self.mass, self.first = np.empty(n), np.empty(n), np.empty(n, dtype=np.int32)
        self.weights = np.empty(n)

    def project(self, values: FloatArray, order: PlaceArray) -> tuple[FloatArray, FloatArray]:
        """Return the projected matrix and the multipliers of the margins.

        A column's pooling moves along with a constant added to it, and clipping at 0 keeps it the nearest: what is
        left is the one constant that meets the sum.
        """
        problem = self.problem
        place = np.empty(problem.p.shape)
        for j in range(order.shape[0]):
            for a, e in problem.runs[problem.run_start[j] : problem.run_start[j + 1]]:
                order[j, a:e] = order[j, a:e][np.argsort(values[order[j, a:e], j], kind="stable")]
            place[j] = values[order[j], j]
        base = float(np.abs(place).max()) + 1.0  # above 0 all over, so that pooling does not clip
        place += base
        pooled = np.empty_like(place)
        kernels.pool_columns(
            place,
            order,
            problem.unit,
            problem.weight,
            self.block,
            self.n_blocks,
            self.level,
            self.mass,
            self.first,
            self.weights,
            pooled,
        )
        shift = np.empty(len(pooled))
        for j, column in enumerate(pooled):
            shift[j] = rising_threshold(column, problem.weight[order[j]], float(problem.margins[j]))
        pooled -= shift[:, None]
        np.maximum(pooled, 0.0, out=pooled)
        return _unsorted(pooled, order), shift - base


def rising_threshold(rising: FloatArray, weight: FloatArray, total: float) -> float:
    """Return s with sum_i weight_i max(rising_i - s, 0) = total."""
    mass = np.cumsum(weight[::-1])
    threshold = (np.cumsum((weight * rising)[::-1]) - total) / mass
    kept = int(np.count_nonzero(rising[::-1] > threshold)) - 1
    return float(threshold[max(kept, 0)])


def _unsorted(place: FloatArray, order: PlaceArray) -> FloatArray:
    out = np.empty(place.shape[::-1])
    for j in range(len(place)):
        out[order[j], j] = place[j]
    return out
