"""Dataset: features and finished labels of the rows of a source, and parts of it in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, IntArray
from calibrant.rows import Rows
from calibrant.training.bar_clock import BarClock, usual_step
from calibrant.training.bars import Bars
from calibrant.training.features import bar_features
from calibrant.training.labels import BarLabels
from calibrant.validation import Labels

#: Without so many rows a part of the data can't be fitted to, or judge.
FEWEST_ROWS = 30


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRows:
    """Rows that can be predicted, sorted by time and then by symbol; their labels may not be known yet."""

    X: FloatArray
    names: tuple[str, ...]
    time: TimeArray
    symbol: npt.NDArray[Any]
    #: Rows of the source that have no features, such as the first bars of a symbol.
    n_left_out: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.time.size)


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Rows to train on and to predict, sorted by time and then by symbol."""

    #: Features, of what is known at the time of the row, and their names.
    X: FloatArray
    names: tuple[str, ...]
    #: Labels, and all classes, sorted: of bars -1, 0 and 1, or 0 and 1; of a table whatever labels can be.
    y: npt.NDArray[Any]
    classes: npt.NDArray[Any]
    #: When the row is predicted (of bars: when the bar closes) and its label starts, and when the label is known.
    time: TimeArray
    label_end: TimeArray
    #: What was traded, or what else a row is of; empty where a table doesn't say.
    symbol: npt.NDArray[Any]
    #: Average uniqueness of the label, in (0, 1]; a sum of it is about the number of independent labels.
    weight: FloatArray
    #: Simple return from `time` to `label_end`; None where a table doesn't say, and then nothing can be staked.
    label_return: FloatArray | None
    #: The most that a label may take, in the unit of the times; of a table, what 99 in 100 take at most.
    horizon_time: Any
    #: When bars close, also those that are no rows; by default steps between the times of the rows are counted.
    clock: BarClock = field(default_factory=BarClock)

    def __post_init__(self) -> None:
        if self.clock.step is None:
            object.__setattr__(self, "clock", BarClock({}, usual_step(self.time)))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.y.size)

    @property
    def codes(self) -> IntArray:
        """The place of each label in `classes`."""
        return np.searchsorted(self.classes, self.y).astype(np.int64)

    @property
    def has_stakes(self) -> bool:
        """Whether rows can be staked on: their returns are known, and the classes are a fall, neither, and a rise."""
        return self.label_return is not None and self.classes.tolist() in ([-1, 0, 1], [-1, 1], [0, 1])

    @property
    def labels(self) -> Labels:
        """The labels, as the rest of calibrant takes them."""
        return Labels(self.codes, self.classes)

    def rows(self, prob: FloatArray) -> Rows:
        """Return the rows with these probabilities of the classes, shape (n, K), each counting as one."""
        return Rows(np.ascontiguousarray(prob), self.labels, time=self.time, label_end=self.label_end)

    def take(self, rows: IntArray) -> Dataset:
        """Return some of the rows, by number."""
        per_row = ("X", "y", "time", "label_end", "symbol", "weight")
        some = None if self.label_return is None else self.label_return[rows]
        return replace(self, **{name: getattr(self, name)[rows] for name in per_row}, label_return=some)

    def class_rates(self) -> FloatArray:
        """Return the share of the rows in each class."""
        return np.bincount(self.codes, minlength=self.classes.size) / self.n_rows

    def table(self, prob: Mapping[str, FloatArray], **more: Any) -> dict[str, Any]:
        """Return columns for a file: what is known of each row, more of it, and `prob` with a column for each class."""
        known = ("time", "label_end", "symbol", "y", *(() if self.label_return is None else ("label_return",)))
        return {
            **{name: getattr(self, name) for name in known},
            "uniqueness": self.weight,
            **more,
            **{f"{name}_{label}": p[:, k] for name, p in prob.items() for k, label in enumerate(self.classes.tolist())},
        }

    @property
    def horizon_bars(self) -> int:
        """The most bars, or usual steps, that a label takes."""
        return int(np.ceil(self.horizon_time / self.clock.step)) if self.clock.step else 0

    def ends_before(self, rows: IntArray, start: Any, embargo: int) -> IntArray:
        """Return those of the rows whose labels end before a time, with an embargo of so many bars between."""
        return rows[self.clock.is_apart(self.symbol[rows], self.label_end[rows], start, embargo)]

    def starts_after(self, rows: IntArray, end: Any, embargo: int) -> IntArray:
        """Return those of the rows that start after a time, with an embargo of so many bars between."""
        return rows[self.clock.is_apart(self.symbol[rows], end, self.time[rows], embargo)]

    def last(self, share: float, embargo: int = 0) -> tuple[Dataset, Dataset]:
        """Return the rows whose labels end before the last part in time starts, and this part: a share of all rows."""
        before, last = _last(self, np.arange(self.n_rows), round(share * self.n_rows), embargo)
        return self.take(before), self.take(last)


