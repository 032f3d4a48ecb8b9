"""What is proven at each check of an iteration: the best feasible matrix, the best lower bound, and so the gap.

Every check measures the iterate, turns its multipliers into a lower bound of the optimum (the least value of the
Lagrangian), and searches for a feasible matrix near it. The gap between the two is what stops the solver.

Of a strict order the feasible matrix comes in two steps: some of the affine feasible point is mixed in, which lies
strictly inside the order, and the mixture is projected by Newton steps or, where these fail, brought to a feasible
matrix nearby by steps of the splitting. The more is mixed in, the easier this is and the larger the gap, so the share
is the largest that the gap which is asked for allows. Where the order may be broken there is room around every iterate:
its sums are corrected in closed form, and as much of an affine point is mixed in as the signs and the slack ask for.
"""

from __future__ import annotations

import numpy as np

from calibrant import kernels
from calibrant.kernels import Rule, SortedColumns, Workspace
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.nearly import Nearly
from calibrant.rank_preserving.problem import affine_columns, affine_feasible_point, largest_violation, reachable_totals
from calibrant.rank_preserving.projection import (
    SHARE_OF_GAP,
    SHARES_AT_THE_END,
    Errors,
    Multipliers,
    dual_value,
    make_feasible,
    mix_in,
    multiplier_terms,
    next_attempt,
)
from calibrant.rank_preserving.result import GAP, Progress, StoppingCriteria

#: Passes of a projection by Newton steps, which cost a fifth of an iteration each: at least, per iteration so far, and
#: at most.
_LEAST_PASSES, _PASSES_PER_ITERATION, _MOST_PASSES = 500, 1.5, 1_000
#: Iterations after which what is good enough is not taken on to the smaller gap.
_MOST_FOR_TARGET = 5_000
#: Distance per entry below which gaps are shares of this one, as rounding would decide.
_LEAST_DISTANCE = 1e-9
#: Share of the greatest objective there may be by which rounding moves one, at most.
_ROUNDING = 1e-12
#: Entries up to which a relaxed order is taken on to the smaller gap, which needs many more iterations there.
_FEW_ENTRIES = 600


