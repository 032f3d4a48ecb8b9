"""Purged splits: no label of a training row overlaps that of a test row, whatever the order, unit or container."""

from __future__ import annotations

import copy
import datetime as dt
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit, check_cv, cross_val_score

import calibrant as cb
from calibrant.errors import InvalidInputError, InvalidScoreError, InvalidTypeError, ShapeError
from calibrant.splits import CombinatorialPurgedKFold, PurgedKFold, PurgedTimeSeriesSplit


@st.composite
def labelled_rows(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(8, 30))
    times = np.array(draw(st.lists(st.integers(0, 40), min_size=n, max_size=n)))
    lengths = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    purge, embargo = draw(st.integers(0, 2)), draw(st.integers(0, 4))
    return {"times": times, "label_end": times + lengths, "purge": purge, "embargo": embargo}


def brute_force(test: np.ndarray, times: Any, label_end: Any, purge: int, embargo: int) -> list[int]:
    """Return the rows that may be trained on: compare each with each test row."""
    end = label_end + purge
    kept = []
    for i in range(times.size):
        overlap = any(times[i] <= end[j] and times[j] <= end[i] for j in test)
        if not overlap and i not in test:
            kept.append(i)
    return kept


def embargoed(kept: list[int], block: np.ndarray, times: Any, label_end: Any, purge: int, embargo: int) -> list[int]:
    """Drop the rows that start after the last label of a block has ended, but within the embargo."""
    last = (label_end[block] + purge).max()
    return [i for i in kept if not last < times[i] <= last + embargo]


@given(labelled_rows(), st.integers(2, 4))
def test_training_rows_are_those_that_overlap_no_test_row(rows: dict[str, Any], n_splits: int) -> None:
    order = np.argsort(rows["times"], kind="stable")
    blocks = np.array_split(order, n_splits)
    expected = [embargoed(brute_force(block, **rows), block, **rows) for block in blocks]
    cv = PurgedKFold(n_splits, **rows)
    if not all(expected):
        with pytest.raises(InvalidInputError, match=rf"split {expected.index([])} has no row to train on"):
            list(cv.split(order))
        return
    splits = list(cv.split(order))
    assert [train.tolist() for train, _ in splits] == expected
    assert sorted(np.concatenate([test for _, test in splits]).tolist()) == list(range(order.size))


@given(labelled_rows())
def test_combinations_purge_and_embargo_around_each_test_fold(rows: dict[str, Any]) -> None:
    order = np.argsort(rows["times"], kind="stable")
    blocks = np.array_split(order, 5)
    cv = CombinatorialPurgedKFold(5, 2, **rows)
    found = cv.split(order)
    for chosen in combinations(range(5), 2):
        test = np.concatenate([blocks[k] for k in chosen])
        expected = brute_force(test, **rows)
        for k in chosen:
            expected = embargoed(expected, blocks[k], **rows)
        if not expected:
            with pytest.raises(InvalidInputError, match="has no row to train on"):
                next(found)
            return
        train, tested = next(found)
        assert train.tolist() == expected
        assert tested.tolist() == sorted(test.tolist())


