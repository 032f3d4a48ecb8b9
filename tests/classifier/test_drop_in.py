"""Code written for scikit-learn runs on ours with the import changed, and gives its numbers where asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.calibration import CalibratedClassifierCV as Theirs
from sklearn.datasets import make_blobs, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import calibrant as cb
from calibrant.errors import CalibrantError, UnknownNameError


def blobs(n: int = 1_500) -> tuple[Any, Any]:
    return make_blobs(n_samples=n, n_features=2, random_state=42, centers=3, cluster_std=5.0)


def pair_of(X: Any, y: Any, method: Any) -> Any:
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    (pair,) = cb.CalibratedClassifierCV(frozen, method=method).fit(X, y).calibrated_classifiers_
    return pair


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrators_of_several_classes_predict_one_class_each_as_in_the_multiclass_example(method: str) -> None:
    """The loop of scikit-learn's `plot_calibration_multiclass`, over a grid of the simplex."""
    X, y = blobs()
    frozen = FrozenEstimator(GaussianNB().fit(X[:900], y[:900]))
    grid = np.random.default_rng(0).dirichlet([1.0, 1.0, 1.0], 200)
    ours, theirs = (cls(frozen, method=method).fit(X[900:], y[900:]) for cls in (cb.CalibratedClassifierCV, Theirs))
    predicted = []
    for model in (ours, theirs):
        (pair,) = model.calibrated_classifiers_
        assert len(pair.calibrators) == 3
        columns = [each.predict(column) for each, column in zip(pair.calibrators, grid.T, strict=True)]
        prediction = np.vstack(columns).T
        predicted.append(prediction / prediction.sum(axis=1)[:, None])
    of_model = ours.calibrated_classifiers_[0].calibrator.predict_proba(grid)
    np.testing.assert_allclose(predicted[0], of_model, atol=1e-12)
    if method == "isotonic":
        np.testing.assert_allclose(predicted[0], predicted[1], atol=1e-7)


@pytest.mark.parametrize("base", [LogisticRegression(), GaussianNB()])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "beta", IsotonicRegression(out_of_bounds="clip")])
def test_the_calibrator_of_two_classes_predicts_from_the_score_as_in_scikit_learn(base: Any, method: Any) -> None:
    X, y = blobs()
    X, y = X[y < 2], y[y < 2]
    frozen = FrozenEstimator(base.fit(X, y))
    scores = base.decision_function(X) if hasattr(base, "decision_function") else base.predict_proba(X)[:, 1]
    if method == "beta":
        scores = base.predict_proba(X)[:, 1]
    (pair,) = cb.CalibratedClassifierCV(frozen, method=method).fit(X, y).calibrated_classifiers_
    (calibrator,) = pair.calibrators
    np.testing.assert_allclose(calibrator.predict(scores), pair.predict_proba(X)[:, 1], atol=1e-12)
    if method == "isotonic":
        (of_theirs,) = Theirs(frozen, method=method).fit(X, y).calibrated_classifiers_
        np.testing.assert_allclose(calibrator.predict(scores), of_theirs.calibrators[0].predict(scores), atol=1e-7)


def test_what_calibrates_all_classes_at_once_is_the_calibrator() -> None:
    X, y = blobs()
    pair = pair_of(X, y, "dirichlet")
    assert pair.calibrators == [pair.calibrator]
    two = y < 2
    pair = pair_of(X[two], y[two], "temperature")
    assert pair.calibrators == [pair.calibrator]
    assert pair.calibrators[0].beta_ > 0.0
    machine = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    (pair,) = cb.CalibratedClassifierCV(machine, method="beta").fit(X, y).calibrated_classifiers_
    assert pair.calibrators == [pair.calibrator], "beta takes the softmax of decision values"


