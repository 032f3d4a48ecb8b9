"""solve: the nearest rank-preserving matrix with given margins, of all rows or of each group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, ConvergenceWarning, InvalidInputError, InvalidTypeError, warn
from calibrant.numerics import TINY
from calibrant.phrases import listed
from calibrant.rank_preserving.crossed import read_crossed, solve_crossed
from calibrant.rank_preserving.nearest import Method, SolveOptions, find_nearest, warn_of_gap
from calibrant.rank_preserving.nearly import Nearly
from calibrant.rank_preserving.problem import MarginKind, Mismatch, Problem, Ties, check_problem, check_rows
from calibrant.rank_preserving.result import Progress, RankPreservingResult
from calibrant.rows import Rows
from calibrant.validation import (
    ArrayLike,
    Container,
    Labels,
    as_groups,
    check_same_length,
    match_names,
    read_names,
    read_native,
)


def solve(
    P: ArrayLike,
    margins: ArrayLike | Mapping[Any, Any],
    *,
    groups: ArrayLike | None = None,
    method: Method = "auto",
    nearly: Nearly | None = None,
    ties: Ties = "equal",
    order_tol: float = 0.0,
    margin_kind: MarginKind = "totals",
    on_mismatch: Mismatch = "raise",
    sample_weight: ArrayLike | None = None,
    normalise: bool = False,
    floor: float = 0.0,
    tol: float = 1e-9,
    gap_tol: float | None = None,
    max_iter: int = 20_000,
    rho: float | None = None,
    callback: Callable[[Progress], object] | None = None,
) -> RankPreservingResult:
    """Find the matrix nearest to `P` with given column totals that keeps the order within each column.

    Parameters
    ----------
    P : array-like of shape (n, K)
        Probabilities, one column per class, each row summing to 1 to the rounding of its type: rows of float32 are
        divided by their sums, others are refused.
    margins : array-like of shape (K,), mapping or Series from column to number, Margins, ClassRates or PriorEstimate
        What each column of the answer sums to. Where columns of a frame and margins have names, they are matched by
        these; margins with names go with columns without names where the names are the numbers of the columns, or
        sorted. What `margins_from_labels` or an estimate of `calibrant.prior` gives are rates, whatever `margin_kind`
        says. With `groups`, a mapping from group to any of these, or a frame with the groups as its index, or in a
        column, and a column for each of P; with several sets of groups, a mapping from the name of each set to that.
    groups : array-like of shape (n,), mapping or frame, optional
        The group of each row. Each group gets its own margins, and the order is kept within it, not across groups.
        A mapping from names to groups, or a frame with a column of groups each, are several sets at once, such as
        region and age, nested or crossed: the answer has the margins of all of them, and the order is kept among rows
        that share their group in every set.
    method : {"auto", "adaptive", "admm", "dykstra"}
        "adaptive" is a Douglas-Rachford splitting with a penalty for each row, started from the affine feasible point
        where rows are many, "admm" the same with one penalty and no such start, "dykstra" alternating projections.
        "auto" takes "adaptive", or "admm" with `nearly`; "dykstra" takes an EpsilonSlack too, and no LambdaPenalty.
        What the splittings leave unfinished of a matrix of up to 600 entries an active set finishes, where the order
        is kept. All reach the same optimum.
    nearly : EpsilonSlack or LambdaPenalty, optional
        How far, or at what price, an order may be broken. By default it is kept.
    ties : {"equal", "free"}
        Whether rows with equal entries in a column stay equal there. "equal" is the definition below; "free" lets
        them separate, and then only rows that differ are ordered.
    order_tol : float
        Entries of a column within a window of this width keep no order among each other: what is noise need not be
        kept, and without it there is more room. How many neighbours that frees is in the result.
    margin_kind : {"totals", "rates"}
        Whether margins are sums over the rows or means.
    on_mismatch : {"raise", "rescale"}
        What to do where margins don't sum to what the rows sum to. "rescale" multiplies all by one number.
    sample_weight : array-like of shape (n,), optional
        How many rows each row stands for, in the objective and in the totals.
    normalise : bool
        Divide each row by its sum, as decimals of a file need.
    floor : float
        Least entry of the answer, below 1 / K: no entry becomes an impossible event, so that its log loss is finite.
        A margin below n times that is refused. What it costs is in the result, which takes a second solution.
    tol : float
        Largest distance of a row sum from 1 and of a column mean from its margin per row.
    gap_tol : float, optional
        Share by which the objective may lie above the best, 1e-4 by default. Left out, matrices of up to 5,000
        entries are taken on to 1e-7 where `max_iter` lets them. Below 1e-4 confident outputs may take several times the
        default of `max_iter`; 1e-4 is reached first.
    max_iter : int
        Largest number of iterations.
    rho : float, optional
        Penalty of the splittings, for all iterations. By default it follows what is off most.
    callback : callable, optional
        Called with a `Progress` at every check.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Warns
    -----
    ConvergenceWarning
        If the gap is above `gap_tol` after `max_iter` iterations. The answer is feasible all the same.

    Notes
    -----
    Minimises sum_ij w_i (Q_ij - P_ij)^2 over Q >= 0 with rows that sum to 1, sum_i w_i Q_ij = M_j, and
    Q_aj <= Q_bj wherever P_aj <= P_bj, or what `nearly` makes of this order. Every answer is feasible: the sums to
    `tol`, the order (within the slack) and the signs exactly.
    Margins between 0 and the number of rows, with the right sum, are never at odds with the order: equal rows keep it.
    Margins of several sets of groups may be at odds with each other. They are then refused, and the error names the
    fewest that no matrix has together.

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
    options = SolveOptions(method, nearly, ties, order_tol, tol, gap_tol, max_iter, rho, floor, callback)
    rows = check_rows(P, sample_weight, normalise=normalise)
    gate = partial(check_problem, margin_kind=margin_kind, on_mismatch=on_mismatch, may_give=True)
    if groups is not None:
        sets = _sets_of_groups(groups, rows.n_rows)
        if sets is not None:
            return _solve_sets(rows, margins, sets, options, gate)
        return _solve_groups(rows, margins, groups, options, gate)
    problem = gate(rows, margins)
    del rows  # memory: sorted columns take the place of rows that are not the caller's own
    columns, origin = problem.columns(ties, order_tol), problem.origin
    del problem
    result = find_nearest(columns, origin, options)
    warn_of_gap(result, options)
    return result


