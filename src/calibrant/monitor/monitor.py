"""Reliability window by window, and the alarm."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from calibrant.errors import DocumentError, InvalidInputError
from calibrant.metrics import SCORE_BINS, TO_JUDGE, check_settings, evaluate_summary, measured_rows
from calibrant.monitor.martingale import CalibrationMartingale
from calibrant.numerics import dot
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import ArrayLike, check_fraction

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Window:
    """The reliability of one window, and the evidence up to its end.

    Attributes
    ----------
    name : str
    n : float
        Number of rows, or their weight.
    mean_prob, base_rate : float
        Mean probability, and share of positives.
    gap, low, high : float
        Mean probability less base rate, with the interval that `evaluate` has for these rows alone: of a hundred
        windows of calibrated probabilities, some exclude zero.
    brier : float
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
        y_true : array-like of shape (n,)
        y_prob : array-like of shape (n,) or (n, K)
            Probability of the positive class; or of each of the sorted classes, of which the top label is watched.
        name : str, optional
            What to call the window, such as its date; its number by default.
        sample_weight : array-like of shape (n,), optional
            The stake on each row, relative to the largest weight.
        pos_label : scalar, optional
            The positive one of two labels; the larger one by default.
        classes : array-like of shape (K,), optional
            All classes, sorted, where a window may lack some.

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
        return self.update_summary(
            rows.one_column().summary(),
            name=name,
            largest_weight=float(rows.weights.max()),
            n_rows=rows.n_rows,
            is_top=not rows.is_binary,
        )

    def update_summary(
        self,
        summary: ScoreSummary,
        *,
        name: str | None = None,
        largest_weight: float = 1.0,
        n_rows: int | None = None,
        is_top: bool = False,
    ) -> Window:
        """Add the summary of the next window.

        Parameters
        ----------
        summary : ScoreSummary
            Scores are probabilities.
        name : str, optional
            What to call the window.
        largest_weight : float
            The largest weight of a row, by which stakes are divided.
        n_rows : int, optional
            The number of rows; by default their weight.
        is_top : bool
            Whether scores are the confidence in the most probable class, and positives the rows where it was right.

        Raises
        ------
        InvalidInputError
            If the scores are no probabilities, or there was a window of that name.
        """
        name = f"window {len(self.windows) + 1}" if name is None else str(name)
        if any(window.name == name for window in self.windows):
            raise InvalidInputError(
                f"there was a window {name!r} before: a window counts once. Give each its own name."
            )
        scores, weight, squared, positives = summary.distinct
        if scores.size == 0 or scores[0] < 0.0 or scores[-1] > 1.0:
            raise InvalidInputError(f"the scores of window {name!r} are no probabilities. Pass scores in [0, 1].")
        stake = ScoreSummary(
            DistinctScores(scores, weight / largest_weight, squared / largest_weight**2, positives / largest_weight)
        )
        log_e = self.martingale.add(stake)
        n_rows = round(summary.total_weight) if n_rows is None else n_rows
        settings = check_settings(SCORE_BINS, self.level, 0)
        found = evaluate_summary(summary, n_rows, settings, "given data", names=TO_JUDGE, is_top=is_top)
        gap = found["mean_gap"]
        window = Window(
            name=name,
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
        """Return the monitor of a state that `to_dict` gave.

        Raises
        ------
        DocumentError
            If it is no such state.
        """
        if not isinstance(state, dict) or state.get("format") != "calibrant monitor":
            raise DocumentError("this is not the state of a monitor. Pass what CalibrationMonitor.to_dict gave.")
        if state.get("version") != _VERSION:
            raise DocumentError(
                f"state of a monitor of version {state.get('version')!r}, which this release can't read."
            )
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