@pytest.mark.parametrize("ensemble", [True, False])
def test_one_weight_for_all_rows_is_taken_as_in_scikit_learn(ensemble: bool) -> None:
    X, y = make_classification(200, 6, random_state=0)
    given = {"method": "isotonic", "cv": 3, "ensemble": ensemble}
    ours, theirs = (cls(LogisticRegression(), **given).fit(X, y, 2.5) for cls in (cb.CalibratedClassifierCV, Theirs))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    with pytest.raises(CalibrantError, match="sample_weight is zero in all 200 rows"):
        cb.CalibratedClassifierCV(LogisticRegression()).fit(X, y, 0)


def test_a_calibrator_of_one_class_refuses_what_is_no_number() -> None:
    X, y = blobs()
    with pytest.raises(CalibrantError, match="T row 0"):
        pair_of(X, y, "sigmoid").calibrators[0].predict([np.nan])


def test_calibrators_of_a_regressor_are_one_for_each_class() -> None:
    X, y = blobs()
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    (pair,) = (
        cb.CalibratedClassifierCV(frozen, method=IsotonicRegression(out_of_bounds="clip"))
        .fit(X, y)
        .calibrated_classifiers_
    )
    p = frozen.predict_proba(X[:50])
    columns = np.column_stack([each.predict(c) for each, c in zip(pair.calibrators, p.T, strict=True)])
    np.testing.assert_allclose(columns / columns.sum(axis=1, keepdims=True), pair.predict_proba(X[:50]))