def _solve_groups(
    rows: Rows, margins: Any, groups: ArrayLike, options: SolveOptions, gate: Callable[[Rows, Any], Problem]
) -> RankPreservingResult:
    """Solve a problem for each group of rows, and put their answers into one matrix.

    Groups without a row of positive weight are left out, and their rows are NaN.
    """
    start = time.perf_counter()
    labels = as_groups(groups, name="groups")
    check_same_length(rows.n_rows, labels.codes.size, "P", "groups")
    found = labels.classes.tolist()
    q = np.full(rows.scores.shape, np.nan)
    as_array = replace(rows, container=Container(None, rows.container.columns))
    results: dict[Any, RankPreservingResult] = {}
    for code, (group, target) in enumerate(zip(found, _margins_of_groups(margins, found), strict=True)):
        is_own = labels.codes == code
        own = as_array.take(is_own)
        if not own.weights.any():
            continue
        try:
            problem = gate(own, target)
        except CalibrantError as error:
            raise type(error)(f"group {group!r}: {error}") from None
        results[group] = find_nearest(problem.columns(options.ties, options.order_tol), problem.origin, options)
        q[is_own] = results[group].Q
    parts = list(results.values())
    late = [group for group, part in results.items() if not part.converged]
    if late:
        warn(
            f"{len(late):,} of {len(results):,} groups did not converge, the first {late[0]!r} with a gap of "
            f"{results[late[0]].gap:.2e}. The answer is feasible. {results[late[0]].stuck}",
            ConvergenceWarning,
        )
    objective, bound = sum(part.objective for part in parts), sum(part.bound for part in parts)
    return RankPreservingResult(
        Q=rows.container.wrap(q),
        converged=not late,
        n_iter=sum(part.n_iter for part in parts),
        objective=objective,
        bound=bound,
        gap=(objective - bound) / max(objective, q.size * options.tol**2),
        row_residual=max(part.row_residual for part in parts),
        margin_residual=max(part.margin_residual for part in parts),
        rank_residual=max(part.rank_residual for part in parts),
        history=(),
        method=options.chosen_method,
        time_s=time.perf_counter() - start,
        stuck=" ".join(dict.fromkeys(part.stuck for part in parts if part.stuck)),
        n_freed=sum(part.n_freed for part in parts),
        floor=options.floor,
        floor_price=objective / max(sum(part.objective / (1.0 + part.floor_price) for part in parts), TINY) - 1.0,
        groups=results,
        nearly=options.nearly,
    )


