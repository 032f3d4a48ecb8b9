"""The nearest matrix with several sets of totals at once: those of the classes by region and, of the same rows, by age.

Rows that share their group in every set are a cell, and the order is kept within each cell. `CellSplitting` finds what
totals the cells should have, and a lower bound. With these each cell is a problem by itself, which is solved and
certified; what the objectives of all cells exceed the bound by is the gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.numerics import TINY, FloatArray, IntArray
from calibrant.rank_preserving.cell_splitting import CellSplitting
from calibrant.rank_preserving.cell_totals import CellTotals
from calibrant.rank_preserving.certificate import certificate_of
from calibrant.rank_preserving.nearest import SolveOptions, solve_columns
from calibrant.rank_preserving.problem import Origin, Problem, check_floor
from calibrant.rank_preserving.result import GroupTotals, Progress, RankPreservingResult
from calibrant.rows import Rows
from calibrant.validation import Container, Labels

#: Share of the gap that an iterate may be off where its cells are solved, share that the cells may add to it, and
#: checks between two such attempts at first; after each as many more.
_WORTH_AN_ATTEMPT, _SHARE_OF_CELLS, _PAUSE = 0.3, 0.3, 2
_STUCK = "What the cells' totals should be, or the bound of all, still moves: a larger max_iter or gap_tol helps."


@dataclass(frozen=True, slots=True, eq=False)
class CrossedProblem:
    """Rows in cells, and what the groups of every set ask of them.

    Attributes
    ----------
    cells : list of tuple of (IntArray, Problem)
        The rows of each cell, and their problem but for the totals.
    keys : list of tuple
        The groups of each cell, one of every set.
    totals : CellTotals
        What the groups ask of the cells.
    sets : dict
        The groups of each set.
    given : ndarray of shape (groups of all sets, K)
        The totals that were asked for.
    """

    cells: list[tuple[IntArray, Problem]]
    keys: list[tuple[Any, ...]]
    totals: CellTotals
    sets: Mapping[str, tuple[Any, ...]]
    given: FloatArray


def read_crossed(
    rows: Rows,
    labels: Mapping[str, Labels],
    margins: Mapping[str, Sequence[Any]],
    gate: Callable[[Rows, Any], Problem],
) -> CrossedProblem:
    """Check the margins of each group of each set, given in the order of its labels' classes, and find the cells."""
    rows = replace(rows, container=Container(None, rows.container.columns))
    is_kept = rows.weights > 0.0
    asked = {name: _read_set(rows, name, of, margins[name], gate) for name, of in labels.items()}
    names = [(name, group) for name, found in asked.items() for group in found]
    problems = [problem for found in asked.values() for problem in found.values()]
    wanted, room = np.stack([each.margins for each in problems]), np.stack([each.room for each in problems])
    given = [each.margins if each.origin.margins_given is None else each.origin.margins_given for each in problems]
    distinct, cell = np.unique(
        np.column_stack([of.codes for of in labels.values()])[is_kept], axis=0, return_inverse=True
    )
    kept, cell = np.flatnonzero(is_kept), cell.reshape(-1)
    groups_of = [of.classes.tolist() for of in labels.values()]
    keys = [tuple(groups[code] for groups, code in zip(groups_of, key, strict=True)) for key in distinct.tolist()]
    incidence = np.array([[float(group == key[list(labels).index(name)]) for name, group in names] for key in keys])
    none, cells = np.zeros(wanted.shape[1]), []
    for c in range(len(keys)):
        own = rows.take(kept[cell == c])
        problem = Problem(own.scores, own.weights, none, none, none, Origin(own.container, None))
        cells.append((kept[cell == c], problem))
    weight = np.array([problem.total for _, problem in cells])
    totals = CellTotals(incidence, weight, wanted, room, names, problems[0].names())
    return CrossedProblem(cells, keys, totals, {name: tuple(found) for name, found in asked.items()}, np.stack(given))


def _read_set(
    rows: Rows, name: str, labels: Labels, margins: Sequence[Any], gate: Callable[[Rows, Any], Problem]
) -> dict[Any, Problem]:
    """Return the problem that each group with a row of positive weight would be by itself."""
    found = {}
    for code, (group, target) in enumerate(zip(labels.classes.tolist(), margins, strict=True)):
        own = rows.take(labels.codes == code)
        if not own.weights.any():
            continue
        try:
            problem = gate(own, target)
        except CalibrantError as error:
            raise type(error)(f"{name} {group!r}: {error}") from None
        if problem.give.any():
            raise InvalidInputError(
                f"{name} {group!r}: margins at a price are for one set of groups. Pass Margins with a tolerance."
            )
        found[group] = problem
    return found


def solve_crossed(rows: Rows, problem: CrossedProblem, options: SolveOptions) -> RankPreservingResult:
    """Solve for the totals of all sets; whether it converged is for the caller to say."""
    if options.method == "dykstra":
        raise InvalidInputError('method="dykstra" takes one set of groups. Leave method out.')
    if options.floor == 0.0:
        return _solve(rows, problem, options)
    found = _solve(rows, _above_floor(problem, options.floor), options)
    plain = _solve(rows, problem, replace(options, floor=0.0, callback=None))
    price = (found.objective - plain.objective) / max(plain.objective, TINY)
    return replace(found, floor=options.floor, floor_price=max(price, 0.0))


def _above_floor(problem: CrossedProblem, floor: float) -> CrossedProblem:
    """Return entries and totals as shares of what is left above the least entry."""
    totals, weight = problem.totals, problem.totals.of_groups
    for (name, group), highest, total in zip(totals.names, totals.margins + totals.room, weight.tolist(), strict=True):
        try:
            check_floor(floor, highest, total, totals.columns)
        except CalibrantError as error:
            raise type(error)(f"{name} {group!r}: {error}") from None
    room = 1.0 - len(totals.columns) * floor
    cells = [(at, replace(cell, values=(cell.values - floor) / room)) for at, cell in problem.cells]
    margins = (totals.margins - floor * weight[:, None]) / room
    above = replace(totals, margins=margins, room=totals.room / room, floor=floor)
    return replace(problem, cells=cells, totals=above)