@given(labelled_rows(), st.integers(1, 3))
def test_walk_forward_trains_on_labels_that_ended_before_the_test(rows: dict[str, Any], n_splits: int) -> None:
    del rows["embargo"]
    times, end = rows["times"], rows["label_end"] + rows["purge"]
    first = np.sort(times)[times.size - times.size // (n_splits + 1) * n_splits]
    splits = PurgedTimeSeriesSplit(n_splits, **rows).split(times)
    if not (end < first).any():
        with pytest.raises(InvalidInputError, match="split 0 has no row to train on"):
            next(splits)
        return
    for train, test in splits:
        begins = times[test].min()
        assert (end[train] < begins).all()
        left_out = np.setdiff1d(np.arange(times.size), np.concatenate((train, test)))
        assert ((end[left_out] >= begins) | (times[left_out] >= times[test].max())).all()


def test_label_that_ends_when_the_test_starts_is_purged() -> None:
    times = np.arange(9.0)
    touching = next(iter(list(PurgedKFold(3, times=times, label_end=times + 1).split(times))[2:]))
    assert touching[0].tolist() == [0, 1, 2, 3, 4]
    ends_before = list(PurgedKFold(3, times=times, label_end=times + 0.99).split(times))[2]
    assert ends_before[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_ends_decide_and_not_a_horizon_of_rows() -> None:
    """One early label that ends late is purged from the folds that it reaches into, and no other row is."""
    end = np.arange(9)
    end[0] = 7
    splits = list(PurgedKFold(3, label_end=end).split(end))
    assert splits[1][0].tolist() == [1, 2, 6, 7, 8]
    assert splits[2][0].tolist() == [1, 2, 3, 4, 5]
    assert splits[0][0].tolist() == [8]  # as a test row it takes all until its end with it


@pytest.mark.parametrize("n", [10, 23])
def test_without_overlap_splits_are_scikit_learns(n: int) -> None:
    X = np.zeros((n, 2))
    for ours, theirs in (
        (PurgedKFold(4), KFold(4)),
        (PurgedTimeSeriesSplit(3), TimeSeriesSplit(3)),
        (PurgedTimeSeriesSplit(3, test_size=2, max_train_size=3), TimeSeriesSplit(3, test_size=2, max_train_size=3)),
        (PurgedTimeSeriesSplit(3, test_size=2, purge=2), TimeSeriesSplit(3, test_size=2, gap=2)),
    ):
        for (train, test), (their_train, their_test) in zip(ours.split(X), theirs.split(X), strict=True):
            assert train.tolist() == their_train.tolist()
            assert test.tolist() == their_test.tolist()
        assert ours.get_n_splits(X) == theirs.get_n_splits(X)


def test_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    times = np.arange(40)
    end = times + rng.integers(0, 5, 40)
    shuffle = rng.permutation(40)
    straight = PurgedKFold(4, times=times, label_end=end, embargo=2).split(times)
    shuffled = PurgedKFold(4, times=times[shuffle], label_end=end[shuffle], embargo=2).split(times)
    for (train, test), (train_, test_) in zip(straight, shuffled, strict=True):
        assert sorted(shuffle[train_]) == train.tolist()
        assert sorted(shuffle[test_]) == test.tolist()


DAYS = [dt.datetime(2020, 1, 1) + dt.timedelta(days=3 * i) for i in range(20)]


@pytest.mark.parametrize(
    "clothes",
    [
        list,
        np.array,
        lambda days: np.array(days, dtype="datetime64[ns]"),
        lambda days: np.array(days, dtype=object),
        lambda days: [d.date() for d in days],
        lambda days: [d.replace(tzinfo=dt.UTC) for d in days],
        pd.Series,
        pd.DatetimeIndex,
        lambda days: pd.Series(days).dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
        pl.Series,
        lambda days: pl.Series(days).dt.replace_time_zone("Europe/Rome"),
    ],
)
def test_datetimes_of_any_container_are_the_same_times(clothes: Any) -> None:
    ends = [d + dt.timedelta(days=4) for d in DAYS]
    expected = PurgedKFold(4, times=np.arange(20) * 3, label_end=np.arange(20) * 3 + 4, purge=1, embargo=5).split(DAYS)
    cv = PurgedKFold(
        4, times=clothes(DAYS), label_end=clothes(ends), purge=dt.timedelta(days=1), embargo=np.timedelta64(5, "D")
    )
    for (train, test), (their_train, their_test) in zip(cv.split(DAYS), expected, strict=True):
        assert train.tolist() == their_train.tolist()
        assert test.tolist() == their_test.tolist()


def test_whole_numbers_keep_all_their_digits() -> None:
    """Nanoseconds since 1970, one apart, are one number as floats."""
    times = np.arange(6) + 2**60
    assert [train.tolist() for train, _ in PurgedKFold(2, times=times).split(times)] == [[3, 4, 5], [0, 1, 2]]


def test_each_row_is_tested_once_on_each_path() -> None:
    cv = CombinatorialPurgedKFold(6, 3)
    paths = cv.paths()
    assert cv.get_n_splits() == comb(6, 3) == 20
    assert paths.shape == (cv.n_paths, 6) == (comb(5, 2), 6)
    tests = [test for _, test in cv.split(np.zeros(60))]
    folds = np.array_split(np.arange(60), 6)
    for path in paths:
        assert all(np.isin(folds[k], tests[split]).all() for k, split in enumerate(path))
    for k in range(6):
        assert len(set(paths[:, k].tolist())) == cv.n_paths


@pytest.mark.parametrize(
    "cv", [PurgedKFold(3, purge=2), PurgedTimeSeriesSplit(3, purge=2), CombinatorialPurgedKFold(4, 2, embargo=3)]
)
def test_scikit_learn_takes_them_as_cv(cv: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = (X[:, 0] + rng.normal(size=90) > 0).astype(int)
    assert check_cv(cv) is cv
    assert cross_val_score(LogisticRegression(), X, y, cv=cv).size == cv.get_n_splits()
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=copy.deepcopy(cv)).fit(X, y)
    assert search.n_splits_ == cv.get_n_splits()
    assert "PurgedKFold(n_splits=3" in repr(GridSearchCV(LogisticRegression(), {}, cv=PurgedKFold(3)))


def test_repr_says_what_was_given_and_how_long_it_is() -> None:
    cv = PurgedKFold(3, label_end=np.arange(1_000), purge=2)
    assert repr(cv) == "PurgedKFold(n_splits=3, times=None, label_end=<1,000 values>, purge=2, embargo=0)"
    assert repr(CombinatorialPurgedKFold()).startswith("CombinatorialPurgedKFold(n_folds=6, n_test_folds=2, times=None")


def test_module_is_reached_from_the_package() -> None:
    assert cb.splits.PurgedKFold is PurgedKFold


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: PurgedKFold(1), InvalidInputError, "n_splits=1 is too small"),
        (lambda: PurgedKFold(2.0), InvalidTypeError, "n_splits=2.0 is not a whole number"),
        (lambda: PurgedKFold(5).split(4), ShapeError, "X is a single int"),
        (lambda: PurgedKFold(5).split(np.array(4)), ShapeError, "X is a single ndarray"),
        (lambda: list(PurgedKFold(5).split(range(4))), InvalidInputError, "n_splits=5 is more than the 4 rows of X"),
        (lambda: PurgedKFold(2, times=[1, 2]).split(range(3)), ShapeError, "X has 3 rows and times has 2"),
        (lambda: PurgedKFold(2, label_end=[1, 2]).split(range(3)), ShapeError, "X has 3 rows and label_end has 2"),
        (
            lambda: PurgedKFold(2, times=[1.0, np.nan, 2.0]).split(range(3)),
            InvalidScoreError,
            "times row 1: nan is not finite",
        ),
        (
            lambda: PurgedKFold(2, times=pd.to_datetime(pd.Series(["2020", None]))).split(range(2)),
            InvalidInputError,
            "times row 1: missing time",
        ),
        (
            lambda: PurgedKFold(2, times=[dt.date(2020, 1, 1), 3]).split(range(2)),
            InvalidTypeError,
            "times row 1: 3 is no date",
        ),
        (lambda: PurgedKFold(2, times=["a", "b"]).split(range(2)), InvalidTypeError, "times row 0: 'a' is text"),
        (lambda: PurgedKFold(2, times=[[1, 2]]).split(range(2)), ShapeError, r"times has shape \(1, 2\)"),
        (
            lambda: PurgedKFold(2, times=[1, 2, 3], label_end=[1, 0, 0]).split(range(3)),
            InvalidInputError,
            r"label_end row 1: 0 is before the row's time 2 \(2 of 3 rows\)",
        ),
        (
            lambda: PurgedKFold(2, times=[1, 2], label_end=DAYS[:2]).split(range(2)),
            InvalidInputError,
            "times and label_end are numbers and datetimes",
        ),
        (lambda: PurgedKFold(2, purge=-1).split(range(4)), InvalidInputError, "purge=-1 is outside"),
        (
            lambda: PurgedKFold(2, embargo=dt.timedelta(1)).split(range(4)),
            InvalidTypeError,
            "embargo=.* is not a number",
        ),
        (lambda: PurgedKFold(2, times=DAYS, purge=3).split(DAYS), InvalidTypeError, "purge=3 is no span of time"),
        (
            lambda: PurgedKFold(2, times=DAYS, purge=-dt.timedelta(1)).split(DAYS),
            InvalidInputError,
            "purge=.* is missing or negative",
        ),
        (lambda: CombinatorialPurgedKFold(3, 3), InvalidInputError, "n_test_folds=3 leaves none of n_folds=3"),
        (
            lambda: list(PurgedTimeSeriesSplit(3, test_size=2).split(range(6))),
            InvalidInputError,
            "X has 6 rows, too few for n_splits=3 test folds of 2",
        ),
        (
            lambda: list(PurgedTimeSeriesSplit(3).split(range(3))),
            InvalidInputError,
            "X has 3 rows, too few for n_splits=3 test folds of 1",
        ),
        (lambda: PurgedTimeSeriesSplit(2, test_size=0), InvalidInputError, "test_size=0 is too small"),
    ],
)
def test_what_cannot_be_split_is_refused(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
