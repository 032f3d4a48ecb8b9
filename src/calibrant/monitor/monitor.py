"""Reliability window by window, the alarm, and the windows of a source of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from calibrant.document_field import DocumentField, within
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.metrics import SCORE_BINS, TO_JUDGE, check_settings, evaluate_rows, evaluate_summary, measured_rows
from calibrant.monitor.martingale import CalibrationMartingale
from calibrant.monitor.windows import WindowRows
from calibrant.numerics import dot
from calibrant.phrases import count, listed
from calibrant.readable import Readable, parts_of, rows_as_columns
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import ArrayLike, check_fraction

_VERSION = 4
_BEGIN = "Begin a new monitor."
#: The largest logarithm of an e-value that a state holds, and how near two are that are the same.
_MOST_LOG, _CLOSE = 1e300, 1e-6
#: For which rows the promise holds that few alarms are false, by what was declared of them.
_PROMISES = {
    (): "rows that are independent",
    ("cluster",): "rows of which those of one cluster may depend on each other within a window",
    ("label_end", "time"): "rows whose labels may overlap in time, with bets that count once labels are known",
    ("cluster", "label_end", "time"): (
        "clusters that are independent, whose labels may overlap in time, with bets that count once labels are known"
    ),
}


@dataclass(frozen=True, slots=True, repr=False)
class Window(Readable):
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
        Logarithm of the evidence against calibration in this window and all before it; of labels that overlap, in those
        that are known by its end, or where there are clusters too, by its start.
    is_alarm : bool
        Whether the alarm was raised by the end of this window.
    digest : str
        What tells the rows of this window from others.
    days : tuple of str or None
        The first and the last day of a window that is a period of time.
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
    digest: str = ""
    days: tuple[str, str] | None = None

    def row(self) -> dict[str, Any]:
        """Return the figures with plain names, as a row of a table."""
        return {name: value for name, value in parts_of(self).items() if name != "days"}

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([self.row()])

    def is_of(self, new: WindowRows) -> bool:
        """Say whether this is the window of these rows."""
        return (self.name, self.digest) == (new.name, new.digest)


class CalibrationMonitor(Readable):
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
    declared : tuple of str or None
        What the first window declared of rows that depend on each other: of "cluster", "label_end" and "time".
    runs : dict of int
        Number of rows by what tells them from others, for each set of rows that was added as a whole.

    Notes
    -----
    The alarm stays once it was raised. Its guarantee needs labels that have their probability given all that was known
    when they were predicted, and windows that are added in the order of time, each once: see `CalibrationMartingale`.
    It holds at each look and for all looks together. Rows are taken as independent, but for what `cluster`, or `time`
    with `label_end`, declare. Where labels come late, the window waits: add it once it has all of its labels. To leave
    out rows without a label is right only where a label comes late for no reason that has to do with what it is.

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
        self.declared: tuple[str, ...] | None = None
        self.runs: dict[str, int] = {}

    @property
    def is_alarm(self) -> bool:
        """Whether the alarm has been raised."""
        return bool(self.windows) and self.windows[-1].is_alarm

    @property
    def first_alarm(self) -> str | None:
        """The name of the window that raised the alarm."""
        return next((window.name for window in self.windows if window.is_alarm), None)

    @property
    def promise(self) -> str:
        """For which rows the promise holds that few alarms are false."""
        return _PROMISES[self.declared or ()]

    def update(
        self,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        name: str | None = None,
        sample_weight: ArrayLike | None = None,
        pos_label: object = None,
        classes: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        time: ArrayLike | None = None,
        label_end: ArrayLike | None = None,
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
        cluster : array-like of shape (n,), optional
            What rows share that depend on each other within a window, such as a patient.
        time, label_end : array-like of shape (n,), optional
            When each row was predicted, and when its label was known: numbers or datetimes. Labels that overlap depend
            on each other. Each window declares the same as the first one.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        of_rows = {"cluster": cluster, "time": time, "label_end": label_end}
        rows = measured_rows(
            y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes, **of_rows
        )
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
        declared = () if new.rows is None else new.rows.declared
        self._check_new(new, declared)
        summary, largest = new.summary, new.largest_weight
        scores, weight, squared, positives = summary.distinct
        if scores.size == 0 or scores[0] < 0.0 or scores[-1] > 1.0:
            raise InvalidInputError(f"the scores of window {new.name!r} are no probabilities. Pass scores in [0, 1].")
        settings = check_settings(SCORE_BINS, self.level, 0)
        if new.rows is None:
            found = evaluate_summary(summary, new.n_rows, settings, "given data", names=TO_JUDGE)
        else:
            found = evaluate_rows(new.rows, settings, "given data")
        if new.rows is not None and declared:
            column = new.rows.one_column()
            log_e = self.martingale.add_rows(replace(column, weight=column.weights / largest))
        else:
            stake = DistinctScores(scores, weight / largest, squared / largest**2, positives / largest)
            log_e = self.martingale.add(ScoreSummary(stake))
        self.declared = declared
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
            digest=new.digest,
            days=new.days,
        )
        self.windows.append(window)
        return window

    def _check_new(self, new: WindowRows, declared: tuple[str, ...]) -> None:
        """Refuse a window that was counted before, or comes too late, or whose rows depend in another way."""
        for window in self.windows:
            if window.name == new.name:
                raise InvalidInputError(
                    f"there was a window {new.name!r} before: a window counts once. Give each a new name."
                )
            if new.days and window.days and new.days[0] <= window.days[1] and window.days[0] <= new.days[1]:
                raise InvalidInputError(
                    f"window {new.name!r} has days of window {window.name!r}, which was counted: a row counts once. "
                    "Take the periods of before (--every), or begin a new monitor."
                )
            if new.days and window.days and new.days[1] < window.days[0]:
                raise InvalidInputError(
                    f"window {new.name!r} is earlier than window {window.name!r}, which was counted: of windows out of "
                    "order more than a share alpha raise false alarms. Begin a new monitor with all windows."
                )
        if self.declared not in (None, declared):
            raise InvalidInputError(
                f"window {new.name!r} declares {listed(list(declared)) or 'nothing'} of its rows, the windows before "
                f"{listed(list(self.declared or ())) or 'nothing'}. Declare the same for each, or begin a new monitor."
            )

    def _name(self, name: str | None) -> str:
        return f"window {len(self.windows) + 1}" if name is None else str(name)

    def to_dict(self) -> dict[str, Any]:
        """Return all that the monitor knows as plain values, for the next run to go on from."""
        return {
            "format": "calibrant monitor",
            "version": _VERSION,
            "alpha": self.alpha,
            "level": self.level,
            "declared": None if self.declared is None else list(self.declared),
            "windows": [_plain(window) for window in self.windows],
            "runs": self.runs,
            "martingale": self.martingale.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: object) -> CalibrationMonitor:
        """Return the monitor of a state that `to_dict` gave; raises DocumentError if it is no such state."""
        if not isinstance(state, dict) or state.get("format") != "calibrant monitor":
            raise DocumentError("this is not the state of a monitor. Pass what CalibrationMonitor.to_dict gave.")
        if state.get("version") != _VERSION:
            raise DocumentError(f"state of a monitor, version {state.get('version')!r}, which this release can't read.")
        with within("the state of the monitor is broken"):
            field = DocumentField(state, fix=_BEGIN)
            of = field.members(("format", "version", "alpha", "level", "declared", "windows", "runs", "martingale"))
            monitor = cls(alpha=of["alpha"].fraction(), level=of["level"].fraction())
            for item in of["windows"].items(minimum=0):
                monitor.windows.append(_window(item, monitor))
            monitor.martingale = CalibrationMartingale.from_field(of["martingale"])
            if of["declared"].value is not None:
                monitor.declared = tuple(item.text() for item in of["declared"].items(minimum=0))
            monitor.runs = {key: of["runs"].member(key).integer(minimum=1) for key in of["runs"].object()}
            if not _fits(monitor):
                raise DocumentError(f"its parts don't fit together. {_BEGIN}")
        return monitor

    _left_to_frames = ("mean_prob", "base_rate", "brier", "verdict", "is_alarm", "digest")

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([window.row() for window in self.windows])

    def _before(self) -> list[str]:
        state = f"alarm since {self.first_alarm}" if self.is_alarm else "no alarm"
        return [f"Monitor of {count(len(self.windows), 'window')}: {state}"]


def _fits(monitor: CalibrationMonitor) -> bool:
    """Say whether windows and evidence are of the same stream."""
    windows, declared = monitor.windows, monitor.declared
    if declared not in (None, *_PROMISES) or (declared is None) != (not windows):
        return False
    if len(windows) != monitor.martingale.n_windows:
        return False
    now = min(monitor.martingale.log_e_value, _MOST_LOG)
    is_later = {"cluster", "time"} <= set(declared or ())  # than the start of the window, whose e-value it has
    return is_later or not windows or math.isclose(windows[-1].log_e_value, now, abs_tol=_CLOSE)


def _plain(window: Window) -> dict[str, Any]:
    """Return a window as plain values: what is infinite is cut, or null."""
    known = {**asdict(window), "log_e_value": min(window.log_e_value, _MOST_LOG)}
    known |= {name: None if math.isinf(value := known[name]) else value for name in ("low", "high", "brier")}
    return known | {"days": None if window.days is None else list(window.days)}


def _window(field: DocumentField, monitor: CalibrationMonitor) -> Window:
    """Return the next window of a state."""
    of = field.members([each.name for each in fields(Window)])
    figures = {name: of[name].number() for name in ("n", "mean_prob", "base_rate", "gap", "log_e_value")}
    ends = {"low": -math.inf, "high": math.inf, "brier": math.inf}
    figures |= {name: of[name].number(null=end) for name, end in ends.items()}
    days = None if of["days"].value is None else tuple(item.text() for item in of["days"].items(minimum=2))
    if days is not None and (len(days) != 2 or not days[0] <= days[1]):
        of["days"].refuse("is no first and last day")
    for name in ("mean_prob", "base_rate"):
        of[name].share()  # refuses what is none
    name, is_alarm = of["name"].text(), of["is_alarm"].boolean()
    if figures["n"] <= 0.0 or name in {window.name for window in monitor.windows}:
        field.refuse("has no rows, or the name of a window before")
    if is_alarm != (monitor.is_alarm or figures["log_e_value"] >= -math.log(monitor.alpha)):
        of["is_alarm"].refuse(
            f"does not go with log_e_value = {figures['log_e_value']:g} and alpha = {monitor.alpha:g}"
        )
    known: dict[str, Any] = {**figures, "is_alarm": is_alarm, "days": days}
    return Window(name=name, verdict=of["verdict"].text(), digest=of["digest"].text(), **known)