def make_dataset(bars: Bars, labels: BarLabels, *, horizon: int) -> Dataset:
    """Return the bars that have features and a finished label, in the order of time."""
    X, names = bar_features(bars)
    usable = labels.is_finished & np.isfinite(X).all(axis=1)
    if not usable.any():
        raise InvalidInputError(
            f"{bars.source}: none of {bars.n_rows:,} bars has both a finished label and enough history for its "
            "features. Pass more bars, or a shorter horizon."
        )
    symbol = np.repeat(np.array(bars.symbols, dtype=object), np.diff(bars.starts))
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(bars.time[rows], kind="stable")]
    end = labels.end[rows]
    return Dataset(
        X=X[rows],
        names=names,
        y=labels.y[rows],
        classes=labels.classes,
        time=bars.time[rows],
        label_end=bars.time[end],
        symbol=symbol[rows],
        weight=labels.uniqueness[rows],
        label_return=bars.close[end] / bars.close[rows] - 1.0,
        horizon_time=bars.step * horizon,
        clock=BarClock({name: bars.time[part] for name, part in bars.parts()}, bars.step),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Holdout:
    """Row numbers of the parts in time of one model: each comes after the one before it.

    To fit the model on, to tell boosting when to stop, to fit the calibrator on, and to measure on. No label of a part
    reaches into a later one: `n_purged` rows are in no part, as theirs do.
    """

    fit: IntArray
    stop: IntArray
    validation: IntArray
    test: IntArray
    n_purged: int

    @property
    def before(self) -> IntArray:
        """The rows before the test part that are in any part."""
        return np.concatenate((self.fit, self.stop, self.validation))


def hold_out(
    data: Dataset, *, validation: float = 0.2, test: float = 0.2, stop: float = 0.15, embargo: int = 0
) -> Holdout:
    """Cut the rows in time, or refuse where a part is left with hardly any row or with one class.

    `validation` and `test` are shares of all rows, `stop` of those before the validation part; `embargo` is the number
    of bars that have to lie between the end of a label and the start of the part that follows.
    """
    n = data.n_rows
    past, test_rows = _last(data, np.arange(n), round(test * n), embargo)
    parts = parts_before(data, past, test_rows, n_validation=round(validation * n), stop=stop, embargo=embargo)
    _check_part(data, test_rows, "test part")
    return replace(parts, n_purged=n - test_rows.size - parts.before.size)


def test_part(data: Dataset, *, test: float, embargo: int) -> tuple[Dataset, Dataset]:
    """Return the rows before the test part and this, or refuse where one has hardly any row or one class."""
    before, last = data.last(test, embargo)
    for name, part in {"part before the test part": before, "test part": last}.items():
        _check_part(part, np.arange(part.n_rows), name)
    return before, last


def parts_before(
    data: Dataset, past: IntArray, test: IntArray, *, n_validation: int, stop: float, embargo: int, of: str = ""
) -> Holdout:
    """Cut the rows before a test part in time; `past` are those whose labels end before it, `of` says whose they are.

    `n_purged` counts those of `past` that are in no part.
    """
    rest, validation = _last(data, past, n_validation, embargo)
    fit, stopping = _last(data, rest, round(stop * rest.size), embargo)
    for name, part in {"fit": fit, "stop": stopping, "validation": validation}.items():
        _check_part(data, part, f"{name} part{of}")
    return Holdout(fit, stopping, validation, test, past.size - fit.size - stopping.size - validation.size)


def _check_part(data: Dataset, part: IntArray, name: str) -> None:
    """Refuse a part that nothing can be learnt from, or measured on."""
    seen = np.unique(data.y[part]).tolist()
    if part.size < FEWEST_ROWS or len(seen) < 2:
        raise InvalidInputError(
            f"the {name} has {part.size:,} rows{f' of the classes {seen!r}' if seen else ''}: "
            f"at least {FEWEST_ROWS} rows of two classes are needed. Pass more rows, or labels that end sooner."
        )


def _last(data: Dataset, rows: IntArray, n_last: int, embargo: int) -> tuple[IntArray, IntArray]:
    """Return the rows whose labels end before the last rows start, which may be none, and these."""
    if rows.size == 0:
        raise InvalidInputError(
            f"an embargo of {embargo:,} bars leaves no row before a part. Ask for a shorter one, or pass more rows."
            if embargo
            else "labels that reach into a part leave no row before it. Pass more rows, or labels that end sooner."
        )
    n_last = min(max(1, n_last), rows.size)
    past, last = rows[:-n_last], rows[-n_last:]
    return data.ends_before(past, data.time[last].min(), embargo), last
