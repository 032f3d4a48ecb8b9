"""calibrant report: one page on the probabilities in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calibrant.cli.data import Request, check_output, data_options
from calibrant.cli.examples import Command
from calibrant.cli.large import is_large, report_large
from calibrant.errors import InvalidInputError
from calibrant.files import open_target
from calibrant.report import Report

_SUFFIXES = (".html", ".htm", ".json", ".md")


@click.command(
    "report",
    cls=Command,
    examples=[
        "calibrant report scores.parquet --label y --score p -o report.html",
    ],
)
@data_options(positive=True)
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write: .html, .json or .md.")
@click.option("--group", metavar="COLUMN", help="Add a section on the groups of rows that the column names.")
@click.option("--title", default="Calibration report", show_default=True, metavar="TEXT", help="Heading of the page.")
@click.option("--bins", default=10, show_default=True, metavar="N", help="Bins of the reliability diagram.")
@click.option("--level", default=0.95, show_default=True, metavar="SHARE", help="Coverage of the intervals.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of resampled intervals."
)
def command(output: str, group: str | None, title: str, bins: int, level: float, seed: int, **options: Any) -> None:
    """Write a report of the probabilities in FILE: verdict, scores with intervals, reliability diagram.

    FILE may be a folder of files too, or a DuckDB database. What is too large for memory is read in passes.

    A page of HTML stands alone: it has no script and fetches nothing. The same data give the same bytes.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidInputError(f"-o {output} doesn't say what to write. End it in .html, .json or .md.")
    request = Request(**options, groups=() if group is None else (group,))
    check_output(output, request.file)
    report = (
        report_large(request, title=title, n_bins=bins, level=level, seed=seed)
        if is_large(request)
        else _report(request, title=title, bins=bins, level=level, seed=seed)
    )
    text = {".json": report.json, ".md": report.markdown}.get(suffix, report.html)()
    with open_target(output) as file:
        file.write(text.encode(errors="backslashreplace"))
    click.echo(f"Wrote {output}")


def _report(request: Request, *, title: str, bins: int, level: float, seed: int) -> Report:
    rows = request.read()
    name, by = next(iter(rows.groups.items()), ("group", None))
    return Report(
        rows.y,
        rows.scores,
        sample_weight=rows.weight,
        n_bins=bins,
        level=level,
        pos_label=rows.positive,
        classes=rows.classes,
        by=by,
        group_name=name,
        title=title,
        score_names=rows.score,
        source=rows.file,
        rng=seed,
    )
