"""Splits of any kind: which rows train, which calibrate, and none that does both."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    TimeSeriesSplit,
)

import calibrant as cb
from calibrant.errors import CalibrantError, DataWarning, InvalidInputError


class Watching(LogisticRegression):
    """A classifier that remembers the row numbers, in the first column, that it was trained and asked on."""

    log: ClassVar[list[tuple[str, frozenset[int]]]] = []

    def fit(self, X: np.ndarray, y: np.ndarray) -> Watching:
        self.log.append(("fit", frozenset(X[:, 0].astype(int).tolist())))
        return super().fit(X[:, 1:], y)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        self.log.append(("ask", frozenset(X[:, 0].astype(int).tolist())))
        return super().decision_function(X[:, 1:])


def numbered(n: int = 240) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(n_samples=n, n_features=5, random_state=0)
    return np.column_stack((np.arange(n), X)), y


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize(
    "cv",
    [
        5,
        KFold(4, shuffle=True, random_state=0),
        TimeSeriesSplit(4, gap=10),
        RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
        cb.splits.PurgedKFold(4, purge=5, embargo=5),
        [(np.arange(120), np.arange(120, 200)), (np.arange(40, 120), np.arange(200, 240))],
    ],
    ids=["int", "shuffled", "time series", "repeated", "purged", "listed"],
)
def test_no_row_calibrates_a_classifier_that_was_trained_on_it(cv: object, ensemble: bool) -> None:
    X, y = numbered()
    Watching.log.clear()
    model = cb.CalibratedClassifierCV(Watching(), cv=cv, ensemble=ensemble).fit(X, y)
    asked = [i for i, (what, _) in enumerate(Watching.log) if what == "ask"]
    assert len(asked) >= 2
    for i in asked:
        assert Watching.log[i - 1][0] == "fit"
        assert not Watching.log[i][1] & Watching.log[i - 1][1]
    tested = [Watching.log[i][1] for i in asked]
    if ensemble:
        assert [pair.n_rows for pair in model.calibrated_classifiers_] == [len(rows) for rows in tested]
    else:
        assert model.calibrated_classifiers_[0].n_rows == pytest.approx(len(frozenset().union(*tested)))
        assert Watching.log[-1] == ("fit", frozenset(range(240)))


def test_rows_tested_several_times_count_once_in_equal_parts() -> None:
    X, y = make_classification(n_samples=150, n_features=5, random_state=0)
    listed = list(KFold(3, shuffle=True, random_state=0).split(X))
    once = cb.CalibratedClassifierCV(LogisticRegression(), cv=listed, ensemble=False).fit(X, y)
    twice = cb.CalibratedClassifierCV(LogisticRegression(), cv=listed * 2, ensemble=False).fit(X, y)
    np.testing.assert_allclose(twice.predict_proba(X), once.predict_proba(X), rtol=1e-9)


@pytest.mark.parametrize(
    "cv", [GroupKFold(4), LeaveOneGroupOut(), StratifiedGroupKFold(4)], ids=lambda cv: type(cv).__name__
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_groups_stay_on_one_side(cv: object, ensemble: bool) -> None:
    X, y = numbered()
    groups = np.arange(240) // 30
    Watching.log.clear()
    cb.CalibratedClassifierCV(Watching(), cv=cv, ensemble=ensemble).fit(X, y, groups=groups)
    for (what, rows), (_, before) in zip(Watching.log[1:], Watching.log[:-1], strict=True):
        if what == "ask":
            assert not {i // 30 for i in rows} & {i // 30 for i in before}


def test_a_split_that_tests_its_training_rows_is_refused() -> None:
    X, y = numbered()
    with pytest.raises(
        InvalidInputError,
        match="cv split 0 trains on 20 of the 60 rows that it calibrates on, the first of them row 100",
    ):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=[(np.arange(120), np.arange(100, 160))]).fit(X, y)


def test_an_empty_split_and_rows_out_of_range_are_refused() -> None:
    X, y = numbered()
    with pytest.raises(InvalidInputError, match="cv split 0 has no test rows"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=[(np.arange(120), np.array([], int))]).fit(X, y)
    with pytest.raises(InvalidInputError, match="cv names row 240 of 240 rows"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=[(np.arange(120), np.array([240]))]).fit(X, y)


def test_masks_and_negative_positions_name_rows_too() -> None:
    X, y = make_classification(n_samples=100, n_features=5, random_state=0)
    mask = np.arange(100) < 60
    plain = cb.CalibratedClassifierCV(LogisticRegression(), cv=[(np.arange(60), np.arange(60, 100))]).fit(X, y)
    masked = cb.CalibratedClassifierCV(LogisticRegression(), cv=[(mask, ~mask)]).fit(X, y)
    negative = cb.CalibratedClassifierCV(LogisticRegression(), cv=[(np.arange(60), np.arange(-40, 0))]).fit(X, y)
    for other in (masked, negative):
        np.testing.assert_array_equal(other.predict_proba(X), plain.predict_proba(X))


ODD_SPLITS = {
    "short mask": ([(np.arange(80) < 60, np.arange(80) >= 60)], r"a mask of shape \(80,\) for 240 rows"),
    "fractions": (
        [(np.arange(60) + 0.7, np.arange(60, 100))],
        r"cv names row 0\.7, which is no whole number",
    ),
    "names": ([(["a"], ["b"])], "cv names row 'a', which is no whole number"),
    "none": ([], "cv gives no split"),
}


@pytest.mark.parametrize(("cv", "message"), ODD_SPLITS.values(), ids=ODD_SPLITS)
@pytest.mark.parametrize("ensemble", [True, False])
def test_what_names_no_rows_is_refused(cv: object, message: str, ensemble: bool) -> None:
    X, y = numbered()
    with pytest.raises(CalibrantError, match=message):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=cv, ensemble=ensemble).fit(X, y)


def test_an_iterator_of_splits_serves_one_fit() -> None:
    X, y = numbered()
    model = cb.CalibratedClassifierCV(LogisticRegression(), cv=iter(list(KFold(3).split(X)))).fit(X, y)
    with pytest.raises(CalibrantError, match="an iterator gives its splits to one fit only"):
        model.fit(X, y)


def test_leaving_one_out_is_refused() -> None:
    X, y = numbered()
    with pytest.raises(InvalidInputError, match="LeaveOneOut cross-validation does not allow all classes"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=LeaveOneOut()).fit(X, y)


def test_rows_predicted_without_one_of_the_classes_do_not_calibrate_the_final_classifier() -> None:
    X, y = make_classification(n_samples=200, n_features=6, n_informative=4, n_classes=3, random_state=0)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    lacking = (np.flatnonzero(y != 2), np.flatnonzero(y == 2)[:30])
    whole = (np.arange(0, 200, 2), np.arange(1, 200, 2))
    with pytest.warns(DataWarning, match="1 of 2 splits were trained without one of the classes: their 30 test rows"):
        mixed = cb.CalibratedClassifierCV(LogisticRegression(), cv=[lacking, whole], ensemble=False).fit(X, y)
    alone = cb.CalibratedClassifierCV(LogisticRegression(), cv=[whole], ensemble=False).fit(X, y)
    np.testing.assert_array_equal(mixed.predict_proba(X), alone.predict_proba(X))
    with pytest.raises(InvalidInputError, match="no split has training rows of all classes"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=[lacking], ensemble=False).fit(X, y)


def test_a_class_that_one_pair_does_not_know_is_filled_in_by_the_others() -> None:
    X, y = make_classification(
        n_samples=300, n_features=6, n_informative=5, n_redundant=0, n_classes=3, class_sep=3.0, random_state=0
    )
    rest, rare = np.flatnonzero(y != 2), np.flatnonzero(y == 2)
    lacking = (rest[::2], np.concatenate((rest[1::2], rare)))
    whole = (np.concatenate((rest[1::2], rare[::2])), np.concatenate((rest[::2], rare[1::2])))
    model = cb.CalibratedClassifierCV(LogisticRegression(), cv=[lacking, whole]).fit(X, y)
    first, second = (pair.predict_proba(X) for pair in model.calibrated_classifiers_)
    assert (first[:, 2] == 0.0).all()
    q = model.predict_proba(X)
    np.testing.assert_allclose(q[:, 2], second[:, 2], rtol=1e-12)
    np.testing.assert_allclose(q[:, 0], (first[:, 0] * (1.0 - second[:, 2]) + second[:, 0]) / 2.0, rtol=1e-9)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X, y) > 0.9