@pytest.mark.filterwarnings("ignore:Since FrozenEstimator does not appear to accept sample_weight")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_sigmoid_on_probabilities_gives_the_numbers_of_scikit_learn(n_classes: int, is_weighted: bool) -> None:
    X, y = make_classification(1_200, 8, n_informative=5, n_classes=n_classes, random_state=1)
    weight = np.random.default_rng(2).uniform(0.5, 2.0, 600) if is_weighted else None
    frozen = FrozenEstimator(GaussianNB().fit(X[:600], y[:600]))
    theirs = Theirs(frozen).fit(X[600:], y[600:], sample_weight=weight).predict_proba(X)
    exact = cb.SigmoidCalibrator(on="probability")
    ours = cb.CalibratedClassifierCV(frozen, method=exact).fit(X[600:], y[600:], sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(ours, theirs, atol=2e-5)  # their optimiser stops at a gradient of 1e-6
    default = cb.CalibratedClassifierCV(frozen).fit(X[600:], y[600:], sample_weight=weight).predict_proba(X)
    assert np.abs(default - theirs).max() > 0.01, "the default is over logits"


def test_sigmoid_on_probabilities_is_saved_and_written_as_sql(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    p = rng.random(400)
    y = rng.random(400) < p
    made = cb.SigmoidCalibrator(on="probability").fit(p, y)
    assert repr(made) == "SigmoidCalibrator(on='probability')"
    cb.save(made, tmp_path / "c.json")
    loaded = cb.load(tmp_path / "c.json")
    assert repr(loaded) == repr(made)
    np.testing.assert_array_equal(loaded.predict_proba(p), made.predict_proba(p))
    slope, intercept = made.map_.slope, made.map_.intercept
    np.testing.assert_allclose(
        made.predict_proba([0.0, 1.0]), 1.0 / (1.0 + np.exp(-np.array([intercept, slope + intercept])))
    )
    cb.save(cb.SigmoidCalibrator().fit(p, y), tmp_path / "d.json")
    assert '"on"' not in (tmp_path / "d.json").read_text("utf-8"), "files of the default are those of before"


def test_sigmoid_says_what_its_curve_can_be_over() -> None:
    with pytest.raises(CalibrantError, match=r"on='probability' is for probabilities, but input='score'"):
        cb.SigmoidCalibrator(input="score", on="probability").fit([1.0, 2.0], [0, 1])
    with pytest.raises((CalibrantError, UnknownNameError), match="'probability'"):
        cb.SigmoidCalibrator(on="probabilty").fit([0.1, 0.2], [0, 1])  # type: ignore[arg-type]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("ensemble", [True, False])
def test_venn_abers_classifiers_bracket_their_probabilities(n_classes: int, ensemble: bool) -> None:
    X, y = make_classification(900, 8, n_informative=5, n_classes=n_classes, random_state=4)
    model = cb.CalibratedClassifierCV(LogisticRegression(), method="venn_abers", cv=3, ensemble=ensemble).fit(X, y)
    p0, p1 = model.predict_interval(X)
    q = model.predict_proba(X)
    assert p0.shape == p1.shape == q.shape
    assert (p0 <= p1).all()
    assert p0.min() >= 0.0
    assert p1.max() <= 1.0
    if n_classes == 2:
        assert ((p0 <= q + 1e-12) & (q <= p1 + 1e-12)).all()
        np.testing.assert_allclose(p0[:, 0], 1.0 - p1[:, 1])
    if not ensemble:
        (pair,) = model.calibrated_classifiers_
        P = pair.estimator.predict_proba(X)
        low, high = pair.calibrator.predict_interval(P[:, 1] if n_classes == 2 else P)
        np.testing.assert_allclose(p1[:, -1], high if n_classes == 2 else high[:, -1])
        np.testing.assert_allclose(p0[:, -1], low if n_classes == 2 else low[:, -1])


def test_other_methods_say_that_they_have_no_interval() -> None:
    X, y = blobs(300)
    model = cb.CalibratedClassifierCV(GaussianNB(), method="beta", cv=2).fit(X, y)
    with pytest.raises(CalibrantError, match=r"gives no pair of probabilities. Pass method='venn_abers'"):
        model.predict_interval(X)


TEXT = np.array(["no", "maybe"], dtype=object)


AS_LABELS = {
    "list": list,
    "tuple": tuple,
    "list of NumPy text": lambda y: [np.str_(v) for v in y],
    "object array": np.asarray,
    "text array": lambda y: y.astype(np.str_),
    "pandas": pd.Series,
    "pandas categories": lambda y: pd.Series(y).astype("category"),
    "categorical": pd.Categorical,
    "polars": pl.Series,
    "polars categories": lambda y: pl.Series(y.astype(np.str_)).cast(pl.Categorical),
    "Arrow": pa.array,
}


@pytest.mark.parametrize("convert", AS_LABELS.values(), ids=AS_LABELS)
def test_classes_and_predicted_labels_have_the_type_that_scikit_learn_gives_them(convert: Any) -> None:
    """Text of a fixed width, as ours had it for categories, cuts longer labels that a caller writes among them."""
    X, y = make_classification(100, random_state=0)
    for labels in (TEXT[y], y):
        given = convert(labels)
        ours, theirs = (cls(LogisticRegression()).fit(X, given) for cls in (cb.CalibratedClassifierCV, Theirs))
        assert ours.classes_.dtype == theirs.classes_.dtype
        assert ours.predict(X).dtype == theirs.predict(X).dtype
        assert ours.classes_.tolist() == theirs.classes_.tolist()


def test_labels_without_an_order_are_told_by_their_rows() -> None:
    X, y = make_classification(100, random_state=0)
    labels = TEXT[y]
    labels[3] = None
    with pytest.raises(CalibrantError, match=r"y row 3: missing label \(1 of 100 rows\)"):
        cb.CalibratedClassifierCV(LogisticRegression()).fit(X, labels)
    labels[3] = 7
    for given in (labels, labels.tolist()):
        with pytest.raises(CalibrantError, match=r"y mixes kinds of labels: row 0 is '\w+' and row 3 is 7"):
            cb.CalibratedClassifierCV(LogisticRegression()).fit(X, given)


def test_no_rows_are_refused_as_in_scikit_learn() -> None:
    for cls in (cb.CalibratedClassifierCV, Theirs):
        with pytest.raises(TypeError, match="Expected sequence or array-like, got <class 'NoneType'>"):
            cls(LogisticRegression()).fit(None, [0, 1] * 20)


def test_a_fit_without_names_of_features_forgets_those_of_the_fit_before() -> None:
    X, y = make_classification(100, 4, random_state=0)
    model = cb.CalibratedClassifierCV(LogisticRegression()).fit(pd.DataFrame(X, columns=list("abcd")), y)
    assert model.feature_names_in_.tolist() == list("abcd")
    model.fit(X[:, :3], y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
