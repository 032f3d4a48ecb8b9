"""What scikit-learn's calibration gets wrong, case by case, and what ours gives there."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, RepeatedKFold, ShuffleSplit, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB

import calibrant as cb
from calibrant.errors import CalibrantError, DataWarning, InvalidScoreError


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose output is its first columns of X, as probabilities or decision values."""

    def __init__(self, classes: tuple[object, ...] = (0, 1)) -> None:
        self.classes = classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
        self.classes_ = np.array(self.classes)
        return self


class GivenProbabilities(Given):
    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        return np.column_stack((1 - X[:, 0], X[:, 0])) if len(self.classes) == 2 else X[:, : len(self.classes)]


class GivenScores(Given):
    def decision_function(self, X: np.ndarray) -> np.ndarray:
        X = np.asarray(X)
        return X[:, 0] if len(self.classes) == 2 else X[:, : len(self.classes)]


def frozen(model: Given) -> FrozenEstimator:
    return FrozenEstimator(model.fit(np.zeros((1, 1)), np.zeros(1)))


def sharpened(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return over-confident probabilities and labels from what they were before."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(n_classes), n)
    y = (p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1)
    sharp = p**2
    return sharp / sharp.sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("labels", [(1, 2, 3), (-1, 0, 1), ("a", "b", "c"), (10.0, 20.0, 30.0)])
def test_temperature_is_the_same_for_any_labels(labels: tuple[object, ...]) -> None:
    P, y = sharpened(600, 3)
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities((0, 1, 2))), method="temperature").fit(P, y)
    renamed = cb.CalibratedClassifierCV(frozen(GivenProbabilities(labels)), method="temperature")
    renamed.fit(P, np.array(labels)[y])
    np.testing.assert_array_equal(renamed.predict_proba(P), model.predict_proba(P))
    assert renamed.calibrators_[0].inverse_temperature_ == pytest.approx(0.5, abs=0.1)
    assert renamed.classes_.tolist() == list(labels)


def test_temperature_of_two_classes_called_1_and_2() -> None:
    P, y = sharpened(600, 2)
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities((1, 2))), method="temperature").fit(P[:, 1:], y + 1)
    assert model.calibrators_[0].inverse_temperature_ == pytest.approx(0.5, abs=0.1)


def test_labels_of_a_series_whose_index_lacks_zero() -> None:
    X, y = make_classification(n_samples=120, random_state=0)
    series = pd.Series(y, index=np.arange(1000, 1120))
    frame = pd.DataFrame(X, index=series.index)
    for method in ("sigmoid", "isotonic", "temperature"):
        model = cb.CalibratedClassifierCV(LogisticRegression(), method=method, cv=3)
        plain = cb.CalibratedClassifierCV(LogisticRegression(), method=method, cv=3).fit(X, y).predict_proba(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the classifier was fitted without feature names
            np.testing.assert_allclose(model.fit(frame, series).predict_proba(frame), plain, rtol=1e-9)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_a_fold_trained_on_two_of_three_classes_puts_no_mass_on_the_wrong_one(method: str) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 2)) + 4.0 * np.column_stack((y == 1, y == 2))
    fold = np.where(y == 2, 0, rng.integers(0, 2, 120))  # the first fold's training rows lack class 2
    model = cb.CalibratedClassifierCV(LogisticRegression(), method=method, cv=PredefinedSplit(fold))
    with pytest.warns(DataWarning, match=r"class \[2\]: 1 of 2 calibrations saw no row of it"):
        model.fit(X, y)
    first, second = model.calibrated_classifiers_
    assert (first.predict_proba(X)[:, 2] == 0.0).all()
    assert (first.predict_proba(X).argmax(axis=1) == y)[y < 2].mean() > 0.95
    assert (second.predict_proba(X)[:, 2] > 0.0).all()
    assert model.score(X, y) > 0.95


def test_close_scores_stay_apart_in_isotonic_calibration() -> None:
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(0, 2, 2000)).astype(int)
    flips = rng.integers(0, 2000, 300)
    y[flips] = 1 - y[flips]
    for dtype, step in ((np.float32, 2.0**-22), (np.float64, 2.0**-48)):
        scores = (1.0 + step * np.arange(2000)).astype(dtype)
        assert np.unique(scores).size == 2000
        fitted = cb.CalibratedClassifierCV(frozen(GivenScores()), method="isotonic").fit(scores[:, None], y)
        apart = cb.CalibratedClassifierCV(frozen(GivenScores()), method="isotonic").fit(np.arange(2000.0)[:, None], y)
        near, far = fitted.predict_proba(scores[:, None])[:, 1], apart.predict_proba(np.arange(2000.0)[:, None])[:, 1]
        np.testing.assert_allclose(near, far, atol=1e-6 if dtype == np.float32 else 1e-12)
        assert np.unique(near).size > 10


