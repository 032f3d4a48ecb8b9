"""The nearest matrix with given margins in Kullback-Leibler divergence, with the order free or kept (see `rake`).

Order free: by turns the rows are divided by their sums and the columns multiplied by what they lack of their margins.
It stops where no row sum or column mean is off by more than `tol`, or after `max_iter` passes.

Order kept: see `ordered_raking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, warn
from calibrant.numerics import TINY, FloatArray, dot, row_sum
from calibrant.rank_preserving.ordered_raking import allowed_gap, largest_divergence, rake_in_order, row_divergence
from calibrant.rank_preserving.problem import MARGIN_TOLERANCE, MarginKind, Mismatch, Problem, check_problem, check_rows
from calibrant.readable import Readable
from calibrant.validation import ArrayLike, check_flag, check_integer, check_number

#: Where zeros of P rule the margins out, factors go to 0 for ever; rows are divided by sums of them.
_LEAST_FACTOR = TINY**0.5
#: Passes that show which columns raking leaves short.
_PASSES_OF_CHECK = 1_000


@dataclass(frozen=True, slots=True, repr=False)
class RakedResult(Readable):
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
    q, n_iter, bound = (rake_in_order if keep_order else _rake)(problem, tol, max_iter)
    row = float(np.abs(row_sum(q) - 1.0).max())
    margin = float(np.abs(np.einsum("i,ij->j", problem.weight, q) - problem.margins).max()) / problem.total
    divergence = dot(problem.weight, row_divergence(q, problem.values))
    converged = max(row, margin) <= tol
    if not converged:
        _check_reach(problem)
        if keep_order and bound > largest_divergence(problem):
            raise InvalidInputError(
                "margins: no matrix with them keeps both the order of P and its zeros, which raking leaves. Use solve, "
                f"or margins nearer to {problem.weight @ problem.values!r:.200}."
            )
    elif keep_order:
        converged = divergence - bound <= allowed_gap(problem, bound, tol)
    return RakedResult(problem.origin.wrap(q), converged, n_iter, divergence, bound, row, margin)


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
