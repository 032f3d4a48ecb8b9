"""Dataset: features and labels of bars, one row per bar whose label is finished, in the order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, IntArray
from calibrant.training.bars import Bars
from calibrant.training.features import bar_features
from calibrant.training.labels import BarLabels


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Rows to train on and to predict, sorted by time and then by symbol.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Features, of what is known when the bar of the row closes.
    names : tuple of str
        Names of the columns of `X`.
    y : ndarray of shape (n,)
        Labels, all of them in `classes`.
    classes : ndarray of shape (K,)
        All classes, sorted: -1, 0 and 1, or 0 and 1.
    time : ndarray of shape (n,)
        When the bar of the row closes, and its label starts.
    label_end : ndarray of shape (n,)
        When the label is known.
    symbol : ndarray of shape (n,)
        What was traded.
    weight : ndarray of shape (n,)
        Average uniqueness of the label, in (0, 1]; a sum of it is about the number of independent labels.
    label_return : ndarray of shape (n,)
        Simple return from `time` to `label_end`.
    horizon_time : timedelta64
        The most that a label may take, in the usual step between bars.
    """

    X: FloatArray
    names: tuple[str, ...]
    y: IntArray
    classes: IntArray
    time: TimeArray
    label_end: TimeArray
    symbol: npt.NDArray[Any]
    weight: FloatArray
    label_return: FloatArray
    horizon_time: np.timedelta64

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.y.size)

    @property
    def codes(self) -> IntArray:
        """The place of each label in `classes`."""
        return np.searchsorted(self.classes, self.y).astype(np.int64)

    def take(self, rows: IntArray) -> Dataset:
        """Return some of the rows, by number."""
        return Dataset(
            self.X[rows],
            self.names,
            self.y[rows],
            self.classes,
            self.time[rows],
            self.label_end[rows],
            self.symbol[rows],
            self.weight[rows],
            self.label_return[rows],
            self.horizon_time,
        )

    def class_rates(self) -> FloatArray:
        """Return the share of the rows in each class."""
        return np.bincount(self.codes, minlength=self.classes.size) / self.n_rows


def make_dataset(bars: Bars, labels: BarLabels, *, horizon: int) -> Dataset:
    """Return the bars that have features and a finished label, in the order of time.

    Parameters
    ----------
    bars : Bars
    labels : BarLabels
        Of these bars, as `label_bars` gives them.
    horizon : int
        The most bars that a label takes.

    Raises
    ------
    InvalidInputError
        If there is no such bar.
    """
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
    )
