"""calibrant decide: what decisions on the probabilities or forecasts in a file cost, promised and checked."""

from __future__ import annotations

from collections.abc import Mapping
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import common
from calibrant.cli.costs import COST_OPTIONS, read_in_memory, read_problem, with_costs
from calibrant.cli.data import Request
from calibrant.cli.decide_curve import curve_command, net_benefits
from calibrant.cli.decide_experiment import experiment_command
from calibrant.cli.decide_forecasts import (
    FORECAST_OPTIONS,
    ForecastRequest,
    forecast_request,
    labelled,
)
from calibrant.cli.decide_promise import promise_command, promised_by
from calibrant.cli.evaluate import as_table
from calibrant.cli.gates import check_gates, gate_options, gate_results, judge, parse_gates
from calibrant.cli.table_options import data_options
from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.phrases import bracketed, figure, shorten

if TYPE_CHECKING:
    from calibrant.decisions import Decided, DecisionScores
    from calibrant.results import Score

#: Width of a table of parts without their names, and letters of these at least.
_FIGURES_WIDTH, _LEAST_WIDTH = 62, 8


@click.group(
    "decide",
    cls=common.Group,
    examples=[
        "calibrant decide evaluate scores.parquet --false-positive 1 --false-negative 4",
        "calibrant decide promise new.csv --costs costs.json --calibrator c.json --fitted-to old.csv",
        "calibrant decide curve scores.parquet --min net_benefit@0.2=0.05",
        "calibrant decide evaluate forecasts.csv --mean mu --std sigma --costs staff.json",
    ],
)
def command() -> None:
    """Promise what decisions on probabilities or forecasts will cost, and check what they did cost."""


command.add_command(promise_command)
command.add_command(curve_command)
command.add_command(experiment_command)


@command.command(
    "evaluate",
    short_help="Check what decisions cost against what was promised.",
    examples=[
        "calibrant decide evaluate scores.parquet --label y --score p --false-positive 1 --false-negative 4",
        "calibrant decide evaluate scores.csv --score 'p_*' --costs costs.json --group city --json",
        "calibrant decide evaluate scores.csv --costs costs.json --max gap=0.02 --max regret=0.05",
        "calibrant decide evaluate forecasts.csv --mean mu --std sigma --costs staff.json",
    ],
)
@data_options("positive", "input", "calibrator", "dependence", "missing")
@common.with_options([*COST_OPTIONS, *FORECAST_OPTIONS])
@click.option("--fitted-to", metavar="FILE", help="What the calibrator was fitted to, or other rows with outcomes.")
@click.option("--group", metavar="COLUMN", help="Also measure each group of rows that the column names.")
@common.level_option()
@gate_options
@click.pass_context
def evaluate_command(ctx: click.Context, /, level: float, evaluated_on: str, as_json: bool, **options: Any) -> None:
    """Measure what decisions on the probabilities or forecasts in FILE cost, and what was promised.

    Each row gets the action of least expected loss. Losses are those of --costs, or of a wrong yes and a wrong no.
    Those of forecasts go by the number of --label: whether it is --above one, or by the "thresholds" of --costs.

    realised is the mean loss per row, promised what the predictions expected, gap the one less the other; regret is
    what the best policy of the same kind would have saved. With --fitted-to, promised is what calibrant decide promise
    says of these rows, and the gap allows for the error of the calibration.

    --max and --min make it a gate: exit 1 if a metric is out of bounds. net_benefit@0.2 is one too, of two classes.
    """
    from calibrant.decisions import evaluate_decided
    from calibrant.tables import SKIP_HINT
    from calibrant.validation import check_fraction

    gates = parse_gates(options.pop("at_most"), options.pop("at_least"))
    level, group, forecasts = check_fraction("level", level), options["group"], forecast_request(options)
    fitted_to, given = options.pop("fitted_to"), dict(options)
    if fitted_to is not None:
        _check_promised(given)
    try:
        decided, facts, said = _decided(options) if forecasts is None else _decided_forecasts(forecasts, options)
    except CalibrantError as error:
        if fitted_to is None:
            raise
        raise type(error)(str(error).replace(SKIP_HINT, "Drop these rows first.")) from None
    rows, policy = decided.rows, decided.policy
    promise = None if fitted_to is None else promised_by({**given, "fitted_to": fitted_to}, forecasts, "rows", level)[0]
    scores = evaluate_decided(decided, promise=promise, level=level, evaluated_on=evaluated_on)
    gated: Mapping[str, Score] = {**scores, **net_benefits(gates, rows, level, evaluated_on)}
    check_gates(gates, gated)
    if as_json:
        actions = {"actions": list(policy.actions)}
        common.write_json(facts | actions | scores.to_dict() | gate_results(gates, gated))
    else:
        common.echo(f"{said}; {evaluated_on}\n\n{scores.verdict}\n")
        common.echo(as_table(scores))
        _show_parts(scores, group)
    ctx.exit(judge(gates, gated, as_json=as_json))


