"""Raking with the order kept: the nearest matrix in Kullback-Leibler divergence whose columns rise where those of P do.

An over-relaxed Douglas-Rachford splitting (ADMM), by turns over columns that rise, where the divergence and the penalty
are least in closed form after pooling, and over matrices with the sums, where the nearest one is a K x K system. The
penalty follows what is off, the sums or the objective. At each check the multipliers of the row sums prove a lower
bound, again by pooling, and a mixture of the iterate and an affine feasible point is moved to a feasible matrix nearby
(`projection.make_feasible`), whose order is exact. It stops where the gap between the two is small enough, or after
`max_iter` iterations. Where P has zeros, the iterate itself has to come to the sums, and a bound that no such matrix
can exceed proves that there is none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calibrant.kernels import SortedColumns, Workspace
from calibrant.numerics import TINY, FloatArray, IntArray, dot, row_sum
from calibrant.rank_preserving.problem import (
    MARGIN_TOLERANCE,
    Problem,
    affine_columns,
    affine_feasible_point,
    unsorted,
)
from calibrant.rank_preserving.projection import (
    SHARE_OF_GAP,
    SHARES_AT_THE_END,
    WEIGHT_OF_OBJECTIVE,
    make_feasible,
    mix_in,
    next_attempt,
)
from calibrant.rank_preserving.result import GAP

#: With the order kept, `GAP` is a share of the divergence. Matrices of so few entries are taken on until so many
#: iterations, by goals each of which is this share of the last gap, to this share of `tol` per unit of weight: entries
#: are as near to the optimum as the gap's square root.
_FEW_ENTRIES, _MOST_FOR_FEW, _NEXT_GOAL, _LEAST_GOAL = 5_000, 2_000, 0.1, 0.01
#: The splitting: its relaxation, its first penalty, and eigenvalues of the sums' system that count as 0.
_RELAXATION, _FIRST_PENALTY, _RANK_TOLERANCE = 1.8, 1_000.0, 1e-10
#: Iterations up to the first check, their growth from check to check, and most between two.
_FIRST_CHECK, _GROWTH, _LONGEST_INTERVAL = 30, 1.1, 100
#: The largest change of the penalty's logarithm at a check, divided by one plus half the number of turns, and the
#: checks after which changes fade.
_LARGEST_CHANGE, _FADING_AFTER = 0.5, 100.0
#: Passes of Newton steps at most.
_MOST_PASSES = 500


def row_divergence(q: FloatArray, p: FloatArray) -> FloatArray:
    """Return sum_j q_j log(q_j / p_j) - q_j + p_j of each row, shape (n,); infinite where q has what p lacks."""
    from scipy.special import kl_div

    return row_sum(np.asarray(kl_div(q, p)))


def rake_in_order(problem: Problem, tol: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Return the matrix, the number of iterations, and a proven lower bound of the divergence of what is feasible."""
    splitting, search = _Splitting(problem), _Search(problem, tol)
    interval, n_iter, largest = float(_FIRST_CHECK), 0, largest_divergence(problem)
    while True:
        n_steps = min(int(interval), max_iter - n_iter)
        splitting.take_steps(n_steps)
        n_iter += n_steps
        divergence = splitting.measure()
        search.take(splitting.q)
        if search.is_done(splitting.bound, n_iter) or splitting.bound > largest:
            break
        search.project(splitting.q, divergence, splitting.bound, n_iter)
        if search.is_done(splitting.bound, n_iter) or n_iter >= max_iter:
            break
        splitting.change_penalty()
        interval = min(interval * _GROWTH, _LONGEST_INTERVAL)
    search.finish(splitting.q, splitting.bound)
    return splitting.q if search.q is None else search.q, n_iter, max(splitting.bound, 0.0)


def largest_divergence(problem: Problem) -> float:
    """Return what no matrix with the zeros of P can exceed: a bound above it proves that there is no answer."""
    least = np.where(problem.values > 0.0, problem.values, 1.0).min(axis=1)
    return -dot(problem.weight, np.log(least)) * (1.0 + MARGIN_TOLERANCE)


def allowed_gap(problem: Problem, divergence: float, tol: float) -> float:
    """Return by how much the divergence may exceed its bound where the answer counts as the nearest matrix."""
    return max(GAP * divergence, tol * problem.total)


