"""Reliability window by window, the alarm, and the windows of a source of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.engines import MAX_DISTINCT, FoldState, RowReader
from calibrant.errors import DocumentError, InvalidInputError, InvalidTypeError
from calibrant.metrics import SCORE_BINS, TO_JUDGE, check_settings, evaluate_rows, evaluate_summary, measured_rows
from calibrant.monitor.martingale import CalibrationMartingale
from calibrant.numerics import IntArray, dot
from calibrant.row_stream import joined
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import ArrayLike, at_first, check_fraction

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

Period: TypeAlias = Literal["day", "week", "month"]
PERIODS: tuple[str, ...] = get_args(Period)
_VERSION = 2
#: How a date, or a time on it, begins.
_ISO_DATE = r"^\s*\d{4}-\d{2}-\d{2}"


@dataclass(frozen=True, slots=True)
class Window:
    """The reliability of one window, and the evidence up to its end.

    Attributes
    ----------
    name : str
    n : float
        Number of rows, or their weight.
    mean_prob, base_rate : float
        Mean probability, and share of positives; of several classes those of the top label.
    gap, low, high : float
        Mean probability less base rate, with the interval that `evaluate` has for these rows alone: of a hundred
        windows of calibrated probabilities, some exclude zero.
    brier : float
        Of several classes the sum over them.
    verdict : str
        What `evaluate` says of these rows alone.
    log_e_value : float
        Logarithm of the evidence against calibration in this window and all before it.
    is_alarm : bool
        Whether the alarm was raised by the end of this window.
    """

    name: str
    n: float
    mean_prob: float
    base_rate: float
    gap: float
    low: float
    high: float
    brier: float
    verdict: str
    log_e_value: float
    is_alarm: bool


class CalibrationMonitor:
    """Watch a stream of predictions: the reliability of each window, and an alarm that is rarely false.

    Parameters
    ----------
    alpha : float
        The chance of a false alarm, ever: the alarm is raised where the e-value reaches 1 / alpha.
    level : float
        Coverage of each window's own interval.

    Attributes
    ----------
    windows : list of Window
    martingale : CalibrationMartingale
        The evidence so far.

    Notes
    -----
    The alarm stays once it was raised. Its guarantee needs labels that have their probability given all that was seen
    before, and windows that are added in the order of time, each once: see `CalibrationMartingale`. It holds at each
    look and for all looks together. Labels that come late must come with their own window.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> monitor = cb.monitor.CalibrationMonitor(alpha=0.01)
    >>> for day in range(20):
    ...     p = rng.uniform(0.1, 0.6, 500)
    ...     rate = p if day < 10 else p + 0.15
    ...     window = monitor.update(rng.random(500) < rate, p, name=f"day {day}")
    >>> monitor.first_alarm
    'day 11'
    """

    def __init__(self, *, alpha: float = 0.01, level: float = 0.95) -> None:
        self.alpha = check_fraction("alpha", alpha)
        self.level = check_fraction("level", level)
        self.windows: list[Window] = []
        self.martingale = CalibrationMartingale()

    @property
    def is_alarm(self) -> bool:
        """Whether the alarm has been raised."""
        return bool(self.windows) and self.windows[-1].is_alarm

    @property
    def first_alarm(self) -> str | None:
        """The name of the window that raised the alarm."""
        return next((window.name for window in self.windows if window.is_alarm), None)

    def update(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        name: str | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
    ) -> Window:
        """Add the rows of the next window.

        Parameters
        ----------
        y_true, y_prob, pos_label, classes
            As in `evaluate`; of several classes the bets are on the top label.
        name : str, optional
            What to call the window, such as its date; its number by default.
        sample_weight : array-like of shape (n,), optional
            The stake on each row, relative to the largest weight.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
        return self.update_window(WindowRows.of(self._name(name), [rows]))

    def update_summary(
        self, summary: ScoreSummary, *, name: str | None = None, largest_weight: float = 1.0, n_rows: int | None = None
    ) -> Window:
        """Add the summary of the next window.

        Parameters
        ----------
        summary : ScoreSummary
            Of one score; scores are probabilities.
        name : str, optional
            What to call the window.
        largest_weight : float
            The largest weight of a row, by which stakes are divided.
        n_rows : int, optional
            The number of rows; by default their weight.

        Raises
        ------
        InvalidInputError
            If the scores are no probabilities, or there was a window of that name.
        """
        n_rows = round(summary.total_weight) if n_rows is None else n_rows
        return self.update_window(WindowRows(self._name(name), summary, largest_weight, n_rows))

    def update_window(self, new: WindowRows) -> Window:
        """Add the next window."""
        if any(window.name == new.name for window in self.windows):
            raise InvalidInputError(
                f"there was a window {new.name!r} before: a window counts once. Give each a new name."
            )
        summary, largest = new.summary, new.largest_weight
        scores, weight, squared, positives = summary.distinct
        if scores.size == 0 or scores[0] < 0.0 or scores[-1] > 1.0:
            raise InvalidInputError(f"the scores of window {new.name!r} are no probabilities. Pass scores in [0, 1].")
        stake = DistinctScores(scores, weight / largest, squared / largest**2, positives / largest)
        settings = check_settings(SCORE_BINS, self.level, 0)
        if new.of_classes is None:
            found = evaluate_summary(summary, new.n_rows, settings, "given data", names=TO_JUDGE)
        else:
            found = evaluate_rows(new.of_classes, settings, "given data")
        log_e = self.martingale.add(ScoreSummary(stake))
        gap = found["mean_gap"]
        window = Window(
            name=new.name,
            n=summary.total_weight,
            mean_prob=dot(weight, scores) / summary.total_weight,
            base_rate=summary.base_rate,
            gap=gap.value,
            low=gap.low,
            high=gap.high,
            brier=found["brier"].value,
            verdict=found.verdict,
            log_e_value=log_e,
            is_alarm=self.is_alarm or log_e >= -math.log(self.alpha),
        )
        self.windows.append(window)
        return window

    def _name(self, name: str | None) -> str:
        return f"window {len(self.windows) + 1}" if name is None else str(name)

    def to_dict(self) -> dict[str, Any]:
        """Return all that the monitor knows as plain values, for the next run to go on from."""
        return {
            "format": "calibrant monitor",
            "version": _VERSION,
            "alpha": self.alpha,
            "level": self.level,
            "windows": [{**asdict(w), "log_e_value": min(w.log_e_value, 1e300)} for w in self.windows],
            "martingale": self.martingale.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: object) -> CalibrationMonitor:
        """Return the monitor of a state that `to_dict` gave; raises DocumentError if it is no such state."""
        if not isinstance(state, dict) or state.get("format") != "calibrant monitor":
            raise DocumentError("this is not the state of a monitor. Pass what CalibrationMonitor.to_dict gave.")
        if state.get("version") != _VERSION:
            raise DocumentError(f"state of a monitor, version {state.get('version')!r}, which this release can't read.")
        try:
            monitor = cls(alpha=state["alpha"], level=state["level"])
            monitor.windows = [Window(**window) for window in state["windows"]]
            monitor.martingale = CalibrationMartingale.from_dict(state["martingale"])
            known = len(monitor.windows) == monitor.martingale.n_windows
            sizes = {len(m.scores) == len(m.weight) for m in monitor.martingale.memories if m is not None}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DocumentError(f"the state of the monitor is broken: {error!s:.200}.") from None
        if not known or False in sizes or not np.isfinite([w.gap for w in monitor.windows]).all():
            raise DocumentError("the state of the monitor is broken: its parts don't fit together.")
        return monitor

    def __repr__(self) -> str:
        state = f"alarm since {self.first_alarm}" if self.is_alarm else "no alarm"
        return f"<CalibrationMonitor: {len(self.windows)} windows, {state}>"


