"""The nearest matrix with given margins in Kullback-Leibler divergence, with the order free or kept (see `rake`).

Order free: by turns the rows are divided by their sums and the columns multiplied by what they lack of their margins.
It stops where no row sum or column mean is off by more than `tol`, or after `max_iter` passes.

Order kept: an over-relaxed Douglas-Rachford splitting (ADMM), by turns over columns that rise, where the divergence
and the penalty are least in closed form after pooling, and over matrices with the sums, where the nearest one is a
K x K system. The penalty follows what is off, the sums or the objective. At each check the multipliers of the row
sums prove a lower bound, again by pooling, and a mixture of the iterate and an affine feasible point is projected
(`projection.project`), which leaves order and sums exact. It stops where the gap between the two is small enough, or
after `max_iter` iterations. Where P has zeros, the iterate itself has to come to the sums, and a bound that no such
matrix can exceed proves that there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, warn
from calibrant.kernels import SortedColumns, Workspace
from calibrant.numerics import TINY, FloatArray, IntArray, dot, row_sum
from calibrant.rank_preserving.problem import (
    MARGIN_TOLERANCE,
    MarginKind,
    Mismatch,
    Problem,
    affine_columns,
    affine_feasible_point,
    check_problem,
    check_rows,
    unsorted,
)
from calibrant.rank_preserving.projection import project, project_by_steps
from calibrant.validation import ArrayLike, check_flag, check_integer, check_number

#: Where zeros of P rule the margins out, factors go to 0 for ever; rows are divided by sums of them.
_LEAST_FACTOR = TINY**0.5
#: Passes that show which columns raking leaves short.
_PASSES_OF_CHECK = 1_000
#: With the order kept, the gap that is good enough as a share of the divergence. Matrices of so few entries are taken
#: on until so many iterations, by goals each of which is this share of the last gap, to this share of `tol` per unit
#: of weight: entries are as near to the optimum as the gap's square root.
_GAP, _FEW_ENTRIES, _MOST_FOR_FEW, _NEXT_GOAL, _LEAST_GOAL = 1e-4, 5_000, 2_000, 0.1, 0.01
#: The splitting: its relaxation, its first penalty, and eigenvalues of the sums' system that count as 0.
_RELAXATION, _FIRST_PENALTY, _RANK_TOLERANCE = 1.8, 1_000.0, 1e-10
#: Iterations up to the first check, their growth from check to check, and most between two.
_FIRST_CHECK, _GROWTH, _LONGEST_INTERVAL = 30, 1.1, 100
#: The penalty rises where the sums are off by more than this many times what the objective is. The largest change of
#: its logarithm at a check, divided by one plus half the number of turns, and the checks after which changes fade.
_WEIGHT_OF_OBJECTIVE, _LARGEST_CHANGE, _FADING_AFTER = 3.0, 0.5, 40.0
#: Share of the allowed gap that mixing may use up; shares of the affine point that are tried at the end; iterations
#: before a projection is tried again after one that failed, as a multiple of those so far.
_SHARE_OF_GAP, _SHARES_AT_THE_END, _PAUSE = 0.7, (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6), 1.2
#: Of a projection: the sums that it aims at, as a share of `tol`, its passes at most, its steps at least and per
#: iteration so far.
_PROJECTION_AIM, _MOST_PASSES, _LEAST_STEPS, _STEPS_PER_ITERATION = 0.01, 500, 500, 0.25


@dataclass(frozen=True, slots=True)
class RakedResult:
    """What `rake` found.

    Attributes
    ----------
    Q, row_residual, margin_residual
        As in `RankPreservingResult`.
    converged : bool
        Whether the residuals are at most `tol` and, with the order kept, the divergence exceeds `bound` by at most
        0.01%, or `tol` per unit of weight.
    n_iter : int
        Passes over the matrix, or iterations of the splitting.
    divergence : float
        Weighted sum over the rows of the Kullback-Leibler divergence of Q from P.
    bound : float
        Proven lower bound of the divergence of every matrix with these margins, and this order if it is kept. With
        residuals at 0 it is the divergence of Q, so their difference says what the residuals leave open.
    """

    Q: Any = field(repr=False)
    converged: bool
    n_iter: int
    divergence: float
    bound: float
    row_residual: float
    margin_residual: float


def rake(
    P: ArrayLike,
    margins: ArrayLike | Mapping[Any, float],
    *,
    keep_order: bool = False,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    max_iter: int = 20_000,
) -> RakedResult:
    """Find the matrix with given margins that is nearest to `P` in Kullback-Leibler divergence.

    Parameters
    ----------
    P, margins, margin_kind, on_mismatch, sample_weight, tol, max_iter
        As for `solve`.
    keep_order : bool
        Whether the order within each column is kept, equal entries staying equal.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Warns
    -----
    ConvergenceWarning
        If the residuals are above `tol` after `max_iter` passes or, with the order kept, the divergence is not proven
        to be the least to 0.01%.

    Notes
    -----
    Minimises sum_ij w_i Q_ij log(Q_ij / P_ij). Without the order this is raking, or iterative proportional fitting:
    the answer is u_i P_ij v_j, so it keeps the odds of a row up to one factor for each pair of classes. With it, the
    order is exact, margins hold to rounding and row sums to `tol`, and `bound` proves how near the divergence is to
    the least one. Zeros of `P` stay zeros, and margins that no such matrix has are refused.

    References
    ----------
    Deming and Stephan (1940), *On a least squares adjustment of a sampled frequency table when the expected marginal
    totals are known*, Annals of Mathematical Statistics 11. Robertson, Wright and Dykstra (1988), *Order Restricted
    Statistical Inference*, section 1.5. Eckstein and Bertsekas (1992), *On the Douglas-Rachford splitting method and
    the proximal point algorithm for maximal monotone operators*, Mathematical Programming 55.

    Examples
    --------
    >>> import calibrant as cb
    >>> cb.rank_preserving.rake([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]], [1.2, 1.8]).Q.round(3)
    array([[0.588, 0.412],
           [0.479, 0.521],
           [0.133, 0.867]])
    """
    keep_order = check_flag("keep_order", keep_order)
    tol = check_number("tol", tol, minimum=0.0, is_open=True)
    max_iter = check_integer("max_iter", max_iter, minimum=1)
    problem = check_problem(check_rows(P, sample_weight), margins, margin_kind=margin_kind, on_mismatch=on_mismatch)
    result = rake_problem(problem, keep_order=keep_order, tol=tol, max_iter=max_iter)
    if not result.converged:
        off = f"row sums are {result.row_residual:.1e} and margins {result.margin_residual:.1e} off, above tol={tol:g}"
        if max(result.row_residual, result.margin_residual) <= tol:
            off = f"the divergence, {result.divergence:.6g}, is proven to be at least {result.bound:.6g} only"
        warn(f"after {result.n_iter:,} passes {off}. Raise max_iter or tol.", ConvergenceWarning)
    return result


def rake_problem(problem: Problem, *, keep_order: bool, tol: float, max_iter: int) -> RakedResult:
    """Rake a problem that has passed the gate; whether it converged is for the caller to say."""
    _check_support(problem)
    q, n_iter, bound = (_rake_in_order if keep_order else _rake)(problem, tol, max_iter)
    row = float(np.abs(row_sum(q) - 1.0).max())
    margin = float(np.abs(np.einsum("i,ij->j", problem.weight, q) - problem.margins).max()) / problem.total
    divergence = dot(problem.weight, row_divergence(q, problem.values))
    converged = max(row, margin) <= tol
    if not converged:
        _check_reach(problem)
        if keep_order and bound > _largest_divergence(problem):
            raise InvalidInputError(
                "margins: no matrix with them keeps both the order of P and its zeros, which raking leaves. Use solve, "
                f"or margins nearer to {problem.weight @ problem.values!r:.200}."
            )
    elif keep_order:
        converged = divergence - bound <= _allowed_gap(problem, bound, tol)
    return RakedResult(problem.origin.wrap(q), converged, n_iter, divergence, bound, row, margin)


def row_divergence(q: FloatArray, p: FloatArray) -> FloatArray:
    """Return sum_j q_j log(q_j / p_j) - q_j + p_j of each row, shape (n,); infinite where q has what p lacks."""
    from scipy.special import kl_div

    return row_sum(np.asarray(kl_div(q, p)))


def _check_support(problem: Problem) -> None:
    """Refuse margins that some row or column of P can't reach, as its zeros stay zeros."""
    p, wanted, is_kept = problem.values, problem.margins > 0.0, problem.origin.is_kept
    for j in np.flatnonzero(wanted & ~(p > 0.0).any(axis=0)).tolist():
        raise InvalidInputError(
            f"margins of column {problem.names()[j]!r}: P is 0 in all of its rows, and raking leaves zeros. Use "
            "solve, or a margin of 0."
        )
    bad = ~(p[:, wanted] > 0.0).any(axis=1)
    if bad.any():
        row = int(bad.argmax()) if is_kept is None else int(np.flatnonzero(is_kept)[bad.argmax()])
        raise InvalidInputError(
            f"P row {row}: all of its probability is in columns whose margin is 0 ({bad.sum():,} of {bad.size:,} "
            "rows), and raking leaves zeros. Use solve, or margins above 0."
        )


