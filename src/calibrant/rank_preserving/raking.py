"""The nearest matrix with given margins in Kullback-Leibler divergence, with the order free or kept."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from calibrant.numerics import TINY, FloatArray, dot, row_sum
from calibrant.rank_preserving.isotonic_raking import rake_in_order
from calibrant.rank_preserving.problem import MARGIN_TOLERANCE, MarginKind, Mismatch, Problem, check_problem
from calibrant.validation import ArrayLike, check_integer

#: Where zeros of P rule the margins out, factors go to 0 for ever; rows are divided by sums of them.
_LEAST_FACTOR = TINY**0.5
#: Passes that show which columns raking leaves short.
_PASSES_OF_CHECK = 1_000


@dataclass(frozen=True, slots=True)
class RakedResult:
    """What `rake` found.

    Attributes
    ----------
    Q : shape (n, K)
        The matrix, in the container that the probabilities came in. Rows of weight 0 are NaN.
    converged : bool
        Whether the residuals are at most `tol`.
    n_iter : int
        Passes over the matrix.
    divergence : float
        Weighted sum over the rows of the Kullback-Leibler divergence of Q from P.
    bound : float
        Proven lower bound of the divergence of every matrix with these margins, and this order if it is kept. With
        residuals at 0 it is the divergence of Q, so their difference says what the residuals leave open.
    row_residual, margin_residual : float
        Largest distance of a row sum from 1, and of a column mean from its margin per row.
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
    P, margins, margin_kind, on_mismatch, sample_weight
        As for `solve`.
    keep_order : bool
        Whether the order within each column is kept, equal entries staying equal.
    tol : float
        Largest distance of a row sum from 1 and of a column mean from its margin per row.
    max_iter : int
        Largest number of passes.

    Returns
    -------
    RakedResult

    Raises
    ------
    CalibrantError
        If an argument can't be used, or zeros of `P`, which stay zeros, leave no matrix with these margins; the
        message says where and why.

    Warns
    -----
    ConvergenceWarning
        If the residuals are above `tol` after `max_iter` passes.

    Notes
    -----
    Minimises sum_ij w_i Q_ij log(Q_ij / P_ij). Without the order this is raking, or iterative proportional fitting:
    the answer is u_i P_ij v_j, so it keeps the odds of a row up to one factor for each pair of classes. With it, the
    nearest rising column is isotonic regression of logarithms (levels are geometric means), and the margin is one
    factor, which does not disturb the order: what is left is to find the factors u_i of the rows, by a quasi-Newton
    method on the dual problem. Order and margins then hold to rounding, and row sums to `tol`; the more rows there
    are, the more passes that takes.

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
    if not isinstance(keep_order, bool):
        raise InvalidTypeError(f"keep_order={keep_order!r} is neither True nor False. Pass one of them.")
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.floating)):
        raise InvalidTypeError(f"tol={tol!r} is not a number. Pass one above 0, such as 1e-8.")
    if not 0.0 < tol < np.inf:
        raise InvalidInputError(f"tol={tol!r} is not above 0 and finite. Pass a number such as 1e-8.")
    max_iter = check_integer("max_iter", max_iter, minimum=1)
    problem = check_problem(
        P, margins, margin_kind=margin_kind, on_mismatch=on_mismatch, ties="equal", sample_weight=sample_weight
    )
    p = plain_matrix(problem)
    _check_support(p, problem)
    q, n_iter, bound = (rake_in_order if keep_order else _rake)(p, problem, float(tol), max_iter)
    row = float(np.abs(row_sum(q) - 1.0).max())
    margin = float(np.abs(np.einsum("i,ij->j", problem.weight, q) - problem.margins).max()) / problem.total
    converged = max(row, margin) <= tol
    if not converged:
        _check_reach(p, problem)
        warnings.warn(
            f"after {n_iter:,} passes row sums are {row:.1e} and margins {margin:.1e} off, above tol={tol:g}. Raise "
            "max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    divergence = dot(problem.weight, row_divergence(q, p))
    return RakedResult(_wrapped(q, problem), converged, n_iter, divergence, bound, row, margin)


def row_divergence(q: FloatArray, p: FloatArray) -> FloatArray:
    """Return sum_j q_j log(q_j / p_j) - q_j + p_j of each row, shape (n,); infinite where q has what p lacks."""
    from scipy.special import kl_div

    return row_sum(np.asarray(kl_div(q, p)))


def plain_matrix(problem: Problem) -> FloatArray:
    """Return the rows of positive weight of the matrix that a problem was made of."""
    p = np.empty(problem.p.shape[::-1])
    for j, order in enumerate(problem.order):
        p[order, j] = problem.p[j]
    return p


def _wrapped(q: FloatArray, problem: Problem) -> Any:
    if problem.is_kept is None:
        return problem.container.wrap(q)
    full = np.full((problem.is_kept.size, q.shape[1]), np.nan)
    full[problem.is_kept] = q
    return problem.container.wrap(full)


def _check_support(p: FloatArray, problem: Problem) -> None:
    """Refuse margins that some row or column of P can't reach, as its zeros stay zeros."""
    wanted = problem.margins > 0.0
    for j in np.flatnonzero(wanted & ~(p > 0.0).any(axis=0)).tolist():
        raise InvalidInputError(
            f"margins of column {j}: P is 0 in all of its rows, and raking leaves zeros. Use solve, or a margin of 0."
        )
    bad = ~(p[:, wanted] > 0.0).any(axis=1)
    if bad.any():
        row = int(bad.argmax()) if problem.is_kept is None else int(np.flatnonzero(problem.is_kept)[bad.argmax()])
        raise InvalidInputError(
            f"P row {row}: all of its probability is in columns whose margin is 0 ({bad.sum():,} of {bad.size:,} "
            "rows), and raking leaves zeros. Use solve, or margins above 0."
        )


def _check_reach(p: FloatArray, problem: Problem) -> None:
    """Refuse margins of some columns that sum to more than the rows weigh which are not 0 in all of them.

    Raking goes on for ever then, and the columns that it leaves short of their margins are those.
    """
    if (p > 0.0).all():
        return
    q, _, _ = _rake(p, problem, MARGIN_TOLERANCE, _PASSES_OF_CHECK)
    found = np.einsum("i,ij->j", problem.weight, q)
    short = np.argsort(found - problem.margins)
    for count in range(1, short.size):
        columns = np.sort(short[:count])
        reaching = (p[:, columns] > 0.0).any(axis=1)
        wanted, weight = float(problem.margins[columns].sum()), float(problem.weight[reaching].sum())
        if wanted > weight * (1.0 + MARGIN_TOLERANCE):
            names = problem.container.columns or range(p.shape[1])
            raise InvalidInputError(
                f"margins of columns {[names[j] for j in columns.tolist()]!r:.200} sum to {wanted:.6g}, and the "
                f"{reaching.sum():,} of {reaching.size:,} rows where P is not 0 in all of them weigh {weight:.6g}; "
                "raking leaves zeros. Use solve, or lower margins for these."
            )


def _rake(p: FloatArray, problem: Problem, tol: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Return the matrix, the number of passes and the bound that its factors prove."""
    weight, margins = problem.weight, problem.margins
    factor = (margins > 0.0).astype(np.float64)
    n_iter = 0
    while True:
        q = p * factor
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
