"""The same arguments and attributes as scikit-learn's class, and the same numbers where its numbers are right."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.calibration
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import calibrant as cb
from calibrant.errors import DataWarning, NotFittedError, ShapeError

METHODS = ("sigmoid", "isotonic", "temperature")


def problem(n_classes: int = 2, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n_samples=n, n_features=8, n_informative=5, n_classes=n_classes, flip_y=0.1, random_state=1
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_decision_values_give_scikit_learns_numbers(
    method: str, n_classes: int, ensemble: bool, weighted: bool
) -> None:
    X, y = problem(n_classes)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size) if weighted else None
    ours, theirs = (
        kind(LinearSVC(random_state=0), method=method, cv=3, ensemble=ensemble).fit(X, y, sample_weight=weight)
        for kind in (cb.CalibratedClassifierCV, sklearn.calibration.CalibratedClassifierCV)
    )
    tolerance = 1e-9 if method == "isotonic" else 2e-5  # their solvers stop early
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=tolerance)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.995
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.n_features_in_ == theirs.n_features_in_ == 8
    assert len(ours.calibrated_classifiers_) == len(theirs.calibrated_classifiers_)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", ["isotonic", "temperature"])
def test_probabilities_give_scikit_learns_numbers(method: str, n_classes: int) -> None:
    X, y = problem(n_classes)
    forest = RandomForestClassifier(200, min_samples_leaf=10, random_state=0)  # no zero votes: logarithms agree
    ours, theirs = (
        kind(forest, method=method, cv=3, ensemble=False).fit(X, y)
        for kind in (cb.CalibratedClassifierCV, sklearn.calibration.CalibratedClassifierCV)
    )
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-5)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_go_to_the_classifier_as_they_are(kind: type) -> None:
    X, y = problem()
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = kind(dict(zip(names, X.T, strict=True)))
    pipeline = make_pipeline(ColumnTransformer([("scaled", StandardScaler(), names[:5])]), LogisticRegression())
    model = cb.CalibratedClassifierCV(pipeline, cv=3).fit(frame, kind({"y": y})["y"])
    assert model.feature_names_in_.tolist() == names
    assert model.predict_proba(frame).shape == (400, 2)
    assert model.score(frame, y) > 0.6


def test_single_precision_stays_single() -> None:
    X, y = problem(3)
    seen = []

    class Watching(LogisticRegression):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Watching:
            seen.append(X.dtype)
            return super().fit(X, y)

    model = cb.CalibratedClassifierCV(Watching(), cv=3).fit(X.astype(np.float32), y)
    assert seen == [np.float32] * 3
    single = model.predict_proba(X.astype(np.float32))
    assert single.dtype == np.float32
    assert model.predict_proba(X).dtype == np.float64
    np.testing.assert_allclose(single, model.predict_proba(X), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", [True, False])
def test_jobs_change_nothing(ensemble: bool) -> None:
    X, y = problem()
    one, two = (
        cb.CalibratedClassifierCV(LogisticRegression(), cv=3, n_jobs=n_jobs, ensemble=ensemble).fit(X, y)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


@pytest.mark.slow
def test_cloning_pickling_and_searching() -> None:
    X, y = problem()
    model = cb.CalibratedClassifierCV(LogisticRegression(), method=cb.HistogramCalibrator(n_bins=7), cv=3)
    assert clone(model).get_params()["method__n_bins"] == 7
    search = GridSearchCV(
        model, {"method": ["sigmoid", "beta", cb.SplineCalibrator()], "estimator__C": [0.1, 1.0]}, cv=2
    )
    fitted = search.fit(X, y).best_estimator_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(X), fitted.predict_proba(X))


def test_prefit_says_what_stands_for_it() -> None:
    X, y = problem()
    with pytest.raises(ValueError, match="FrozenEstimator"):
        cb.CalibratedClassifierCV(LogisticRegression(), cv="prefit").fit(X, y)


def test_an_ensemble_of_a_frozen_classifier_asks_it_once_per_prediction() -> None:
    X, y = problem()
    calls = []

    class Counting(LogisticRegression):
        def decision_function(self, X: np.ndarray) -> np.ndarray:
            calls.append(len(X))
            return super().decision_function(X)

    frozen = FrozenEstimator(Counting().fit(X, y))
    model = cb.CalibratedClassifierCV(frozen, ensemble=True, cv=4).fit(X, y)
    assert len(model.calibrated_classifiers_) == 4
    calls.clear()
    model.predict_proba(X)
    assert calls == [len(X)]


def test_weights_a_classifier_does_not_take_are_said_to_be_used_by_calibration_alone() -> None:
    X, y = problem()

    class NoWeights(LogisticRegression):
        def fit(self, X: np.ndarray, y: np.ndarray) -> NoWeights:
            return super().fit(X, y)

    with pytest.warns(DataWarning, match="NoWeights.fit takes no sample_weight"):
        cb.CalibratedClassifierCV(NoWeights(), cv=3).fit(X, y, sample_weight=np.ones(y.size) * 2.0)


def test_weight_zero_is_no_calibration_row() -> None:
    X, y = problem()
    weight = (np.arange(y.size) % 3 > 0).astype(float)
    base = LogisticRegression().fit(X, y)
    with_zeros = cb.CalibratedClassifierCV(FrozenEstimator(base), method="isotonic").fit(X, y, sample_weight=weight)
    without = cb.CalibratedClassifierCV(FrozenEstimator(base), method="isotonic").fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(with_zeros.predict_proba(X), without.predict_proba(X))


def test_pairwise_decision_values_are_refused() -> None:
    X, y = problem(4)
    with pytest.raises(ShapeError, match=r"SVC.decision_function gave shape \(\d+, 6\) for 4 classes"):
        cb.CalibratedClassifierCV(SVC(decision_function_shape="ovo"), cv=3).fit(X, y)


def test_prediction_before_fit() -> None:
    with pytest.raises(ValueError, match="not fitted"):
        cb.CalibratedClassifierCV().predict_proba([[0.0]])
    assert issubclass(NotFittedError, ValueError)


@pytest.mark.slow
def test_calibration_makes_a_forest_better_on_held_out_rows() -> None:
    X, y = problem(2, 3000)
    forest = RandomForestClassifier(30, max_leaf_nodes=8, random_state=0)
    plain = forest.fit(X[:1500], y[:1500]).predict_proba(X[1500:])[:, 1]
    for method in (*METHODS, "auto"):
        model = cb.CalibratedClassifierCV(forest, method=method).fit(X[:1500], y[:1500])
        assert brier_score_loss(y[1500:], model.predict_proba(X[1500:])[:, 1]) < brier_score_loss(y[1500:], plain)


def test_string_labels_come_back() -> None:
    X, y = problem(3)
    names = np.array(["setosa", "versicolor", "virginica"])
    model = cb.CalibratedClassifierCV(LogisticRegression(), method="temperature").fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    assert set(model.predict(X)) == set(names)
