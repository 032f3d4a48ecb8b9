"""calibrant report: one page on the probabilities in a file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import echo, level_option, new_command, progress, seed_option, with_options, write_page
from calibrant.cli.costs import COST_OPTIONS, asks_for_decisions, read_problem, read_with_costs, with_costs
from calibrant.cli.data import FileRows, OpenedFile, Request, read_counted
from calibrant.cli.models import hinting_at_versus, read_models
from calibrant.cli.option_texts import check_output, check_suffix
from calibrant.cli.table_options import data_options, segment_options
from calibrant.errors import InvalidInputError

if TYPE_CHECKING:
    from calibrant.decisions import Problem
    from calibrant.metrics import SegmentSettings
    from calibrant.report import About, Calibrated, pages

#: What is said of rows that are read in passes.
_NOT_BEFORE = "More rows than are held in memory: the scores before the calibrator are left out."


@new_command(
    "report",
    "calibrant report scores.parquet --label y --score p -o report.html",
    "calibrant report scores.parquet --score old --versus new -o report.html",
    "calibrant report new.csv --calibrator calibrator.json --false-positive 10 --false-negative 40 -o report.html",
)
@data_options("versus", "positive", "input", "calibrator", "dependence", "missing")
@click.option("-o", "--output", required=True, metavar="OUT", help="Where to write: .html, .json or .md.")
@click.option("--group", metavar="COLUMN", help="Add a section on the groups of rows that the column names.")
@segment_options()
@click.option("--title", metavar="TEXT", help="Heading of the page.")
@click.option("--bins", default=10, metavar="N", help="Bins of the reliability diagram.")
@with_options(COST_OPTIONS)
@level_option()
@seed_option("resampled intervals")
def command(
    output: str, depth: int, min_rows: int, title: str | None, bins: int, level: float, seed: int, **options: Any
) -> None:
    """Write a report of the probabilities in FILE: verdict, scores with intervals, reliability diagram.

    FILE may be a folder of files too, or a DuckDB database. What is too large for memory is read in passes.

    --versus names the scores of other models: the page then compares them to that of --score, with all curves in one
    diagram and paired differences. Of two classes, --score a,b does the same where the columns can't be the classes of
    one model, as in calibrant evaluate.

    --calibrator reports on what a saved calibrator, of any kind, makes of the scores, beside the scores before it. Give
    rows that it was not fitted to.

    --costs, or --false-positive and --false-negative, add a section on what to do with the probabilities: what
    decisions on them were promised to cost, and what they did.

    --features adds a section on the segments of rows, by these columns and those that cross, whose probabilities are
    off, as in calibrant audit.

    A page of HTML stands alone: it fetches nothing, and is whole where its one small script, which sorts tables and
    tells the figures of points, may not run. The same data give the same bytes.
    """
    check_suffix(output, ".html", ".htm", ".json", ".md")
    check_output(output, options["file"], options["calibrator"])
    asked = read_problem(options) if asks_for_decisions(options) else None
    request = Request(**options)
    opened = (request if asked is None else with_costs(request, asked[0], asked[2])).open()
    how: dict[str, Any] = {"n_bins": bins, "level": level, "title": title, "rng": seed}
    if opened.features:
        how["segments"] = check_segments(opened, depth, min_rows)
    report = report_on(opened, decisions=asked, **how)
    write_page(report, output)
    echo(f"Wrote {output}")


def check_segments(opened: OpenedFile, depth: int, min_rows: int) -> SegmentSettings:
    """Return which segments are asked for, or say why a page can't have them."""
    from calibrant.metrics import SegmentSettings

    opened.check_held("segments are found among rows")
    return SegmentSettings.checked(depth=depth, min_rows=min_rows)


def report_on(
    opened: OpenedFile,
    *,
    title: str | None = None,
    decisions: tuple[Problem, float | None, str | None] | None = None,
    rows: FileRows | None = None,
    **how: Any,
) -> pages.PageReport:
    """Return the report on the rows of a file.

    `decisions` are a problem, its threshold and the column of its capacities' groups, as `read_problem` returns them;
    `rows` are those of the file where they have been read, without decisions. `how` are settings of `Report`, and what
    of the rows has been measured, as `Report.of_rows` takes it.
    """
    from calibrant.decisions import Policy
    from calibrant.report import Decisions, ModelComparisonReport, Report

    of = opened.request
    problem, threshold, per = (None, None, None) if decisions is None else decisions
    policy = None if problem is None else Policy(problem, threshold=threshold)
    if opened.is_large and not opened.models:
        columns = opened.resolve(takes_dependence=True)
        how |= {**columns.names(), **columns.dependence(), "pos_label": columns.positive}
        how["title"] = title or Report.name
        with progress("Measuring"), hinting_at_versus(opened):
            report = Report.from_source(columns.source, group=of.group, problem=policy, **how)
        if of.calibrator is None:
            return report
        summary = report.summary()
        summary["data"]["notes"].append(_NOT_BEFORE)
        return report.keep(summary)
    if policy is None and of.calibrator is None:
        models = read_models(opened) if rows is None else {"": rows}
        found = next(iter(models.values()))
        if len(models) == 1:
            return Report.of_rows(found.rows, _about(found, title or Report.name), **how)
        about = _about(found, title or ModelComparisonReport.name)
        return ModelComparisonReport.of_rows({name: each.rows for name, each in models.items()}, about, **how)
    if opened.models:
        what = "--calibrator" if policy is None else "the losses of decisions"
        raise InvalidInputError(f"a page of several models has no section for {what}. Make a page of one model.")
    beside: Any = None
    if rows is None:
        found, beside = read_with_costs(opened)
    else:
        found = rows
    if policy is not None:
        costs = beside if policy.problem.needs_costs else None
        how["decisions"] = Decisions(policy, costs, None if per is None else beside.column(per), per or "")
    about = _about(found, title or Report.name)
    if of.calibrator is not None:
        how["calibrated"], names = scores_before(opened, found)
        about = replace(about, score_names=names)
    return Report.of_rows(found.rows, about, **how)


def _about(found: FileRows, title: str) -> About:
    """Return what a page says of where its rows come from."""
    from calibrant.report import About

    source, of = found.columns.source, found.columns.request
    file = None if of.file == "-" else of.file
    return About(title, source.name, file, label_name=of.label, n_skipped=source.n_skipped)


def scores_before(opened: OpenedFile, found: FileRows) -> tuple[Calibrated, list[str]]:
    """Read the scores of the same rows before the calibrator, and return them with the names of their columns."""
    from calibrant.engines import CalibratedSource
    from calibrant.report import Calibrated

    source = opened.source
    assert isinstance(source, CalibratedSource)  # noqa: S101
    columns = source.columns
    scores = columns.rows(read_counted(source.source, columns.inputs, opened.request.weight)).scores
    rows = found.rows.with_scores(scores, input=columns.fitted.input)
    return Calibrated(columns.fitted, rows), list(columns.score)
