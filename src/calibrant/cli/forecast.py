"""calibrant forecast: forecasts of a number in a file, how good they are, and what makes them better."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli.evaluate import as_table
from calibrant.cli.examples import Command, ExamplesMixin
from calibrant.cli.forecast_apply import apply_command
from calibrant.cli.forecast_columns import forecast_options, read_forecasts
from calibrant.cli.forecast_fit import fit_command
from calibrant.cli.forecast_report import report_command
from calibrant.cli.gates import check_gates, parse_gates
from calibrant.cli.output import notes, write_json
from calibrant.forecasts import evaluate


class Group(ExamplesMixin, click.Group):
    """A group of commands with examples."""


@click.group(
    "forecast",
    cls=Group,
    examples=[
        "calibrant forecast evaluate forecasts.parquet --mean mu --std sigma",
        "calibrant forecast fit forecasts.parquet --mean mu --std sigma -o recalibrator.json",
        "calibrant forecast apply recalibrator.json new.parquet -o out.parquet",
        "calibrant forecast report forecasts.csv --quantiles 'q*' -o report.html",
    ],
)
def command() -> None:
    """Measure and recalibrate forecasts of a number: normal distributions, quantiles or samples in columns."""


for each in (fit_command, apply_command, report_command):
    command.add_command(each)


@command.command(
    "evaluate",
    cls=Command,
    short_help="Measure how good forecasts are.",
    examples=[
        "calibrant forecast evaluate forecasts.parquet --outcome y --mean mu --std sigma",
        "calibrant forecast evaluate forecasts.csv --quantiles 'q*' --max crps=0.4",
        "calibrant forecast evaluate draws.parquet --samples 'draw_*' --json",
    ],
)
@click.argument("file")
@forecast_options(outcomes=True)
@click.option("--coverage", default=0.9, show_default=True, metavar="SHARE", help="Level of the scored intervals.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of the scores' intervals.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of simulated intervals."
)
@click.option(
    "--evaluated-on", default="given data", metavar="TEXT", help='What the rows are, such as "held-out, May".'
)
@click.option("--max", "at_most", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is above.")
@click.option("--min", "at_least", multiple=True, metavar="NAME=VALUE", help="Exit 1 if the metric is below.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def evaluate_command(
    ctx: click.Context,
    /,
    coverage: float,
    level: float,
    seed: int,
    evaluated_on: str,
    at_most: tuple[str, ...],
    at_least: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Measure how good the forecasts in FILE are, with intervals and a verdict.

    FILE is Parquet, CSV or JSON lines, or - for standard input. Forecasts are normal distributions (--mean and
    --std), quantiles, or samples, in columns beside the outcome.

    Each gap is shown beside its noise floor: what it would be on average if the forecasts were right.

    --max and --min make it a gate: exit 1 if a metric is out of bounds, or not defined.
    """
    gates = parse_gates("max", at_most) + parse_gates("min", at_least)
    rows = read_forecasts(**options)
    scores = evaluate(
        rows.forecast,
        rows.y,
        sample_weight=rows.weight,
        interval_level=coverage,
        level=level,
        rng=seed,
        evaluated_on=evaluated_on,
    )
    check_gates(gates, scores)
    if as_json:
        document: dict[str, Any] = {"file": rows.file, "n": rows.y.size, "columns": rows.columns, **scores.to_dict()}
        if gates:
            document["gates"] = [gate.result(scores) for gate in gates]
        write_json(document)
    else:
        click.echo(f"{rows.describe()}; {evaluated_on}\n\n{scores.verdict}\n")
        click.echo(as_table(scores))
        for note in notes(scores):
            click.echo(note)
    is_failed = False
    for gate in gates:
        passed = gate.passes(scores[gate.metric].value)
        is_failed |= not passed
        if not passed or not as_json:
            click.echo(gate.describe(scores), err=not passed)
    ctx.exit(1 if is_failed else 0)