class WindowRows(NamedTuple):
    """The rows of a window: the summary of their one score, or of the top label of several classes.

    `largest_weight` is that of a row; `of_classes` are the rows of several classes, which are judged class by class.
    """

    name: str
    summary: ScoreSummary
    largest_weight: float
    n_rows: int
    of_classes: Rows | None = None

    @classmethod
    def of(cls, name: str, parts: Sequence[Rows]) -> WindowRows:
        """Return the window of all rows of some parts."""
        window = _OpenWindow(name)
        for rows in parts:
            window.add(rows)
        return window.close()


@dataclass
class _OpenWindow:
    """A window that still gets rows: sorted runs of one score, and the rows of several classes as they are."""

    name: str
    state: FoldState = field(default_factory=FoldState)
    of_classes: list[Rows] = field(default_factory=list)
    n_rows: int = 0
    largest_weight: float = 0.0

    @property
    def n_held(self) -> int:
        """How many numbers are held."""
        return self.state.runs.size + sum(rows.scores.size for rows in self.of_classes)

    def add(self, rows: Rows) -> None:
        column = rows.one_column()
        self.state.add(column.scores, column.positive, column.weight)
        self.state.flush()
        if not rows.is_binary:
            self.of_classes.append(rows)
        self.n_rows += column.n_rows
        self.largest_weight = max(self.largest_weight, 1.0 if column.weight is None else float(column.weight.max()))

    def close(self) -> WindowRows:
        rows = joined(self.of_classes) if self.of_classes else None
        return WindowRows(self.name, self.state.summary(), self.largest_weight, self.n_rows, rows)


