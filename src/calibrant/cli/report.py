"""calibrant report: one page on the probabilities in a file."""

from __future__ import annotations

from typing import Any

import click

from calibrant.cli.common import echo, level_option, new_command, progress, seed_option
from calibrant.cli.data import Request, check_output, check_suffix, data_options
from calibrant.files import open_target


@new_command("report", "calibrant report scores.parquet --label y --score p -o report.html")
@data_options("positive", "calibrator", "dependence", "missing")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write: .html, .json or .md.")
@click.option("--group", metavar="COLUMN", help="Add a section on the groups of rows that the column names.")
@click.option("--title", default="Calibration report", metavar="TEXT", help="Heading of the page.")
@click.option("--bins", default=10, metavar="N", help="Bins of the reliability diagram.")
@level_option()
@seed_option("resampled intervals")
def command(output: str, title: str, bins: int, level: float, seed: int, **options: Any) -> None:
    """Write a report of the probabilities in FILE: verdict, scores with intervals, reliability diagram.

    FILE may be a folder of files too, or a DuckDB database. What is too large for memory is read in passes.

    --calibrator reports on what a saved calibrator, of any kind, makes of the scores.

    A page of HTML stands alone: it has no script and fetches nothing. The same data give the same bytes.
    """
    from calibrant.report import Report

    suffix = check_suffix(output, ".html", ".htm", ".json", ".md")
    check_output(output, options["file"], options["calibrator"])
    opened = Request(**options).open()
    more: dict[str, Any] = {"n_bins": bins, "level": level, "title": title, "rng": seed}
    if opened.is_large:
        columns = opened.resolve(takes_dependence=True)
        with progress("Measuring"):
            more |= {**columns.names(), **columns.dependence(), "pos_label": columns.positive}
            report = Report.from_source(columns.source, group=options["group"], **more)
    else:
        found = opened.read()
        source, of = found.columns.source, found.columns.request
        more |= {"source": source.name, "n_skipped": source.n_skipped, "label_name": of.label}
        more |= {"file": None if of.file == "-" else of.file}
        report = Report.of_rows(found.rows, **more)
    text = {".json": report.json, ".md": report.markdown}.get(suffix, report.html)()
    with open_target(output) as file:
        file.write(text.encode(errors="backslashreplace"))
    echo(f"Wrote {output}")
