"""DriftMonitor: whether scores and columns of new rows are spread as those of reference rows, window by window.

Each column is watched by bets on the ranks of its new rows (`calibrant.monitor.watched_column`), so that one may look
after each window and stop at any. No labels are needed, and drift says nothing of calibration: it says where to look.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.document_field import DocumentField, within
from calibrant.errors import DocumentError, InvalidInputError
from calibrant.monitor.watched_column import WatchedColumn, read_columns
from calibrant.numerics import IntArray
from calibrant.phrases import count, listed
from calibrant.readable import Readable, rows_as_columns
from calibrant.validation import ArrayLike, check_fraction, check_integer

#: Reference rows below which cells and ranks are too coarse: half of them make 16 cells. By choice;
#: nothing was measured, and false alarms are as rare with fewer.
_LEAST_ROWS = 40
_FORMAT, _VERSION = "calibrant drift monitor", 1
_FIX = "Begin a new monitor."
_MEMBERS = ("format", "version", "alpha", "seed", "columns", "windows")


@dataclass(frozen=True, slots=True, repr=False)
class DriftWindow(Readable):
    """New rows compared with the reference, and the evidence up to them.

    Attributes
    ----------
    name : str
    n : int
        Number of rows.
    log_e_values : dict of float
        By column: logarithm of the evidence that rows, these and all new ones before, differ from the reference.
    distances : dict of float
        By column: the share of these rows that would have to lie elsewhere to be spread as the reference rows, the
        noise of few rows included.
    drifted : tuple of str
        The columns that were found to differ by the end of this window.
    digest : str
        What tells these rows from others.
    """

    name: str
    n: int
    log_e_values: Mapping[str, float]
    distances: Mapping[str, float]
    drifted: tuple[str, ...]
    digest: str = ""

    @property
    def is_alarm(self) -> bool:
        """Whether a column was found to differ."""
        return bool(self.drifted)

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns(
            [
                {
                    "window": self.name,
                    "n": self.n,
                    "column": name,
                    "distance": self.distances[name],
                    "log_e_value": value,
                    "has_drifted": name in self.drifted,
                }
                for name, value in self.log_e_values.items()
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        known = {"name": self.name, "n": self.n, "drifted": list(self.drifted), "digest": self.digest}
        return {**known, "log_e_values": dict(self.log_e_values), "distances": dict(self.distances)}


class DriftMonitor(Readable):
    """Watch whether scores and columns of new rows are spread as those of reference rows, with few false alarms, ever.

    Parameters
    ----------
    reference : mapping of array-like of shape (n,)
        The columns to watch by name, of rows from before: numbers, texts or booleans, which may be missing. A frame's
        columns will do.
    alpha : float
        The chance of a false alarm, ever, over all columns.
    rng : int
        Seed of the halves of the reference rows and of how ties are broken: the same seed gives the same figures.

    Attributes
    ----------
    windows : list of DriftWindow

    Notes
    -----
    Half of the reference rows, at random, make the cells of each column: 16 of near-equal weight for numbers, one for
    each of the 32 most frequent labels, one for others, and one for missing values. Each new row is ranked by its cell
    among the other half and all new rows before it, ties broken at random. If these are independent draws from one
    distribution, or can be exchanged, ranks are independent and uniform (smoothed conformal p-values; Vovk, Nouretdinov
    and Gammerman 2003). Bettors stake on a histogram of past ranks and on a line through them, each with shares of the
    stake, memories and starting points as `CalibrationMartingale` has them: the mean is a martingale that starts at 1,
    and reaches J / alpha with a chance of at most alpha / J (Ville's inequality). A column is found to differ there, J
    being the number of columns, so that the chance of any false alarm in all columns and all windows is at most alpha.

    Rows that depend on each other, such as several of one person, may raise false alarms: give one row of each.

    Drift is not miscalibration. It says that rows are others than before: an estimate without labels then rests on
    probabilities being right where few rows were before.

    References
    ----------
    Vovk, Nouretdinov and Gammerman (2003), *Testing exchangeability on-line*, ICML. Vovk, Gammerman and Shafer (2022),
    *Algorithmic learning in a random world*, 2nd edition, chapter 8.

    Examples
    --------
    >>> import numpy as np
    >>> import calibrant as cb
    >>> rng = np.random.default_rng(0)
    >>> monitor = cb.monitor.DriftMonitor({"score": rng.random(2_000)})
    >>> for day in range(6):
    ...     scores = rng.random(200) if day < 3 else rng.random(200) ** 1.5
    ...     window = monitor.update({"score": scores}, name=f"day {day}")
    >>> monitor.first_alarm, window.drifted
    ('day 4', ('score',))
    """

    def __init__(self, reference: Mapping[str, ArrayLike], *, alpha: float = 0.01, rng: int = 0) -> None:
        seed = check_integer("rng", rng, minimum=0)
        checked = read_columns(reference, "reference")
        n_rows = len(next(iter(checked.values())))
        if n_rows < _LEAST_ROWS:
            raise InvalidInputError(f"reference has {count(n_rows, 'row')}. Pass at least {_LEAST_ROWS}.")
        columns = [
            WatchedColumn.of(name, values, np.random.default_rng([seed, 0, i]))
            for i, (name, values) in enumerate(checked.items())
        ]
        self.keep(check_fraction("alpha", alpha), seed, columns)

    def keep(self, alpha: float, seed: int, columns: list[WatchedColumn]) -> Self:
        """Set all fields, before any window; return the monitor."""
        self.alpha, self.seed = alpha, seed
        self.windows: list[DriftWindow] = []
        self._watched = columns
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are watched."""
        return tuple(column.name for column in self._watched)

    @property
    def limit(self) -> float:
        """The logarithm of the evidence at which a column is found to differ."""
        return math.log(len(self._watched) / self.alpha)

    @property
    def is_alarm(self) -> bool:
        """Whether the alarm has been raised."""
        return bool(self.windows) and self.windows[-1].is_alarm

    @property
    def first_alarm(self) -> str | None:
        """The name of the window that raised the alarm."""
        return next((window.name for window in self.windows if window.is_alarm), None)

    def update(self, rows: Mapping[str, ArrayLike], *, name: str | None = None) -> DriftWindow:
        """Add the rows of the next window.

        Parameters
        ----------
        rows : mapping of array-like of shape (n,)
            The columns that the reference has.
        name : str, optional
            What to call the window; its number by default.

        Raises
        ------
        CalibrantError
            If a column is missing or of another kind, or there was a window of that name.
        """
        name = f"window {len(self.windows) + 1}" if name is None else str(name)
        if any(window.name == name for window in self.windows):
            raise InvalidInputError(f"there was a window {name!r} before: a window counts once. Give each a new name.")
        cells = self._cells(rows)
        t = len(self.windows) + 1
        log_e_values, distances = {}, {}
        for i, (column, of_rows) in enumerate(zip(self._watched, cells, strict=True)):
            distances[column.name] = column.distance(of_rows)
            column.add(of_rows, np.random.default_rng([self.seed, t, i]))
            log_e_values[column.name] = column.streams.log_value
        drifted = self.drifted_at(log_e_values)
        window = DriftWindow(name, cells[0].size, log_e_values, distances, drifted, _digest(cells))
        self.windows.append(window)
        return window

    def digest(self, rows: Mapping[str, ArrayLike]) -> str:
        """Return what tells the cells of rows, in their order, from others."""
        return _digest(self._cells(rows))

    def _cells(self, rows: Mapping[str, ArrayLike]) -> list[IntArray]:
        """Return the cell of each row in each column that is watched, or refuse the rows."""
        checked = read_columns(rows, "rows", wanted=self.names)
        return [column.cells(checked[column.name]) for column in self._watched]

    def drifted_at(self, log_e_values: Mapping[str, float]) -> tuple[str, ...]:
        """Return the columns that differ by the end of a next window with this evidence, those of before included."""
        known = self.windows[-1].drifted if self.windows else ()
        return tuple(each for each in self.names if each in known or log_e_values[each] >= self.limit)

    def to_dict(self) -> dict[str, Any]:
        """Return all that the monitor knows as plain values, for the next run to go on from."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "alpha": self.alpha,
            "seed": self.seed,
            "columns": [column.to_dict() for column in self._watched],
            "windows": [window.to_dict() for window in self.windows],
        }

    @classmethod
    def from_dict(cls, state: object) -> Self:
        """Return the monitor of a state that `to_dict` gave; raises DocumentError if it is no such state."""
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise DocumentError("this is not the state of a monitor of drift. Pass what DriftMonitor.to_dict gave.")
        if state.get("version") != _VERSION:
            raise DocumentError(f"state of a monitor of drift, version {state.get('version')!r}, is not read. {_FIX}")
        with within("the state of the monitor is broken"):
            of = DocumentField(state, fix=_FIX).members(_MEMBERS)
            alpha = of["alpha"].fraction()
            columns = [WatchedColumn.from_field(item) for item in of["columns"].items()]
            # __init__ takes reference rows, and a state holds counts of them
            monitor = cls.__new__(cls).keep(alpha, of["seed"].integer(minimum=0), columns)
            for item in of["windows"].items(minimum=0):
                monitor.windows.append(_window(item, monitor))
            if len(set(monitor.names)) != len(columns) or not _fits(columns, monitor.windows):
                raise DocumentError(f"its parts don't fit together. {_FIX}")
        return monitor

    def _columns(self) -> dict[str, Sequence[Any]]:
        rows = [
            {"window": window.name, "n": window.n, **window.log_e_values, "alarm": window.is_alarm}
            for window in self.windows
        ]
        return rows_as_columns(rows) if rows else {"window": [], "n": []}

    def _before(self) -> list[str]:
        state = f"alarm since {self.first_alarm}" if self.is_alarm else "no alarm"
        return [f"Drift of {listed(self.names, most=5)} in {count(len(self.windows), 'window')}: {state}"]


def _window(body: DocumentField, monitor: DriftMonitor) -> DriftWindow:
    """Read the next window of a state."""
    of = body.members(("name", "n", "log_e_values", "distances", "drifted", "digest"))
    figures = {
        name: {key: each.number() for key, each in of[name].members(monitor.names).items()}
        for name in ("log_e_values", "distances")
    }
    name, drifted = of["name"].text(), of["drifted"].names(minimum=0)
    if drifted != monitor.drifted_at(figures["log_e_values"]):
        of["drifted"].refuse("does not go with the evidence and alpha")
    if name in {window.name for window in monitor.windows}:
        of["name"].refuse("is the name of a window before")
    n, digest = of["n"].integer(minimum=1), of["digest"].text()
    return DriftWindow(name, n, **figures, drifted=drifted, digest=digest)


def _fits(columns: Sequence[WatchedColumn], windows: Sequence[DriftWindow]) -> bool:
    """Say whether columns have the rows and the evidence that the windows say."""
    n_new = sum(window.n for window in windows)
    last = windows[-1].log_e_values if windows else {column.name: 0.0 for column in columns}
    return all(
        math.isclose(column.n_new, n_new, abs_tol=0.5)
        and math.isclose(column.streams.log_value, last[column.name], abs_tol=1e-6)
        for column in columns
    )


def _digest(cells: Sequence[IntArray]) -> str:
    """Return what tells the cells of rows from others."""
    found = hashlib.sha256()
    for of_rows in cells:
        found.update(of_rows.astype("<i8").tobytes())
    return found.hexdigest()[:32]
