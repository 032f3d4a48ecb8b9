"""calibrant decide curve: net benefit over thresholds, costs over cost ratios, or risk over coverage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import common
from calibrant.cli.costs import read_in_memory
from calibrant.cli.data import Request
from calibrant.cli.decide_forecasts import FORECAST_OPTIONS, forecast_request, rows_above
from calibrant.cli.gates import Gate, check_gates, gate_options, gate_results, judge, parse_gates
from calibrant.cli.option_texts import split_list
from calibrant.cli.table_options import data_options
from calibrant.errors import InvalidInputError
from calibrant.phrases import bracketed, figure

if TYPE_CHECKING:
    from calibrant.numerics import FloatArray
    from calibrant.results import Score
    from calibrant.rows import Rows

#: What gates call the net benefit at a threshold, before the threshold.
_NET_BENEFIT = "net_benefit@"
#: Thresholds of a curve that a table shows where none are named.
_THRESHOLDS = "0.05,0.1,0.15,0.2,0.25,0.3,0.4,0.5,0.6,0.7,0.8"
_CURVES = ("decision", "cost", "risk")


@click.command(
    "curve",
    cls=common.Command,
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
        found, _ = read_in_memory(Request(**options))
        rows, facts, said = found.rows, found.columns.facts(found.n_read), found.describe()
    else:
        rows, facts, said = rows_above(forecasts, options)
    curve, header, lines, gated = _curve(kind, rows, _numbers(thresholds), level)
    gated |= net_benefits(gates, rows, level, evaluated_on)
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


def net_benefits(gates: Sequence[Gate], rows: Rows, level: float, evaluated_on: str) -> dict[str, Score]:
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
