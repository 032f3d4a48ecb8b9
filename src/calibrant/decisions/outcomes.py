"""Decided rows: what each action was expected to lose in each row, what it lost, and which one was taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.decisions.losses import lost_by_class, moments
from calibrant.decisions.numbers import Distributions, as_distributions, as_outcomes
from calibrant.decisions.policy import Policy, as_policy
from calibrant.decisions.problem import Outlook, Problem
from calibrant.dependence import Units, read_dependence
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.metrics import Estimate, mean_over_units
from calibrant.numerics import EPS, FloatArray, IntArray
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, as_weight

#: What decides beside policies: takes probabilities or a forecast, and gives the action of each row, by name or number,
#: or whether it is the second of two.
Rule: TypeAlias = Callable[[Any], Any]

#: What a promise says of itself that is for what these very rows will lose.
OF_THESE_ROWS = "these rows"
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

    @property
    def most_rows(self) -> int:
        """Most rows that one capacity is for: all, or those of the largest group with places of its own."""
        return self.taken.size if self.per is None else int(np.bincount(self.per).max())

    def take(self, at: npt.NDArray[Any]) -> Self:
        """Return some of the rows, by a mask, with the clusters that they show."""
        parts = {name: getattr(self, name)[at] for name in ("expected", "realised", "variance", "taken")}
        return replace(self, rows=self.rows.part(at), per=None if self.per is None else self.per[at], **parts)

    def units(self, values: FloatArray) -> tuple[Units, ...]:
        """Return what rows share, where they are not independent, for the mean of these values."""
        return units_of(self.rows, values)

    def mean(self, values: FloatArray, level: float, *, least_variance: float = 0.0) -> Estimate:
        """Estimate the mean of a value of each row."""
        return mean_over_units(values, self.weight, self.units(values), level, least_variance=least_variance)


def of_taken(table: FloatArray, taken: IntArray) -> FloatArray:
    """Return what a table of rows and actions, shape (n, A), says of the action of each row."""
    return np.take_along_axis(table, taken[:, None], axis=1)[:, 0]


class Chosen(NamedTuple):
    """What decides: a policy; or actions that are given, or a rule, beside which the policy says the problem."""

    policy: Policy
    actions: ArrayLike | None = None
    rule: Rule | None = None

    def taken(self, predictions: Any, by_policy: IntArray, n: int) -> IntArray:
        """Return the number of the action of each row; `by_policy` is what the policy takes."""
        if self.rule is not None:
            return self.policy.read_actions(self.rule(predictions), n)
        return by_policy if self.actions is None else self.policy.read_actions(self.actions, n)

    @property
    def is_policy(self) -> bool:
        """Whether the policy itself decides."""
        return self.actions is None and self.rule is None


def read_policy(policy: Any, problem: Problem | Mapping[str, Any] | None) -> Chosen:
    """Return what decides: a policy, actions that were taken, or anything with `decide`, or that can be called."""
    if isinstance(policy, (Policy, Problem, Mapping)):
        if problem is not None:
            raise InvalidInputError(
                "policy has its problem. Leave problem= out, or pass actions of rows instead of it."
            )
        return Chosen(as_policy(policy))
    if problem is None:
        raise InvalidTypeError(
            f"policy is a {type(policy).__name__}. Pass a Policy or a Problem, or the action of each row with problem=."
        )
    of = as_policy(problem, name="problem")
    rule = getattr(policy, "decide", policy if callable(policy) else None)
    return Chosen(of, actions=policy) if rule is None else Chosen(of, rule=rule)


def read_decided(
    y: ArrayLike,
    predictions: Any,
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
    names: tuple[str, ...] = ("predictions", "y"),
) -> Decided:
    """Check rows with outcomes, and decide them; rows of weight zero are decided too, as they take up capacities."""
    chosen = read_policy(policy, problem)
    what: dict[str, Any] = {"names": names, "groups": None if groups is None else {"groups": groups}}
    problem = chosen.policy.problem
    if problem.is_of_number:
        forecast = as_distributions(predictions, names[0])
        numbers, outlook = as_outcomes(y, len(forecast), names[1]), problem.outlook(forecast, costs)
        rows = _rows_of_numbers(problem, outlook.scores, numbers, costs, what)
        rows = depending(rows, cluster, time, label_end, names[0])
        taken, per_codes = taken_by(chosen, outlook, forecast, per)
        found = Decided(
            chosen.policy,
            rows,
            outlook.mean,
            problem.lost(numbers, costs),
            outlook.variance,
            taken,
            per_codes,
            is_policy=chosen.is_policy,
        )
    else:
        checked = problem.read_probabilities(predictions, name=names[0], by_labels=True)
        typed, classes = problem.for_labels(y, checked.n_columns, name=names[1])
        rows = depending(read_rows(predictions, y, classes=classes, **what), cluster, time, label_end, names[0])
        of = chosen._replace(policy=Policy(typed, threshold=chosen.policy.threshold))
        found = decide_rows(of, rows, costs, per, given=predictions)
    weight = as_weight(sample_weight, rows.n_rows, rows=names[0])
    if weight is None:
        return found
    found = replace(found, rows=replace(rows, weight=weight))
    return found if weight.all() else found.take(weight > 0.0)


def depending(
    rows: Rows, cluster: ArrayLike | None, time: ArrayLike | None, label_end: ArrayLike | None, name: str
) -> Rows:
    """Return rows with what says that they are not independent; times alone may be those of correlated errors."""
    known = read_dependence(rows.n_rows, cluster, time, label_end, rows=name)
    return replace(rows, cluster=known.cluster, time=known.time, label_end=known.label_end)


def _rows_of_numbers(
    problem: Problem, scores: FloatArray, numbers: FloatArray, costs: Any, what: dict[str, Any]
) -> Rows:
    """Return rows of a number: of ranges with their chances and which one came.

    Of a function of the number, the score is the median, and labels tell the outcomes above their middle, so that folds
    have as many of them.
    """
    if problem.ranges is None:
        above = numbers > np.median(numbers)
        return read_rows(scores, above, input="score", classes=[False, True], **what)
    codes, n_ranges = problem.ranges.codes(numbers, costs), len(problem.ranges.thresholds) + 1
    return read_rows(scores, codes, classes=np.arange(n_ranges), match_names=False, **what)


def decide_rows(policy: Policy | Chosen, rows: Rows, costs: Any, per: ArrayLike | None, given: Any = None) -> Decided:
    """Decide checked rows of classes; `given` is what a rule takes, by default the probabilities."""
    chosen = policy if isinstance(policy, Chosen) else Chosen(policy)
    policy, n = chosen.policy, rows.n_rows
    policy.problem.check_of_classes()
    losses = policy.problem.loss_of_rows(n, costs)
    n_classes = max(rows.n_columns, 2)
    if losses.shape[-1] != n_classes:  # of problems that don't know their classes
        raise ShapeError(
            f"losses are of {losses.shape[-1]} classes, and y and probabilities of {n_classes}. Give one of each."
        )
    realised = lost_by_class(losses, rows.codes.astype(np.int64))
    groups = policy.read_per(per, n)
    taken = chosen.taken(rows.scores if given is None else given, policy.codes(rows.scores, losses, groups), n)
    mean, variance = moments(rows.scores, losses)
    return Decided(policy, rows, mean, realised, variance, taken, groups, is_policy=chosen.is_policy)


def taken_by(
    chosen: Chosen, outlook: Outlook, forecast: Distributions, per: ArrayLike | None
) -> tuple[IntArray, IntArray | None]:
    """Return the number of the action of each row of a number, and what capacities are for each of."""
    n = len(outlook.mean)
    groups = chosen.policy.read_per(per, n)
    return chosen.taken(forecast, chosen.policy.codes_by(outlook.scores, outlook.mean, groups), n), groups
