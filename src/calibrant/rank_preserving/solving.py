"""solve: the nearest rank-preserving matrix with given margins, of all rows or of each group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import CalibrantError, ConvergenceWarning, InvalidInputError, InvalidTypeError, warn
from calibrant.kernels import SortedColumns
from calibrant.numerics import TINY
from calibrant.rank_preserving.certificate import Certificate, RelaxedCertificate
from calibrant.rank_preserving.nearly import LambdaPenalty, Nearly
from calibrant.rank_preserving.problem import (
    MarginKind,
    Mismatch,
    Origin,
    Problem,
    Ties,
    above_floor,
    check_floor,
    check_problem,
    check_rows,
    largest_violation,
    unsorted,
)
from calibrant.rank_preserving.projection import LARGEST_EXACT, project_exactly
from calibrant.rank_preserving.result import Progress, RankPreservingResult, StoppingCriteria
from calibrant.rank_preserving.splitting import alternate, split
from calibrant.rows import Rows
from calibrant.validation import (
    ArrayLike,
    Container,
    as_groups,
    check_choice,
    check_integer,
    check_number,
    check_same_length,
    match_names,
    read_names,
)

Method: TypeAlias = Literal["auto", "adaptive", "admm", "dykstra"]
#: The gap that is good enough, and the one that matrices of few entries are taken on to.
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
        says. With `groups`, a mapping from group to any of these, or a frame with the groups as its index and a
        column for each of P.
    groups : array-like of shape (n,), optional
        The group of each row. Each group gets its own margins, and the order is kept within it, not across groups.
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
        entries are taken on to 1e-7 where `max_iter` lets them.
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
        return _solve_groups(rows, margins, groups, options, gate)
    problem = gate(rows, margins)
    del rows  # memory: sorted columns take the place of rows that are not the caller's own
    columns, origin = problem.columns(ties, order_tol), problem.origin
    del problem
    result = find_nearest(columns, origin, options)
    warn_of_gap(result, options)
    return result


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How `solve` goes about it; see its parameters."""

    method: Method = "auto"
    nearly: Nearly | None = None
    ties: Ties = "equal"
    order_tol: float = 0.0
    tol: float = 1e-9
    gap_tol: float | None = None
    max_iter: int = 20_000
    rho: float | None = None
    floor: float = 0.0
    callback: Callable[[Progress], object] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(Method))
        check_choice("ties", self.ties, get_args(Ties))
        check_number("tol", self.tol, minimum=0.0, is_open=True)
        if self.gap_tol is not None:
            check_number("gap_tol", self.gap_tol, minimum=0.0, is_open=True)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_number("floor", self.floor, minimum=0.0)
        check_number("order_tol", self.order_tol, minimum=0.0)
        if self.rho is not None:
            check_number("rho", self.rho, minimum=0.0, is_open=True)
            if self.chosen_method == "dykstra":
                raise InvalidInputError(
                    'rho is the penalty of a splitting, and method="dykstra" has none. Leave it out.'
                )
        if not isinstance(self.nearly, Nearly | None):
            raise InvalidTypeError(f"nearly={self.nearly!r} is no slack. Pass EpsilonSlack, LambdaPenalty or None.")
        if self.relaxed is not None:
            self._check_relaxed()

    def _check_relaxed(self) -> None:
        if isinstance(self.nearly, LambdaPenalty) and self.method == "dykstra":
            raise InvalidInputError(
                f'nearly={self.nearly!r} is a price, and method="dykstra" projects, which takes a limit. '
                'Leave method out, or pass "admm".'
            )
        if self.method == "adaptive" or self.ties == "free" or self.order_tol:
            raise InvalidInputError(
                f'nearly={self.nearly!r} goes with method="admm" and ties="equal", and EpsilonSlack with '
                'method="dykstra" too. Leave method, ties and order_tol out.'
            )

    @property
    def relaxed(self) -> Nearly | None:
        """How an order may be broken; None where it may not."""
        return None if self.nearly is None or self.nearly.is_strict else self.nearly

    @property
    def chosen_method(self) -> str:
        """The method that "auto" stands for."""
        return self.method if self.method != "auto" else "adaptive" if self.relaxed is None else "admm"

    @property
    def allowed_gap(self) -> float:
        """The gap that is good enough."""
        return _GAP if self.gap_tol is None else float(self.gap_tol)

    def criteria(self, size: int, room: float = 1.0) -> StoppingCriteria:
        """Return the stopping criteria for a matrix of so many entries, and start the timer.

        Tolerances are of the answer, whose entries are `room` times those that are solved for.
        """
        target = _SMALL_GAP if self.gap_tol is None and size <= _SMALL else self.allowed_gap
        return StoppingCriteria(float(self.tol) / room, self.allowed_gap, target, self.callback)


