"""calibrant forecast report: one page on the forecasts in a file, before and after recalibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calibrant.cli.data import check_output
from calibrant.cli.examples import Command
from calibrant.cli.forecast_apply import load_recalibrator
from calibrant.cli.forecast_columns import forecast_options, read_forecasts
from calibrant.errors import InvalidInputError
from calibrant.files import open_target
from calibrant.report import ForecastReport

_SUFFIXES = (".html", ".htm", ".json")


@click.command(
    "report",
    cls=Command,
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
@click.option("--title", default="Forecast report", show_default=True, metavar="TEXT", help="Heading of the page.")
@click.option("--coverage", default=0.9, show_default=True, metavar="SHARE", help="Level of the scored intervals.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of the scores' intervals.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of simulated intervals."
)
def report_command(
    output: str, recalibrator: str | None, title: str, coverage: float, level: float, seed: int, **options: Any
) -> None:
    """Write a report of the forecasts in FILE: verdict, scores beside their noise floors, and where they are off.

    Give rows that the recalibrator was not fitted to. A page of HTML stands alone: it has no script and fetches
    nothing. The same data give the same bytes.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInputError(f"-o {output} doesn't say what to write. End it in .html or .json.")
    check_output(output, options["file"], *([] if recalibrator is None else [recalibrator]))
    fitted = None if recalibrator is None else load_recalibrator(recalibrator)
    rows = read_forecasts(**options)
    report = ForecastReport(
        rows.forecast,
        rows.y,
        recalibrator=fitted,
        sample_weight=rows.weight,
        interval_level=coverage,
        level=level,
        title=title,
        source=rows.file,
        rng=seed,
    )
    text = report.json() if suffix == ".json" else report.html()
    with open_target(output) as file:
        file.write(text.encode(errors="backslashreplace"))
    click.echo(f"Wrote {output}")
