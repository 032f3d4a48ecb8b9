"""calibrant monitor: an alarm when probabilities stop being right, that one may look at any time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from calibrant.cli.common import json_option, new_command, table, write_json
from calibrant.cli.data import Request, check_output, check_suffix, data_options
from calibrant.cli.monitor_rows import MonitoredRows, WindowRequest
from calibrant.dependent_rows import SIGN
from calibrant.engines import RowReader
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.files import open_target
from calibrant.monitor import (
    PERIODS,
    CalibrationMonitor,
    HeldBatches,
    MonitorReport,
    WindowRows,
    date_windows,
    file_windows,
    row_windows,
)
from calibrant.phrases import bracketed, count, figure
from calibrant.validation import check_choice

#: Windows that the table shows: the last ones.
_MOST_SHOWN = 20


@new_command(
    "monitor",
    "calibrant monitor scores.parquet --label y --score p --date day --every week -o monitor.html",
    "calibrant monitor today.csv --state monitor.json",
    "calibrant monitor scores.parquet --rows 500 --time at --label-end known --missing wait",
)
@data_options("calibrator", "dependence")
@click.option("--group", metavar="COLUMN", help="Column of groups of --calibrator.  [default: as it was fitted]")
@click.option("--date", metavar="COLUMN", help="Column of dates or times; each period is a window.")
@click.option("--every", default="day", metavar="PERIOD", help="Periods: day, week or month.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Take each N rows for a window.")
@click.option(
    "--alpha", type=float, metavar="SHARE", help="Chance of a false alarm, ever.  [default: 0.01, or that of the state]"
)
@click.option(
    "--missing",
    default="error",
    metavar="WHAT",
    help="Rows that lack a value: error; skip leaves them out; wait, for labels, leaves out their window and all later "
    "ones, and passes over windows that --state has counted.",
)
@click.option("--state", metavar="FILE", help="Go on from this file, and write it anew: run it on each day's rows.")
@click.option("-o", "--output", metavar="OUT", help="Also write a page (.html), or all figures (.json).")
@click.option("--title", default="Calibration monitor", metavar="TEXT", help="Heading of the page.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    date: str | None,
    every: Any,
    rows: int | None,
    alpha: float | None,
    missing: str,
    state: str | None,
    output: str | None,
    title: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Watch whether the probabilities in FILE stay calibrated, window by window; exit 1 on alarm.

    FILE is Parquet, CSV or JSON lines, a folder of these, a DuckDB database, or - for standard input. Its windows are
    the periods of --date, each --rows rows, or else the files of a folder in the order of their names; a single file
    is one window.

    The alarm is raised where the evidence against calibration, a bet that nobody can expect to win if the
    probabilities are right, reaches 1 / alpha. At most a share alpha of calibrated streams of independent rows ever
    raises it, however often one looks. Of more than two classes the bet is on the most probable one.

    Rows that are not independent are declared: --cluster names what those share that depend on each other within a
    window; --time and --label-end say which labels overlap, and bets then count once labels are known, which takes
    longer.

    Labels may come late: with --missing wait, give the growing FILE each day. --missing skip is right only where a
    label is late for no reason that has to do with what it is.

    --calibrator watches what a saved calibrator, of any kind, makes of the scores; --group names its groups.
    """
    check_choice("--every", every, PERIODS)
    if date is not None and rows is not None:
        raise InvalidInputError("--date and --rows both say what a window is. Leave one out.")
    if output is not None:
        check_suffix(output, ".html", ".json")
        check_output(output, options["file"], options["calibrator"])
    monitor = _load(state, alpha)
    check_choice("--missing", missing, ("error", "skip", "wait"))
    opened, found = Request(**options).open(), None
    reader: RowReader | HeldBatches
    if opened.is_large:
        if missing != "error":
            raise InvalidInputError(
                f"--missing {missing} needs all rows in memory, and {opened.request.file} has too many."
            )
        columns = opened.resolve()
        reader = RowReader(columns.source, **columns.names(), keep=date)
    else:
        found = WindowRequest(date, every, rows, missing).read(opened)
        reader = found.batches
    if date is not None:
        windows = date_windows(reader, every)
    elif rows is None:
        windows = file_windows(reader)
    else:
        windows = row_windows(reader, rows, 1 if missing == "wait" else len(monitor.windows) + 1)
    n_waiting = _count(monitor, windows, rows, missing)
    if state is not None:
        with open_target(state) as out:
            out.write((json.dumps(monitor.to_dict(), allow_nan=False) + "\n").encode())
    report = MonitorReport(monitor, title=title)
    if output is not None:
        text = report.json() if output.lower().endswith(".json") else report.html()
        with open_target(output) as out:
            out.write(text.encode(errors="backslashreplace"))
    notes = _notes(found, missing, n_waiting)
    if as_json:
        write_json({**report.summary(), "notes": notes})
    else:
        click.echo(f"{options['file']}: {count(len(monitor.windows), 'window')}\n")
        click.echo(as_table(monitor))
        click.echo(f"\n{report.summary()['headline']}. {report.summary()['advice']}")
        for note in notes:
            click.echo(f"\n{note}")
        if output is not None:
            click.echo(f"\nWrote {output}")
    ctx.exit(1 if monitor.is_alarm else 0)


