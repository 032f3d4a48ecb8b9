"""calibrant check: all gates of a project file, as one table, one page, and one exit code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli import choices, common
from calibrant.cli.data import Request
from calibrant.cli.evaluate import measure_large, measure_rows
from calibrant.cli.gates import check_gates, gate_results
from calibrant.cli.option_texts import check_output, check_suffix, in_keys
from calibrant.cli.project import Check, Project, find_project, read_project
from calibrant.cli.report import report_on
from calibrant.cli.table_options import as_lines
from calibrant.errors import CalibrantError, InvalidInputError, unknown_name
from calibrant.phrases import bracketed, count, figure, percent_level, shorten

if TYPE_CHECKING:
    from calibrant.report import CheckedFile

#: Width of the table of gates without the names of the files.
_FIGURES_WIDTH = 60
#: Where GitHub's runner reads what it shows of a step.
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_LEVEL, _DIAGRAM_BINS, _SEED = 0.95, 10, 0
#: What is measured on.
ON = "given data"
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


@common.new_command(
    "check",
    "calibrant check",
    "calibrant check --config ci/calibrant.toml -o calibration.html --markdown calibration.md",
    "calibrant check --only fraud --json",
)
@click.option(
    "--config",
    metavar="FILE",
    help="The project file.  [default: calibrant.toml, or pyproject.toml with [tool.calibrant], here or above]",
)
@click.option("--only", multiple=True, metavar="NAME", help="Run this check alone. May be repeated.")
@click.option("-o", "--output", metavar="OUT", help="Also write a page: .html or .json.")
@click.option("--markdown", metavar="OUT", help="Also write what failed and the table of gates: .md.")
@common.json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    config: str | None,
    only: tuple[str, ...],
    output: str | None,
    markdown: str | None,
    as_json: bool,
) -> None:
    """Run the checks of the project file: measure each file that it names, and judge it by its gates.

    calibrant.toml says what to check; in pyproject.toml the same stands below [tool.calibrant]. Keys before the first
    [[check]] hold for all checks; label, score, input, weight, positive, classes, cluster, time, label_end, and
    delimiter, decimal and encoding of text files, hold in this folder for other commands with these options too, unless
    they are given. A [[check]] has a name, files and gates, max and min, and what of these, level, missing, format,
    table, group and calibrator is its own:

    \b
    label = "y"
    [[check]]
    name = "cards"
    files = "scores/*.parquet"
    max = {ece_debiased = 0.02}

    A pattern of files stands for each file that it matches; names are relative to the project file. The figures, and
    what passes, are those of calibrant evaluate.

    Exit codes: 0 all gates passed, 1 a gate failed, 2 a file or the project file can't be used. One file that can't
    be measured doesn't keep others from being checked. In a GitHub action, what --markdown writes is also shown as the
    summary of the step.
    """  # noqa: D301 - which tells click to keep the lines of the paragraph
    if output is not None:
        check_suffix(output, ".html", ".htm", ".json")
    if markdown is not None:
        check_suffix(markdown, ".md", ".markdown")
    project = _project(config)
    requests = _requests(project, only)
    for target in filter(None, (output, markdown)):
        check_output(target, str(project.path), *(request.file for _, request, _ in requests))
    checked, documents = [], []
    with common.progress("Checking", "files") as on_file:
        for done, (check, request, problem) in enumerate(requests):
            file, document = _run(check, request, problem, with_report=output is not None)
            checked.append(file)
            documents.append(document)
            if on_file is not None:
                on_file(done + 1)
    _write(checked, output, markdown)
    if as_json:
        from calibrant.report import headline

        common.write_json({"config": project.where, "headline": headline(checked), "checks": documents})
    else:
        _show(project, checked)
        for target in filter(None, (output, markdown)):
            common.echo(f"Wrote {target}")
    ctx.exit(2 if any(each.problem for each in checked) else 0 if all(each.is_passed for each in checked) else 1)


def _project(config: str | None) -> Project:
    """Read the project file that is named, or found."""
    path = find_project() if config is None else config
    if path is None:
        raise InvalidInputError(
            "there is no calibrant.toml, and no pyproject.toml with [tool.calibrant], in this folder or above. Write "
            "one (calibrant check --help shows one), or name it by --config FILE."
        )
    project = read_project(path)
    if not project.checks:
        raise InvalidInputError(f"{project.where} has no [[check]]. Add one: calibrant check --help shows one.")
    return project


def _requests(project: Project, only: Sequence[str]) -> list[tuple[Check, Request, str]]:
    """Return the rows to read, each file of each check that is asked for, and why there are none or an empty string."""
    names = [check.name for check in project.checks]
    for name in only:
        if name not in names:
            raise unknown_name("check of --only", name, names)
    return [
        (check, Request(path, **check.options(project.folder, path)), problem)
        for check in project.checks
        if not only or check.name in only
        for path, problem in check.paths(project.folder).items()
    ]


def _run(check: Check, request: Request, problem: str, *, with_report: bool) -> tuple[CheckedFile, dict[str, Any]]:
    """Measure a file and judge it; return it for the page, and as a document. One with a problem isn't opened."""
    from calibrant.report import CheckedFile, Report

    about = {"check": check.name, "file": request.file}
    if problem:
        return CheckedFile(check.name, request.file, problem), {**about, "problem": problem}
    level = check.settings.level or _LEVEL
    try:
        opened = request.open()
        settings: dict[str, Any] = {"n_bins": choices.SCORE_BINS, "level": level, "rng": _SEED}
        rows = None if opened.is_large else opened.read()
        found = measure_large(opened, ON, **settings) if rows is None else measure_rows(rows, ON, **settings)
        gates, scores = check.gates, found.scores
        check_gates(gates, scores)
        how: dict[str, Any] = {"n_bins": _DIAGRAM_BINS, "level": level, "title": check.name, "rng": _SEED}
        if rows is not None:
            how |= {"rows": rows, "scores": scores, "by_class": found.by_class}
        report = report_on(opened, **how) if with_report else None
        assert report is None or isinstance(report, Report)  # noqa: S101 - of one model, as it was measured
    except (CalibrantError, OSError) as error:
        where = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
        problem = f"{where}{error.strerror}" if isinstance(error, OSError) else in_keys(str(error))
        problem = as_lines(problem, request.file, request.format)
        return CheckedFile(check.name, request.file, problem), {**about, "problem": problem}
    results = gate_results(gates, scores)
    judged = []
    for gate in results["gates"]:
        score = scores[gate["metric"]]
        judged.append({**gate, "low": score.low, "high": score.high, "level": score.level})
    n_rows = next(iter(scores.values())).n
    n_skipped = found.columns.source.n_skipped
    file = CheckedFile(check.name, request.file, "", scores.verdict, judged, n_rows, n_skipped, report)
    return file, {**about, **found.to_dict(), **results}


