"""Purged and embargoed splits: training rows whose labels overlap those of the test rows are left out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import signature
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from calibrant.dependence.overlap import overlapping
from calibrant.dependence.times import TimeArray, as_label_times, as_span
from calibrant.errors import InvalidInputError, ShapeError
from calibrant.numerics import BoolArray, IntArray
from calibrant.validation import ArrayLike, check_integer, check_same_length


class _Label:
    """When the label of each row starts and ends, both ends included, and how long the embargo is."""

    def __init__(self, n: int, times: ArrayLike | None, label_end: ArrayLike | None, purge: Any, embargo: Any) -> None:
        start, name = (np.arange(n), "X") if times is None else (times, "times")
        self.start, end = as_label_times(start, start if label_end is None else label_end, name=name)
        check_same_length(n, self.start.size, "X", "times")
        self.end: TimeArray = end + as_span(purge, name="purge", times=end)
        self.embargo = as_span(embargo, name="embargo", times=self.end)
        self.order: IntArray = np.argsort(self.start, kind="stable").astype(np.int64)

    def overlaps(self, block: IntArray) -> BoolArray:
        """Say which rows have labels that overlap those of a block, or start within the embargo after them."""
        return overlapping(self.start, self.end, block, self.embargo)


@dataclass(eq=False, repr=False, kw_only=True)
class _PurgedSplit(ABC):
    """What the splits have in common; see `PurgedKFold` for the fields."""

    n_splits: int = field(init=False)
    times: ArrayLike | None = None
    label_end: ArrayLike | None = None
    purge: Any = 0
    embargo: Any = 0

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[IntArray, IntArray]]:  # noqa: ARG002
        """Return an iterator over the rows to train on and to test on, as arrays of sorted row numbers.

        Only the number of rows of `X` counts; `y` and `groups` are what scikit-learn passes. Raises CalibrantError
        where times don't fit the rows, or a split is left without a row to train on.
        """
        return self._splits(_Label(n_rows(X), self.times, self.label_end, self.purge, self.embargo))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of splits; the arguments are ignored."""
        return self.n_splits

    @abstractmethod
    def _splits(self, label: _Label) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the rows to train on and to test on."""

    def __repr__(self) -> str:
        given = (f"{name}={_short(getattr(self, name))}" for name in signature(type(self)).parameters)
        return f"{type(self).__name__}({', '.join(given)})"


@dataclass(eq=False, repr=False)
class PurgedKFold(_PurgedSplit):
    """K-fold splits of rows in time, without the training rows whose labels overlap the test fold.

    Parameters
    ----------
    n_splits : int
        Number of folds: as many rows in each, give or take one, next to each other in time.
    times : array-like of shape (n,), optional
        Time of each row, in any order: numbers, or datetimes of any container. The number of the row by default.
    label_end : array-like of shape (n,), optional
        Time at which the label of each row is known; the row's own time by default. A label covers all from the
        row's time to its end, both included.
    purge : number or timedelta
        Added to every `label_end`: the horizon, where all labels end equally long after their rows. In the unit of
        `times`; rows, where these are left out.
    embargo : number or timedelta
        Rows that start within this span after the last label of a test fold has ended are not trained on either:
        their features may contain what the test rows show.

    Notes
    -----
    With labels that overlap, plain folds put almost the same label on both sides. What decides is when a label ends,
    not how many rows lie between: a label that ends at the time at which the test starts is purged. Without overlap the
    splits are those of scikit-learn's ``KFold``. Use it as `cv` wherever scikit-learn takes one, and pass all rows:
    row i of X has the i-th of the times.

    References
    ----------
    López de Prado (2018), *Advances in financial machine learning*, sections 7.4.1 and 7.4.2.

    Examples
    --------
    >>> from calibrant.splits import PurgedKFold
    >>> for train, test in PurgedKFold(3, purge=1, embargo=1).split(range(9)):
    ...     print(train, test)
    [5 6 7 8] [0 1 2]
    [0 1 8] [3 4 5]
    [0 1 2 3 4] [6 7 8]
    """

    n_splits: int = 5

    def __post_init__(self) -> None:
        self.n_splits = check_integer("n_splits", self.n_splits, minimum=2)

    def _splits(self, label: _Label) -> Iterator[tuple[IntArray, IntArray]]:
        for number, block in enumerate(_blocks(label, self.n_splits, "n_splits")):
            yield _some(np.flatnonzero(~label.overlaps(block)), number, label), np.sort(block)


@dataclass(eq=False, repr=False)
class CombinatorialPurgedKFold(_PurgedSplit):
    """Every choice of some of the folds for testing, purged and embargoed around each.

    Parameters
    ----------
    n_folds : int
        Number of folds, next to each other in time.
    n_test_folds : int
        How many of them are tested on at a time.
    times, label_end, purge, embargo
        As for `PurgedKFold`.

    Attributes
    ----------
    n_splits : int
        Number of splits, `n_folds` over `n_test_folds`.
    n_paths : int
        How often each row is tested: the predictions make as many series over all rows.

    References
    ----------
    López de Prado (2018), *Advances in financial machine learning*, sections 12.3 and 12.4.

    Examples
    --------
    >>> from calibrant.splits import CombinatorialPurgedKFold
    >>> cv = CombinatorialPurgedKFold(4, 2)
    >>> cv.n_splits, cv.n_paths
    (6, 3)
    >>> cv.paths()  # of each series, the split that predicts each fold
    array([[0, 0, 1, 2],
           [1, 3, 3, 4],
           [2, 4, 5, 5]])
    """

    n_folds: int = 6
    n_test_folds: int = 2
    n_paths: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_folds = check_integer("n_folds", self.n_folds, minimum=2)
        self.n_test_folds = check_integer("n_test_folds", self.n_test_folds, minimum=1)
        if self.n_test_folds >= self.n_folds:
            raise InvalidInputError(
                f"n_test_folds={self.n_test_folds} leaves none of n_folds={self.n_folds} to train on. Pass a smaller "
                "number."
            )
        self.n_splits = comb(self.n_folds, self.n_test_folds)
        self.n_paths = comb(self.n_folds - 1, self.n_test_folds - 1)

    def paths(self) -> IntArray:
        """Return the number of the split that predicts each fold in each series, shape (n_paths, n_folds)."""
        found: list[list[int]] = [[] for _ in range(self.n_folds)]
        for number, chosen in enumerate(combinations(range(self.n_folds), self.n_test_folds)):
            for fold in chosen:
                found[fold].append(number)
        return np.array(found, dtype=np.int64).T

    def _splits(self, label: _Label) -> Iterator[tuple[IntArray, IntArray]]:
        blocks = _blocks(label, self.n_folds, "n_folds")
        overlaps = [label.overlaps(block) for block in blocks]
        for number, chosen in enumerate(combinations(range(self.n_folds), self.n_test_folds)):
            left_out = np.logical_or.reduce([overlaps[fold] for fold in chosen])
            yield _some(np.flatnonzero(~left_out), number, label), np.sort(np.concatenate([blocks[k] for k in chosen]))


@dataclass(eq=False, repr=False)
class PurgedTimeSeriesSplit(_PurgedSplit):
    """Walk forward: train on the rows whose labels are known when the test fold starts.

    Parameters
    ----------
    n_splits : int
        Number of test folds, one after the other; the last one ends with the last row.
    test_size : int, optional
        Rows of each; n // (n_splits + 1) by default.
    max_train_size : int, optional
        Train on so many rows at most, the last ones before the test.
    times, label_end, purge
        As for `PurgedKFold`. There is no embargo, since no training row comes after the test.

    Notes
    -----
    Without labels that overlap the splits are those of scikit-learn's ``TimeSeriesSplit``.

    Examples
    --------
    >>> from calibrant.splits import PurgedTimeSeriesSplit
    >>> for train, test in PurgedTimeSeriesSplit(2, purge=1).split(range(6)):
    ...     print(train, test)
    [0] [2 3]
    [0 1 2] [4 5]
    """

    n_splits: int = 5
    test_size: int | None = field(default=None, kw_only=True)
    max_train_size: int | None = field(default=None, kw_only=True)
    embargo: Any = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.n_splits = check_integer("n_splits", self.n_splits, minimum=1)
        for name in ("test_size", "max_train_size"):
            if getattr(self, name) is not None:
                setattr(self, name, check_integer(name, getattr(self, name), minimum=1))

    def _splits(self, label: _Label) -> Iterator[tuple[IntArray, IntArray]]:
        n = label.order.size
        size = n // (self.n_splits + 1) if self.test_size is None else self.test_size
        first = n - size * self.n_splits
        if size == 0 or first <= 0:
            raise InvalidInputError(
                f"X has {n:,} rows, too few for n_splits={self.n_splits} test folds of {max(size, 1):,} and a row to "
                "train on before them. Ask for fewer or smaller folds."
            )
        for number in range(self.n_splits):
            start = first + number * size
            block = label.order[start : start + size]
            begins = label.start[block].min()
            past = label.order[:start]
            past = past[label.end[past] < begins]
            if self.max_train_size is not None:
                past = past[-self.max_train_size :]
            yield _some(np.sort(past), number, label), np.sort(block)


def n_rows(X: Any) -> int:
    """Return the number of rows of anything that has rows."""
    shape: tuple[int, ...] = X.shape if hasattr(X, "shape") else (len(X),) if hasattr(X, "__len__") else ()
    if len(shape) == 0:
        raise ShapeError(f"X is a single {type(X).__name__}. Pass rows, or anything with as many entries.")
    return int(shape[0])


def _blocks(label: _Label, n_blocks: int, name: str) -> list[IntArray]:
    """Cut the rows, in the order of their times, into blocks of sizes that differ by one at most."""
    n = label.order.size
    if n < n_blocks:
        raise InvalidInputError(f"{name}={n_blocks} is more than the {n:,} rows of X. Ask for fewer folds.")
    return np.array_split(label.order, n_blocks)


def _some(train: IntArray, number: int, label: _Label) -> IntArray:
    if train.size == 0:
        longest, span = (label.end - label.start).max().item(), (label.start.max() - label.start.min()).item()
        embargo = np.asarray(label.embargo).item()
        raise InvalidInputError(
            f"split {number} has no row to train on: of {label.order.size:,} rows, those that are not tested on have "
            "labels that overlap with the test, or fall within the embargo. Labels last up to "
            f"{longest!s} with their purge, the embargo is {embargo!s}, and the times of all rows span {span!s}. "
            "Shorten label_end, purge or embargo."
        )
    return train


def _short(value: Any) -> str:
    """Write an argument; of an array only its length."""
    if hasattr(value, "__len__") and not isinstance(value, str):
        return f"<{len(value):,} values>"
    return repr(value)
