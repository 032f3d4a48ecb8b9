"""Looks at an iteration: how far it is, what is proven, and whether a feasible matrix within the gap can be had."""

from __future__ import annotations

import numpy as np

from calibrant import kernels
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.closed_form import closed_form, closed_line
from calibrant.rank_preserving.polish import Workspace, lagrangian, project
from calibrant.rank_preserving.problem import PlaceArray, Problem
from calibrant.rank_preserving.result import Ending, Progress
from calibrant.rank_preserving.watch import Watch

#: Shares of the closed form that are mixed in, the least first, where an iteration ends before it has converged.
_LADDER = (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6)
#: Passes of a projection: at least, and per iteration so far. They cost a fifth of an iteration each.
_LEAST_PASSES, _PASSES_PER_ITERATION = 500, 1.5
#: Looks without a try after one that failed, at first; after each further failure as many more.
_REST = 3
#: Aim of a projection, as a share of `tol`.
_AIM = 0.01
#: Share of the gap that is allowed which a projection may use up.
_SPENT = 0.7


class Certifier:
    """Keeps the best feasible matrix and the best lower bound of an iteration.

    A feasible matrix comes from an iterate that is almost so in two steps: some of the closed form is mixed in, which
    lies strictly inside the order, and the mixture is projected. The more is mixed in, the easier the projection and
    the larger the gap: the share is the largest that the goal allows.
    """

    def __init__(self, problem: Problem, watch: Watch) -> None:
        self.problem, self.watch = problem, watch
        self.safe = closed_line(problem)
        self.space = Workspace.of(problem)
        self.space.reset(problem)
        self.q: FloatArray | None = None  # where the closed form is the best so far
        self.order = problem.order
        self.safe_objective = self.objective = self._measure(closed_form(problem), problem.order)[0]
        self.floor = problem.total * problem.p.shape[0] * watch.tol**2
        self.bound = 0.0
        self.goal = watch.gap_tol
        self.history: list[Progress] = []
        self.is_overwritten = False
        self._rest = self._n_failures = 0

    @property
    def gap(self) -> float:
        """Share of the objective that is not proven to be necessary."""
        return float((self.objective - self.bound) / max(self.objective, self.floor))

    def look(
        self,
        n_iter: int,
        q: FloatArray,
        order: PlaceArray,
        lift: FloatArray,
        shift: FloatArray,
        *,
        may_try: bool = True,
    ) -> float:
        """Measure an iterate, take up its bound, try to finish; return its objective less this bound.

        A try overwrites the iterate, and `is_overwritten` says so.
        """
        objective, residual = self._measure(q, order)
        bound = self.take_bound(lift, shift)
        self.history.append(self.watch.tell(n_iter, residual, objective, self.bound))
        reach = max(objective, self.floor)
        share, self.is_overwritten = self._share(), False
        is_near = (1.0 - share) * abs(objective - self.bound) <= self.goal * reach
        if may_try and is_near and not self.is_done():
            self._rest -= 1
            if self._rest < 0 and not self._try(q, order, share):
                self._n_failures += 1
                self._rest = _REST * self._n_failures
        return objective - bound

    def finish(self, q: FloatArray, order: PlaceArray, spare: FloatArray) -> None:
        """Look for the best feasible matrix near the last iterate; `spare` is overwritten."""
        for share in (self._share(), *_LADDER):
            if self.is_done() or share > 0.99:
                return
            spare[:] = q
            if self._try(spare, order, share):
                return

    def propose(self, q: FloatArray, lift: FloatArray, shift: FloatArray) -> None:
        """Take up columns from elsewhere where they are feasible and better, and the bound of their multipliers."""
        objective, residual = self._measure(q, self.problem.order)
        if residual <= 0.5 * self.watch.tol and objective < self.objective:
            self.q, self.order, self.objective = q, self.problem.order, objective
        self.take_bound(lift, shift)

    def take_start(self, n_iter: int, lift: FloatArray, shift: FloatArray) -> float:
        """Return the bound that multipliers prove for the closed form, and report both."""
        bound = self.take_bound(lift, shift)
        self.history.append(self.watch.tell(n_iter, 0.0, self.objective, self.bound))
        return bound

    def take_bound(self, lift: FloatArray, shift: FloatArray) -> float:
        """Return the lower bound that multipliers of rows and margins prove, and keep it where it is the best."""
        problem = self.problem
        order = problem.order.copy() if problem.runs.size else problem.order
        bound = 2.0 * lagrangian(problem, problem.p, order, lift, shift, self.space)
        self.bound = max(self.bound, bound)
        return bound

    def is_done(self) -> bool:
        """Say whether the gap is small enough; every matrix that is kept is feasible.

        What is good enough is secured first: the way to a smaller gap may lead nowhere.
        """
        if self.gap <= self.goal:
            self.goal = self.watch.aim
        return self.gap <= self.goal

    def ending(self, n_iter: int) -> Ending:
        """Return what was reached."""
        q = closed_form(self.problem) if self.q is None else self.q
        return Ending(q, self.order, self.objective, self.bound, n_iter, tuple(self.history))

    def _share(self) -> float:
        """Return the share of the closed form that takes most of the gap that is allowed."""
        excess = self.safe_objective - self.bound
        return min(_SPENT * self.goal * max(self.bound, self.floor) / excess, 1.0) if excess > 0.0 else 1.0

    def _try(self, q: FloatArray, order: PlaceArray, share: float) -> bool:
        """Project a mixture of an iterate and the closed form, in place, and keep the result where it is better."""
        self.is_overwritten = True
        constant, slope = self.safe
        for j, p in enumerate(self.problem.p):
            q[j] *= 1.0 - share
            q[j] += share * np.maximum(constant[j] + slope * p, 0.0)
        order = order.copy() if self.problem.runs.size else order
        if not project(
            self.problem,
            q,
            order,
            aim=_AIM * self.watch.tol,
            tol=0.5 * self.watch.tol,
            max_passes=max(_LEAST_PASSES, int(_PASSES_PER_ITERATION * self.history[-1].n_iter)),
            space=self.space,
        ):
            return False
        objective = self._measure(q, order)[0]
        if objective < self.objective:
            self.order, self.objective = order, objective
            self.q = q if self.is_done() else q.copy()
        return True

    def _measure(self, q: FloatArray, order: PlaceArray) -> tuple[float, float]:
        problem = self.problem
        row, total = self.space.row, self.space.total
        objective = kernels.measure_columns(q, problem.p, order, problem.weight, row, total)
        margin = float(np.abs(total - problem.margins).max()) / problem.total
        return objective, max(float(np.abs(row).max()), margin)