def _check_reach(problem: Problem) -> None:
    """Refuse margins of some columns that sum to more than the rows weigh which are not 0 in all of them.

    Raking goes on for ever then, and the columns that it leaves short of their margins are those.
    """
    p, margins, weight = problem.values, problem.margins, problem.weight
    if (p > 0.0).all():
        return
    q, _, _ = _rake(problem, MARGIN_TOLERANCE, _PASSES_OF_CHECK)
    short = np.argsort(np.einsum("i,ij->j", weight, q) - margins)
    for count in range(1, short.size):
        columns = np.sort(short[:count])
        reaching = (p[:, columns] > 0.0).any(axis=1)
        wanted, reached = float(margins[columns].sum()), float(weight[reaching].sum())
        if wanted > reached * (1.0 + MARGIN_TOLERANCE):
            names = problem.names()
            raise InvalidInputError(
                f"margins of columns {[names[j] for j in columns.tolist()]!r:.200} sum to {wanted:.6g}, and the "
                f"{reaching.sum():,} of {reaching.size:,} rows where P is not 0 in all of them weigh {reached:.6g}; "
                "raking leaves zeros. Use solve, or lower margins for these."
            )


def _rake(problem: Problem, tol: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Return the matrix, the number of passes and the bound that its factors prove."""
    weight, margins = problem.weight, problem.margins
    factor = (margins > 0.0).astype(np.float64)
    n_iter = 0
    while True:
        q = problem.values * factor
        of_row = row_sum(q)
        q /= of_row[:, None]
        n_iter += 1
        total = np.einsum("i,ij->j", weight, q)
        if n_iter >= max_iter or np.abs(total - margins).max() <= tol * problem.total:
            used = margins > 0.0
            return q, n_iter, max(dot(margins[used], np.log(factor[used])) - dot(weight, np.log(of_row)), 0.0)
        factor *= np.divide(margins, total, out=np.zeros_like(total), where=total > 0.0)
        factor /= factor.max()
        np.maximum(factor, _LEAST_FACTOR, out=factor, where=margins > 0.0)


def _rake_in_order(problem: Problem, tol: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Return the matrix, the number of iterations, and a proven lower bound of the divergence of what is feasible."""
    splitting, search = _Splitting(problem), _Search(problem, tol)
    interval, n_iter, largest = float(_FIRST_CHECK), 0, _largest_divergence(problem)
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
    search.finish(splitting.q, splitting.bound, n_iter)
    return splitting.q if search.q is None else search.q, n_iter, max(splitting.bound, 0.0)


def _largest_divergence(problem: Problem) -> float:
    """Return what no matrix with the zeros of P can exceed: a bound above it proves that there is no answer."""
    least = np.where(problem.values > 0.0, problem.values, 1.0).min(axis=1)
    return -dot(problem.weight, np.log(least)) * (1.0 + MARGIN_TOLERANCE)


def _allowed_gap(problem: Problem, divergence: float, tol: float) -> float:
    """Return by how much the divergence may exceed its bound where the answer counts as the nearest matrix."""
    return max(_GAP * divergence, tol * problem.total)


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
        ratio = max(self.sums, TINY) / max(_WEIGHT_OF_OBJECTIVE * self.objective, TINY)
        sign = 1 if ratio > 1.0 else -1
        self.n_turns += self.last_sign * sign < 0
        self.n_checks, self.last_sign = self.n_checks + 1, sign
        size = min(abs(float(np.log(ratio))), _LARGEST_CHANGE / (1.0 + 0.5 * self.n_turns))
        self.penalty *= float(np.exp(sign * size * min(1.0, (_FADING_AFTER / self.n_checks) ** 2)))


class _Search:
    """The best matrix so far whose order is exact and whose sums are right, and how to find one near an iterate.

    Where P is above 0, a_j + c P_ij is such a matrix, and lies strictly inside the order where c > 0. A mixture of an
    iterate and some of it is projected: the more of it, the easier the projection, and the larger the divergence.
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
        return self.divergence - bound <= (self.least if is_few else _allowed_gap(self.problem, bound, self.tol))

    def project(self, q: FloatArray, divergence: float, bound: float, n_iter: int) -> None:
        """Search near an iterate whose divergence is near to the bound, for a gap that is enough or a tenth of it."""
        allowed, gap = _allowed_gap(self.problem, bound, self.tol), self.divergence - bound
        goal = allowed if gap > allowed else max(_NEXT_GOAL * gap, self.least)
        if self.columns is None or n_iter < self.next_try or abs(divergence - bound) > goal:
            return
        share = _SHARE_OF_GAP * goal / max(self.affine_divergence - bound, goal)
        if not self._try_mixture(self.columns, q, share, n_iter):
            self.next_try = n_iter * _PAUSE

    def finish(self, q: FloatArray, bound: float, n_iter: int) -> None:
        """Search near the last iterate, with more and more of the affine point."""
        for share in _SHARES_AT_THE_END:
            excess = self.divergence - bound
            if self.columns is None or excess <= _allowed_gap(self.problem, bound, self.tol):
                return
            if self._try_mixture(self.columns, q, share, n_iter):
                return

    def _try_mixture(self, columns: SortedColumns, q: FloatArray, share: float, n_iter: int) -> bool:
        """Project a mixture of an iterate and the affine point; return whether that succeeded."""
        constant, slope = self.affine
        mixture = share * affine_columns(columns, constant, slope)
        for j, order in enumerate(columns.order):
            mixture[j] += (1.0 - share) * q[order, j]
        mixed, work, tol = columns.replace(p=mixture), Workspace.of(columns), 0.5 * self.tol
        if not project(mixed, work, aim=_PROJECTION_AIM * self.tol, tol=tol, max_passes=_MOST_PASSES):
            max_steps = _LEAST_STEPS + int(_STEPS_PER_ITERATION * n_iter)
            if not project_by_steps(mixed, work, tol=tol, max_steps=max_steps):
                return False
        self.take(unsorted(mixture, columns.order))
        return True
