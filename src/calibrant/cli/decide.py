"""calibrant decide: what decisions on the probabilities or forecasts in a file cost, promised and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from calibrant.cli import common
from calibrant.cli.costs import COST_OPTIONS, cost_columns, read_problem, read_with_costs
from calibrant.cli.data import FileRows, Request
from calibrant.cli.decide_experiment import experiment_command
from calibrant.cli.decide_forecasts import (
    FORECAST_OPTIONS,
    ForecastRequest,
    costs_of,
    fitted_rows,
    forecast_request,
    labelled,
    load_recalibrator,
    rows_above,
    unlabelled,
)
from calibrant.cli.evaluate import as_table
from calibrant.cli.gates import Gate, check_gates, gate_options, gate_results, judge, parse_gates
from calibrant.cli.option_texts import called, split_list, split_names
from calibrant.cli.table_options import data_options, format_options
from calibrant.errors import InvalidInputError, InvalidScoreError
from calibrant.phrases import bracketed, count, figure, quoted, shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.decisions import CalibrationRows, Decided, DecisionScores, Problem
    from calibrant.fitted import Fitted
    from calibrant.numerics import FloatArray
    from calibrant.results import Score
    from calibrant.rows import Rows

#: What gates call the net benefit at a threshold, before the threshold.
_NET_BENEFIT = "net_benefit@"
#: Width of a table of parts without their names, and letters of these at least.
_FIGURES_WIDTH, _LEAST_WIDTH = 62, 8
#: Thresholds of a curve that a table shows where none are named.
_THRESHOLDS = "0.05,0.1,0.15,0.2,0.25,0.3,0.4,0.5,0.6,0.7,0.8"
_CURVES = ("decision", "cost", "risk")
_ABOUT = ("future", "rows")


class _ToPromise(NamedTuple):
    """What a promise goes by: rows without outcomes, their columns by option, and what corrects it."""

    problem: Problem
    table: pa.Table
    predictions: Any
    columns: dict[str, Any]
    calibrator: Any
    fitted_to: CalibrationRows | None


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
@click.option("--group", metavar="COLUMN", help="Also measure each group of rows that the column names.")
@common.level_option()
@gate_options
@click.pass_context
def evaluate_command(ctx: click.Context, /, level: float, evaluated_on: str, as_json: bool, **options: Any) -> None:
    """Measure what decisions on the probabilities or forecasts in FILE cost, and what was promised.

    Each row gets the action of least expected loss. Losses are those of --costs, or of a wrong yes and a wrong no.
    Those of forecasts go by the number of --label: whether it is --above one, or by the "thresholds" of --costs.

    realised is the mean loss per row, promised what the probabilities expected, gap the one less the other; regret is
    what the best policy of the same kind would have saved.

    --max and --min make it a gate: exit 1 if a metric is out of bounds. net_benefit@0.2 is one too, of two classes.
    """
    from calibrant.decisions import evaluate_decided
    from calibrant.validation import check_fraction

    gates = parse_gates(options.pop("at_most"), options.pop("at_least"))
    group, forecasts = options["group"], forecast_request(options)
    decided, facts, said = _decided(options) if forecasts is None else _decided_forecasts(forecasts, options)
    rows, policy = decided.rows, decided.policy
    scores = evaluate_decided(decided, level=check_fraction("level", level), evaluated_on=evaluated_on)
    gated: Mapping[str, Score] = {**scores, **_net_benefits(gates, rows, level, evaluated_on)}
    check_gates(gates, gated)
    if as_json:
        actions = {"actions": list(policy.actions)}
        common.write_json(facts | actions | scores.to_dict() | gate_results(gates, gated))
    else:
        common.echo(f"{said}; {evaluated_on}\n\n{scores.verdict}\n")
        common.echo(as_table(scores))
        _show_parts(scores, group)
    ctx.exit(judge(gates, gated, as_json=as_json))


def _decided(options: dict[str, Any]) -> tuple[Decided, dict[str, Any], str]:
    """Read and decide rows of probabilities; return them, what was read as plain values, and in a line."""
    from calibrant.decisions import Policy, decide_rows

    problem, threshold, per = read_problem(options)
    problem.check_of_classes()
    found, beside = _read(Request(**options), problem, per)
    policy = Policy(problem.in_order(found.rows.classes.tolist()), threshold=threshold)
    of_per = None if per is None else beside.column(per)
    decided = decide_rows(policy, found.rows, beside if problem.needs_costs else None, of_per)
    return decided, found.columns.facts(found.n_read), found.describe()


def _decided_forecasts(request: ForecastRequest, options: dict[str, Any]) -> tuple[Decided, dict[str, Any], str]:
    """Read and decide rows of forecasts."""
    from calibrant.decisions import Policy, read_decided

    given, threshold, per = read_problem(options)
    problem = request.problem(given)
    rows = labelled(request, options, {"per": per, "group": options["group"]} | {n: n for n in problem.cost_columns})
    beside = {name: rows.extra.get(name) for name in ("per", "group")}
    decided = read_decided(
        rows.y,
        rows.forecast,
        Policy(problem, threshold=threshold),
        groups=beside["group"],
        per=beside["per"],
        costs={name: rows.numbers(name) for name in problem.cost_columns} or None,
        **rows.known,
    )
    return decided, {"file": rows.file, "n": rows.y.size, "columns": rows.columns}, rows.describe()


@command.command(
    "promise",
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
    from calibrant.decisions import Policy, expected_loss
    from calibrant.validation import check_choice

    as_json, about, level = options["as_json"], options["about"], options["level"]
    check_choice("about", about, _ABOUT)
    forecasts = forecast_request(options)
    problem, threshold, per = read_problem(options)
    if forecasts is None:
        of = _promised_rows(options, problem, per)
    else:
        of = _promised_forecasts(forecasts, options, problem, per)
    problem, table, predictions, columns, calibrator, fitted_to = of
    found = expected_loss(
        predictions,
        Policy(problem, threshold=threshold),
        calibrator=calibrator,
        fitted_to=fitted_to,
        about=about,
        cluster=None if options["cluster"] is None else table.column(options["cluster"]),
        costs=table if problem.needs_costs else None,
        per=None if per is None else table.column(per),
        level=level,
    )
    if as_json:
        columns = {**columns, "cluster": options["cluster"], "per": per}
        document = {"file": options["file"], "n": table.num_rows, "columns": columns, "about": about}
        common.write_json(document | {"actions": list(problem.actions), "scores": {found.name: found.to_dict()}})
        return
    named = "; ".join(f"{key} {value if isinstance(value, str) else quoted(value)}" for key, value in columns.items())
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
    common.echo(f"{found.note}\ninterval: {found.method}")


def _promised_rows(options: dict[str, Any], problem: Problem, per: str | None) -> _ToPromise:
    """Read what a promise on probabilities goes by."""
    from calibrant import persistence
    from calibrant.fitted import Fitted

    problem.check_of_classes()
    calibrator = None if options["calibrator"] is None else persistence.load_as(Fitted, options["calibrator"])
    table, scores, names = _unlabelled(options["file"], options, problem, calibrator, per)
    fitted_to = None
    if options["fitted_to"] is not None:
        fitted_to = _fit_rows(options, problem, calibrator, names)
    return _ToPromise(problem, table, scores, {"score": names}, calibrator, fitted_to)


def _promised_forecasts(
    request: ForecastRequest, options: dict[str, Any], given: Problem, per: str | None
) -> _ToPromise:
    """Read what a promise on forecasts goes by."""
    problem = request.problem(given)
    beside = [*problem.cost_columns, *(name for name in (per, options["cluster"]) if name is not None)]
    forecast, table, columns = unlabelled(request, options["file"], options["format"], beside)
    costs_of(table, problem, options["file"])
    calibrator = None if options["calibrator"] is None else load_recalibrator(options["calibrator"])
    fitted_to = None if options["fitted_to"] is None else fitted_rows(request, options, problem)
    return _ToPromise(problem, table, forecast, columns, calibrator, fitted_to)


@command.command(
    "curve",
    short_help="Show net benefit over thresholds, costs over cost ratios, or risk over coverage.",
    examples=[
        "calibrant decide curve scores.parquet --label y --score p",
        "calibrant decide curve scores.csv --thresholds 0.1,0.2 --min net_benefit@0.2=0.05",
        "calibrant decide curve scores.csv --score 'p_*' --kind risk --max aurc=0.1 --json",
        "calibrant decide curve forecasts.csv --mean mu --std sigma --above 30",
    ],
)
@data_options("positive", "input", "calibrator", "dependence", "missing")
@common.with_options(FORECAST_OPTIONS)
@click.option("--kind", default="decision", metavar="NAME", help=f"{', '.join(_CURVES)}.")
@click.option("--thresholds", default=_THRESHOLDS, metavar="P,P", help="decision: thresholds.", show_default=False)
@common.level_option()
@gate_options
@click.pass_context
def curve_command(
    ctx: click.Context,
    /,
    kind: str,
    thresholds: str,
    level: float,
    evaluated_on: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure a curve over all costs of the probabilities in FILE, or those by forecasts of a number --above one.

    decision: net benefit over the threshold at which one would act, beside acting on all rows; acting on none has 0.
    cost: the expected cost of decisions over the share of it that positives have, beside the best in hindsight. risk:
    the error rate of the most confident rows, over how many these are, and its area, aurc.

    --max and --min make it a gate: exit 1 if a metric is out of bounds. Metrics are net_benefit@P, area or aurc.
    """
    from calibrant.validation import check_choice, check_fraction

    check_choice("kind", kind, _CURVES)
    gates = parse_gates(options.pop("at_most"), options.pop("at_least"))
    level = check_fraction("level", level)
    forecasts = forecast_request(options)
    if forecasts is None:
        found, _ = _read(Request(**options), None, None)
        rows, facts, said = found.rows, found.columns.facts(found.n_read), found.describe()
    else:
        rows, facts, said = rows_above(forecasts, options)
    curve, header, lines, gated = _curve(kind, rows, _numbers(thresholds), level)
    gated |= _net_benefits(gates, rows, level, evaluated_on)
    check_gates(gates, gated)
    if as_json:
        scores = {name: score.to_dict() for name, score in gated.items()}
        common.write_json(facts | {"curve": {"kind": kind, **curve}, "scores": scores} | gate_results(gates, gated))
    else:
        common.echo(f"{said}; {evaluated_on}\n")
        common.echo(common.table(header, lines, left=0))
        common.echo("\n".join(["", *map(str, gated.values())]) if gated else "")
    ctx.exit(judge(gates, gated, as_json=as_json))


