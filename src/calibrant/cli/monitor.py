"""calibrant monitor: an alarm when probabilities stop being right, that one may look at any time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calibrant.cli.common import echo, json_option, new_command, prose, table, write_json, write_page
from calibrant.cli.data import OpenedFile, Request
from calibrant.cli.monitor_rows import WindowRequest, digest_of
from calibrant.cli.monitor_state import load_state, open_state, write_state
from calibrant.cli.monitor_unlabelled import UnlabelledRequest
from calibrant.cli.option_texts import check_output, check_suffix
from calibrant.cli.table_options import data_options
from calibrant.errors import InvalidInputError
from calibrant.phrases import bracketed, count, figure, listed

if TYPE_CHECKING:
    from calibrant.engines import RowReader
    from calibrant.monitor import CalibrationMonitor, HeldBatches, WindowRows

#: Windows that the table shows, the last ones, and that a note names.
_MOST_SHOWN, _MOST_NAMED = 20, 3
#: With fewer rows than this, others may be the same by chance.
_LEAST_ROWS = 30


@new_command(
    "monitor",
    "calibrant monitor scores.parquet --label y --score p --date day --every week -o monitor.html",
    "calibrant monitor 2026-11-23.csv --state monitor.json",
    "calibrant monitor scores.parquet --rows 500 --time at --label-end known --missing wait",
    "calibrant monitor new.parquet --no-labels --reference old.parquet --columns age,city --date day",
)
@data_options("input", "calibrator", "dependence")
@click.option("--group", metavar="COLUMN", help="Column of groups of --calibrator.  [default: as it was fitted]")
@click.option(
    "--date", metavar="COLUMN", help="Column of dates, or of times (zoned ones by UTC); a period is a window."
)
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
    "ones.",
)
@click.option(
    "--state",
    metavar="FILE",
    help="Go on from this file, and write it anew: run it on each day's rows. Windows that it has are passed over.",
)
@click.option("--no-labels", is_flag=True, help="Estimate what labels will show, and watch for drift instead.")
@click.option("--reference", metavar="FILE", help="--no-labels: rows from before, to compare with.")
@click.option(
    "--columns", multiple=True, metavar="COLUMNS", help="--no-labels: also watch these for drift: a,b or a pattern."
)
@click.option(
    "--threshold", type=float, metavar="SCORE", help="--no-labels: predict positive from here.  [default: 0.5]"
)
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
    no_labels: bool,
    reference: str | None,
    columns: tuple[str, ...],
    threshold: float | None,
    output: str | None,
    title: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Watch whether the probabilities in FILE stay calibrated, window by window; exit 1 on alarm.

    FILE is Parquet, CSV or JSON lines, a folder of these, a DuckDB database, or - for standard input. Its windows are
    the periods of --date, each --rows rows, or else the files of a folder in the order of their names; a single file
    is one window. The first window only sets the bet: no alarm is possible before the second one, which --state may
    add.

    The alarm is raised where the evidence against calibration, a bet that nobody can expect to win if the
    probabilities are right, reaches 1 / alpha. At most a share alpha of calibrated streams of independent rows ever
    raises it, however often one looks. Of more than two classes the bet is on the most probable one.

    Rows that are not independent are declared: --cluster names what those share that depend on each other within a
    window; --time and --label-end say which labels overlap, and bets then count once labels are known, which takes
    longer.

    Labels may come late: with --missing wait, give the growing FILE each day. --missing skip is right only where a
    label is late for no reason that has to do with what it is.

    --calibrator watches what a saved calibrator, of any kind, makes of the scores; --group names its groups.

    --no-labels estimates from the probabilities alone what labels will show: right if they are calibrated on these
    rows. With --reference it raises the alarm where scores, or --columns, are spread otherwise than in the rows of that
    file; at most a share alpha of streams that don't drift ever raises it. A --state that exists has
    read the reference, and needs it no more.
    """
    from calibrant.monitor import PERIODS, MonitorReport
    from calibrant.validation import check_choice

    check_choice("--every", every, PERIODS)
    if date is not None and rows is not None:
        raise InvalidInputError("--date and --rows both say what a window is. Leave one out.")
    if output is not None:
        check_suffix(output, ".html", ".json")
        check_output(output, options["file"], options["calibrator"], state)
    if state == "-":
        raise InvalidInputError("--state - can't be read again. Name a file.")
    options["calibrator_group"] = options.pop("group")
    if options["calibrator_group"] is not None and options["calibrator"] is None:
        raise InvalidInputError("--group names the groups of --calibrator. Add that, or leave it out.")
    check_choice("--missing", missing, ("error", "skip", "wait"))
    if no_labels:
        for name in ("cluster", "time", "label_end"):
            if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                option = f"--{name.replace('_', '-')}"
                raise InvalidInputError(f"--no-labels takes rows as independent. Leave {option} out.")
            options[name] = None
        if missing == "wait":
            raise InvalidInputError("--missing wait is for labels, and --no-labels reads none. Leave one out.")
        if reference is not None:
            for target in filter(None, (output, state)):
                check_output(target, reference, options["file"])
        request = Request(**options | {"missing": missing, "has_labels": False})
        threshold = 0.5 if threshold is None else threshold
        unlabelled = UnlabelledRequest(request, date, every, rows, reference, columns, threshold, alpha, state)
        ctx.exit(unlabelled.run(output, title, as_json=as_json))
    for name, value in (("reference", reference), ("columns", columns or None), ("threshold", threshold)):
        if value is not None:
            raise InvalidInputError(f"--{name} is for --no-labels. Add that, or leave it out.")
    asked = WindowRequest(date, every, rows, missing)
    with open_state(state) as out:
        monitor = _load(state, alpha)
        seen = _watch(monitor, Request(**options).open(), asked)
        report = MonitorReport(monitor, title=title)
        if output is not None:
            write_page(report, output)
        if out is not None:  # last: what fails before leaves the state as it was, and may be done again
            write_state(out, monitor)
    notes = seen.notes(missing)
    if as_json:
        write_json({**report.summary(), "notes": notes})
    else:
        echo(f"{options['file']}: {count(len(monitor.windows), 'window')}\n")
        echo(as_table(monitor))
        echo(prose(f"\n{report.summary()['headline']}. {report.summary()['advice']}"))
        for note in notes:
            echo(prose(f"\n{note}"))
        if output is not None:
            echo(f"\nWrote {output}")
    ctx.exit(1 if monitor.is_alarm else 0)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What came of the rows: how many lack a label or wait, a sign of dependence, and what was counted before."""

    n_left: int
    hint: str
    passed: list[str]
    is_again: bool

    def notes(self, missing: str) -> list[str]:
        """Return what a reader must know of the rows, a line each."""
        from calibrant.dependent_rows import SIGN

        notes = []
        if self.n_left:
            late = "wait until their window has all of its rows and labels"
            notes.append(
                f"{count(self.n_left, 'row')} {late if missing == 'wait' else 'lack a value, and were skipped'}."
            )
        if self.is_again:
            notes.append("These rows were counted before, all of them: the state stays as it was.")
        elif self.passed:
            verb = "was" if len(self.passed) == 1 else "were"
            notes.append(f"{listed(self.passed, most=_MOST_NAMED)} {verb} counted before, and passed over.")
        if self.hint:
            notes.append(
                f"{SIGN}: {self.hint}. Name what they share by --cluster COLUMN, or say "
                "when labels overlap by --time COLUMN --label-end COLUMN."
            )
        return notes


def _watch(monitor: CalibrationMonitor, opened: OpenedFile, asked: WindowRequest) -> _Seen:
    """Add the windows of a file to the monitor; windows that it has are passed over."""
    from calibrant.engines import RowReader

    found = None
    reader: RowReader | HeldBatches
    if opened.is_large:
        if asked.missing != "error":
            opened.check_held(f"--missing {asked.missing} needs all rows", "Pass one period at a time.")
        columns = opened.resolve()
        reader = RowReader(columns.source, **columns.names(), keep=asked.date)
    else:
        found = asked.read(opened)
        reader = found.batches
    n_without, hint = (0, "") if found is None else (found.n_without, found.hint)
    n_rows, digest = digest_of(reader)
    if n_rows >= _LEAST_ROWS and digest in monitor.runs:
        return _Seen(n_without, hint, [], is_again=True)
    n_before = len(monitor.windows)
    passed, n_waiting = _count(monitor, asked.windows(reader, n_before), asked)
    if not monitor.windows:
        raise InvalidInputError(f"no window has all of its rows and labels: {count(n_waiting, 'row')} wait.")
    if len(monitor.windows) > n_before:
        monitor.runs[digest] = n_rows
    return _Seen(n_without + n_waiting, hint, passed, is_again=False)


def _count(monitor: CalibrationMonitor, windows: Iterable[WindowRows], asked: WindowRequest) -> tuple[list[str], int]:
    """Add windows to the monitor; return the names of those that were passed over, and how many rows wait.

    With "wait", a last one of too few rows waits. So does one that ends with a cluster, which may go on.
    """
    n_waiting, passed = 0, []
    if asked.missing == "wait":
        windows = list(windows)
        last = windows[-1]
        if asked.size is not None and (last.n_rows < asked.size or (last.rows and last.rows.cluster is not None)):
            n_waiting = windows.pop().n_rows
    for window in windows:
        before = next((known for known in monitor.windows if known.name == window.name), None)
        if before is None:
            monitor.update_window(window)
        elif before.is_of(window):
            passed.append(window.name)
        else:
            n = window.summary.total_weight
            raise InvalidInputError(
                f"window {window.name!r} was counted with n = {before.n:,.6g} and now has {n:,.6g}: rows have come to "
                "it since, or others. A window counts once: give it once all of its rows are there, under its own name."
            )
    return passed, n_waiting


def _load(state: str | None, alpha: float | None) -> CalibrationMonitor:
    from calibrant.monitor import CalibrationMonitor

    if state is None or not Path(state).exists():
        return CalibrationMonitor(alpha=0.01 if alpha is None else alpha)
    return load_state(CalibrationMonitor, state, alpha)


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