def test_weights_of_many_ties_do_not_stop_at_the_end_of_single_precision() -> None:
    scores = np.array([0.3, 0.3, 0.7, 0.7], dtype=np.float32)[:, None]
    weight = np.array([3e7, 3e7, 1e7, 3e7], dtype=np.float32)
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities()), method="isotonic")
    q = model.fit(scores, [0, 1, 0, 1], sample_weight=weight).predict_proba(scores)[:, 1]
    np.testing.assert_allclose(q, [0.5, 0.5, 0.75, 0.75], rtol=1e-7)


@pytest.mark.parametrize("method", ["temperature", "matrix", "sigmoid", "isotonic", "auto"])
def test_a_row_gets_the_same_answer_alone_and_in_any_batch(method: str) -> None:
    P, y = sharpened(500, 3)
    P = P.astype(np.float16).astype(np.float64)  # sums of rows off by 1e-3, still probabilities
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities((0, 1, 2))), method=method).fit(P, y)
    rows = np.vstack(([[0.2, 0.3, 0.5]], P[:50]))
    batch = model.predict_proba(rows)
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(model.predict_proba(row[None, :])[0], batch[i])


def test_sigmoid_of_probabilities_reaches_near_zero_and_one() -> None:
    X, y = make_classification(n_samples=2000, n_informative=4, n_redundant=10, class_sep=1.5, random_state=0)
    q = cb.CalibratedClassifierCV(GaussianNB(), method="sigmoid").fit(X, y).predict_proba(X)[:, 1]
    assert q.min() < 0.05
    assert q.max() > 0.95
    assert brier_score_loss(y, q) < brier_score_loss(y, GaussianNB().fit(X, y).predict_proba(X)[:, 1])


@pytest.mark.parametrize(
    "cv", [TimeSeriesSplit(4), ShuffleSplit(3, random_state=0), RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)]
)
@pytest.mark.parametrize("ensemble", [True, False])
def test_splits_that_are_no_partition(cv: object, ensemble: bool) -> None:
    X, y = make_classification(n_samples=300, random_state=0)
    model = cb.CalibratedClassifierCV(LogisticRegression(), cv=cv, ensemble=ensemble).fit(X, y)
    assert log_loss(y, model.predict_proba(X)) < 0.6
    assert len(model.calibrated_classifiers_) == (cv.get_n_splits(X) if ensemble else 1)


@pytest.mark.parametrize("ensemble", [True, False])
def test_groups_need_no_routing(ensemble: bool) -> None:
    X, y = make_classification(n_samples=200, random_state=0)
    groups = np.arange(200) // 10
    model = cb.CalibratedClassifierCV(LogisticRegression(), cv=GroupKFold(4), ensemble=ensemble)
    model.fit(X, y, groups=groups)
    listed = cb.CalibratedClassifierCV(
        LogisticRegression(), cv=list(GroupKFold(4).split(X, y, groups)), ensemble=ensemble
    ).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), listed.predict_proba(X))


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_group_that_is_missing_is_named(missing: object) -> None:
    X, y = make_classification(n_samples=200, random_state=0)
    groups = np.array(["a", "b", "c", missing] * 50, dtype=object)
    with pytest.raises(CalibrantError, match="groups row 3: missing"):
        cb.CalibratedClassifierCV(LogisticRegression()).fit(X, y, groups=groups)
    numbers = np.where(np.arange(200) % 4 == 3, np.nan, np.arange(200) % 4)
    with pytest.raises(CalibrantError, match="groups row 3"):
        cb.CalibratedClassifierCV(LogisticRegression()).fit(X, y, groups=numbers)
    cb.CalibratedClassifierCV(LogisticRegression()).fit(X, y, groups=np.arange(200) // 10 + 0.5)


def test_a_fit_that_fails_leaves_the_earlier_one() -> None:
    X, y = make_classification(n_samples=200, random_state=0)
    model = cb.CalibratedClassifierCV(GaussianNB(), cv=2).fit(X, y)
    before = model.predict(X)
    model.estimator = GaussianNB(priors=[0.5, 0.7])
    with pytest.raises(ValueError, match="priors should be 1"):
        model.fit(X, np.array(["no", "yes"])[y])
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_frozen_classifier_is_asked_once_and_no_splits_are_made() -> None:
    X, y = make_classification(n_samples=90, random_state=0)
    asked = []

    class Counting(LogisticRegression):
        def decision_function(self, X: np.ndarray) -> np.ndarray:
            asked.append(len(X))
            return super().decision_function(X)

    class Refusing:
        def split(self, X: object, y: object = None, groups: object = None) -> object:
            raise AssertionError("no split is needed")

        def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
            return 5

    base = Counting().fit(X, y)
    cb.CalibratedClassifierCV(FrozenEstimator(base), cv=Refusing()).fit(X, y)
    assert asked == [90]


def test_a_frozen_classifier_calibrated_without_one_of_its_classes() -> None:
    P, y = sharpened(400, 3)
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities((0, 1, 2))), method="isotonic")
    with pytest.warns(DataWarning, match=r"class \[2\]: 1 of 1 calibrations saw no row of it"):
        model.fit(P[y < 2], y[y < 2])
    q = model.predict_proba(P)
    least = 1.0 / ((y < 2).sum() + 2.0)
    kept = np.maximum(P[:, 2], least)
    np.testing.assert_allclose(q[:, 2], kept / (kept + np.maximum(1.0 - P[:, 2], least)), rtol=1e-12)
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::calibrant.errors.DataWarning")
def test_a_fold_without_calibration_rows_leaves_probabilities_as_they_are() -> None:
    """Zero weights, or rows of unknown classes, say nothing: the floor 1 / (n + 2) would be 1/2 of each class."""
    X, y = make_classification(n_samples=300, n_informative=4, n_classes=3, random_state=0)
    X, y = X[np.argsort(y)], np.sort(y)
    first, *_ = cb.CalibratedClassifierCV(GaussianNB(), cv=PredefinedSplit(y)).fit(X, y).calibrated_classifiers_
    assert first.estimator.classes_.tolist() == [1, 2]
    later = y > 0
    found = first.predict_proba(X[later][::7])[:, 1:]
    np.testing.assert_allclose(found, first.estimator.predict_proba(X[later][::7]), atol=1e-12)
    weight = np.where(np.arange(300) < 100, 0.0, 1.0)
    mixed = np.arange(300).reshape(3, 100).T.ravel() // 100
    model = cb.CalibratedClassifierCV(GaussianNB(), cv=KFold(3)).fit(X, mixed, sample_weight=weight)
    first, *_ = model.calibrated_classifiers_
    np.testing.assert_allclose(first.predict_proba(X), first.estimator.predict_proba(X), atol=1e-12)