def find_nearest(
    columns: SortedColumns, origin: Origin, options: SolveOptions, *, has_price: bool = True
) -> RankPreservingResult:
    """Solve a problem that has passed the gate; whether it converged is for the caller to say.

    With a floor, `columns.p` is overwritten, and the price of it takes a second solution.
    """
    if options.floor == 0.0:
        return _nearest(columns, origin, options)
    check_floor(columns, options.floor, origin.container.columns or range(len(columns.p)))
    if not has_price:
        return replace(_nearest(above_floor(columns, options.floor), origin, options), floor=options.floor)
    plain = _nearest(columns, origin, replace(options, floor=0.0, callback=None))
    found = _nearest(above_floor(columns, options.floor), origin, options)
    price = (found.objective - plain.objective) / max(plain.objective, columns.p.size * options.tol**2)
    return replace(found, floor=options.floor, floor_price=max(price, 0.0), time_s=found.time_s + plain.time_s)


def _nearest(columns: SortedColumns, origin: Origin, options: SolveOptions) -> RankPreservingResult:
    """Solve for columns that are shares of what is left above the floor."""
    room = 1.0 - len(columns.p) * options.floor
    criteria = options.criteria(columns.p.size, room)
    relaxed, method = options.relaxed, options.chosen_method
    relaxed = None if relaxed is None else relaxed.within(room)
    if method == "dykstra" and not columns.is_exact:
        raise InvalidInputError('method="dykstra" takes exact totals alone. Leave method out.')
    certificate = Certificate(columns, criteria) if relaxed is None else RelaxedCertificate(columns, criteria, relaxed)
    if method == "dykstra":
        n_iter = alternate(columns, certificate, max_iter=options.max_iter)
    else:
        by_row = method == "adaptive"
        n_iter = split(columns, certificate, max_iter=options.max_iter, by_row=by_row, penalty=options.rho)
        is_small = columns.p.size <= LARGEST_EXACT and not columns.free.size and columns.is_exact
        if is_small and relaxed is None and not certificate.is_done():
            exact = project_exactly(columns)
            if exact is not None:
                certificate.propose(exact[0], exact[1:])
    q = certificate.best()
    certificate.objective, row_residual, margin_residual = certificate.measure(q, columns.in_order(certificate.order))
    rank_residual = largest_violation(columns, q)
    beyond_allowed = rank_residual - (0.0 if relaxed is None else relaxed.allowed)
    is_feasible = max(row_residual, margin_residual, beyond_allowed) <= criteria.tol
    used = certificate.work.total * room + options.floor * columns.total
    q *= room
    q += options.floor
    return RankPreservingResult(
        Q=origin.wrap(unsorted(q, certificate.order)),
        converged=is_feasible and certificate.gap <= criteria.gap_tol,
        n_iter=n_iter,
        objective=certificate.objective * room**2,
        bound=certificate.bound * room**2,
        gap=certificate.gap,
        row_residual=row_residual * room,
        margin_residual=margin_residual * room,
        rank_residual=rank_residual * room,
        history=tuple(check.scaled(room) for check in certificate.history),
        method=method,
        time_s=criteria.elapsed(),
        stuck=certificate.stuck(method),
        n_freed=int(np.diff(columns.free, axis=1).sum() - len(columns.free)) if options.order_tol else 0,
        margins_given=origin.margins_given,
        margins_used=used,
        margin_prices=certificate.prices * room - (certificate.prices * room).mean() * columns.is_exact,
        nearly=options.nearly,
    )


def warn_of_gap(result: RankPreservingResult, options: SolveOptions) -> None:
    """Warn if the gap is too large."""
    if not result.converged:
        warn(
            f"{result.method} stopped after {result.n_iter:,} iterations with a gap of {result.gap:.2e}, above "
            f"gap_tol={options.allowed_gap:g}. The answer is feasible. {result.stuck}",
            ConvergenceWarning,
        )


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


def _margins_of_groups(margins: Any, found: list[Any]) -> list[Any]:
    """Return the margins of each group: the entries of a mapping, or the rows of a frame with an index."""
    import narwhals as nw

    targets, labels = read_names(margins)
    table = nw.from_native(margins, eager_only=True, pass_through=True)
    index = nw.maybe_get_index(table) if isinstance(table, nw.DataFrame) else None
    if isinstance(table, nw.DataFrame) and index is not None:
        targets, labels = table.rows(named=True), list(index)
    if labels is None:
        raise InvalidTypeError(
            f"margins is a {type(margins).__name__} without names of groups, and there are groups. Pass a dict of the "
            "margins of each group, or a frame whose index names the groups."
        )
    each = list(targets)
    return [each[i] for i in match_names(labels, found, name="margins", of="groups") or ()]
