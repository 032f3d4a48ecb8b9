"""calibrant forecast: forecasts of a number in a file, how good they are, and what makes them better."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common
from calibrant.cli.completing import Names
from calibrant.cli.evaluate import as_table
from calibrant.cli.forecast_apply import apply_command
from calibrant.cli.forecast_columns import ForecastRows, forecast_options, read_forecasts
from calibrant.cli.gates import Gate, check_gates, gate_options, gate_results, judge, parse_gates
from calibrant.cli.option_texts import check_output, check_suffix
from calibrant.errors import InvalidInputError, unknown_name
from calibrant.phrases import bracketed, count, figure

if TYPE_CHECKING:
    from calibrant.forecasts import HorizonScores, Outcomes, Recalibrator

#: Options of `fit` that are parameters of some of the recalibrators.
_SETTINGS = ("algorithm", "direct_layer", "shift", "conformity")
_SHOWN = (
    *("crps", "log_score", "coverage", "sharpness"),
    *("average_calibration_error", "threshold_calibration_error", "reliability_gap"),
)
#: One row in so many is held out, if there are this many rows with weight.
_PARTS = 5
_LEAST = 50
_LEVEL = 0.95


_coverage_option = click.option(
    "--coverage",
    type=float,
    metavar="SHARE",
    help="Level of the scored intervals.  [default: 0.9, or of --quantiles the nearest that they give]",
)


@click.group(
    "forecast",
    cls=common.Group,
    examples=[
        "calibrant forecast evaluate forecasts.parquet --mean mu --std sigma",
        "calibrant forecast fit forecasts.parquet --mean mu --std sigma -o recalibrator.json",
        "calibrant forecast apply recalibrator.json new.parquet -o out.parquet",
        "calibrant forecast report forecasts.csv --quantiles 'q*' -o report.html",
    ],
)
def command() -> None:
    """Measure and recalibrate forecasts of a number: normal distributions, quantiles or samples in columns."""


command.add_command(apply_command)


@command.command(
    "evaluate",
    short_help="Measure how good forecasts are.",
    examples=[
        "calibrant forecast evaluate forecasts.parquet --outcome y --mean mu --std sigma",
        "calibrant forecast evaluate forecasts.csv --quantiles 'q*' --max crps=0.4",
        "calibrant forecast evaluate draws.parquet --samples 'draw_*' --json",
        "calibrant forecast evaluate steps.parquet --mean mu --std sigma --horizon step --persistence last",
    ],
)
@click.argument("file")
@forecast_options(outcomes=True)
@click.option("--horizon", metavar="COLUMN", help="How many steps ahead each is: measure each horizon, in one table.")
@click.option("--persistence", metavar="COLUMN", help="Measure skill against the last known outcome in this column.")
@_coverage_option
@click.option("--region", metavar="LOW,HIGH", help="Score the CRPS of outcomes between these too: 10, or 10,20 or ,0.")
@common.level_option("the scores' intervals")
@common.seed_option("simulated intervals")
@gate_options
@click.pass_context
def evaluate_command(
    ctx: click.Context,
    /,
    horizon: str | None,
    persistence: str | None,
    coverage: float | None,
    region: str | None,
    level: float,
    seed: int,
    evaluated_on: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure how good the forecasts in FILE are, with intervals and a verdict.

    FILE is Parquet, CSV or JSON lines, or - for standard input. Forecasts are normal distributions (--mean and
    --std), quantiles, or samples, in columns beside the outcome.

    Each gap is shown beside its noise floor: what it would be on average if the forecasts were right.

    --cluster, or --time with or without --label-end, say that rows are not independent: intervals are then wider.

    --max and --min make it a gate: exit 1 if a metric is out of bounds, or not defined; with --horizon at any of them.
    """
    from calibrant import forecasts
    from calibrant.results import Scores

    gates = parse_gates(options.pop("at_most"), options.pop("at_least"))
    rows = read_forecasts(**options, extra={"horizon": horizon, "persistence": persistence})
    forecasts.as_interval_level(coverage, rows.forecast, name="--coverage")
    how: dict[str, Any] = {**rows.known, "interval_level": coverage, "level": level, "rng": seed}
    how |= {"region": None if region is None else _region(region), "evaluated_on": evaluated_on}
    last = rows.numbers("persistence")
    reference = None if last is None else forecasts.persistence(last)
    if horizon is not None:
        steps = rows.extra["horizon"]
        found = forecasts.evaluate_horizons(rows.forecast, rows.y, steps, reference=reference, **how)
        ctx.exit(show_horizons(rows, found, gates, evaluated_on, as_json=as_json))
    scores = forecasts.evaluate(rows.forecast, rows.y, **how)
    if reference is not None:
        known: dict[str, Any] = {**rows.known, "level": level, "evaluated_on": evaluated_on}
        skill = forecasts.skill(rows.forecast, rows.y, reference, **known)
        more = [skill[name] for name in ("reference_score", "difference", "skill")]
        verdict = f"{scores.verdict} {skill.verdict}"
        scores = Scores([*scores.values(), *more], verdict=verdict, notes=scores.notes)
    covered = forecasts.coverage_of(rows.outcomes(), None, level, evaluated_on)
    check_gates(gates, scores)
    if as_json:
        read = {"file": rows.file, "n": rows.y.size, "columns": rows.columns}
        measured = {**scores.to_dict(), "coverage_by_level": covered.to_dict()}
        common.write_json({**read, **measured, **gate_results(gates, scores)})
    else:
        common.echo(common.prose(f"{rows.describe()}; {evaluated_on}\n\n{scores.verdict}\n"))
        common.echo("\n".join([*scores.notes, *([""] if scores.notes else []), as_table(scores)]))
        common.echo("\nCoverage by level:\n" + common.table(*covered.lines()))
    ctx.exit(judge(gates, scores, as_json=as_json))


