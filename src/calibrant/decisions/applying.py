"""A column of actions beside those of any source, in bounded memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calibrant.decisions.losses import FunctionLosses, RowLosses, cost_column
from calibrant.decisions.numbers import (
    DistributionColumns,
    NumberLosses,
    as_distribution_columns,
    as_recalibrator,
    refuse_distribution_columns,
)
from calibrant.engines import FittedColumns
from calibrant.errors import InvalidInputError, InvalidScoreError
from calibrant.fitted import Fitted
from calibrant.numerics import FloatArray, IntArray
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

#: Rows whose forecasts are held at once: a recalibrated one of a row may have hundreds of pieces.
_FORECAST_ROWS = 1 << 14


class _Reader(NamedTuple):
    """Columns that predictions are made of, names or patterns, and what decides on a table with these and the costs."""

    inputs: list[str]
    decide: Callable[[pa.Table, dict[str, FloatArray]], IntArray]
    #: Columns of features, whose values may be missing.
    optional: Sequence[str] = ()
    #: Columns that a calibrator was fitted to as text.
    as_text: Sequence[str] = ()


def apply_policy(
    policy: Policy,
    source: Any,
    target: str | os.PathLike[str],
    *,
    score: str | Sequence[str] | DistributionColumns,
    calibrator: Any,
    group: str | None,
    column: str,
    costs: Sequence[str] = (),
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
    named = _cost_columns(policy, costs)
    if policy.problem.is_of_number:
        reader = _of_number(policy, as_distribution_columns(score, "score"), calibrator)
    else:
        reader = _of_classes(policy, refuse_distribution_columns(score, "score"), calibrator, group, named)

    def compute(rows: pa.Table) -> FloatArray:
        refuse_missing(rows.select(named), "", dict.fromkeys(named, InvalidScoreError))
        beside = {name: cost_column(rows, name, rows.num_rows) for name in named}
        return reader.decide(rows, beside).astype(np.float64)

    inputs = [*reader.inputs, *(name for name in named if name not in reader.inputs)]
    optional = [name for name in reader.optional if name not in named]
    as_text = [name for name in reader.as_text if name not in named]
    return append_columns(
        source,
        target,
        columns=NewColumns(
            inputs, [column], compute, missing, texts=policy.actions, optional=optional, as_text=as_text
        ),
        fingerprint=_fingerprint(policy, calibrator),
        format=format,
        table=table,
        part_rows=part_rows,
        progress=progress,
    )


def _cost_columns(policy: Policy, costs: Sequence[str]) -> list[str]:
    """Return the columns of costs: those that losses and thresholds name, or that a function of them takes."""
    losses = policy.problem.losses
    if isinstance(losses, RowLosses):
        raise InvalidInputError(
            "losses of given rows don't go with a stream of rows. Name columns of costs in the losses instead: "
            "{action: {class: 'cost'}}."
        )
    if costs and not isinstance(losses, (FunctionLosses, NumberLosses)):
        raise InvalidInputError("costs= names what a function of losses takes, and there is none. Leave it out.")
    return list(dict.fromkeys([*policy.problem.cost_columns, *costs]))


def _of_classes(
    policy: Policy, score: str | Sequence[str], calibrator: Fitted | None, group: str | None, costs: Sequence[str]
) -> _Reader:
    """Read probabilities, or what a calibrator makes of scores."""
    names = [score] if isinstance(score, str) else list(score)
    problem, optional, as_text = policy.problem, list[str](), list[str]()
    if calibrator is not None:
        check_fitted(calibrator, Fitted, "apply")
        columns = FittedColumns.of(calibrator, score=names, group=group)
        read: Callable[[pa.Table], FloatArray] = columns.probabilities
        names, optional, as_text = columns.inputs, columns.optional, columns.as_text
    elif group is not None:
        raise InvalidInputError("group= names what a calibrator was fitted by, and there is none. Leave it out.")
    else:
        read = _probabilities_of(policy)
    beside = set(costs) - set(names)

    def decide(rows: pa.Table, given: dict[str, FloatArray]) -> IntArray:
        values = read(rows.select([name for name in rows.column_names if name not in beside]))
        return policy.codes(values, problem.loss_of_rows(len(values), given))

    return _Reader(names, decide, optional, as_text)


def _probabilities_of(policy: Policy) -> Callable[[pa.Table], FloatArray]:
    """Return what checks probabilities in columns."""

    def read(scores: pa.Table) -> FloatArray:
        names = scores.column_names
        for name in names:
            check_numbers(scores.column(name), f"column {name!r}")
        refuse_missing(scores, "", dict.fromkeys(names, InvalidScoreError))
        given = scores.column(0) if len(names) == 1 else scores
        called = f"column {names[0]!r}" if len(names) == 1 else "the table"
        return policy.problem.read_probabilities(given, name=called).values

    return read


def _of_number(policy: Policy, columns: DistributionColumns, calibrator: Any) -> _Reader:
    """Read forecasts, or what a recalibrator makes of them."""
    recalibrator = None if calibrator is None else as_recalibrator(calibrator)

    def decide(rows: pa.Table, given: dict[str, FloatArray]) -> IntArray:
        found = []
        for name in columns.names:
            check_numbers(rows.column(name), f"column {name!r}")
        refuse_missing(rows.select(list(columns.names)), "", dict.fromkeys(columns.names, InvalidScoreError))
        for start in range(0, rows.num_rows, _FORECAST_ROWS):
            forecast = columns.read(rows.slice(start, _FORECAST_ROWS))
            part = {name: values[start : start + _FORECAST_ROWS] for name, values in given.items()}
            found.append(
                policy.codes_of_forecast(forecast if recalibrator is None else recalibrator.transform(forecast), part)
            )
        return np.concatenate(found)

    return _Reader(list(columns.names), decide)


def _fingerprint(policy: Policy, calibrator: Any) -> str | None:
    """Return what tells these actions from those of another policy; None of a function, which nothing tells."""
    own = policy.problem
    if isinstance(own.losses, (FunctionLosses, NumberLosses)):
        return None
    losses = own.entries if own.table is None else own.table.tolist()
    thresholds = None if own.ranges is None else own.ranges.thresholds
    known = [policy.actions, own.classes, policy.threshold, losses, *([thresholds] if thresholds else [])]
    digest = hashlib.sha256(json.dumps(known, default=str).encode()).hexdigest()[:16]
    return f"policy {digest}" + ("" if calibrator is None else f" after calibrator {fingerprint(calibrator)}")
