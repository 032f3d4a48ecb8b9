"""A policy as one SELECT, alone or behind the calibrator that makes its probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from calibrant.decisions.arguments import places_of_classes
from calibrant.decisions.losses import ColumnLosses
from calibrant.decisions.numbers import (
    DistributionColumns,
    NumberLosses,
    as_distribution_columns,
    refuse_distribution_columns,
)
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.fitted import Fitted
from calibrant.numerics import LARGEST
from calibrant.persistence import (
    DialectName,
    Expression,
    SqlBuilder,
    check_fitted,
    column_names,
    score_columns,
    select_of,
)
from calibrant.terms import Term

if TYPE_CHECKING:
    from calibrant.decisions.policy import Policy

#: The columns that a policy reads, as `to_sql` takes them.
Columns: TypeAlias = str | Sequence[str] | DistributionColumns | None
#: Columns of costs by name.
Costs: TypeAlias = dict[str, Term]


class _Chances(NamedTuple):
    """Columns of a table, and what makes of them the chances of the classes, or of the ranges of a number.

    Of two there is one column, that of the second. Missing where `Policy.decide` refuses the row.
    """

    names: list[str]
    n_classes: int
    make: Callable[[SqlBuilder, Sequence[Expression], Costs], Term]
    features: Sequence[str] = ()


def policy_sql(
    policy: Policy,
    dialect: DialectName,
    *,
    columns: Columns,
    calibrator: Fitted | None,
    table: str,
    keep: Sequence[str],
    output: str,
) -> str:
    """Return the SELECT of `Policy.to_sql`."""
    entries = _entries(policy)
    of_number = policy.problem.is_of_number
    chances = _of_ranges(policy, columns, calibrator) if of_number else _of_classes(policy, columns, calibrator)
    if len(entries[0]) != chances.n_classes:
        raise ShapeError(
            f"columns={chances.names!r:.80} {'is' if len(chances.names) == 1 else 'are'} of {chances.n_classes} "
            f"classes, and the losses of {len(entries[0])}. Name a column for each class."
        )
    costs = list(dict.fromkeys([e for row in entries for e in row if isinstance(e, str)] + policy.problem.cost_columns))
    names = chances.names

    def make(b: SqlBuilder, given: Sequence[Expression]) -> list[Expression]:
        losses = {
            name: Term(b, (b.source(column, -LARGEST, LARGEST),))
            for name, column in zip(costs, given[len(names) :], strict=True)
        }
        prob = b.hold(chances.make(b, given[: len(names)], losses))
        return [_chosen(policy, b, prob, entries, losses)]

    outputs, features = column_names([output], "output"), chances.features
    return select_of(dialect, [*names, *costs], outputs, make, features=features, table=table, keep=keep)


def _entries(policy: Policy) -> list[list[float | str]]:
    """Return the losses as constants and names of columns, (A, K); refuse what no column can say of a row."""
    problem = policy.problem
    if problem.capacity:
        raise InvalidInputError(
            "a capacity compares rows with each other, which no column of a SELECT does. Leave it out, or decide in "
            "Python."
        )
    own = problem.losses
    if isinstance(own, NumberLosses):
        raise InvalidInputError(
            "losses of a function have no form in SQL. Give the losses of ranges of the number, thresholds=, or call "
            "policy.apply, which takes functions."
        )
    if problem.table is not None:
        return [list(row) for row in problem.table.tolist()]
    if not isinstance(own, ColumnLosses):
        raise InvalidInputError(
            "losses of a function, or of given rows, have no form in SQL. Name columns of costs in the losses instead: "
            "{action: {class: 'cost'}}."
        )
    return problem.entries


def _of_classes(policy: Policy, columns: Columns, calibrator: Fitted | None) -> _Chances:
    """Return probabilities of classes, or what a calibrator makes of scores."""
    given_names = refuse_distribution_columns(columns, "columns")
    fitted = None if calibrator is None else check_fitted(calibrator, Fitted, "export")
    if fitted is not None:
        fitted.check_exportable()
        names = score_columns(fitted, given_names)
    else:
        names = column_names([given_names] if isinstance(given_names, str) else given_names or ["p"], "columns")
        names = _by_class(policy, names)
    low, high = (0.0, 1.0) if fitted is None else fitted.score_range

    def make(b: SqlBuilder, given: Sequence[Expression], costs: Costs) -> Term:  # noqa: ARG001
        scores = Term(b, tuple(b.source(column, low, high) for column in given))
        if fitted is None:
            return b.only_where(b.usable(scores, 0.0, 1.0, sums_to_one=len(names) > 1), scores)
        return fitted.usable_formula(b, scores, len(names))

    return _Chances(names, max(len(names), 2), make, () if fitted is None else fitted.feature_names)


def _of_ranges(policy: Policy, columns: Columns, calibrator: Fitted | None) -> _Chances:
    """Return the chances that forecasts in columns give the ranges of a number."""
    if calibrator is not None:
        raise InvalidTypeError(
            f"a {type(calibrator).__name__} that makes forecasts of forecasts has no form in SQL. Write what it says "
            "to quantiles by calibrant forecast apply, and name these columns; or call policy.apply."
        )
    of = as_distribution_columns(columns, "columns")
    ranges = policy.problem.ranges
    assert ranges is not None  # noqa: S101 - `_entries` has refused functions

    def make(b: SqlBuilder, given: Sequence[Expression], costs: Costs) -> Term:
        numbers = [Term(b, (b.source(column, -of.largest, of.largest),)) for column in given]
        at = [costs[each] if isinstance(each, str) else b.number(each) for each in ranges.thresholds]
        below = [of.below(b, numbers, each) for each in at]
        ends = [*below, b.number(1.0)]
        shares = [1.0 - below[0]] if len(below) == 1 else [below[0], *(high - low for low, high in pairwise(ends))]
        conditions = [low < high for low, high in pairwise(at)] if ranges.columns else []
        conditions += [b.usable(b.columns(numbers), 0.0, 0.0, sums_to_one=False)]
        form = of.usable(b, numbers)
        prob = b.columns(shares)
        for condition in [*conditions, *([] if form is None else [form])]:
            prob = b.only_where(condition, b.hold(prob))
        return prob

    return _Chances(list(of.names), len(ranges.thresholds) + 1, make)


def _by_class(policy: Policy, names: list[str]) -> list[str]:
    if len(names) == 1:
        return names
    places = places_of_classes(names, policy.problem.classes, name="columns")
    return names if places is None else [names[j] for j in places]


def _chosen(policy: Policy, b: SqlBuilder, prob: Term, entries: list[list[float | str]], costs: Costs) -> Expression:
    """Return the name of the action of a row, NULL where its probabilities or costs are missing."""
    n_columns = len(prob.payload)
    positive = b.column(prob, 0 if n_columns == 1 else 1)
    if policy.threshold is not None:
        return b.text_case([positive >= policy.threshold, positive < policy.threshold], policy.actions[::-1])
    shares = [1.0 - positive, positive] if n_columns == 1 else [b.column(prob, k) for k in range(n_columns)]
    shares = [b.hold(share) for share in shares]
    losses = []
    for row in entries:
        of_class = [costs[entry] if isinstance(entry, str) else entry for entry in row]
        parts = [share * loss for share, loss in zip(shares, of_class, strict=True)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        losses.append(b.hold(total))
    least = losses[0]
    for loss in losses[1:]:
        least = b.hold(b.least(least, loss))
    chosen = b.text_case([loss <= least for loss in losses], policy.actions)
    if not costs:
        return chosen
    known = b.usable(b.columns(losses), 0.0, 0.0, sums_to_one=False)  # engines' LEAST passes over what is missing
    return b.only_where(known, Term(b, (chosen,))).payload[0]