def _check_promised(options: dict[str, Any]) -> None:
    """Refuse options of reading rows that a promise, which has no labels to read, can't go by."""
    for name in ("input", "missing", "weight", "time", "label_end", "positive", "classes"):
        if options[name] not in (None, "error"):
            raise InvalidInputError(f"--{name.replace('_', '-')} doesn't go with --fitted-to. Leave one of them out.")


def _decided(options: dict[str, Any]) -> tuple[Decided, dict[str, Any], str]:
    """Read and decide rows of probabilities; return them, what was read as plain values, and in a line."""
    from calibrant.decisions import Policy, decide_rows

    problem, threshold, per = read_problem(options)
    problem.check_of_classes()
    found, beside = read_in_memory(with_costs(Request(**options), problem, per))
    policy = Policy(problem.in_order(found.rows.classes.tolist()), threshold=threshold)
    of_per = None if per is None else beside.column(per)
    decided = decide_rows(policy, found.rows, beside if problem.needs_costs else None, of_per)
    return decided, found.columns.facts(found.n_read), found.describe()


def _decided_forecasts(request: ForecastRequest, options: dict[str, Any]) -> tuple[Decided, dict[str, Any], str]:
    """Read and decide rows of forecasts."""
    from calibrant.decisions import Policy, read_decided

    given, threshold, per = read_problem(options)
    problem = request.problem(given)
    costs = {f"costs.{name}": name for name in problem.cost_columns}  # one may be called as an option is
    rows = labelled(request, options, {"per": per, "group": options["group"], **costs})
    beside = {name: rows.extra.get(name) for name in ("per", "group")}
    decided = read_decided(
        rows.y,
        rows.forecast,
        Policy(problem, threshold=threshold),
        groups=beside["group"],
        per=beside["per"],
        costs={name: rows.numbers(key) for key, name in costs.items()} or None,
        **rows.known,
    )
    return decided, {"file": rows.file, "n": rows.y.size, "columns": rows.columns}, rows.describe()


def _show_parts(scores: DecisionScores, group: str | None) -> None:
    """Print a table of the actions, and one of the groups."""
    parts: list[tuple[str, Mapping[Any, Mapping[str, Score]]]] = [("action", scores.by_action)]
    parts += [(group, scores.by_group)] if group is not None else []
    widest = max(_LEAST_WIDTH, get_terminal_size((100, 24)).columns - _FIGURES_WIDTH)
    for name, by in parts:
        lines = []
        for part, each in by.items():
            gap = each["gap"]
            figures = [figure(each[key].value) for key in ("realised", "promised")]
            share = f"{100.0 * each['share'].value:.1f}%"
            ends = bracketed(gap.low, gap.high) or "n/a"
            lines.append((shorten(str(part), widest), share, *figures, figure(gap.value, sign=True), ends))
        level = next(iter(by.values()))["gap"].level
        header = (shorten(name, widest), "rows", "realised", "promised", "gap", f"{100 * level:.4g}% interval")
        common.echo(f"\n{common.table(header, lines)}")