def file_windows(reader: RowReader) -> Iterator[WindowRows]:
    """Yield a window for each file of a folder, in the order of their names."""
    is_folder = Path(reader.source.name).is_dir()
    for name, parts in groupby(reader, key=lambda batch: batch.where):
        window = _OpenWindow(Path(name).name if is_folder else name)
        for batch in parts:
            window.add(batch.rows)
        yield window.close()


def row_windows(reader: RowReader, size: int, first: int = 1) -> Iterator[WindowRows]:
    """Yield a window for each `size` rows, in their order; the last one may be shorter."""
    window = _OpenWindow(f"window {first}")
    for rows, _, _ in reader:
        start = 0
        while start < rows.n_rows:
            stop = min(rows.n_rows, start + size - window.n_rows)
            window.add(rows.take(np.arange(start, stop)))
            start = stop
            if window.n_rows == size:
                yield window.close()
                first += 1
                window = _OpenWindow(f"window {first}")
    if window.n_rows:
        yield window.close()


def date_windows(reader: RowReader, every: Period, max_distinct: int = MAX_DISTINCT) -> Iterator[WindowRows]:
    """Yield a window for each period of the column of dates that the reader keeps, in the order of time.

    Rows may come in any order; refused are windows that together hold more than `max_distinct` distinct scores, those
    of each class included.
    """
    opened: dict[str, _OpenWindow] = {}
    for rows, where, kept in reader:
        assert kept is not None  # noqa: S101
        days, place = np.unique(_days(kept, f"column {reader.keep!r} of {where}"), return_inverse=True)
        names = [_period(day, every) for day in days.astype("datetime64[D]").tolist()]
        distinct = {name: i for i, name in enumerate(dict.fromkeys(names))}
        codes = np.array([distinct[name] for name in names])[place]
        for name, i in distinct.items():
            opened.setdefault(name, _OpenWindow(name)).add(rows.take(codes == i))
        if sum(window.n_held for window in opened.values()) > max_distinct:
            raise InvalidInputError(
                f"the windows of {reader.source.name} hold more than {max_distinct:,} distinct scores together. Pass "
                "one period at a time and keep the state (--state), or one file for each window."
            )
    for name in sorted(opened):
        yield opened[name].close()


def _days(column: pa.Array, name: str) -> IntArray:
    import pyarrow as pa
    import pyarrow.compute as compute

    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            is_date = compute.match_substring_regex(column, _ISO_DATE).fill_null(True)
            odd = ~is_date.to_numpy(zero_copy_only=False)
            if odd.any():
                problem = f"{column[int(odd.argmax())].as_py()!r:.80} is no date"
                fix = "Write 1999-04-01, as 01/04/1999 may be two days."
                raise InvalidTypeError(at_first(odd, name, problem, fix))
            column = compute.cast(column, pa.timestamp("us"))
        if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
            raise InvalidTypeError(f"{name} holds {column.type} values, not dates. Name a column of dates or times.")
        days = compute.cast(compute.cast(column, pa.date32(), safe=False), pa.int32())
    except pa.ArrowException as error:
        raise InvalidTypeError(f"{name} can't be read as dates ({error!s:.200}). Write them as 2026-01-31.") from None
    return np.asarray(days).astype(np.int64)


def _period(day: datetime.date, every: Period) -> str:
    match every:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        case "month":
            return f"{day.year:04d}-{day.month:02d}"
