"""One solution: the options of `solve`, and the nearest matrix of a problem that has passed the gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, warn
from calibrant.kernels import SortedColumns
from calibrant.rank_preserving.certificate import certificate_of
from calibrant.rank_preserving.nearly import LambdaPenalty, Nearly
from calibrant.rank_preserving.problem import Origin, Ties, above_floor, check_floor, largest_violation, unsorted
from calibrant.rank_preserving.projection import LARGEST_EXACT, project_exactly
from calibrant.rank_preserving.result import GAP, Progress, RankPreservingResult, StoppingCriteria
from calibrant.rank_preserving.splitting import alternate, split
from calibrant.validation import check_choice, check_integer, check_number

Method: TypeAlias = Literal["auto", "adaptive", "admm", "dykstra"]
#: Entries up to which matrices are taken on to a smaller gap.
_SMALL, _SMALL_GAP = 5_000, 1e-7


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
        return GAP if self.gap_tol is None else float(self.gap_tol)

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
        return solve_columns(columns, origin, options)
    highest = np.where(columns.give > 0.0, columns.total, columns.margins + columns.room)
    check_floor(options.floor, highest, columns.total, origin.container.columns or range(highest.size))
    if not has_price:
        return replace(solve_columns(above_floor(columns, options.floor), origin, options), floor=options.floor)
    plain = solve_columns(columns, origin, replace(options, floor=0.0, callback=None))
    found = solve_columns(above_floor(columns, options.floor), origin, options)
    price = (found.objective - plain.objective) / max(plain.objective, columns.p.size * options.tol**2)
    return replace(found, floor=options.floor, floor_price=max(price, 0.0), time_s=found.time_s + plain.time_s)


def solve_columns(columns: SortedColumns, origin: Origin, options: SolveOptions) -> RankPreservingResult:
    """Solve for columns that are shares of what is left above the floor."""
    room = 1.0 - len(columns.p) * options.floor
    criteria = options.criteria(columns.p.size, room)
    relaxed, method = options.relaxed, options.chosen_method
    if isinstance(relaxed, LambdaPenalty) and relaxed.is_strict_at(float(columns.weight.mean())):
        return replace(solve_columns(columns, origin, replace(options, nearly=None)), nearly=options.nearly)
    relaxed = None if relaxed is None else relaxed.within(room)
    if method == "dykstra" and not columns.is_exact:
        raise InvalidInputError('method="dykstra" takes exact totals alone. Leave method out.')
    certificate = certificate_of(columns, criteria, relaxed)
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
        converged=is_feasible and certificate.gap <= criteria.gap_tol and not certificate.is_contradicted,
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
