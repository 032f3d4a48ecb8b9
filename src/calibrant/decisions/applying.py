"""A column of actions beside those of any source, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.engines import FittedColumns
from calibrant.errors import InvalidInputError, InvalidScoreError
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray
from calibrant.persistence import check_fitted, fingerprint
from calibrant.tables import (
    MISSING_INPUT,
    PART_ROWS,
    Applied,
    FormatLike,
    MissingInput,
    NewColumns,
    Progress,
    append_columns,
    check_numbers,
    is_spark,
    refuse_missing,
)
from calibrant.validation import check_choice, check_integer

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.decisions.policy import Policy


def apply_policy(
    policy: Policy,
    source: Any,
    target: str | os.PathLike[str],
    *,
    score: str | Sequence[str],
    calibrator: Fitted | None,
    column: str,
    missing: MissingInput = "error",
    format: FormatLike = None,
    table: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Applied:
    """Write a source with a column of actions; see `Policy.apply`."""
    check_integer("part_rows", part_rows, minimum=1)
    check_choice("missing", missing, MISSING_INPUT)
    if policy.problem.capacity:
        raise InvalidInputError(
            "a capacity compares all rows with each other, which a stream of rows can't. Decide on rows in memory, "
            "policy.decide(probabilities, per=day), or write the rows of each day by themselves without a capacity."
        )
    if is_spark(source):
        raise InvalidInputError("source is of Spark. Run policy.to_sql('spark') there.")
    names = [score] if isinstance(score, str) else list(score)
    costs = policy.problem.cost_columns
    if policy.problem.table is None and not costs:
        raise InvalidInputError(
            "losses of a function, or of given rows, don't go with a stream of rows. Name columns of costs in the "
            "losses instead: {action: {class: 'cost'}}."
        )
    columns = None
    if calibrator is not None:
        check_fitted(calibrator, Fitted, "apply")
        if calibrator.needs_groups:
            raise InvalidInputError(
                f"a {type(calibrator).__name__} was fitted by group. Write its probabilities by engines.apply first."
            )
        columns = FittedColumns.of(calibrator, score=names)

    def compute(rows: pa.Table) -> FloatArray:
        return _codes(policy, rows, costs, columns)

    features = [] if columns is None else columns.optional
    inputs = list(dict.fromkeys([*names, *costs, *features]))
    optional = [name for name in features if name not in costs]
    new = NewColumns(inputs, [column], compute, missing, texts=policy.actions, optional=optional)
    return append_columns(
        source,
        target,
        columns=new,
        fingerprint=_fingerprint(policy, calibrator),
        format=format,
        table=table,
        part_rows=part_rows,
        progress=progress,
    )


def _codes(policy: Policy, rows: pa.Table, costs: list[str], columns: FittedColumns | None) -> FloatArray:
    """Return the numbers of the actions of some rows, as floats."""
    features = [] if columns is None else columns.optional
    names = [name for name in rows.column_names if name not in costs or name in features]
    scores = rows.select(names)
    if columns is None:
        for name in rows.column_names:
            check_numbers(rows.column(name), f"column {name!r}")
        refuse_missing(rows, "", dict.fromkeys(rows.column_names, InvalidScoreError))
        given = scores.column(0) if len(names) == 1 else scores
        prob = policy.problem.read_probabilities(given, name=f"column {names[0]!r}" if len(names) == 1 else "the table")
        values = prob.values
    else:
        values = columns.probabilities(scores)
    losses = policy.problem.loss_of_rows(len(values), rows)
    return policy.codes(values, losses).astype(np.float64)


def _fingerprint(policy: Policy, calibrator: Fitted | None) -> str:
    """Return what tells these actions from those of another policy."""
    own = policy.problem
    known = [policy.actions, own.classes, policy.threshold, own.entries if own.needs_costs else own.table.tolist()]  # type: ignore[union-attr]
    digest = hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()[:16]
    return f"policy {digest}" + ("" if calibrator is None else f" after calibrator {fingerprint(calibrator)}")