class Certificate:
    """The best feasible matrix and the best lower bound so far, where the order is strict."""

    #: Of a splitting: its first penalty, iterations up to the first check, their growth from check to check, and after
    #: how many checks the changes of the penalty fade.
    first_penalty, first_check, growth, fading_after = 20.0, 30, 1.1, 20.0
    share_of_slope = 1.0

    def __init__(self, columns: SortedColumns, criteria: StoppingCriteria) -> None:
        self.columns, self.criteria, self.order = columns, criteria, columns.order
        self.work = Workspace.of(columns)
        self.affine = affine_feasible_point(columns, share=self.share_of_slope)
        self.floor = columns.total * columns.p.shape[0] * max(criteria.tol, _LEAST_DISTANCE) ** 2
        self.bound, self.target = 0.0, criteria.target_gap
        self.goal = max(criteria.gap_tol, GAP)  # first: the way to a smaller one may be longer than `max_iter`
        self.history: list[Progress] = []
        self.is_overwritten = False
        self.room: FloatArray | None = None  # memory that `split` lends to the searches
        self.q: FloatArray | None = None  # where the affine point is the best so far
        self.objective = self.affine_objective = self.measure(affine_columns(columns, *self.affine))[0]
        self.prices = np.zeros(len(columns.p))
        self.dual_residual = 0.0  # of the next check, from who has the multipliers of the order
        self._next_try, self._n_failures = 0.0, 0

    def stuck(self, method: str) -> str:
        """Say what keeps the gap above what is allowed, and what helps; nothing where it is not."""
        if self.is_contradicted:
            return "The bound lies above a feasible objective, as rounding makes it: pass a smaller price, or none."
        if self.gap <= self.criteria.gap_tol or not self.history:
            return ""
        last = self.history[-1]
        if method == "dykstra":
            return 'Alternating projections move slowly where margins are far; method="auto" does not.'
        if abs(last.objective - self.bound) <= self.criteria.gap_tol * max(last.objective, self.floor):
            return (
                "The bound is there: what is stuck is a feasible matrix near the iterate, whose sums are off by "
                f"{last.residual:.1e}. A larger gap_tol helps at once, a larger max_iter slowly."
            )
        return (
            f"The iterate has an objective of {last.objective:.6g} and sums off by {last.residual:.1e}, and the bound "
            f"is {self.bound:.6g}: both still move. Raise max_iter or gap_tol."
        )

    @property
    def gap(self) -> float:
        """Share of the objective that is not proven to be necessary."""
        return float((self.objective - self.bound) / max(self.objective, self.floor))

    @property
    def is_contradicted(self) -> bool:
        """Whether the bound lies above the objective of a feasible matrix by more than sums are rounded."""
        rounding = _ROUNDING * self.columns.total * len(self.columns.p)
        return self.bound - self.objective > max(self.criteria.gap_tol, GAP) * self.objective + rounding

    def is_done(self) -> bool:
        """Say whether the gap is small enough; every matrix that is kept is feasible."""
        if self.is_contradicted:
            return False
        if self.gap <= self.criteria.gap_tol and self.history and self.history[-1].n_iter >= _MOST_FOR_TARGET:
            return True
        if self.gap <= self.goal:  # what is good enough is secured first: the way to a smaller gap may lead nowhere
            self.goal = self.target
        return self.gap <= self.goal

    def best(self) -> FloatArray:
        """Return the best sorted columns; their rows are in `order`."""
        q = affine_columns(self.columns, *self.affine) if self.q is None else self.q
        return np.minimum(q, 1.0, out=q)  # a row's sum may lie above 1 by rounding

    def rule(self, penalty: float) -> Rule | None:  # noqa: ARG002
        """Return what the kernels make of the order where the weights of the rows are multiplied by `penalty`."""
        return None

    def measure(self, q: FloatArray, columns: SortedColumns | None = None) -> tuple[float, float, float]:
        """Return the objective of sorted columns, and the largest distances of a row sum and of a column mean."""
        columns = self.columns if columns is None else columns
        return self._with_sums(self.distance(q, columns), columns)

    def distance(self, q: FloatArray, columns: SortedColumns) -> float:
        """Return the objective of sorted columns but for the cost of totals; their sums are left in `work`."""
        return float(kernels.measure_columns(columns, q, self.work.row, self.work.total))

    def _with_sums(self, distance: float, columns: SortedColumns) -> tuple[float, float, float]:
        """Return the objective and the residuals where the sums are those in `work`."""
        off, gives = np.abs(self.work.total - columns.margins), columns.give > 0.0
        cost = float((np.square(off[gives]) / columns.give[gives]).sum())
        beyond = float(np.where(gives, 0.0, off - columns.room).max())
        return distance + cost, float(np.abs(self.work.row).max()), max(beyond, 0.0) / columns.total

    def check(
        self, n_iter: int, q: FloatArray, columns: SortedColumns, multipliers: Multipliers, *, may_project: bool = True
    ) -> Errors:
        """Measure an iterate, take its bound, search for a feasible matrix; return what is off in the iterate.

        Where the search overwrites the iterate, `is_overwritten` says so.
        """
        distance = self.distance(q, columns)
        objective, *residuals = self._with_sums(distance, columns)
        errors = Errors.of(columns, self.work, distance, multipliers).less(self.take_bound(multipliers))
        self.record_progress(n_iter, max(residuals), objective)
        self.is_overwritten = False
        if max(residuals) <= 0.5 * self.criteria.tol and objective < self.objective:
            self.q, self.order, self.objective = q.copy(), columns.order.copy(), objective
        if may_project:
            self._improve(q, columns, objective)
        return errors

    def record_progress(self, n_iter: int, residual: float, objective: float) -> None:
        """Add a check to the history, and pass it to the callback."""
        self.history.append(
            Progress(n_iter, residual, objective, self.bound, self.criteria.elapsed(), self.dual_residual)
        )
        if self.criteria.callback is not None:
            self.criteria.callback(self.history[-1])

    def take_bound(self, multipliers: Multipliers) -> float:
        """Return the lower bound that multipliers prove; the best is kept."""
        bound = self.lower_bound(multipliers)
        if bound > self.bound:
            self.bound, self.prices = bound, -2.0 * multipliers[1]
        return bound

    def propose(self, q: FloatArray, multipliers: Multipliers) -> None:
        """Keep columns from elsewhere where they are feasible and better, and the bound of their multipliers."""
        objective, *residuals = self.measure(q)
        if max(residuals) <= 0.5 * self.criteria.tol and objective < self.objective:
            self.q, self.order, self.objective = q, self.columns.order, objective
        self.take_bound(multipliers)

    def finish(self, q: FloatArray, columns: SortedColumns, spare: FloatArray) -> None:
        """Search for the best feasible matrix near the last iterate; `spare` is overwritten."""
        for share in (self._share(), *SHARES_AT_THE_END):
            if self.is_done() or share > 0.99:
                return
            spare[:] = q
            if self._try_mixture(spare, columns, share):
                return

    def lower_bound(self, multipliers: Multipliers) -> float:
        """Return the lower bound that multipliers prove."""
        return 2.0 * dual_value(self.columns.own_order(), self.work, multipliers)

    def _share(self) -> float:
        """Return the share of the affine point that takes most of the gap that is allowed."""
        excess = self.affine_objective - self.bound
        return min(SHARE_OF_GAP * self.goal * max(self.bound, self.floor) / excess, 1.0) if excess > 0.0 else 1.0

    def _improve(self, q: FloatArray, columns: SortedColumns, objective: float) -> None:
        """Search where the iterate is near enough, and the last attempt is long enough ago."""
        share, n_iter = self._share(), self.history[-1].n_iter
        is_near = (1.0 - share) * abs(objective - self.bound) <= self.goal * max(objective, self.floor)
        if not is_near or n_iter < self._next_try or self.is_done():
            return
        is_found = self._try_mixture(q, columns, share)
        self._n_failures += not is_found
        self._next_try = next_attempt(n_iter, is_found=is_found, gap=self.gap, goal=self.goal)

    def _try_mixture(self, q: FloatArray, columns: SortedColumns, share: float) -> bool:
        """Make a mixture of an iterate and the affine point feasible, in place, and keep it where it is better."""
        self.is_overwritten = True
        mix_in(q, columns, self.affine, share)
        columns = columns.own_order()
        self.measure(q, columns)
        mixed = columns.at(reachable_totals(columns, self.work.total)).replace(p=q)
        tol, n_iter = self.criteria.tol, self.history[-1].n_iter
        max_passes = min(max(_LEAST_PASSES, int(_PASSES_PER_ITERATION * n_iter)), _MOST_PASSES)
        may_step = self._n_failures > 0  # steps cost more: not before Newton's have failed once before
        room = self.room
        if not make_feasible(mixed, self.work, tol=tol, max_passes=max_passes, may_step=may_step, room=room):
            return False
        objective = self.measure(q, self.columns.in_order(mixed.order))[0]
        if objective < self.objective:
            self.order, self.objective = mixed.order, objective
            self.q = q if self.is_done() else q.copy()
        return True