def _count(monitor: CalibrationMonitor, windows: Iterable[WindowRows], size: int | None, missing: str) -> int:
    """Add windows to the monitor, and return how many rows wait.

    With "wait", windows that the monitor has are passed over, and a last one of too few rows waits. So does one that
    ends with a cluster, which may go on.
    """
    n_waiting = 0
    if missing == "wait":
        held = list(windows)
        if size is not None and (held[-1].n_rows < size or (held[-1].rows and held[-1].rows.cluster is not None)):
            n_waiting = held.pop().n_rows
        windows = [window for window in held if not _was_counted(monitor, window)]
    for window in windows:
        monitor.update_window(window)
    if not monitor.windows:
        raise InvalidInputError(f"no window has all of its rows and labels: {count(n_waiting, 'row')} wait.")
    return n_waiting


def _was_counted(monitor: CalibrationMonitor, window: WindowRows) -> bool:
    before = next((known for known in monitor.windows if known.name == window.name), None)
    if before is not None and not math.isclose(before.n, window.summary.total_weight):
        n = window.summary.total_weight
        raise InvalidInputError(
            f"window {window.name!r} was counted with n = {before.n:,.6g} and now has {n:,.6g}: rows have come to it "
            "since. Give a window once all of its rows are there."
        )
    return before is not None


def _notes(found: MonitoredRows | None, missing: str, n_waiting: int) -> list[str]:
    """Return what a reader must know of the rows, a line each."""
    if found is None:
        return []
    notes = []
    if n_left := found.n_without + n_waiting:
        is_late = missing == "wait"
        why = "wait until their window has all of its rows and labels" if is_late else "lack a value, and were skipped"
        notes.append(f"{count(n_left, 'row')} {why}.")
    if found.hint:
        notes.append(
            f"{SIGN}: {found.hint}. Name what they share by --cluster COLUMN, or say "
            "when labels overlap by --time COLUMN --label-end COLUMN."
        )
    return notes


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
        shares = (figure(w.mean_prob), figure(w.base_rate), figure(w.gap, sign=True), bracketed(w.low, w.high))
        rows.append((w.name, f"{w.n:,.6g}", *shares, f"{w.log_e_value:+z.2f}", "alarm" if w.is_alarm else ""))
    level = f"{100 * monitor.level:g}% interval"
    shown = table(("window", "n", "predicted", "observed", "gap", level, "log evidence", ""), rows)
    left = len(monitor.windows) - len(rows)
    return f"{shown}\n(the last {len(rows)} of {len(monitor.windows):,} windows)" if left else shown
