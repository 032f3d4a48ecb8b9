"""A policy as one SELECT, alone or behind the calibrator that makes its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calibrant.decisions.losses import ColumnLosses
from calibrant.errors import InvalidInputError, ShapeError
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
from calibrant.validation import match_classes

if TYPE_CHECKING:
    from calibrant.decisions.policy import Policy


def policy_sql(
    policy: Policy,
    dialect: DialectName,
    *,
    columns: str | Sequence[str] | None,
    calibrator: Fitted | None,
    table: str,
    keep: Sequence[str],
    output: str,
) -> str:
    """Return the SELECT of `Policy.to_sql`."""
    entries = _entries(policy)
    fitted = None if calibrator is None else check_fitted(calibrator, Fitted, "export")
    if fitted is not None:
        fitted.check_exportable()
        names = score_columns(fitted, columns)
    else:
        names = column_names([columns] if isinstance(columns, str) else columns or ["p"], "columns")
        names = _by_class(policy, names)
    n_classes = max(len(names), 2)
    if len(entries[0]) != n_classes:
        raise ShapeError(
            f"columns={names!r:.80} {'is' if len(names) == 1 else 'are'} of {n_classes} classes, and the losses of "
            f"{len(entries[0])}. Name a column for each class."
        )
    costs = list(dict.fromkeys(entry for row in entries for entry in row if isinstance(entry, str)))
    low, high = (0.0, 1.0) if fitted is None else fitted.score_range

    def make(b: SqlBuilder, given: Sequence[Expression]) -> list[Expression]:
        scores = Term(b, tuple(b.source(column, low, high) for column in given[: len(names)]))
        losses = {
            name: Term(b, (b.source(column, -LARGEST, LARGEST),))
            for name, column in zip(costs, given[len(names) :], strict=True)
        }
        if fitted is None:
            prob = b.only_where(b.usable(scores, 0.0, 1.0, sums_to_one=len(names) > 1), scores)
        else:
            prob = fitted.usable_formula(b, scores, len(names))
        return [_chosen(policy, b, b.hold(prob), len(names), entries, losses)]

    return select_of(dialect, [*names, *costs], column_names([output], "output"), make, table=table, keep=keep)


def _entries(policy: Policy) -> list[list[float | str]]:
    """Return the losses as constants and names of columns, (A, K); refuse what no column can say of a row."""
    problem = policy.problem
    if problem.capacity:
        raise InvalidInputError(
            "a capacity compares rows with each other, which no column of a SELECT does. Leave it out, or decide in "
            "Python."
        )
    own = problem.losses
    if problem.table is not None:
        return [list(row) for row in problem.table.tolist()]
    if not isinstance(own, ColumnLosses):
        raise InvalidInputError(
            "losses of a function, or of given rows, have no form in SQL. Name columns of costs in the losses instead: "
            "{action: {class: 'cost'}}."
        )
    return problem.entries


def _by_class(policy: Policy, names: list[str]) -> list[str]:
    classes = policy.problem.classes
    if classes is None or len(names) == 1:
        return names
    places = match_classes(names, list(classes), name="columns")
    return names if places is None else [names[j] for j in places]


def _chosen(
    policy: Policy,
    b: SqlBuilder,
    prob: Term,
    n_columns: int,
    entries: list[list[float | str]],
    costs: dict[str, Term],
) -> Expression:
    """Return the name of the action of a row, NULL where its probabilities or costs are missing."""
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