def test_weights_with_a_frozen_classifier_warn_of_nothing() -> None:
    P, y = sharpened(100, 2)
    weight = np.linspace(0.5, 2.0, 100)
    model = cb.CalibratedClassifierCV(frozen(GivenProbabilities()))
    weighted = model.fit(P[:, 1:], y, sample_weight=weight).calibrators_[0].map_
    direct = cb.SigmoidCalibrator().fit(P[:, 1], y, sample_weight=weight).map_
    assert weighted == direct


def test_infinite_scores_are_refused_by_row() -> None:
    scores = np.array([0.1, np.inf, 0.3, -0.2])[:, None]
    with pytest.raises(InvalidScoreError, match=r"GivenScores.decision_function row 1: inf"):
        cb.CalibratedClassifierCV(frozen(GivenScores())).fit(scores, [0, 1, 0, 1])


@pytest.mark.slow
def test_a_calibrated_forest_is_little_larger_than_the_forest() -> None:
    X, y = make_classification(n_samples=600, random_state=0)
    forest = RandomForestClassifier(20, random_state=0, max_depth=6).fit(X, y)
    model = cb.CalibratedClassifierCV(clone(forest), method="isotonic", ensemble=False).fit(X, y)
    assert len(pickle.dumps(model)) < 1.1 * len(pickle.dumps(forest)) + 10_000


def test_a_class_with_one_row_is_said_before_anything_is_fitted() -> None:
    X, y = make_classification(n_samples=50, random_state=0)
    with pytest.raises(CalibrantError, match="Requesting 5-fold cross-validation but provided less than 5 examples"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv=5).fit(X, np.where(np.arange(50) == 7, 2, y))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature", "auto"])
@pytest.mark.parametrize("order", [(1, 0), (2, 0, 1), (3, 1, 0, 2)])
@pytest.mark.parametrize("kind", [GivenProbabilities, GivenScores])
def test_a_classifier_may_have_its_classes_in_any_order(kind: type[Given], order: tuple[int, ...], method: str) -> None:
    """`classes_` says which column is which class, and wrappers of other libraries need not sort it."""
    P, y = sharpened(300, len(order))
    by_class = P if kind is GivenProbabilities else np.log(P)
    if len(order) == 2:
        scores = P[:, 1] if kind is GivenProbabilities else np.log(P[:, 1] / P[:, 0])
        by_class, given = scores[:, None], (1.0 - scores if kind is GivenProbabilities else -scores)[:, None]
    else:
        given = by_class[:, order]
    sorted_classes = kind(tuple(range(len(order))))
    expected = cb.CalibratedClassifierCV(frozen(sorted_classes), method=method).fit(by_class, y)
    model = cb.CalibratedClassifierCV(frozen(kind(order)), method=method).fit(given, y)
    np.testing.assert_allclose(model.predict_proba(given), expected.predict_proba(by_class), atol=1e-12)


def test_a_split_that_trains_on_one_class_says_nothing_of_the_others() -> None:
    X, y = make_classification(n_samples=300, random_state=0)
    late = np.concatenate((np.zeros(100, int), y[100:]))
    model = cb.CalibratedClassifierCV(GaussianNB(), cv=TimeSeriesSplit(3)).fit(X, late)
    first, *others = model.calibrated_classifiers_
    assert first.estimator.classes_.tolist() == [0]
    np.testing.assert_array_equal(first.predict_proba(X[:2]), [[1.0, 0.0]] * 2)
    of_others = np.mean([pair.predict_proba(X) for pair in others], axis=0)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p[:, 1], of_others[:, 1], atol=1e-12)