def _curve(
    kind: str, rows: Rows, grid: FloatArray, level: float
) -> tuple[dict[str, Any], tuple[str, ...], list[tuple[str, ...]], dict[str, Score]]:
    """Return a curve as plain values, its table, and its scores."""
    import numpy as np

    from calibrant.decisions import cost_curve_of_rows, decision_curve_of_rows, risk_coverage_of_rows
    from calibrant.results import Score

    share = f"{100 * level:g}% interval"
    lines: list[tuple[str, ...]] = []
    if kind == "risk":
        risk = risk_coverage_of_rows(rows, level=level)
        places = np.unique(np.searchsorted(risk.coverage, np.linspace(0.1, 1.0, 10) - 1e-9))
        lines += [
            (f"{risk.coverage[i]:.3f}", figure(risk.risk[i]), bracketed(risk.low[i], risk.high[i]))
            for i in places.tolist()
        ]
        return risk.to_dict(), ("coverage", "error rate", share), lines, {"aurc": risk.aurc}
    _check_two(rows, kind)
    if kind == "cost":
        cost = cost_curve_of_rows(rows, np.linspace(0.0, 1.0, 101), level=level)
        for i in range(10, 100, 10):
            ends = bracketed(cost.low[i], cost.high[i])
            figures = (figure(cost.expected_cost[i]), ends, figure(cost.best[i]), figure(cost.trivial[i]))
            lines.append((f"{cost.probability_cost[i]:.1f}", f"{cost.threshold[i]:.3f}", *figures))
        area = Score("area", cost.area, np.nan, np.nan, level, rows.n_rows, "none")
        return (
            cost.to_dict(),
            ("cost of positives", "threshold", "cost", share, "best", "trivial"),
            lines,
            {"area": area},
        )
    curve = decision_curve_of_rows(rows, grid, level=level)
    for i, threshold in enumerate(grid.tolist()):
        ends, over = bracketed(curve.low[i], curve.high[i]), bracketed(curve.over_all_low[i], curve.over_all_high[i])
        use = "useful" if curve.is_useful[i] else ""
        lines.append((f"{threshold:g}", figure(curve.net_benefit[i]), ends, figure(curve.all[i]), over, use))
    header = ("threshold", "net benefit", share, "act on all", "more than all", "")
    return curve.to_dict(), header, lines, {}