@command.command(
    "fit",
    short_help="Fit a recalibrator, and save it.",
    examples=[
        "calibrant forecast fit forecasts.parquet --label y --mean mu --std sigma -o recalibrator.json",
        "calibrant forecast fit forecasts.csv --quantiles 'q*' --method average -o recalibrator.json",
        "calibrant forecast fit draws.parquet --samples 'draw_*' --method conformal -o recalibrator.json",
    ],
)
@click.argument("file")
@forecast_options(outcomes=True)
@click.option("-o", "--output", required=True, metavar="RECALIBRATOR", help="Where to save it: .json or .pkl.")
@click.option(
    "--method",
    type=Names(choices.RECALIBRATORS),
    default="threshold",
    metavar="NAME",
    help=f"{', '.join(choices.RECALIBRATORS)}.",
)
@click.option("--algorithm", metavar="NAME", help="threshold: regularised, or the paper's own.")
@click.option("--direct-layer", is_flag=True, default=None, help="threshold: add an isotonic fit per threshold.")
@click.option("--shift", is_flag=True, default=None, help="variance: move the forecasts too.")
@click.option("--conformity", metavar="NAME", help="conformal: normalised, residual or level.")
@common.seed_option("the held-out rows, folds and intervals")
def fit_command(output: str, method: str, seed: int, **options: Any) -> None:
    """Fit a recalibrator to the forecasts in FILE and what came of them, and save it.

    Give rows that the forecaster was not trained on. Prints what recalibration does to a fifth of them, by a fit to
    the others; the recalibrator that is saved is fitted to all rows. The fifth holds whole clusters with --cluster, and
    is the last with --time; no outcome is fitted to that overlaps one of it.
    """
    from calibrant import persistence

    fitted = new_recalibrator(method, common.take_params(options, _SETTINGS))
    check_output(output, options["file"])
    rows = read_forecasts(**options, hashed=True)
    with common.progress("Fitting, round", "") as advance:
        if method == "threshold":
            fitted.set_params(seed=seed, progress=None if advance is None else lambda done, *_: advance(done))
        figures = held_out_table(rows, fitted.fresh(), seed)
        fitted.fit(rows.forecast, rows.y, **rows.known)
    metadata = {"outcome": rows.outcome, "columns": rows.found.to_dict()}
    assert rows.row_hash is not None  # noqa: S101 - as was asked
    known = persistence.Provenance.of_hash(rows.row_hash, source=common.source_name(options["file"]))
    persistence.save(fitted, output, metadata=metadata, provenance=known)
    common.echo(rows.describe())
    what, *more = [*fitted.describe(), ""]
    common.echo(f"Fitted {method} on {count(fitted.n_rows_, 'row')}{f': {what}' if what else ''}.")
    common.echo("\n".join([*filter(None, more), ""]))
    common.echo(figures)
    common.echo(f"\nSaved {output}")
    suffix = Path(rows.file).suffix or ".csv"
    common.echo(f"Next:  calibrant forecast apply {shlex.quote(output)} new{suffix} -o out{suffix}")