class _Search:
    """Totals of the cells that come nearer to the best ones, and the best matrix so far."""

    def __init__(self, problem: CrossedProblem, options: SolveOptions) -> None:
        self.problem, self.totals = problem, problem.totals
        self.room = 1.0 - len(self.totals.columns) * options.floor
        self.options = replace(options, gap_tol=_SHARE_OF_CELLS * options.allowed_gap, callback=None)
        self.inside = self.totals.inside()
        of_cells = np.stack([cell.weight @ cell.values for _, cell in problem.cells])
        first = self.totals.nearest(of_cells, self.inside)
        self.columns = [
            cell.columns(options.ties, options.order_tol).at(at)
            for (_, cell), at in zip(problem.cells, first, strict=True)
        ]
        self.criteria = options.criteria(sum(each.p.size for each in self.columns), self.room)
        relaxed = None if options.relaxed is None else options.relaxed.within(self.room)
        certificates = [certificate_of(each, self.criteria, relaxed) for each in self.columns]
        by_row = options.chosen_method == "adaptive"
        self.splitting = CellSplitting(certificates, self.totals, by_row=by_row, penalty=options.rho)
        self.least = float(self.totals.weight.sum()) * len(self.totals.columns) * self.criteria.tol**2
        self.history: list[Progress] = []
        self.parts: list[RankPreservingResult] = []
        self.objective = math.inf
        self._pause = self._n_attempts = 0

    @property
    def gap(self) -> float:
        """Share of the objective that is not proven to be necessary."""
        return (self.objective - self.splitting.bound) / max(self.objective, self.least)

    def advance(self) -> bool:
        """Take the steps up to the next check, solve the cells where that is worth it; say whether it is over."""
        found = self.splitting
        found.advance(self.options.max_iter)
        residual, seconds = found.residual, self.criteria.elapsed()
        check = Progress(found.n_iter, residual, found.objective, found.bound, seconds).scaled(self.room)
        self.history.append(check)
        if self.criteria.callback is not None:
            self.criteria.callback(check)
        is_last = found.n_iter >= self.options.max_iter
        is_near = abs(found.objective - found.bound) <= (
            _WORTH_AN_ATTEMPT * self.criteria.gap_tol * max(found.objective, self.least)
        )
        self._pause -= is_near
        if is_last or (is_near and self._pause < 0):
            self._n_attempts += 1
            self._pause = _PAUSE * self._n_attempts
            self._attempt()
        return is_last or (bool(self.parts) and self.gap <= self.criteria.gap_tol)

    def _attempt(self) -> None:
        """Solve each cell for totals near to those of the iterate; keep the matrix where it is better."""
        at = self.totals.nearest(self.splitting.cell_totals(), self.inside)
        shift = self.options.floor
        parts = [
            solve_columns(
                columns.at(own), replace(cell.origin, margins_given=own * self.room + shift * cell.total), self.options
            )
            for columns, own, (_, cell) in zip(self.columns, at, self.problem.cells, strict=True)
        ]
        objective = sum(part.objective for part in parts) / self.room**2
        if objective < self.objective:
            self.parts, self.objective = parts, objective


def _solve(rows: Rows, problem: CrossedProblem, options: SolveOptions) -> RankPreservingResult:
    """Solve for entries and totals that are shares of what is left above the floor."""
    search = _Search(problem, options)
    while not search.advance():
        pass
    parts, totals, room = search.parts, problem.totals, search.room
    q = np.full(rows.scores.shape, np.nan)
    for (at, _), part in zip(problem.cells, parts, strict=True):
        q[at] = part.Q
    used = np.stack([cell.weight @ q[at] for at, cell in problem.cells])
    above = (used - options.floor * totals.weight[:, None]) / room
    row_residual = max(part.row_residual for part in parts)
    rank_residual = max(part.rank_residual for part in parts)
    margin_residual = totals.residual(above) * room
    beyond = rank_residual - (0.0 if options.relaxed is None else options.relaxed.allowed)
    is_met = max(row_residual, margin_residual, beyond) <= options.tol
    is_proven = search.gap <= options.allowed_gap
    return RankPreservingResult(
        Q=rows.container.wrap(q),
        converged=is_met and is_proven,
        n_iter=search.splitting.n_iter + max(part.n_iter for part in parts),
        objective=search.objective * room**2,
        bound=search.splitting.bound * room**2,
        gap=search.gap,
        row_residual=row_residual,
        margin_residual=margin_residual,
        rank_residual=rank_residual,
        history=tuple(search.history),
        method=options.chosen_method,
        time_s=search.criteria.elapsed(),
        stuck="" if is_proven else _STUCK,
        n_freed=sum(part.n_freed for part in parts),
        groups=dict(zip(problem.keys, parts, strict=True)),
        sets=_totals_of_sets(problem, totals.incidence.T @ used, search.splitting.prices * room),
        nearly=options.nearly,
    )


def _totals_of_sets(problem: CrossedProblem, used: FloatArray, prices: FloatArray) -> dict[str, GroupTotals]:
    """Share lines of all groups among their sets."""
    ends = np.cumsum([len(groups) for groups in problem.sets.values()])[:-1]
    parts = (np.split(values, ends) for values in (problem.given, used, prices))
    return {name: GroupTotals(groups, *own) for (name, groups), *own in zip(problem.sets.items(), *parts, strict=True)}
