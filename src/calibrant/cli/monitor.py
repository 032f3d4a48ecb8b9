"""calibrant monitor: an alarm when probabilities stop being right, that one may look at any time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from calibrant.cli.data import check_output, data_options, split_list
from calibrant.cli.examples import Command
from calibrant.cli.output import count, interval, table, write_json
from calibrant.engines import RowReader
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.files import open_target
from calibrant.monitor import CalibrationMonitor, MonitorReport
from calibrant.monitor.windows import PERIODS, NamedSummary, date_windows, file_windows, row_windows
from calibrant.tables import open_rows
from calibrant.validation import check_choice

#: Windows that the table shows: the last ones.
_MOST_SHOWN = 20
_SUFFIXES = (".html", ".json")


@click.command(
    "monitor",
    cls=Command,
    examples=[
        "calibrant monitor scores.parquet --label y --score p --date day --every week -o monitor.html",
        "calibrant monitor today.csv --state monitor.json",
    ],
)
@data_options(positive=False)
@click.option("--date", metavar="COLUMN", help="Column of dates or times; each period is a window.")
@click.option("--every", default="day", show_default=True, metavar="PERIOD", help="Periods: day, week or month.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Take each N rows for a window.")
@click.option(
    "--alpha", type=float, metavar="SHARE", help="Chance of a false alarm, ever.  [default: 0.01, or that of the state]"
)
@click.option("--state", metavar="FILE", help="Go on from this file, and write it anew: run it on each day's rows.")
@click.option("-o", "--output", metavar="OUT", help="Also write a page (.html), or all figures (.json).")
@click.option("--title", default="Calibration monitor", show_default=True, metavar="TEXT", help="Heading of the page.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str,
    label: str,
    score: tuple[str, ...],
    weight: str | None,
    format: str | None,
    classes: str | None,
    date: str | None,
    every: str,
    rows: int | None,
    alpha: float | None,
    state: str | None,
    output: str | None,
    title: str,
    as_json: bool,
) -> None:
    """Watch whether the probabilities in FILE stay calibrated, window by window; exit 1 on alarm.

    FILE is Parquet, CSV or JSON lines, a folder of these, a DuckDB database, or - for standard input. Its windows are
    the periods of --date, each --rows rows, or else the files of a folder in the order of their names; a single file
    is one window.

    The alarm is raised where the evidence against calibration, a bet that nobody can expect to win if the
    probabilities are right, reaches 1 / alpha. At most a share alpha of calibrated streams ever raises it, however
    often one looks. Of more than two classes the most probable one is watched.
    """
    check_choice("--every", every, PERIODS)
    if date is not None and rows is not None:
        raise InvalidInputError("--date and --rows both say what a window is. Leave one out.")
    if output is not None:
        if Path(output).suffix.lower() not in _SUFFIXES:
            raise InvalidInputError(f"-o {output} doesn't say what to write. End it in .html or .json.")
        check_output(output, file)
    monitor = _load(state, alpha)
    known = None if classes is None else split_list(classes)
    reader = RowReader(
        open_rows(file, format=format),
        score=[name for text in score for name in split_list(text)],
        label=label,
        weight=weight,
        classes=known,
        keep=date,
    )
    for window in _windows(reader, date, every, rows, len(monitor.windows) + 1, is_folder=Path(file).is_dir()):
        monitor.update_summary(window.summary, name=window.name, largest_weight=window.largest_weight)
    if state is not None:
        with open_target(state) as out:
            out.write((json.dumps(monitor.to_dict(), allow_nan=False) + "\n").encode())
    report = MonitorReport(monitor, title=title)
    if output is not None:
        text = report.json() if output.lower().endswith(".json") else report.html()
        with open_target(output) as out:
            out.write(text.encode(errors="backslashreplace"))
    if as_json:
        write_json(report.summary())
    else:
        click.echo(f"{file}: {count(len(monitor.windows), 'window')}\n")
        click.echo(as_table(monitor))
        click.echo(f"\n{report.summary()['headline']}. {report.summary()['advice']}")
        if output is not None:
            click.echo(f"\nWrote {output}")
    ctx.exit(1 if monitor.is_alarm else 0)


def _windows(reader: RowReader, date: str | None, every: Any, rows: int | None, first: int, *, is_folder: bool) -> Any:
    if date is not None:
        return date_windows(reader, every)
    if rows is not None:
        return row_windows(reader, rows, first)
    found = file_windows(reader)
    return (NamedSummary(Path(w.name).name if is_folder else w.name, w.summary, w.largest_weight) for w in found)


def _load(state: str | None, alpha: float | None) -> CalibrationMonitor:
    if state is None or not Path(state).exists():
        return CalibrationMonitor(alpha=0.01 if alpha is None else alpha)
    try:
        monitor = CalibrationMonitor.from_dict(json.loads(Path(state).read_text(encoding="utf-8")))
    except DocumentError as error:
        raise DocumentError(f"{state}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{state} is no JSON document ({error!s:.100}).") from None
    if alpha is not None and alpha != monitor.alpha:
        raise InvalidInputError(
            f"--alpha {alpha:g}, but {state} was begun with {monitor.alpha:g}: to change it by what one has seen would "
            "void the guarantee. Leave --alpha out, or begin a new state."
        )
    return monitor


def as_table(monitor: CalibrationMonitor) -> str:
    """Return a row for each of the last windows."""
    rows = []
    for w in monitor.windows[-_MOST_SHOWN:]:
        shares = (f"{w.mean_prob:.4f}", f"{w.base_rate:.4f}", f"{w.gap:+z.4f}", interval(w.low, w.high))
        rows.append((w.name, f"{w.n:,.6g}", *shares, f"{w.log_e_value:+z.2f}", "alarm" if w.is_alarm else ""))
    level = f"{100 * monitor.level:g}% interval"
    shown = table(("window", "n", "predicted", "observed", "gap", level, "log evidence", ""), rows)
    left = len(monitor.windows) - len(rows)
    return f"{shown}\n(the last {len(rows)} of {len(monitor.windows):,} windows)" if left else shown