def _write(checked: Sequence[CheckedFile], output: str | None, markdown: str | None) -> None:
    """Write the page and the summary; in a GitHub action, also show the summary there."""
    from calibrant.report import CheckReport

    summary = os.environ.get(_STEP_SUMMARY)
    if output is None and markdown is None and not summary:
        return
    report = CheckReport(checked)
    if output is not None:
        common.write_page(report, output)
    if markdown is not None:
        common.write_page(report, markdown)
    if summary:
        with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as shown:  # others wrote before
            shown.write(report.markdown())


def _show(project: Project, checked: Sequence[CheckedFile]) -> None:
    """Print a table of all gates, and what to know of the files that failed."""
    from calibrant.report import headline, short_names

    common.echo(f"{project.where}: {count(len(checked), 'file')}")
    names = short_names(checked)
    widest = max(12, get_terminal_size((120, 24)).columns - _FIGURES_WIDTH)
    rows = []
    for each in checked:
        name = shorten(each.check, widest)
        if names[each.check, each.file]:
            name = _beside(shorten(each.check, widest // 2), names[each.check, each.file], widest)
        for gate in each.gates:
            sign = "<=" if gate["bound"] == "max" else ">="
            asked = f"{gate['metric']} {sign} {gate['limit']:g}"
            ended = "passed" if gate["passed"] else "FAILED"
            rows.append((name, asked, figure(gate["value"]), bracketed(gate["low"], gate["high"]), ended))
    if rows:
        levels = {gate["level"] for each in checked for gate in each.gates}
        level = f"{percent_level(levels.pop())} " if len(levels) == 1 else ""
        common.echo("\n" + common.table(("check", "gate", "value", f"{level}interval", ""), rows, left=2))
    for each in checked:
        if each.problem:
            common.echo(f"\n{each.problem_of}: {each.problem}", err=True)
            continue
        if each.failed:
            common.echo(common.prose(f"\n{each.called}: {each.verdict}"))
        if each.n_skipped:
            common.echo(f"\n{each.called}: {count(each.n_skipped, 'row')} left out for missing values")
    common.echo(f"\n{headline(checked)}")


def _beside(check: str, file: str, most: int) -> str:
    """Return the names of a check and a file; the end of the file's name, which tells files apart, is kept."""
    left = most - len(check) - 2
    return f"{check}: {file if len(file) <= left else _ELLIPSIS + file[1 - left :]}"