def _sets_of_groups(groups: Any, n: int) -> dict[str, Labels] | None:
    """Return the labels of each set of groups, where `groups` is a mapping of several sets or a frame of columns."""
    import narwhals as nw

    table = read_native(groups, "groups")
    if isinstance(table, nw.DataFrame):
        groups = {name: table.get_column(name) for name in table.columns}
    if not isinstance(groups, Mapping):
        return None
    if not groups:
        raise InvalidInputError("groups is an empty mapping. Pass the groups of each set by its name, or leave it out.")
    labels = {str(name): as_groups(column, name=f"groups[{name!r}]") for name, column in groups.items()}
    for name, of in labels.items():
        check_same_length(n, of.codes.size, "P", f"groups[{name!r}]")
    return labels


def _solve_sets(
    rows: Rows,
    margins: Any,
    sets: Mapping[str, Labels],
    options: SolveOptions,
    gate: Callable[[Rows, Any], Problem],
) -> RankPreservingResult:
    """Solve for the totals of several sets of groups at once."""
    if not isinstance(margins, Mapping):
        raise InvalidTypeError(
            f"margins is a {type(margins).__name__}, and groups has {listed(list(sets))}. Pass a dict with the margins "
            "of the groups of each."
        )
    places = match_names(list(margins), list(sets), name="margins", of="groups")
    each = list(margins.values())
    wanted = {
        name: _margins_of_groups(each[place], of.classes.tolist())
        for (name, of), place in zip(sets.items(), places or (), strict=True)
    }
    result = solve_crossed(rows, read_crossed(rows, sets, wanted, gate), options)
    warn_of_gap(result, options)
    return result


def _margins_of_groups(margins: Any, found: list[Any]) -> list[Any]:
    """Return the margins of each group: the entries of a mapping, or the rows of a frame with an index."""
    import narwhals as nw

    targets, labels = read_names(margins)
    table = read_native(margins, "margins")
    if isinstance(table, nw.DataFrame):
        labels, table = _groups_of_rows(table, found)
        targets = table.rows(named=True)
    if labels is None:
        raise InvalidTypeError(
            f"margins is a {type(margins).__name__} without names of groups, and there are groups. Pass a dict of the "
            "margins of each group, or a frame whose index, or a column, names the groups."
        )
    each = list(targets)
    return [each[i] for i in match_names(labels, found, name="margins", of="groups") or ()]


def _groups_of_rows(table: Any, found: list[Any]) -> tuple[list[Any] | None, Any]:
    """Return the group of each row of a frame of margins, and the frame without the column of these.

    The index names them, but for one that only counts rows: then a column of the groups does, or one of text.
    """
    import narwhals as nw

    index = nw.maybe_get_index(table)
    if index is not None and type(index).__name__ != "RangeIndex":
        return index.tolist(), table
    wanted = set(map(str, found))
    columns = {name: table.get_column(name) for name in table.columns}
    named = [name for name, column in columns.items() if set(map(str, column.to_list())) == wanted]
    named += [name for name, column in columns.items() if column.dtype in (nw.String, nw.Categorical, nw.Enum)]
    if named:
        return columns[named[0]].to_list(), table.drop(named[0])
    return None if index is None else list(index), table