@command.command(
    "report",
    short_help="Write a page, before and after.",
    examples=[
        "calibrant forecast report forecasts.parquet --mean mu --std sigma -o report.html",
        "calibrant forecast report new.csv --quantiles 'q*' --recalibrator recalibrator.json -o report.html",
    ],
)
@click.argument("file")
@forecast_options(outcomes=True)
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write: .html or .json.")
@click.option("--recalibrator", metavar="FILE", help="Show the forecasts as this saved recalibrator makes them too.")
@click.option("--title", default="Forecast report", metavar="TEXT", help="Heading of the page.")
@_coverage_option
@common.level_option("the scores' intervals")
@common.seed_option("simulated intervals")
def report_command(
    output: str, recalibrator: str | None, title: str, coverage: float | None, level: float, seed: int, **options: Any
) -> None:
    """Write a report of the forecasts in FILE: verdict, scores beside their noise floors, and where they are off.

    Give rows that the recalibrator was not fitted to. A page of HTML stands alone: it fetches nothing, and is
    whole where its one small script, which sorts tables, may not run. The same data give the same bytes.
    """
    from calibrant import persistence
    from calibrant.forecasts import Recalibrator, as_interval_level
    from calibrant.report import ForecastReport

    check_suffix(output, ".html", ".htm", ".json")
    check_output(output, options["file"], recalibrator)
    fitted = None if recalibrator is None else persistence.load_as(Recalibrator, recalibrator)
    rows = read_forecasts(**options)
    as_interval_level(coverage, rows.forecast, name="--coverage")
    how: dict[str, Any] = {**rows.known, "interval_level": coverage, "level": level, "rng": seed}
    report = ForecastReport(rows.forecast, rows.y, recalibrator=fitted, title=title, source=rows.file, **how)
    common.write_page(report, output)
    common.echo(f"Wrote {output}")


def show_horizons(
    rows: ForecastRows, found: HorizonScores, gates: Sequence[Gate], evaluated_on: str, *, as_json: bool
) -> int:
    """Print what was measured of each horizon; return the exit code, 1 where a gate fails at any."""
    first = next(iter(found.by_horizon.values()))
    check_gates(gates, first)
    if as_json:
        read = {"file": rows.file, "n": rows.y.size, "columns": rows.columns}
        document = {**read, **found.to_dict()}
        for part, scores in zip(document["horizons"], found.by_horizon.values(), strict=True):
            part |= gate_results(gates, scores)
        common.write_json(document)
    else:
        common.echo(common.prose(f"{rows.describe()}; {evaluated_on}\n\n{found.verdict}\n"))
        common.echo("\n".join([*first.notes, common.table(*found.lines())]))
    codes = []
    for horizon, scores in found.by_horizon.items():
        if gates and not as_json:
            common.echo(f"Horizon {horizon}:")
        codes.append(judge(gates, scores, as_json=as_json))
    return max(codes)


