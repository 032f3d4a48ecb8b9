"""calibrant forecast fit: a recalibrator from a file of forecasts and what came of them."""

from __future__ import annotations

import inspect
import math
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np

from calibrant import persistence
from calibrant.cli.data import check_output
from calibrant.cli.examples import Command
from calibrant.cli.forecast_columns import ForecastRows, forecast_options, read_forecasts
from calibrant.cli.output import count, interval, notes, number, progress, table
from calibrant.errors import InvalidInputError, unknown_name
from calibrant.forecasts import (
    AverageRecalibrator,
    ConformalRecalibrator,
    DistributionRecalibrator,
    Outcomes,
    Recalibrator,
    ThresholdRecalibrator,
    VarianceScalingRecalibrator,
    crps_change,
    scores_and_floors,
)
from calibrant.validation import as_generator

METHODS: dict[str, type[Recalibrator]] = {
    "threshold": ThresholdRecalibrator,
    "average": AverageRecalibrator,
    "distribution": DistributionRecalibrator,
    "variance": VarianceScalingRecalibrator,
    "conformal": ConformalRecalibrator,
}
#: Options of the command by the parameter of a recalibrator that they set.
_OPTIONS = {
    "algorithm": "--algorithm",
    "direct_layer": "--direct-layer",
    "shift": "--shift",
    "conformity": "--conformity",
}
_SHOWN = (
    "crps",
    "log_score",
    "coverage",
    "sharpness",
    "average_calibration_error",
    "threshold_calibration_error",
    "reliability_gap",
)
#: One row in so many is held out, if there are this many rows with weight.
_PARTS = 5
_LEAST = 50
_COVERAGE, _LEVEL = 0.9, 0.95


@click.command(
    "fit",
    cls=Command,
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
@click.option("--method", default="threshold", show_default=True, metavar="NAME", help=f"{', '.join(METHODS)}.")
@click.option("--algorithm", metavar="NAME", help="threshold: regularised, or the paper's own.")
@click.option("--direct-layer", is_flag=True, default=None, help="threshold: add an isotonic fit per threshold.")
@click.option("--shift", is_flag=True, default=None, help="variance: move the forecasts too.")
@click.option("--conformity", metavar="NAME", help="conformal: normalised, residual or level.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the held-out rows, folds and intervals.",
)
def fit_command(
    output: str,
    method: str,
    algorithm: str | None,
    direct_layer: bool | None,
    shift: bool | None,
    conformity: str | None,
    seed: int,
    **options: Any,
) -> None:
    """Fit a recalibrator to the forecasts in FILE and what came of them, and save it.

    Give rows that the forecaster was not trained on. Prints what recalibration does to a fifth of them, by a fit to
    the others; the recalibrator that is saved is fitted to all rows.
    """
    given = {"algorithm": algorithm, "direct_layer": direct_layer, "shift": shift, "conformity": conformity}
    params = {key: value for key, value in given.items() if value is not None}
    single = new_recalibrator(method, params, seed)
    check_output(output, options["file"])
    rows = read_forecasts(**options)
    with progress("Fitting, round", "") as advance:
        figures = held_out_table(rows, new_recalibrator(method, params, seed, advance), seed)
        fitted = new_recalibrator(method, params, seed, advance) if advance is not None else single
        fitted.fit(rows.forecast, rows.y, sample_weight=rows.weight)
    metadata = {"outcome": rows.outcome, "columns": rows.found.to_dict()}
    persistence.save(fitted, output, metadata=metadata)
    click.echo(rows.describe())
    click.echo(f"Fitted {describe(fitted)}.\n")
    click.echo(figures)
    click.echo(f"\nSaved {output}")
    suffix = Path(rows.file).suffix or ".csv"
    click.echo(f"Next:  calibrant forecast apply {shlex.quote(output)} new{suffix} -o out{suffix}")


def new_recalibrator(method: str, params: dict[str, Any], seed: int, advance: Any = None) -> Recalibrator:
    """Return an unfitted recalibrator, or say which option its method doesn't take.

    Raises
    ------
    CalibrantError
        If there is no such method, or it doesn't take a parameter.
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    parameters = inspect.signature(METHODS[method]).parameters
    taken = [option for key, option in _OPTIONS.items() if key in parameters]
    for key in params:
        if key not in parameters:
            takes = f"It takes {' and '.join(taken)}." if taken else "It takes no such option."
            raise InvalidInputError(f"method {method!r} does not take {_OPTIONS[key]}. {takes}")
    if method != "threshold":
        return METHODS[method](**params)
    told = None if advance is None else lambda done, *_: advance(done)
    return ThresholdRecalibrator(**params, seed=seed, progress=told)


def describe(fitted: Recalibrator) -> str:
    """Say what was fitted, and on how much."""
    name = next(name for name, cls in METHODS.items() if isinstance(fitted, cls))
    what, more = f"{name} on {count(fitted.n_rows_, 'row')}", "; ".join(fitted.describe())
    return f"{what}: {more}" if more else what


def held_out_table(rows: ForecastRows, recalibrator: Recalibrator, seed: int) -> str:
    """Return what held-out forecasts are worth, before and after a recalibration that has not seen them."""
    counted = np.flatnonzero(np.ones(rows.y.size) if rows.weight is None else rows.weight)
    if counted.size < _LEAST:
        return f"No held-out figures: fewer than {_LEAST} rows."
    mixed = np.random.default_rng(seed).permutation(counted)
    tested, used = (np.sort(part) for part in np.split(mixed, [counted.size // _PARTS]))
    weight = [None if rows.weight is None else rows.weight[part] for part in (used, tested)]
    recalibrator.fit(rows.forecast[used], rows.y[used], sample_weight=weight[0])
    before = Outcomes(rows.forecast[tested], rows.y[tested], weight[1])
    after = Outcomes(recalibrator.transform(before.forecast), before.y, before.weight)
    found = [scores_and_floors(each, _COVERAGE, _LEVEL, as_generator(seed), "held-out")[0] for each in (before, after)]
    lines = []
    for name in _SHOWN:
        if all(name in scores for scores in found):
            cells = [(number(s[name].value), interval(s[name].low, s[name].high)) for s in found]
            lines.append([name, *(text for pair in cells for text in pair)])
    ends = f"{100 * _LEVEL:g}% interval"
    change = crps_change(before, after, _LEVEL)
    paired = f"crps, after less before: {change.value:+z.4f} {interval(change.low, change.high)}, paired by row"
    return "\n".join(
        [
            f"Held out ({count(tested.size, 'row')}, recalibrated by a fit to the other {used.size:,}):",
            table(["metric", "before", ends, "after", ends], lines),
            *([paired] if math.isfinite(change.value) else []),
            *(f"before, {note}" for note in notes(found[0]) if note.split(":")[0] in _SHOWN),
        ]
    )
