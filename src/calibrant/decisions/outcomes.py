"""Decided rows: what each action was expected to lose in each row, what it lost, and which one was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.decisions.losses import expected, two_columns
from calibrant.decisions.policy import Policy, as_policy
from calibrant.decisions.problem import Problem
from calibrant.dependence import Units
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.metrics import Estimate, mean_over_units
from calibrant.numerics import EPS, FloatArray, IntArray
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, as_weight

#: A share of the largest loss that is rounding, and no gap.
_ROUNDING = 8.0 * EPS


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Rows that were decided, with what each action was expected to lose in them, and lost.

    `expected`, `realised` and `variance` have shape (n, A): the variance is that of what an action would lose, by the
    probabilities. `taken` is the number of the action of each row, and `is_policy` says whether the policy chose it.
    `rows` say what is known beside them.
    """

    policy: Policy
    rows: Rows
    expected: FloatArray
    realised: FloatArray
    variance: FloatArray
    taken: IntArray
    per: IntArray | None = None
    is_policy: bool = True

    @property
    def weight(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return self.rows.weights

    @property
    def positive_scores(self) -> FloatArray:
        """The probability of the positive of two classes, shape (n,)."""
        return self.rows.scores if self.rows.is_binary else self.rows.scores[:, 1]

    @property
    def promised_losses(self) -> FloatArray:
        """What the action that was taken was expected to lose, shape (n,)."""
        return of_taken(self.expected, self.taken)

    @property
    def realised_losses(self) -> FloatArray:
        """What the action that was taken lost, shape (n,)."""
        return of_taken(self.realised, self.taken)

    @property
    def gaps(self) -> FloatArray:
        """What was lost beyond what was promised, shape (n,): what is rounding is none."""
        found = self.realised_losses - self.promised_losses
        rounding = _ROUNDING * float(np.abs(self.realised).max())
        return np.where(np.abs(found) <= rounding, 0.0, found)

    @property
    def outcome_variance(self) -> float:
        """Mean variance of what was lost, by the probabilities."""
        return float(np.average(of_taken(self.variance, self.taken), weights=self.weight))

    def take(self, at: npt.NDArray[Any]) -> Self:
        """Return some of the rows, by a mask, with the clusters that they show."""
        parts = {name: getattr(self, name)[at] for name in ("expected", "realised", "variance", "taken")}
        return replace(self, rows=self.rows.part(at), per=None if self.per is None else self.per[at], **parts)

    def units(self) -> tuple[Units, ...]:
        """Return what rows share, where they are not independent."""
        return units_of(self.rows)

    def mean(self, values: FloatArray, level: float, *, least_variance: float = 0.0) -> Estimate:
        """Estimate the mean of a value of each row."""
        return mean_over_units(values, self.weight, self.units(), level, least_variance=least_variance)


def of_taken(table: FloatArray, taken: IntArray) -> FloatArray:
    """Return what a table of rows and actions, shape (n, A), says of the action of each row."""
    return np.take_along_axis(table, taken[:, None], axis=1)[:, 0]


def read_policy(policy: Any, problem: Problem | Mapping[str, Any] | None) -> tuple[Policy, ArrayLike | None]:
    """Return the policy, or the actions that were taken, if these are given, and the policy of least loss."""
    if isinstance(policy, (Policy, Problem, Mapping)):
        if problem is not None:
            raise InvalidInputError(
                "policy has its problem. Leave problem= out, or pass actions of rows instead of it."
            )
        return as_policy(policy), None
    if problem is None:
        raise InvalidTypeError(
            f"policy is a {type(policy).__name__}. Pass a Policy or a Problem, or the action of each row with problem=."
        )
    return as_policy(problem, name="problem"), policy


def read_decided(
    y: ArrayLike,
    probabilities: ArrayLike,
    policy: Any,
    problem: Problem | Mapping[str, Any] | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    costs: Any = None,
    per: ArrayLike | None = None,
    names: tuple[str, ...] = ("probabilities", "y"),
) -> Decided:
    """Check rows with outcomes, and decide them; rows of weight zero are decided too, as they take up capacities."""
    policy, actions = read_policy(policy, problem)
    checked = policy.problem.read_probabilities(probabilities, name=names[0])
    typed, classes = policy.problem.for_labels(y, checked.n_columns, name=names[1])
    what: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end}
    of_groups = None if groups is None else {"groups": groups}
    rows = read_rows(probabilities, y, names=names, classes=classes, groups=of_groups, **what)
    weight = as_weight(sample_weight, rows.n_rows, rows=names[0])
    found = decide_rows(Policy(typed, threshold=policy.threshold), rows, actions, costs, per)
    if weight is None:
        return found
    found = replace(found, rows=replace(rows, weight=weight))
    return found if weight.all() else found.take(weight > 0.0)


def decide_rows(policy: Policy, rows: Rows, actions: ArrayLike | None, costs: Any, per: ArrayLike | None) -> Decided:
    """Decide checked rows, unless their actions are given."""
    n = rows.n_rows
    losses = policy.problem.loss_of_rows(n, costs)
    prob = two_columns(rows.scores)
    if losses.shape[-1] != prob.shape[1]:  # of problems that don't know their classes
        raise ShapeError(
            f"losses are of {losses.shape[-1]} classes, and y and probabilities of {prob.shape[1]}. Give one of each."
        )
    table = expected(prob, losses)
    variance = np.maximum(expected(prob, losses**2) - table**2, 0.0)
    codes = rows.codes.astype(np.int64)
    realised = np.asarray(losses[:, codes].T if losses.ndim == 2 else losses[np.arange(n), :, codes])
    groups = policy.read_per(per, n)
    if actions is None:
        return Decided(policy, rows, table, realised, variance, policy.codes(rows.scores, losses, groups), groups)
    return Decided(policy, rows, table, realised, variance, policy.read_actions(actions, n), groups, is_policy=False)