def _region(given: str) -> tuple[float | None, float | None]:
    """Read the ends of a region; an empty one is open."""
    parts = [part.strip() for part in given.split(",")]
    try:
        low, high = (float(part) if part else None for part in [*parts, ""][:2])
    except ValueError:
        low, high = None, None
    if len(parts) > 2 or (low is None and high is None):
        raise InvalidInputError(f"--region {given!r} are not the ends of a region. Write them so: --region 10,20.")
    return low, high


def new_recalibrator(method: str, params: dict[str, Any]) -> Recalibrator:
    """Return an unfitted recalibrator, or say which option its method doesn't take."""
    from calibrant.forecasts import RECALIBRATORS

    if method not in RECALIBRATORS:
        raise unknown_name("method", method, RECALIBRATORS)
    own = RECALIBRATORS[method].param_names()
    common.check_taken(method, params, [name for name in _SETTINGS if name in own])
    return RECALIBRATORS[method](**params)


def held_out_table(rows: ForecastRows, recalibrator: Recalibrator, seed: int) -> str:
    """Return what held-out forecasts are worth, before and after a recalibration that has not seen them."""
    from calibrant.forecasts import (
        as_interval_level,
        crps_change,
        recalibration_advice,
        scores_and_judgement,
    )
    from calibrant.validation import as_generator

    counted = rows.outcomes()
    if len(counted) < _LEAST:
        return f"No held-out figures: fewer than {_LEAST} rows."
    used, before = _held_out(counted, seed)
    if used.dependence.is_one or before.dependence.is_one:
        return f"No held-out figures: a {_PARTS}th of the rows is of one cluster or time, or leaves one."
    kept = used.dependence
    known: dict[str, Any] = {"cluster": kept.cluster, "time": kept.time, "label_end": kept.label_end}
    recalibrator.fit(used.forecast, used.y, sample_weight=used.weight, **known)
    after = replace(before, forecast=recalibrator.transform(before.forecast))
    coverage = as_interval_level(None, before.forecast)
    judged = [scores_and_judgement(each, coverage, _LEVEL, as_generator(seed), "held-out") for each in (before, after)]
    found = [scores for scores, _ in judged]
    lines = []
    for name in _SHOWN:
        if all(name in scores for scores in found):
            cells = [(figure(s[name].value), bracketed(s[name].low, s[name].high)) for s in found]
            lines.append([name, *(text for pair in cells for text in pair)])
    n_left = len(counted) - len(before) - len(used)
    others = f"the other {len(used):,}" if not n_left else f"{len(used):,} that none of their outcomes overlaps"
    ends = f"{100 * _LEVEL:g}% interval"
    change = crps_change(before, after, _LEVEL)
    was, now = (judgement.verdict.state for _, judgement in judged)
    advice = recalibration_advice(was, now, change, _LEVEL)
    paired = f"crps, after less before: {change.value:+z.4f} {bracketed(change.low, change.high)}, paired by row"
    return "\n".join(
        [
            f"Held out ({count(len(before), 'row')}, recalibrated by a fit to {others}):",
            common.table(["metric", "before", ends, "after", ends], lines),
            *([paired] if math.isfinite(change.value) else []),
            f"{advice.headline}.",
            *(f"before, {note}" for note in common.notes(found[0]) if note.split(":")[0] in _SHOWN),
        ]
    )


def _held_out(rows: Outcomes, seed: int) -> tuple[Outcomes, Outcomes]:
    """Return the rows to fit to and those held out: one in five at random, of whole clusters, or the last in time."""
    import numpy as np

    if rows.dependence:
        folds = rows.dependence.folds(_PARTS, seed)
        last = int(folds.max())
        return rows.fitted_without(folds, last), rows.take(folds == last)
    mixed = np.random.default_rng(seed).permutation(len(rows))
    tested, used = (np.sort(part) for part in np.split(mixed, [len(rows) // _PARTS]))
    return rows.take(used), rows.take(tested)