class RelaxedCertificate(Certificate):
    """The best feasible matrix and the best lower bound so far, where the order may be broken."""

    first_penalty, first_check, growth, fading_after = 3.0, 20, 1.15, np.inf
    share_of_slope = 0.5  # leaves all entries above 0

    def __init__(self, columns: SortedColumns, criteria: StoppingCriteria, nearly: Nearly) -> None:
        self.nearly = nearly
        super().__init__(columns, criteria)
        self.q = self.inside = affine_columns(columns, *self.affine)
        self.target = criteria.target_gap if columns.p.size <= _FEW_ENTRIES else criteria.gap_tol

    def rule(self, penalty: float) -> Rule:
        return self.nearly.rule(penalty)

    def distance(self, q: FloatArray, columns: SortedColumns) -> float:
        return super().distance(q, columns) + self.nearly.cost(self.columns, q)

    def finish(self, q: FloatArray, columns: SortedColumns, spare: FloatArray) -> None:
        """Do nothing: every check has searched for the best feasible matrix near its iterate."""

    def lower_bound(self, multipliers: Multipliers) -> float:
        columns = self.columns
        least = columns.p - multipliers[0][columns.order] - multipliers[1][:, None]
        kernels.pool_columns(columns.replace(p=least), self.work, columns.weight, self.rule(1.0), least)
        return self.distance(least, columns) + 2.0 * multiplier_terms(columns, self.work, multipliers)

    def _improve(self, q: FloatArray, columns: SortedColumns, objective: float) -> None:  # noqa: ARG002
        found = self._repair(q)
        value = self.measure(found)[0]
        beyond_allowed = largest_violation(self.columns, found) - self.nearly.allowed
        if value < self.objective and beyond_allowed <= self.criteria.tol:
            self.q, self.objective = found, value

    def _repair(self, q: FloatArray) -> FloatArray:
        """Return a feasible matrix near `q`: its sums put right, then mixed with one that has room to spare."""
        columns, work = self.columns, self.work
        used = (columns.margins + columns.room > 0.0) | (columns.give > 0.0)
        fixed = np.where(used[:, None], q, 0.0)
        kernels.measure_columns(columns, fixed, work.row, work.total)
        fixed[used] -= (work.row / used.sum())[columns.order[used]]
        kernels.measure_columns(columns, fixed, work.row, work.total)
        fixed -= ((work.total - reachable_totals(columns, work.total)) / columns.total * used)[:, None]
        below = fixed < 0.0
        share = float((-fixed[below] / (self.inside[below] - fixed[below])).max(initial=0.0))
        violation, allowed = largest_violation(columns, fixed), self.nearly.allowed
        if violation > allowed:
            share = max(share, 1.0 - allowed / violation)
        return np.maximum((1.0 - share) * fixed + share * self.inside, 0.0)


def certificate_of(columns: SortedColumns, criteria: StoppingCriteria, relaxed: Nearly | None) -> Certificate:
    """Return the certificate of a strict order, or of one that may be broken as `relaxed` says."""
    return Certificate(columns, criteria) if relaxed is None else RelaxedCertificate(columns, criteria, relaxed)
