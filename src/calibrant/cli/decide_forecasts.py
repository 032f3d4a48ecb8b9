"""Decisions on the forecasts in a file: what options say of the forecasts, and the rows that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from calibrant.cli.forecast_columns import (
    DISTRIBUTION_OPTIONS,
    ForecastOptions,
    ForecastRows,
    number_column,
    read_forecasts,
)
from calibrant.cli.option_texts import called
from calibrant.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.decisions import CalibrationRows, Problem
    from calibrant.forecasts import Forecast, Recalibrator
    from calibrant.rows import Rows
    from calibrant.tables import FormatLike

#: What makes a command take forecasts of a number in place of probabilities.
FORECAST_OPTIONS = [
    *DISTRIBUTION_OPTIONS,
    click.option(
        "--above", type=float, metavar="NUMBER", help="Of forecasts: the event is a number above this.  [or in --costs]"
    ),
]
#: Options of probabilities that say nothing of forecasts.
_OF_CLASSES = ("score", "classes", "positive")


class ForecastRequest(NamedTuple):
    """What options say of forecasts, and the number above which the event is."""

    columns: ForecastOptions
    above: float | None

    def problem(self, given: Problem) -> Problem:
        """Return the problem with its threshold, of losses that go by a number."""
        from calibrant.decisions import Problem

        if self.above is None:
            if not given.is_of_number:
                raise InvalidInputError(
                    'losses of forecasts go by a number. Pass --above NUMBER, or give the file of losses "thresholds": '
                    "[NUMBER, ...]."
                )
            return given
        if given.is_of_number or given.table is None or given.table.shape[1] != 2:
            raise InvalidInputError(
                "--above is for losses of two classes without thresholds of their own. Leave it out."
            )
        how: dict[str, Any] = {"do_nothing": given.do_nothing, "capacity": given.capacity or None}
        return Problem(given.table, actions=given.actions, thresholds=self.above, **how)


def forecast_request(options: dict[str, Any]) -> ForecastRequest | None:
    """Take what options say of forecasts; None where they name none, so that the rows have probabilities."""
    given = {each.name: options.pop(each.name) for each in fields(ForecastOptions)}
    above = options.pop("above")
    if not any(given.values()):
        if above is not None:
            raise InvalidInputError("--above is for forecasts. Name their columns: --mean mu --std sigma.")
        return None
    for name in _OF_CLASSES:
        if options.get(name):
            raise InvalidInputError(
                f"--{name} is for probabilities, and --mean, --quantiles or --samples for forecasts."
            )
    if options.get("missing", "error") != "error":
        raise InvalidInputError(
            "--missing is for probabilities. Leave it out: forecasts that lack a value are refused."
        )
    columns = ForecastOptions(**given)
    columns.check()
    return ForecastRequest(columns, above)


def labelled(request: ForecastRequest, options: Mapping[str, Any], beside: Mapping[str, str | None]) -> ForecastRows:
    """Read forecasts with what came of them, recalibrated if options say so; `beside` names other columns by role."""
    from dataclasses import asdict, replace

    known = {name: options[name] for name in ("weight", "cluster", "time", "label_end", "format", "table")}
    rows = read_forecasts(options["file"], outcome=options["label"], extra=beside, **known, **asdict(request.columns))
    if options["calibrator"] is None:
        return rows
    return replace(rows, forecast=load_recalibrator(options["calibrator"]).transform(rows.forecast))


def rows_above(request: ForecastRequest, options: Mapping[str, Any]) -> tuple[Rows, dict[str, Any], str]:
    """Read the probabilities that forecasts give a number above one; what was read as plain values, and in a line."""
    from calibrant.decisions import Problem, read_decided

    if request.above is None:
        raise InvalidInputError("a curve is of an event. Pass --above NUMBER: the event is a number above it.")
    problem = Problem.two_actions(false_positive=1.0, false_negative=1.0, thresholds=request.above)
    found = labelled(request, options, {})
    rows = read_decided(found.y, found.forecast, problem, **found.known).rows
    facts = {"file": found.file, "n": found.y.size, "columns": found.columns, "above": request.above}
    return rows, facts, f"{found.describe()}, above {request.above:g}"


def unlabelled(
    request: ForecastRequest, file: str, format: FormatLike, beside: list[str], table: str | None = None
) -> tuple[Forecast, pa.Table, dict[str, Any]]:
    """Read forecasts without outcomes, a table that has the columns beside them, and what was read, by option."""
    from calibrant.tables import open_rows

    opened = open_rows(file, format=format, table=table)
    columns = request.columns.select(opened)
    found = opened.read(list(dict.fromkeys([*columns.names, *opened.select(beside)])))
    forecast = columns.of_columns(lambda name: number_column(found, name, opened.name))
    return forecast, found, columns.to_dict()


def fitted_rows(request: ForecastRequest, options: Mapping[str, Any], problem: Problem) -> CalibrationRows:
    """Read the forecasts with outcomes that a promise is corrected by."""
    from calibrant.decisions import CalibrationRows
    from calibrant.tables import format_of_other, open_rows, refuse_missing

    file = options["fitted_to"]
    layout = format_of_other(file, options["format"])
    names = open_rows(file, format=layout).names
    cluster = options["cluster"] if options["cluster"] in names else None
    beside = [options["label"], *problem.cost_columns, *([] if cluster is None else [cluster])]
    forecast, found, _ = unlabelled(request, file, layout, beside)
    refuse_missing(found, file, {}, hint="Drop these rows first.")
    return CalibrationRows(
        forecast,
        number_column(found, options["label"], file),
        cluster=None if cluster is None else found.column(cluster),
        costs=costs_of(found, problem, file),
    )


def costs_of(found: pa.Table, problem: Problem, where: str) -> dict[str, Any] | None:
    """Return the columns of costs that a problem names, checked."""
    from calibrant.tables import check_numbers

    for name in problem.cost_columns:
        check_numbers(found.column(name), called(name, where))
    return {name: found.column(name) for name in problem.cost_columns} or None


def load_recalibrator(file: str) -> Recalibrator:
    """Load what makes better forecasts of forecasts."""
    from calibrant import persistence
    from calibrant.forecasts import Recalibrator

    return persistence.load_as(Recalibrator, file)