class _Column(NamedTuple):
    """A column whose margin is above 0: its rows of positive probability, sorted, and their ties."""

    j: int
    order: IntArray
    first: IntArray
    size: IntArray
    weight: FloatArray
    tie_weight: FloatArray
    log_p: FloatArray
    margin: float

    @classmethod
    def of(cls, problem: Problem, j: int) -> _Column:
        order = np.argsort(problem.values[:, j], kind="stable")
        value = problem.values[order, j]
        order, value = order[value > 0.0], value[value > 0.0]
        first = np.flatnonzero(np.append(True, value[1:] > value[:-1]))
        size, weight = np.diff(np.append(first, value.size)), problem.weight[order]
        tie_weight = np.add.reduceat(weight, first)
        return cls(j, order, first, size, weight, tie_weight, np.log(value[first]), float(problem.margins[j]))

    def pool(self, value: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return the rising values of the ties nearest to log p plus the rows' `value`, and the edges of the blocks."""
        from scipy.optimize import isotonic_regression

        average = np.add.reduceat(self.weight * value[self.order], self.first) / self.tie_weight
        pooled = isotonic_regression(self.log_p + average, weights=self.tie_weight)
        return pooled.x, pooled.blocks


class _Splitting:
    """The iterates: columns in their order `q`, a matrix with the sums `z`, and the multipliers of their difference.

    These are those of the row sums plus those of the margins, where P is above 0: `row` and `column`.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.columns = [_Column.of(problem, j) for j in np.flatnonzero(problem.margins > 0.0).tolist()]
        self.is_free = ((problem.values > 0.0) & (problem.margins > 0.0)).astype(np.float64)
        self.n_free = row_sum(self.is_free)
        of_rows = self.is_free * (problem.weight / self.n_free)[:, None]
        system = np.diag(problem.weight @ self.is_free) - of_rows.T @ self.is_free
        self.inverse = np.linalg.pinv(system, rcond=_RANK_TOLERANCE, hermitian=True)
        self.q, self.z = np.zeros_like(problem.values), problem.values * self.is_free
        self.row, self.column = np.zeros(problem.weight.size), np.zeros(problem.margins.size)
        self.penalty, self.bound = _FIRST_PENALTY, -np.inf
        self.sums = self.objective = 0.0  # what is off, in units of the divergence
        self.n_checks = self.n_turns = self.last_sign = 0

    def take_steps(self, n_steps: int) -> None:
        """Take steps: columns onto the order, then both together onto the sums, over-relaxed."""
        weight, penalty = self.problem.weight, self.penalty
        for _ in range(n_steps):
            multiplier = (self.row[:, None] + self.column) * self.is_free
            self._pool(penalty * self.z - multiplier)
            self.z *= 1.0 - _RELAXATION
            self.z += _RELAXATION * self.q
            self.z += multiplier / penalty
            row = row_sum(self.z) - 1.0
            column = np.einsum("i,ij->j", weight, self.z) - self.problem.margins
            column = self.inverse @ (column - (weight * row / self.n_free) @ self.is_free)
            row = (row - self.is_free @ column) / self.n_free
            self.z -= (row[:, None] + column) * self.is_free
            self.row, self.column = penalty * row, penalty * column

    def _pool(self, value: FloatArray) -> None:
        """Set `q` to the rising columns that minimise the divergence, plus half the penalty times squares.

        The slope of q log q plus these is log q + penalty q, the same for all entries: of each block it has to be
        the mean of log p + `value`, and Wright's omega, the solution of x + log x = y, inverts it.
        """
        from scipy.special import wrightomega

        for c in self.columns:
            pooled, block = c.pool(value[:, c.j])
            level = wrightomega(pooled[block[:-1]] + np.log(self.penalty)) / self.penalty
            level = np.repeat(np.maximum.accumulate(level), np.diff(block))  # omega rises up to rounding alone
            self.q[c.order, c.j] = np.repeat(level, c.size)

    def measure(self) -> float:
        """Return the divergence of `q`; set the best bound so far, and what is off in the sums and the objective."""
        weight, margins = self.problem.weight, self.problem.margins
        row, column = row_sum(self.q) - 1.0, np.einsum("i,ij->j", weight, self.q) - margins
        self.bound = max(self.bound, self._lower_bound())
        self.sums = dot(weight, np.abs(self.row * row)) + float(np.abs(self.column * column).sum())
        divergence = dot(weight, row_divergence(self.q, self.problem.values))
        self.objective = divergence + dot(weight, self.row * row) + dot(self.column, column) - self.bound
        return divergence

    def _lower_bound(self) -> float:
        """Return the least Lagrangian at the multipliers of the row sums, over columns with their order and margin."""
        value = -dot(self.problem.weight, self.row)
        for c in self.columns:
            pooled, _ = c.pool(-self.row)
            top = float(pooled[-1])
            total = dot(c.tie_weight, np.exp(pooled - top))
            value += float(c.margin * (np.log(c.margin / total) - top))
        return value

    def change_penalty(self) -> None:
        """Raise the penalty where the sums are off by more than the objective, else lower it, by less and less."""
        ratio = max(self.sums, TINY) / max(WEIGHT_OF_OBJECTIVE * self.objective, TINY)
        sign = 1 if ratio > 1.0 else -1
        self.n_turns += self.last_sign * sign < 0
        self.n_checks, self.last_sign = self.n_checks + 1, sign
        size = min(abs(float(np.log(ratio))), _LARGEST_CHANGE / (1.0 + 0.5 * self.n_turns))
        self.penalty *= float(np.exp(sign * size * min(1.0, (_FADING_AFTER / self.n_checks) ** 2)))


class _Search:
    """The best matrix so far whose order is exact and whose sums are right, and how to find one near an iterate.

    Where P is above 0, a_j + c P_ij is such a matrix, and lies strictly inside the order where c > 0. A mixture of an
    iterate and some of it is made feasible: the more of it, the easier that is, and the larger the divergence.
    """

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.tol, self.next_try = problem, tol, 0.0
        self.least = _LEAST_GOAL * tol * problem.total
        self.q: FloatArray | None = None
        self.divergence = np.inf
        self.columns: SortedColumns | None = None
        if (problem.values > 0.0).all():
            self.columns = problem.columns()
            self.affine = affine_feasible_point(self.columns)
            self.take(unsorted(affine_columns(self.columns, *self.affine), self.columns.order))
            self.affine_divergence = self.divergence

    def take(self, q: FloatArray) -> None:
        """Keep a matrix where its row sums are right and it is better than the last; its margins are made exact."""
        weight, margins = self.problem.weight, self.problem.margins
        total = np.einsum("i,ij->j", weight, q)
        if ((total > 0.0) != (margins > 0.0)).any():
            return
        q = q * np.divide(margins, total, out=np.zeros_like(total), where=total > 0.0)
        if float(np.abs(row_sum(q) - 1.0).max()) > self.tol:
            return
        divergence = dot(weight, row_divergence(q, self.problem.values))
        if divergence < self.divergence:
            self.q, self.divergence = q, divergence

    def is_done(self, bound: float, n_iter: int) -> bool:
        """Say whether the divergence is proven to be near enough to the least one."""
        is_few = self.problem.values.size <= _FEW_ENTRIES and n_iter < _MOST_FOR_FEW
        return self.divergence - bound <= (self.least if is_few else allowed_gap(self.problem, bound, self.tol))

    def project(self, q: FloatArray, divergence: float, bound: float, n_iter: int) -> None:
        """Search near an iterate whose divergence is near to the bound, for a gap that is enough or a tenth of it."""
        allowed, gap = allowed_gap(self.problem, bound, self.tol), self.divergence - bound
        goal = allowed if gap > allowed else max(_NEXT_GOAL * gap, self.least)
        if self.columns is None or n_iter < self.next_try or abs(divergence - bound) > goal:
            return
        share = SHARE_OF_GAP * goal / max(self.affine_divergence - bound, goal)
        is_found = self._try_mixture(self.columns, q, share)
        self.next_try = next_attempt(n_iter, is_found=is_found, gap=self.divergence - bound, goal=goal)

    def finish(self, q: FloatArray, bound: float) -> None:
        """Search near the last iterate, with more and more of the affine point."""
        for share in SHARES_AT_THE_END:
            excess = self.divergence - bound
            if self.columns is None or excess <= allowed_gap(self.problem, bound, self.tol):
                return
            if self._try_mixture(self.columns, q, share):
                return

    def _try_mixture(self, columns: SortedColumns, q: FloatArray, share: float) -> bool:
        """Make a mixture of an iterate and the affine point feasible; return whether that succeeded."""
        mixture = np.stack([q[order, j] for j, order in enumerate(columns.order)])
        mix_in(mixture, columns, self.affine, share)
        mixed, work = columns.replace(p=mixture), Workspace.of(columns)
        if not make_feasible(mixed, work, tol=self.tol, max_passes=_MOST_PASSES):
            return False
        self.take(unsorted(mixture, columns.order))
        return True