def _read(request: Request, problem: Problem | None, per: str | None) -> tuple[FileRows, Any]:
    """Read the rows, and the columns of costs and of --per beside them, of rows with weight."""
    opened = request.open()
    if opened.is_large:
        raise InvalidInputError(
            f"{request.file} has more rows than are held in memory. Take a sample of them, or of their days."
        )
    return read_with_costs(opened, problem, per)


def _unlabelled(
    file: str, options: dict[str, Any], problem: Problem, calibrator: Fitted | None, per: str | None
) -> tuple[pa.Table, Any, list[str]]:
    """Read scores without labels, and what stands beside them."""
    from calibrant.tables import check_numbers, open_rows, refuse_missing

    source = open_rows(file, format=options["format"])
    own = list(calibrator.score_names_ or ()) if calibrator is not None else []
    names = source.select(split_names(options["score"], source.names) or own or ["p"])
    beside = [*cost_columns(problem), *(name for name in (per, options["cluster"]) if name is not None)]
    table = source.read(list(dict.fromkeys([*names, *source.select(beside)])))
    for name in names:
        check_numbers(table.column(name), called(name, source.name))
    refuse_missing(table, source.name, dict.fromkeys(names, InvalidScoreError))
    return table, table.column(names[0]) if len(names) == 1 else table.select(names), names


