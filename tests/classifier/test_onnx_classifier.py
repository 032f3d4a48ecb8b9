"""A calibrated classifier as one ONNX graph says what its `predict_proba` says."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import calibrant as cb
from calibrant.errors import DataWarning, InvalidInputError
from calibrant.persistence import to_onnx

N = 400
#: Classifiers whose scores ONNX has in float64, and in float32.
EXACT = {
    "logistic": LogisticRegression(),
    "naive Bayes": GaussianNB(),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "support vectors": LinearSVC(),
}
SINGLE = {"forest": RandomForestClassifier(20, random_state=0), "boosting": GradientBoostingClassifier(n_estimators=5)}


def rows(n_classes: int) -> tuple[Any, Any, Any]:
    """Return features, labels, and features to predict: those of the fit, which lie on steps, and others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    noisy = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=N)
    y = np.digitize(noisy, [0.0] if n_classes == 2 else [-0.7, 0.7])
    return X, y, np.vstack((X, rng.normal(size=(2_000, 4))))


def run(model: Any, X: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X})[0]


def exported(classifier: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_onnx(classifier, **options)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "venn_abers", "beta"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", EXACT)
def test_graph_gives_the_mean_of_the_pairs(name: str, n_classes: int, method: str) -> None:
    X, y, new = rows(n_classes)
    classifier = cb.CalibratedClassifierCV(EXACT[name], method=method, cv=2).fit(X, y)
    got = run(exported(classifier), new)
    assert got.shape == (len(new), n_classes)
    assert np.abs(got - classifier.predict_proba(new)).max() <= 1e-12


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "venn_abers"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_of_a_forest_stay_on_their_step(n_classes: int, method: str) -> None:
    """ONNX sums the votes in float32, and a Venn-Abers map steps at the very votes that it was fitted to."""
    X, y, new = rows(n_classes)
    classifier = cb.CalibratedClassifierCV(SINGLE["forest"], method=method, cv=2).fit(X, y)
    assert np.abs(run(exported(classifier), new) - classifier.predict_proba(new)).max() <= 1e-6


@pytest.mark.parametrize("n_classes", [2, 3])
def test_boosted_trees_with_a_smooth_calibrator(n_classes: int) -> None:
    X, y, new = rows(n_classes)
    classifier = cb.CalibratedClassifierCV(SINGLE["boosting"], method="sigmoid", cv=2).fit(X, y)
    assert np.abs(run(exported(classifier), new) - classifier.predict_proba(new)).max() <= 1e-6


def test_float32_features_and_frozen_and_pooled_classifiers() -> None:
    X, y, new = rows(3)
    base = LogisticRegression().fit(X, y)
    for classifier in (
        cb.CalibratedClassifierCV(FrozenEstimator(base), method="temperature").fit(X, y),
        cb.CalibratedClassifierCV(base, method="dirichlet", ensemble=False).fit(X, y),
    ):
        got = run(exported(classifier, dtype="float32"), new.astype(np.float32))
        assert got.dtype == np.float32
        assert np.abs(got - classifier.predict_proba(new.astype(np.float32))).max() <= 1e-6


def test_steps_over_scores_in_float32_are_warned_of() -> None:
    X, y, _ = rows(2)
    classifier = cb.CalibratedClassifierCV(SINGLE["boosting"], method="venn_abers", cv=2).fit(X, y)
    with pytest.warns(
        DataWarning, match="scores of GradientBoostingClassifier in float32, and the VennAbersCalibrator has steps"
    ):
        to_onnx(classifier)


def test_what_has_no_graph_is_refused_with_the_way_out() -> None:
    X, y, _ = rows(2)
    regressor = cb.CalibratedClassifierCV(
        LogisticRegression(), method=IsotonicRegression(out_of_bounds="clip"), cv=2
    ).fit(X, y)
    with pytest.raises(InvalidInputError, match="a pair was calibrated by a scikit-learn regressor"):
        to_onnx(regressor)
    labels = np.column_stack((y, 1 - y))
    several = cb.CalibratedClassifierCV(RandomForestClassifier(5, random_state=0), method="beta", cv=2).fit(X, labels)
    with pytest.raises(InvalidInputError, match="several labels per row can't be exported"):
        to_onnx(several)

    class Odd(LogisticRegression):
        """A classifier that skl2onnx doesn't know."""

    with pytest.raises(InvalidInputError, match=r"Odd\.decision_function can't be exported: skl2onnx says"):
        to_onnx(cb.CalibratedClassifierCV(Odd(), method="sigmoid", cv=2).fit(X, y))
