"""The nearest rank-preserving matrix with given margins."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.certify import Certifier
from calibrant.rank_preserving.dykstra import alternate
from calibrant.rank_preserving.exact import LARGEST, solve_exactly
from calibrant.rank_preserving.groups import solve_groups
from calibrant.rank_preserving.nearly import EpsilonSlack, LambdaPenalty, Nearly, fall_beyond, is_strict, split_nearly
from calibrant.rank_preserving.problem import MarginKind, Mismatch, Problem, Ties, check_problem
from calibrant.rank_preserving.result import Ending, Progress, RankPreservingResult
from calibrant.rank_preserving.splitting import split
from calibrant.rank_preserving.watch import Watch
from calibrant.validation import ArrayLike, check_choice, check_integer

Method: TypeAlias = Literal["auto", "adaptive", "admm", "dykstra"]


#: The gap that is good enough, and the one that small matrices are taken on to.
_GAP = 1e-4
_SMALL, _SMALL_GAP = 5_000, 1e-7


def solve(
    P: ArrayLike,
    margins: ArrayLike | Mapping[Any, Any],
    *,
    groups: ArrayLike | None = None,
    method: Method = "auto",
    nearly: Nearly | None = None,
    ties: Ties = "equal",
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-8,
    gap_tol: float | None = None,
    max_iter: int = 5_000,
    callback: Callable[[Progress], object] | None = None,
) -> RankPreservingResult:
    """Find the matrix nearest to `P` with given column totals that keeps the order within each column.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities, one column per class, each row summing to 1.
    margins : array-like of shape (K,), mapping from column to number, Margins, ClassRates or PriorEstimate
        What each column of the answer sums to. What `margins_from_labels` or an estimate of `calibrant.prior` gives
        are rates, whatever `margin_kind` says. With `groups`, a mapping from group to any of these.
    groups : array-like of shape (n,), optional
        The group of each row. Each group gets its own margins, and the order is kept within it, not across groups.
    method : {"auto", "adaptive", "admm", "dykstra"}
        "adaptive" is a Douglas-Rachford splitting with a penalty for each row, started from the closed form where
        rows are many, "admm" the same with one penalty and no such start, "dykstra" alternating projections. "auto"
        takes "adaptive", or "admm" with `nearly`. What the splittings leave unfinished of a matrix of up to 600
        entries an active set finishes. All reach the same optimum.
    nearly : EpsilonSlack or LambdaPenalty, optional
        How far, or at what price, an order may be broken. By default it is kept.
    ties : {"equal", "free"}
        Whether rows with equal entries in a column stay equal there. "equal" is the definition below; "free" lets
        them separate, and then only rows that differ are ordered.
    margin_kind : {"totals", "rates"}
        Whether margins are sums over the rows or means.
    on_mismatch : {"raise", "rescale"}
        What to do where margins don't sum to what the rows sum to. "rescale" multiplies all by one number.
    sample_weight : array-like of shape (n,), optional
        How many rows each row stands for, in the objective and in the totals.
    tol : float
        Largest distance of a row sum from 1 and of a column mean from its margin per row.
    gap_tol : float, optional
        Share by which the objective may lie above the best, 1e-4 by default. Left out, matrices of up to 5,000
        entries are taken on to 1e-7 where `max_iter` lets them.
    max_iter : int
        Largest number of iterations.
    callback : callable, optional
        Called with a `Progress` at every look.

    Returns
    -------
    RankPreservingResult

    Raises
    ------
    CalibrantError
        If an argument can't be used, or margins can't be met; the message says which and why.

    Warns
    -----
    ConvergenceWarning
        If the gap is above `gap_tol` after `max_iter` iterations. The answer is feasible all the same.

    Notes
    -----
    Minimises sum_ij w_i (Q_ij - P_ij)^2 over Q >= 0 with rows that sum to 1, sum_i w_i Q_ij = M_j, and
    Q_aj <= Q_bj wherever P_aj <= P_bj. Every answer is feasible: the sums to `tol`, the order and the signs exactly.
    Margins between 0 and the number of rows, with the right sum, are never at odds with the order: equal rows keep it.

    The order leaves little room. Every column of Q is a rising function of that column of P, and functions of the
    columns that sum to 1 at very many different rows are all but straight lines: the answer then comes close to
    a_j + c P_ij, which is also where the search starts from. Where margins move far, c is small and all rows move
    towards the margins; if only the base rates of the classes have changed, `calibrant.prior.prior_shift` is the
    better tool.

    References
    ----------
    Eckstein and Bertsekas (1992), *On the Douglas-Rachford splitting method and the proximal point algorithm for
    maximal monotone operators*, Mathematical Programming 55. Kruskal (1964), *Nonmetric multidimensional scaling: a
    numerical method*, Psychometrika 29, for the two treatments of ties.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.rank_preserving import solve
    >>> P = np.array([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]])
    >>> result = solve(P, [1.2, 1.8])
    >>> result.Q.round(4)
    array([[0.6, 0.4],
           [0.5, 0.5],
           [0.1, 0.9]])
    >>> result.converged
    True
    """
    check_choice("method", method, get_args(Method))
    tol, good_enough = _positive("tol", tol), _positive("gap_tol", _GAP if gap_tol is None else gap_tol)
    max_iter = check_integer("max_iter", max_iter, minimum=1)
    if not (nearly is None or isinstance(nearly, (EpsilonSlack, LambdaPenalty))):
        raise InvalidTypeError(f"nearly={nearly!r} is no slack. Pass EpsilonSlack(eps), LambdaPenalty(lam) or None.")
    if groups is not None:
        one = partial(
            solve,
            method=method,
            nearly=nearly,
            ties=ties,
            on_mismatch=on_mismatch,
            tol=tol,
            gap_tol=gap_tol,
            max_iter=max_iter,
            callback=callback,
        )
        return solve_groups(
            P, margins, groups, sample_weight=sample_weight, margin_kind=margin_kind, tol=tol, solve_one=one
        )
    problem = check_problem(
        P, margins, margin_kind=margin_kind, on_mismatch=on_mismatch, ties=ties, sample_weight=sample_weight
    )
    is_small = gap_tol is None and problem.p.size <= _SMALL
    watch = Watch(tol, good_enough, _SMALL_GAP if is_small else good_enough, callback)
    if nearly is not None and not is_strict(nearly):
        if method not in ("auto", "admm") or ties == "free":
            raise InvalidInputError(
                f'nearly={nearly!r} goes with method="admm" and ties="equal" alone. Leave method and ties out.'
            )
        return _result(problem, split_nearly(problem, nearly, watch, max_iter=max_iter), watch, "admm", nearly)
    solver = "adaptive" if method == "auto" else method
    certifier = Certifier(problem, watch)
    if solver == "dykstra":
        n_iter = alternate(problem, certifier, max_iter=max_iter)
    else:
        n_iter = split(problem, certifier, max_iter=max_iter, by_row=solver == "adaptive")
        if not certifier.is_done() and problem.p.size <= LARGEST and not problem.runs.size:
            exact = solve_exactly(problem)
            if exact is not None:
                certifier.propose(*exact)
    return _result(problem, certifier.ending(n_iter), watch, solver, None)


def _result(problem: Problem, ending: Ending, watch: Watch, method: str, nearly: Nearly | None) -> RankPreservingResult:
    q, order = ending.q, ending.order
    np.minimum(q, 1.0, out=q)  # a row's sum may lie above 1 by rounding
    row, total = np.zeros(problem.weight.size), np.zeros(len(q))
    for j, column in enumerate(q):
        row[order[j]] += column
        total[j] = np.sum(problem.weight[order[j]] * column)
    fall = _fall(problem, q) if nearly is None else fall_beyond(problem, nearly, q)
    row_residual = float(np.abs(row - 1.0).max())
    margin_residual = float(np.abs(total - problem.margins).max()) / problem.total
    floor = problem.total * len(q) * watch.tol**2
    gap = (ending.objective - ending.bound) / max(ending.objective, floor)
    result = RankPreservingResult(
        Q=problem.container.wrap(problem.matrix(q, order)),
        converged=max(row_residual, margin_residual, fall) <= watch.tol and gap <= watch.gap_tol,
        n_iter=ending.n_iter,
        objective=ending.objective,
        bound=ending.bound,
        gap=gap,
        row_residual=row_residual,
        margin_residual=margin_residual,
        rank_residual=fall,
        history=ending.history,
        method=method,
        time_s=watch.elapsed(),
    )
    if not result.converged:
        warnings.warn(
            f"{method} stopped after {ending.n_iter:,} iterations with a gap of {gap:.2e}, above "
            f"gap_tol={watch.gap_tol:g}. The answer is feasible; raise max_iter or gap_tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return result


def _fall(problem: Problem, q: FloatArray) -> float:
    return max(
        max(float(0.0 - np.diff(column).min(initial=0.0)), _spread(problem, j, column)) for j, column in enumerate(q)
    )


def _spread(problem: Problem, j: int, column: FloatArray) -> float:
    """Return how far rows that must stay equal in a column lie apart."""
    first = problem.edges(j)[:-1]
    return float((np.maximum.reduceat(column, first) - np.minimum.reduceat(column, first)).max())


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name}={value!r} is not a number. Pass one above 0, such as 1e-8.")
    if not 0.0 < float(value) < np.inf:
        raise InvalidInputError(f"{name}={value!r} is not above 0 and finite. Pass a number such as 1e-8.")
    return float(value)