def _fit_rows(
    options: dict[str, Any], problem: Problem, calibrator: Fitted | None, names: Sequence[str]
) -> CalibrationRows:
    """Read the rows with outcomes that a promise is corrected by."""
    from calibrant.decisions import CalibrationRows
    from calibrant.tables import format_of_other, open_rows

    layout = format_of_other(options["fitted_to"], options["format"])
    with_label = {**options, "score": tuple(names), "format": layout, "cluster": None}
    table, scores, _ = _unlabelled(options["fitted_to"], with_label, problem, calibrator, None)
    source = open_rows(options["fitted_to"], format=layout)
    (label,) = source.select([options["label"]])
    cluster = options["cluster"] if options["cluster"] in source.names else None
    more = source.read([label, *([] if cluster in (None, label) else [cluster])])
    return CalibrationRows(
        scores,
        more.column(label),
        cluster=None if cluster is None else more.column(cluster),
        costs=table if problem.needs_costs else None,
    )


def _net_benefits(gates: Sequence[Gate], rows: Rows, level: float, evaluated_on: str) -> dict[str, Score]:
    """Measure the net benefits that gates name."""
    from calibrant.decisions import net_benefit_of_rows

    found = {}
    for name in dict.fromkeys(gate.metric for gate in gates if gate.metric.startswith(_NET_BENEFIT)):
        _check_two(rows, name)
        (threshold,) = _numbers(name.removeprefix(_NET_BENEFIT))
        score = net_benefit_of_rows(rows, float(threshold), level=level, evaluated_on=evaluated_on)
        found[name] = replace(score, name=name)
    return found


def _numbers(text: str) -> FloatArray:
    """Return thresholds that commas separate."""
    import numpy as np

    try:
        values = np.array([float(part) for part in split_list(text)])
    except ValueError:
        values = np.empty(0)
    if values.size == 0 or not np.all((values >= 0.0) & (values < 1.0)):
        raise InvalidInputError(f"{text!r} holds no thresholds in [0, 1). Write them so: 0.1,0.2.")
    return values


def _check_two(rows: Rows, what: str) -> None:
    if not rows.is_binary:
        raise InvalidInputError(
            f"{what} is of two classes, and the scores are of {rows.n_classes}. Pass the column of one class by "
            "--score, and whether a row is of it by --label."
        )


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
