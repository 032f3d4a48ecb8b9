"""Drift of scores and columns against reference rows: bets on ranks, which may be looked at at any time.

Each new row is ranked among the reference rows and all new rows before it. If all are draws from one distribution, its
rank is uniform whatever came before, and nobody can win by betting that it isn't; if new rows differ, their ranks pile
up somewhere, and a bettor who learns where wins. The money is kept by `calibrant.monitor.streams`, as that of bets on
labels is. No labels are needed, and drift says nothing of calibration: it says where to look.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant.document_field import DocumentField, within
from calibrant.errors import DocumentError, InvalidInputError, InvalidTypeError, ShapeError, unknown_name
from calibrant.metrics import STAKES
from calibrant.monitor.bets import MEMORIES
from calibrant.monitor.streams import Streams
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count, listed
from calibrant.readable import Readable, rows_as_columns
from calibrant.validation import ArrayLike, check_fraction, check_integer

Kind: TypeAlias = Literal["number", "label"]
#: Cells into which the numbers of a column are put, and labels that get a cell of their own.
_MOST_CELLS, _MOST_LABELS = 16, 32
#: Parts of [0, 1] in which ranks are counted, and rows that each counts before any came.
_RANK_BINS, _PRIOR_ROWS = 16, 1.0
#: Rows that count as no tilt.
_PRIOR_TILT = 24.0
#: Rows that are bet on by what was known before them, and the most such steps of a window.
_STEP_ROWS, _MOST_STEPS = 64, 512
#: Reference rows below which cells and ranks are too coarse.
_LEAST_ROWS = 40
_FORMAT, _VERSION = "calibrant drift monitor", 1
_FIX = "Begin a new monitor."
_MEMBERS = ("format", "version", "alpha", "seed", "columns", "windows")
_OF_COLUMN = ("name", "kind", "edges", "labels", "reference", "pool", "ranks", "sums", "streams", "n_steps")


@dataclass(slots=True)
class _Column:
    """What is known of one column: its cells, the rows in each, where ranks fell, and the money of the bettors.

    `edges` are those of numbers, `labels` those that have a cell. Missing values have the last cell, labels that have
    none the cell before. `reference` counts the reference rows by cell and `pool` these and all new ones. For each
    memory `ranks` counts ranks by part of [0, 1], and `sums` holds their number and the sum of 2 u - 1.
    """

    name: str
    kind: Kind
    edges: FloatArray
    labels: list[str]
    reference: FloatArray
    pool: FloatArray
    ranks: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), _RANK_BINS)))
    sums: FloatArray = field(default_factory=lambda: np.zeros((len(MEMORIES), 2)))
    streams: Streams = field(default_factory=Streams)
    n_steps: int = 0

    @classmethod
    def of(cls, name: str, values: FloatArray | list[str | None], generator: np.random.Generator) -> _Column:
        """Make cells of a random half of the reference rows, and count the other half in them."""
        order = generator.permutation(len(values))
        half = order[: order.size // 2]
        edges, labels, kind = np.empty(0), list[str](), _kind(values)
        if isinstance(values, np.ndarray):
            known = values[half][~np.isnan(values[half])]
            shares = np.linspace(0.0, 1.0, _MOST_CELLS + 1)[1:-1]
            edges = np.unique(np.quantile(known, shares, method="inverted_cdf")) if known.size else edges
        else:
            seen: dict[str, int] = {}
            for i in half.tolist():
                if (label := values[i]) is not None:
                    seen[label] = seen.get(label, 0) + 1
            labels = sorted(sorted(seen, key=lambda each: (-seen[each], each))[:_MOST_LABELS])
        column = cls(name, kind, edges, labels, np.empty(0), np.empty(0))
        rest = order[order.size // 2 :]
        others = values[rest] if isinstance(values, np.ndarray) else [values[i] for i in rest.tolist()]
        column.reference = np.bincount(column.cells(others), minlength=column.n_cells).astype(np.float64)
        column.pool = column.reference.copy()
        return column

    @property
    def n_cells(self) -> int:
        """Number of cells, with those of labels without one and of missing values."""
        return max(self.edges.size, len(self.labels)) + 2

    def cells(self, values: FloatArray | list[str | None]) -> IntArray:
        """Return the cell of each value."""
        if isinstance(values, np.ndarray):
            found = np.searchsorted(self.edges, values, side="right")
            found[np.isnan(values)] = self.n_cells - 1
            return found.astype(np.int64)
        place = {label: i for i, label in enumerate(self.labels)}
        missing = self.n_cells - 1
        return np.array([missing if v is None else place.get(v, missing - 1) for v in values], dtype=np.int64)

    def add(self, cells: IntArray, generator: np.random.Generator) -> None:
        """Bet on new rows, step by step, and learn from each step."""
        size = max(_STEP_ROWS, math.ceil(cells.size / _MOST_STEPS))
        for start in range(0, cells.size, size):
            self._step(self._ranks(cells[start : start + size], generator))

    def _ranks(self, cells: IntArray, generator: np.random.Generator) -> FloatArray:
        """Return the rank of each row among those before it and itself, ties broken at random, and count the rows."""
        one = np.zeros((cells.size, self.n_cells))
        one[np.arange(cells.size), cells] = 1.0
        before = self.pool + np.cumsum(one, axis=0) - one
        below = np.cumsum(before, axis=1) - before
        at = np.arange(cells.size)
        rank = below[at, cells] + generator.random(cells.size) * (before[at, cells] + 1.0)
        self.pool = self.pool + one.sum(axis=0)
        found: FloatArray = rank / (before.sum(axis=1) + 1.0)
        return found

    def _step(self, u: FloatArray) -> None:
        """Let each bettor bet on ranks by what is known, then learn from them."""
        t = self.n_steps + 1
        bins = np.minimum((u * _RANK_BINS).astype(np.int64), _RANK_BINS - 1)
        tilt = 2.0 * u - 1.0
        gains = []
        for ranks, (n, total) in zip(self.ranks, self.sums, strict=True):
            share = (ranks + _PRIOR_ROWS) / (ranks.sum() + _PRIOR_ROWS * _RANK_BINS)
            slope = min(max(3.0 * total / (n + _PRIOR_TILT), -1.0), 1.0)
            for density in (share[bins] * _RANK_BINS, 1.0 + slope * tilt):
                gains += [float(np.log1p(stake * (density - 1.0)).sum()) for stake in STAKES]
        won = np.array([gains])
        self.streams.release(t, 1)
        self.streams.bet(np.zeros(1, dtype=np.int64), np.array([float(t)]), won, won, t + 0.5)
        counted = np.bincount(bins, minlength=_RANK_BINS)
        kept = np.array(MEMORIES)[:, None]
        self.ranks = kept * self.ranks + counted
        self.sums = kept * self.sums + np.array([u.size, tilt.sum()])
        self.n_steps = t

    def distance(self, cells: IntArray) -> float:
        """Return how large a share of rows would have to lie elsewhere to be as the reference rows."""
        new = np.bincount(cells, minlength=self.n_cells) / cells.size
        return 0.5 * float(np.abs(new - self.reference / self.reference.sum()).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        arrays = {name: getattr(self, name).tolist() for name in ("edges", "reference", "pool", "ranks", "sums")}
        known = {"name": self.name, "kind": self.kind, "labels": self.labels, "n_steps": self.n_steps}
        return {**known, **arrays, "streams": self.streams.to_dict()}

    @classmethod
    def from_field(cls, body: DocumentField) -> _Column:
        """Return the column of a state."""
        of = body.members(_OF_COLUMN)
        kind: Kind = of["kind"].choice(("number", "label"))
        edges, labels = of["edges"].rising(minimum=0), list(of["labels"].items(minimum=0))
        texts = [label.text() for label in labels]
        column = cls(of["name"].text(), kind, edges, texts, of["reference"].numbers(), of["pool"].numbers())
        if (kind == "number" and texts) or (kind == "label" and edges.size) or len(set(texts)) < len(texts):
            of["labels"].refuse("does not go with the kind of the column")
        for name, values in (("reference", column.reference), ("pool", column.pool)):
            if values.size != column.n_cells or (values < 0.0).any() or values.sum() <= 0.0:
                of[name].refuse(f"is not the number of rows in each of {column.n_cells:,} cells")
        if (column.pool < column.reference).any():
            of["pool"].refuse("holds fewer rows than the reference")
        for name, width in (("ranks", _RANK_BINS), ("sums", 2)):
            rows = [row.numbers() for row in of[name].items()]
            if [row.size for row in rows] != [width] * len(MEMORIES) or (np.array(rows)[:, 0] < 0.0).any():
                of[name].refuse(f"is not {len(MEMORIES)} lists of {width} numbers")
            setattr(column, name, np.array(rows))
        if (column.ranks < 0.0).any() or (np.abs(column.sums[:, 1]) > column.sums[:, 0]).any():
            of["ranks"].refuse("is not what ranks give")
        column.streams, column.n_steps = Streams.from_field(of["streams"]), of["n_steps"].integer(minimum=0)
        if column.streams.n_released != column.n_steps:
            of["n_steps"].refuse("does not go with the money that was bet")
        return column


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
        self.alpha = check_fraction("alpha", alpha)
        self.seed = check_integer("rng", rng, minimum=0)
        self.windows: list[DriftWindow] = []
        checked = _checked(reference, "reference")
        n_rows = len(next(iter(checked.values())))
        if n_rows < _LEAST_ROWS:
            raise InvalidInputError(f"reference has {count(n_rows, 'row')}. Pass at least {_LEAST_ROWS}.")
        self._columns_by_name = {
            name: _Column.of(name, values, np.random.default_rng([self.seed, 0, i]))
            for i, (name, values) in enumerate(checked.items())
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are watched."""
        return tuple(self._columns_by_name)

    @property
    def limit(self) -> float:
        """The logarithm of the evidence at which a column is found to differ."""
        return math.log(len(self._columns_by_name) / self.alpha)

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
        checked = self._read(rows)
        for each, values in checked.items():
            kind = self._columns_by_name[each].kind
            if _kind(values) != kind and any(v is not None for v in values):
                raise InvalidTypeError(
                    f"column {each!r} holds {_kind(values)}s, and the reference {kind}s. Pass the same kind."
                )
        t = len(self.windows) + 1
        cells = {
            each: self._columns_by_name[each].cells(_as_kind(values, self._columns_by_name[each].kind))
            for each, values in checked.items()
        }
        log_e_values, distances = {}, {}
        for i, (each, column) in enumerate(self._columns_by_name.items()):
            distances[each] = column.distance(cells[each])
            column.add(cells[each], np.random.default_rng([self.seed, t, i]))
            log_e_values[each] = column.streams.log_value
        known = self.windows[-1].drifted if self.windows else ()
        drifted = tuple(each for each in self.names if each in known or log_e_values[each] >= self.limit)
        n = len(next(iter(checked.values())))
        window = DriftWindow(name, n, log_e_values, distances, drifted, self.digest(rows))
        self.windows.append(window)
        return window

    def _read(self, rows: Mapping[str, ArrayLike]) -> dict[str, FloatArray | list[str | None]]:
        """Check the columns that the reference has."""
        given = _names(rows)
        for each in self.names:
            if each not in given:
                raise unknown_name("column of the reference that is not in the rows:", each, given)
        return _checked({each: rows[each] for each in self.names}, "rows")

    def digest(self, rows: Mapping[str, ArrayLike]) -> str:
        """Return what tells the cells of rows, in their order, from others."""
        found = hashlib.sha256()
        for each, values in self._read(rows).items():
            column = self._columns_by_name[each]
            found.update(column.cells(_as_kind(values, column.kind)).astype("<i8").tobytes())
        return found.hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """Return all that the monitor knows as plain values, for the next run to go on from."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "alpha": self.alpha,
            "seed": self.seed,
            "columns": [column.to_dict() for column in self._columns_by_name.values()],
            "windows": [window.to_dict() for window in self.windows],
        }

    @classmethod
    def from_dict(cls, state: object) -> DriftMonitor:
        """Return the monitor of a state that `to_dict` gave; raises DocumentError if it is no such state."""
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise DocumentError("this is not the state of a monitor of drift. Pass what DriftMonitor.to_dict gave.")
        if state.get("version") != _VERSION:
            raise DocumentError(f"state of a monitor of drift, version {state.get('version')!r}, is not read. {_FIX}")
        with within("the state of the monitor is broken"):
            of = DocumentField(state, fix=_FIX).members(_MEMBERS)
            monitor = cls.__new__(cls)
            monitor.alpha = of["alpha"].number()
            if not 0.0 < monitor.alpha < 1.0:
                of["alpha"].refuse("is outside (0, 1)")
            monitor.seed = of["seed"].integer(minimum=0)
            columns = [_Column.from_field(item) for item in of["columns"].items()]
            monitor._columns_by_name = {column.name: column for column in columns}
            monitor.windows = []
            for item in of["windows"].items(minimum=0):
                monitor.windows.append(_window(item, monitor))
            if len(monitor._columns_by_name) != len(columns) or not monitor._fits():
                raise DocumentError(f"its parts don't fit together. {_FIX}")
        return monitor

    def _fits(self) -> bool:
        """Say whether windows and evidence are of the same stream."""
        n_new = sum(window.n for window in self.windows)
        last = self.windows[-1].log_e_values if self.windows else dict.fromkeys(self.names, 0.0)
        return all(
            math.isclose(column.pool.sum() - column.reference.sum(), n_new, abs_tol=0.5)
            and math.isclose(column.streams.log_value, last[name], abs_tol=1e-6)
            for name, column in self._columns_by_name.items()
        )

    def _columns(self) -> dict[str, Sequence[Any]]:
        rows = [
            {"window": window.name, "n": window.n, **window.log_e_values, "alarm": window.is_alarm}
            for window in self.windows
        ]
        return rows_as_columns(rows) if rows else {"window": [], "n": []}

    def _before(self) -> list[str]:
        state = f"alarm since {self.first_alarm}" if self.is_alarm else "no alarm"
        return [f"Drift of {listed(self.names, most=5)} in {count(len(self.windows), 'window')}: {state}"]


def _names(columns: Any) -> list[Any]:
    """Return the names of the columns of a mapping or of a frame of any kind."""
    for attribute in ("column_names", "columns"):
        if hasattr(columns, attribute):
            return list(getattr(columns, attribute))
    return list(columns)


def _checked(columns: Mapping[str, ArrayLike], name: str) -> dict[str, FloatArray | list[str | None]]:
    """Return columns as numbers with NaN for what is missing, or as texts with None."""
    names = _names(columns)
    if not names:
        raise InvalidInputError(f"{name} has no columns. Pass at least one.")
    found = {str(each): _values(columns[each], f"column {each!r} of {name}") for each in names}
    sizes = {len(values) for values in found.values()}
    if sizes == {0} or len(sizes) > 1:
        raise ShapeError(f"{name} has columns of {listed(sorted(sizes))} rows. Pass one value of each per row.")
    return found


def _values(column: ArrayLike, name: str) -> FloatArray | list[str | None]:
    values = np.asarray(column)
    if values.ndim != 1:
        raise ShapeError(f"{name} has shape {values.shape}. Pass one value per row.")
    if values.dtype.kind in "fiu":
        numbers = values.astype(np.float64)
        if np.isinf(numbers).any():
            raise InvalidInputError(f"{name} row {int(np.isinf(numbers).argmax())} is infinite. Leave it missing.")
        return numbers
    if values.dtype.kind not in "bOUT":
        raise InvalidTypeError(f"{name} is of type {values.dtype}. Pass numbers, texts or booleans.")
    items = values.tolist()
    missing = [_is_missing(item) for item in items]
    known = [item for item, is_missing in zip(items, missing, strict=True) if not is_missing]
    if known and all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in known):
        return np.array([math.nan if gone else item for item, gone in zip(items, missing, strict=True)], dtype=float)
    for item in known:
        if not isinstance(item, (str, bool)):
            kind = type(item).__name__
            raise InvalidTypeError(f"{name} holds {item!r:.60} of type {kind}. Pass numbers, texts or booleans.")
    return [None if is_missing else str(item) for item, is_missing in zip(items, missing, strict=True)]


def _is_missing(item: object) -> bool:
    return item is None or (isinstance(item, float) and math.isnan(item)) or type(item).__name__ == "NAType"


def _kind(values: FloatArray | list[str | None]) -> Kind:
    return "number" if isinstance(values, np.ndarray) else "label"


def _as_kind(values: FloatArray | list[str | None], kind: Kind) -> FloatArray | list[str | None]:
    """Return values of a kind: what is all missing can be of either."""
    if _kind(values) == kind:
        return values
    return np.full(len(values), math.nan) if kind == "number" else [None] * len(values)


def _window(body: DocumentField, monitor: DriftMonitor) -> DriftWindow:
    """Return the next window of a state."""
    of = body.members(("name", "n", "log_e_values", "distances", "drifted", "digest"))
    figures = {
        name: {key: each.number() for key, each in of[name].members(monitor.names).items()}
        for name in ("log_e_values", "distances")
    }
    drifted = of["drifted"].names(minimum=0)
    known = monitor.windows[-1].drifted if monitor.windows else ()
    found = tuple(
        each for each in monitor.names if each in known or figures["log_e_values"][each] >= monitor.limit - 1e-9
    )
    if drifted != found:
        of["drifted"].refuse("does not go with the evidence and alpha")
    name = of["name"].text()
    if name in {window.name for window in monitor.windows}:
        of["name"].refuse("is the name of a window before")
    n = of["n"].integer(minimum=1)
    return DriftWindow(name, n, figures["log_e_values"], figures["distances"], drifted, of["digest"].text())
