"""calibrant decide promise: what decisions will cost, before outcomes are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from calibrant.cli import common
from calibrant.cli.costs import COST_OPTIONS, read_problem
from calibrant.cli.decide_forecasts import (
    FORECAST_OPTIONS,
    ForecastRequest,
    costs_of,
    fitted_rows,
    forecast_request,
    load_recalibrator,
    unlabelled,
)
from calibrant.cli.option_texts import called, split_names
from calibrant.cli.table_options import format_options
from calibrant.errors import InvalidLabelError, InvalidScoreError
from calibrant.phrases import bracketed, count, figure, quoted

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.decisions import CalibrationRows, Problem
    from calibrant.fitted import Fitted
    from calibrant.results import Score

_ABOUT = ("future", "rows")


class ToPromise(NamedTuple):
    """What a promise goes by: rows without outcomes, their columns by option, and what corrects it."""

    problem: Problem
    table: pa.Table
    predictions: Any
    columns: dict[str, Any]
    calibrator: Any
    fitted_to: CalibrationRows | None
    per: str | None


@click.command(
    "promise",
    cls=common.Command,
    short_help="Say what decisions will cost, before outcomes are known.",
    examples=[
        "calibrant decide promise new.csv --score p --false-positive 1 --false-negative 4",
        "calibrant decide promise new.csv --costs costs.json --calibrator c.json --fitted-to old.csv --label y",
    ],
)
@click.argument("file")
@click.option("--score", multiple=True, metavar="COLUMNS", help="Column of the scores, or one per class.  [default: p]")
@format_options
@common.with_options(COST_OPTIONS)
@common.with_options(FORECAST_OPTIONS)
@click.option("--calibrator", metavar="CALIBRATOR", help="What makes probabilities of the scores, or recalibrates.")
@click.option("--fitted-to", metavar="FILE", help="The rows that it was fitted to, or others with outcomes.")
@click.option("--label", default="y", metavar="COLUMN", help="Column of the labels, or numbers, of --fitted-to.")
@click.option("--cluster", metavar="COLUMN", help="What rows that are not independent share: a patient.")
@click.option("--about", default="future", metavar="WHAT", help="future: rows to come; rows: what these will show.")
@common.level_option("the interval")
@common.json_option
def promise_command(**options: Any) -> None:
    """Say what decisions on the probabilities or forecasts in FILE will cost per row, without outcomes.

    With --fitted-to the promise is corrected by what promises were off by on rows with outcomes, and its interval
    carries how sure that is. Without it the predictions are taken for calibrated.
    """
    from calibrant.validation import check_choice

    as_json, about, level = options["as_json"], options["about"], options["level"]
    check_choice("about", about, _ABOUT)
    found, of = promised_by(options, forecast_request(options), about, level)
    table, columns = of.table, of.columns
    if as_json:
        columns = {**columns, "cluster": options["cluster"], "per": of.per}
        document = {"file": options["file"], "n": table.num_rows, "columns": columns, "about": about}
        common.write_json(document | {"actions": list(of.problem.actions), "scores": {found.name: found.to_dict()}})
        return
    named = "; ".join(f"{key} {value if isinstance(value, str) else quoted(value)}" for key, value in columns.items())
    if "score" in columns and len(columns["score"]) == 1 and of.problem.classes is not None:
        named += f"; {of.problem.classes[1]!r} is the positive class"
    common.echo(f"{options['file']}: {count(table.num_rows, 'row')}, {named}\n")
    of_which = "of rows to come" if about == "future" else "of these rows"
    common.echo(f"Decisions are expected to cost {figure(found.value)} a row, {of_which}.\n")
    ends = bracketed(found.low, found.high) or "n/a"
    common.echo(
        common.table(
            ("score", "value", f"{100 * level:g}% interval", "n"),
            [(found.name, figure(found.value), ends, f"{found.n:,}")],
        )
    )
    common.echo(f"{found.note.replace('fitted_to=', '--fitted-to')}\ninterval: {found.method}")


def promised_by(
    options: dict[str, Any], forecasts: ForecastRequest | None, about: Literal["future", "rows"], level: float
) -> tuple[Score, ToPromise]:
    """Return what decisions on probabilities or forecasts are expected to cost, and what that goes by."""
    from calibrant.decisions import Policy, expected_loss

    problem, threshold, per = read_problem(options)
    if forecasts is None:
        of = _promised_rows(options, problem, per)
    else:
        of = _promised_forecasts(forecasts, options, problem, per)
    named = {"cluster": options["cluster"], "per": per}
    known: dict[str, Any] = {key: None if name is None else of.table.column(name) for key, name in named.items()}
    known |= {"costs": of.table if of.problem.needs_costs else None, "about": about, "level": level}
    policy = Policy(of.problem, threshold=threshold)
    return expected_loss(of.predictions, policy, calibrator=of.calibrator, fitted_to=of.fitted_to, **known), of


def _promised_rows(options: dict[str, Any], problem: Problem, per: str | None) -> ToPromise:
    """Read what a promise on probabilities goes by."""
    from calibrant import persistence
    from calibrant.fitted import Fitted

    problem.check_of_classes()
    calibrator = None if options["calibrator"] is None else persistence.load_as(Fitted, options["calibrator"])
    table, scores, names = _unlabelled(options["file"], options, problem, calibrator, per)
    fitted_to = None
    if options["fitted_to"] is not None:
        fitted_to = _fit_rows(options, problem, calibrator, names)
    return ToPromise(problem, table, scores, {"score": names}, calibrator, fitted_to, per)


def _promised_forecasts(
    request: ForecastRequest, options: dict[str, Any], given: Problem, per: str | None
) -> ToPromise:
    """Read what a promise on forecasts goes by."""
    problem = request.problem(given)
    beside = [*problem.cost_columns, *(name for name in (per, options["cluster"]) if name is not None)]
    forecast, table, columns = unlabelled(request, options["file"], options["format"], beside, options["table"])
    costs_of(table, problem, options["file"])
    calibrator = None if options["calibrator"] is None else load_recalibrator(options["calibrator"])
    fitted_to = None if options["fitted_to"] is None else fitted_rows(request, options, problem)
    return ToPromise(problem, table, forecast, columns, calibrator, fitted_to, per)


def _unlabelled(
    file: str, options: dict[str, Any], problem: Problem, calibrator: Fitted | None, per: str | None
) -> tuple[pa.Table, Any, list[str]]:
    """Read scores without labels, and what stands beside them."""
    from calibrant.tables import check_numbers, open_rows, refuse_missing

    source = open_rows(file, format=options["format"], table=options["table"])
    own = list(calibrator.score_names_ or ()) if calibrator is not None else []
    names = source.select(split_names(options["score"], source.names) or own or ["p"])
    beside = [*problem.cost_columns, *(name for name in (per, options["cluster"]) if name is not None)]
    table = source.read(list(dict.fromkeys([*names, *source.select(beside)])))
    for name in names:
        check_numbers(table.column(name), called(name, source.name))
    refuse_missing(table, source.name, dict.fromkeys(names, InvalidScoreError), hint="Drop these rows first.")
    return table, table.column(names[0]) if len(names) == 1 else table.select(names), names


def _fit_rows(
    options: dict[str, Any], problem: Problem, calibrator: Fitted | None, names: Sequence[str]
) -> CalibrationRows:
    """Read the rows with outcomes that a promise is corrected by."""
    from calibrant.decisions import CalibrationRows
    from calibrant.tables import format_of_other, open_rows, refuse_missing

    layout = format_of_other(options["fitted_to"], options["format"])
    with_label = {**options, "score": tuple(names), "format": layout, "table": None, "cluster": None}
    table, scores, _ = _unlabelled(options["fitted_to"], with_label, problem, calibrator, None)
    source = open_rows(options["fitted_to"], format=layout)
    (label,) = source.select([options["label"]])
    cluster = options["cluster"] if options["cluster"] in source.names else None
    more = source.read([label, *([] if cluster in (None, label) else [cluster])])
    refuse_missing(more, source.name, {label: InvalidLabelError}, hint="Drop these rows first.")
    return CalibrationRows(
        scores,
        more.column(label),
        cluster=None if cluster is None else more.column(cluster),
        costs=table if problem.needs_costs else None,
    )
