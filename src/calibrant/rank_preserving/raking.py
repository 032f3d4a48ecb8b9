"""The nearest matrix with given margins in Kullback-Leibler divergence, with the order free or kept (see `rake`).

Order free: by turns the rows are divided by their sums and the columns multiplied by what they lack of their margins.
Order kept: for given multipliers of the row sums the nearest rising column with its sum is isotonic regression of
log P plus the multipliers, times one factor; the dual value that this proves has the row sums for its slope, and
L-BFGS climbs it. Where it comes to the end of its digits, Newton steps on the pooled blocks go on, each solved by
conjugate gradients. Both stop where no row sum or column mean is off by more than `tol`, or after `max_iter` passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, warn
from calibrant.numerics import TINY, FloatArray, IntArray, dot, row_sum
from calibrant.rank_preserving.problem import MARGIN_TOLERANCE, MarginKind, Mismatch, Problem, check_problem, check_rows
from calibrant.validation import ArrayLike, check_flag, check_integer, check_number

#: Where zeros of P rule the margins out, factors go to 0 for ever; rows are divided by sums of them.
_LEAST_FACTOR = TINY**0.5
#: Passes that show which columns raking leaves short.
_PASSES_OF_CHECK = 1_000
#: Conjugate gradients of a Newton step: passes at most, and the residual that is small enough. What is added to the
#: diagonal, and the shortest step that is tried.
_MAX_INNER_PASSES, _INNER_ACCURACY, _RIDGE, _SHORTEST_STEP = 500, 1e-3, 1e-10, 1e-3


@dataclass(frozen=True, slots=True)
class RakedResult:
    """What `rake` found.

    Attributes
    ----------
    Q, row_residual, margin_residual
        As in `RankPreservingResult`.
    converged : bool
        Whether the residuals are at most `tol`.
    n_iter : int
        Passes over the matrix.
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
    max_iter: int = 5_000,
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
        If the residuals are above `tol` after `max_iter` passes.

    Notes
    -----
    Minimises sum_ij w_i Q_ij log(Q_ij / P_ij). Without the order this is raking, or iterative proportional fitting:
    the answer is u_i P_ij v_j, so it keeps the odds of a row up to one factor for each pair of classes. With it, order
    and margins hold to rounding, and row sums to `tol`; the more rows there are, the more passes that takes. Zeros of
    `P` stay zeros, and margins that no such matrix has are refused.

    References
    ----------
    Deming and Stephan (1940), *On a least squares adjustment of a sampled frequency table when the expected marginal
    totals are known*, Annals of Mathematical Statistics 11. Robertson, Wright and Dykstra (1988), *Order Restricted
    Statistical Inference*, section 1.5. Liu and Nocedal (1989), *On the limited memory BFGS method for large scale
    optimization*, Mathematical Programming 45.

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
        warn(
            f"after {result.n_iter:,} passes row sums are {result.row_residual:.1e} and margins "
            f"{result.margin_residual:.1e} off, above tol={tol:g}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
    return result


def rake_problem(problem: Problem, *, keep_order: bool, tol: float, max_iter: int) -> RakedResult:
    """Rake a problem that has passed the gate; whether it converged is for the caller to say."""
    _check_support(problem)
    q, n_iter, bound = (_rake_in_order if keep_order else _rake)(problem, tol, max_iter)
    row = float(np.abs(row_sum(q) - 1.0).max())
    margin = float(np.abs(np.einsum("i,ij->j", problem.weight, q) - problem.margins).max()) / problem.total
    converged = max(row, margin) <= tol
    if not converged:
        _check_reach(problem)
    divergence = dot(problem.weight, row_divergence(q, problem.values))
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
    """Return the matrix, the number of passes, and a proven lower bound of the divergence of every feasible matrix."""
    from scipy.optimize import minimize

    dual = _Dual(problem)
    root = np.sqrt(problem.weight)

    def climb(scaled: FloatArray) -> tuple[float, FloatArray]:
        value, slope = dual.measure(scaled / root)
        return -value, -slope / root

    def stop(_: FloatArray) -> None:
        if dual.residual <= tol or dual.n_passes >= max_iter:
            raise StopIteration

    options = {"maxiter": max_iter, "maxfun": max_iter, "ftol": 0.0, "gtol": 0.0}
    found = minimize(climb, np.zeros(root.size), jac=True, method="L-BFGS-B", callback=stop, options=options)
    multiplier = found.x / root
    dual.measure(multiplier)
    while dual.residual > tol and dual.n_passes < max_iter:  # Newton steps, halved until row sums are nearer to 1
        before, step, length = dot(dual.slope, dual.slope), dual.solve(dual.slope, max_iter), 1.0
        dual.measure(multiplier + step)
        while dot(dual.slope, dual.slope) >= before and 0.5 * length > _SHORTEST_STEP:
            length *= 0.5
            dual.measure(multiplier + length * step)
        if dot(dual.slope, dual.slope) >= before:
            dual.measure(multiplier)
            break
        multiplier = multiplier + length * step
    return dual.matrix(), dual.n_passes, max(dual.value, 0.0)


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


class _Dual:
    """The dual function: its value, slope and blocks where it was measured last."""

    value: float
    slope: FloatArray
    residual: float

    def __init__(self, problem: Problem) -> None:
        self.weight = problem.weight
        self.shape = problem.values.shape
        self.columns = [_Column.of(problem, j) for j in np.flatnonzero(problem.margins > 0.0).tolist()]
        self.levels: list[FloatArray] = []
        self.blocks: list[IntArray] = []
        self.n_passes = 0

    def measure(self, multiplier: FloatArray) -> tuple[float, FloatArray]:
        """Return the least Lagrangian at these multipliers, and its slope: weight x (1 - row sum)."""
        from scipy.optimize import isotonic_regression

        self.n_passes += 1
        self.value = dot(self.weight, multiplier)
        row = np.zeros(self.shape[0])
        self.levels, self.blocks = [], []
        for c in self.columns:
            average = np.add.reduceat(c.weight * multiplier[c.order], c.first) / c.tie_weight
            pooled = isotonic_regression(c.log_p + average, weights=c.tie_weight)
            top = float(pooled.x[-1])
            share = np.exp(pooled.x - top)
            total = dot(c.tie_weight, share)
            self.value += float(c.margin * (np.log(c.margin / total) - top))
            level = share * (c.margin / total)
            row[c.order] += np.repeat(level, c.size)
            self.levels.append(level)
            self.blocks.append(pooled.blocks)
        self.slope = self.weight * (1.0 - row)
        self.residual = float(np.abs(row - 1.0).max())
        return self.value, self.slope

    def matrix(self) -> FloatArray:
        q = np.zeros(self.shape)
        for c, level in zip(self.columns, self.levels, strict=True):
            q[c.order, c.j] = np.repeat(level, c.size)
        return q

    def bend(self, step: FloatArray) -> FloatArray:
        """Return the change of the slope, sign reversed, where multipliers move by `step` and no block changes."""
        change = np.zeros(self.shape[0])
        for c, level, block in zip(self.columns, self.levels, self.blocks, strict=True):
            of_tie = np.add.reduceat(c.weight * step[c.order], c.first)
            mass = np.add.reduceat(c.tie_weight, block[:-1])
            average = np.add.reduceat(of_tie, block[:-1]) / mass
            height = level[block[:-1]]
            average -= dot(height * mass, average) / c.margin
            change[c.order] += np.repeat(np.repeat(height * average, np.diff(block)), c.size)
        return self.weight * change

    def diagonal(self) -> FloatArray:
        """Return the diagonal of `bend`, but for the part of the margins."""
        share = np.zeros(self.shape[0])
        for c, level, block in zip(self.columns, self.levels, self.blocks, strict=True):
            mass = np.add.reduceat(c.tie_weight, block[:-1])
            share[c.order] += np.repeat(np.repeat(level[block[:-1]] / mass, np.diff(block)), c.size)
        return self.weight**2 * share

    def solve(self, slope: FloatArray, max_iter: int) -> FloatArray:
        """Return the step that takes the slope to 0 as far as the blocks hold, by conjugate gradients."""
        scale = self.diagonal() + _RIDGE * self.weight
        step, residual = np.zeros(slope.size), slope.copy()
        scaled = residual / scale
        direction, product = scaled.copy(), dot(residual, scaled)
        enough = _INNER_ACCURACY**2 * dot(residual, residual)
        for _ in range(_MAX_INNER_PASSES):
            image = self.bend(direction) + _RIDGE * self.weight * direction
            curvature = dot(direction, image)
            if curvature <= 0.0 or self.n_passes >= max_iter:
                break
            self.n_passes += 1
            length = product / curvature
            step += length * direction
            residual -= length * image
            if dot(residual, residual) <= enough:
                break
            scaled = residual / scale
            product, last = dot(residual, scaled), product
            direction = scaled + (product / last) * direction
        return step
