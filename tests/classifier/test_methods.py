"""Any calibrator as `method`: by name, as an instance, or a scikit-learn regressor; and its map taken out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, Calibrator
from calibrant.errors import CalibrantError, DataWarning, InvalidInputError, InvalidLabelError


def problem(n_classes: int, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(
        n_samples=n, n_features=8, n_informative=5, n_classes=n_classes, flip_y=0.1, random_state=3
    )


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrantWarning")
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("base", [GaussianNB(), LinearSVC(random_state=0)], ids=["probabilities", "decision values"])
@pytest.mark.parametrize("name", [*CALIBRATORS, "platt"])
def test_every_name_calibrates_either_output(name: str, base: object, n_classes: int) -> None:
    X, y = problem(n_classes)
    for ensemble in (True, False):
        model = cb.CalibratedClassifierCV(base, method=name, cv=2, ensemble=ensemble).fit(X, y)
        q = model.predict_proba(X)
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
        assert model.score(X, y) > 0.5
        assert len({type(c).name for c in model.calibrators_}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "beta", "spline", "temperature", "isotonic"])
def test_a_pair_is_its_calibrator_applied_to_the_classifiers_output(name: str) -> None:
    X, y = problem(3)
    model = cb.CalibratedClassifierCV(GaussianNB(), method=name, cv=3).fit(X, y)
    for pair, calibrator in zip(model.calibrated_classifiers_, model.calibrators_, strict=True):
        expected = calibrator.predict_proba(pair.estimator.predict_proba(X))
        np.testing.assert_array_equal(pair.predict_proba(X), expected)
    mean = np.mean([pair.predict_proba(X) for pair in model.calibrated_classifiers_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean, rtol=1e-14)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_calibrator_taken_out_is_saved_and_applied_without_the_classifier(tmp_path: Path, n_classes: int) -> None:
    X, y = problem(n_classes)
    model = cb.CalibratedClassifierCV(GaussianNB(), method="beta", ensemble=False).fit(X, y)
    path = tmp_path / "beta.json"
    cb.save(model.calibrators_[0], path)
    p = model.calibrated_classifiers_[0].estimator.predict_proba(X)
    np.testing.assert_array_equal(cb.load(path).predict_proba(p), model.predict_proba(X))


def test_the_whole_classifier_is_not_saved_but_its_calibrators_are(tmp_path: Path) -> None:
    X, y = problem(2)
    model = cb.CalibratedClassifierCV(GaussianNB(), cv=2).fit(X, y)
    with pytest.raises(CalibrantError, match="Pass one of its calibrators_"):
        cb.save(model, tmp_path / "model.json")


def test_a_frozen_classifier_that_is_not_fitted_is_refused() -> None:
    X, y = problem(2)
    with pytest.raises(ValueError, match="not fitted yet"):
        cb.CalibratedClassifierCV(FrozenEstimator(GaussianNB())).fit(X, y)


@pytest.mark.parametrize("ensemble", ["auto", True])
def test_labels_that_a_frozen_classifier_does_not_know_are_named(ensemble: object) -> None:
    X, y = problem(2)
    frozen = FrozenEstimator(GaussianNB().fit(X, y))
    with pytest.warns(DataWarning, match="y holds 2, in 20 of 500 rows, which the frozen classifier doesn't know"):
        model = cb.CalibratedClassifierCV(frozen, ensemble=ensemble).fit(X, np.r_[np.full(20, 2), y[20:]])
    assert (model.predict_proba(X)[:, 2] == 0.0).all()
    for other, shown in ((np.array(["n", "y"])[y], "'n', 'y'"), (y + 5, "5, 6")):
        with pytest.raises(InvalidLabelError, match=rf"y holds {shown} in all 500 rows.* none of these, but 0, 1\."):
            cb.CalibratedClassifierCV(frozen, ensemble=ensemble).fit(X, other)


def test_an_instance_keeps_its_parameters_and_stays_unfitted() -> None:
    X, y = problem(2)
    method = cb.HistogramCalibrator(n_bins=4)
    model = cb.CalibratedClassifierCV(GaussianNB(), method=method, cv=2).fit(X, y)
    assert np.unique(model.calibrated_classifiers_[0].predict_proba(X)[:, 1]).size <= 4
    assert not hasattr(method, "map_")


def test_an_instance_says_by_its_input_which_output_it_wants() -> None:
    X, y = problem(2)
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    for method, output in (
        (cb.SplineCalibrator(), frozen.predict_proba(X)[:, 1]),
        (cb.SplineCalibrator(input="logit"), frozen.decision_function(X)),
        (cb.SplineCalibrator(input="score"), frozen.decision_function(X)),
    ):
        model = cb.CalibratedClassifierCV(frozen, method=method).fit(X, y)
        direct = type(method)(input=method.input).fit(output, y).predict_proba(output)
        np.testing.assert_array_equal(model.predict_proba(X)[:, 1], direct)


def test_decision_values_enter_a_calibrator_of_probabilities_through_the_logistic_function() -> None:
    X, y = problem(2)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    model = cb.CalibratedClassifierCV(frozen, method="beta").fit(X, y)
    p = 1.0 / (1.0 + np.exp(-frozen.decision_function(X)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], cb.BetaCalibrator().fit(p, y).predict_proba(p), rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_regressor_of_outcomes_on_scores(n_classes: int) -> None:
    X, y = problem(n_classes)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    ours = cb.CalibratedClassifierCV(frozen, method="isotonic").fit(X, y).predict_proba(X)
    theirs = cb.CalibratedClassifierCV(frozen, method=IsotonicRegression(out_of_bounds="clip")).fit(X, y)
    np.testing.assert_allclose(theirs.predict_proba(X), ours, atol=1e-12)
    for regressor in (
        KNeighborsRegressor(50),
        LinearRegression(),
        DecisionTreeRegressor(max_leaf_nodes=5),
        LogisticRegression(),
    ):
        q = cb.CalibratedClassifierCV(frozen, method=regressor).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
        assert ((q >= 0.0) & (q <= 1.0)).all()
        assert (q.argmax(axis=1) == y).mean() > 0.6


def test_a_classifier_of_scores_gives_its_probabilities_and_not_its_labels() -> None:
    X, y = problem(2)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    model = cb.CalibratedClassifierCV(frozen, method=LogisticRegression()).fit(X, y)
    scores = frozen.decision_function(X)[:, None]
    direct = LogisticRegression().fit(scores, y.astype(float)).predict_proba(scores)
    np.testing.assert_allclose(model.predict_proba(X), direct, rtol=1e-12)


def test_a_regressors_weights_are_used_or_refused() -> None:
    X, y = problem(2)
    frozen = FrozenEstimator(LinearSVC(random_state=0).fit(X, y))
    weight = np.where(y == 1, 3.0, 1.0)
    heavy = cb.CalibratedClassifierCV(frozen, method=LinearRegression()).fit(X, y, sample_weight=weight)
    plain = cb.CalibratedClassifierCV(frozen, method=LinearRegression()).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.1
    with pytest.raises(InvalidInputError, match="takes no sample_weight"):
        cb.CalibratedClassifierCV(frozen, method=KNeighborsRegressor()).fit(X, y, sample_weight=weight)


def test_a_regressor_that_gives_no_number_for_some_scores_is_refused() -> None:
    """IsotonicRegression's default is NaN outside of the scores of its fit: new rows had NaN as their probabilities."""
    X, y = problem(3)
    with pytest.raises(CalibrantError, match=r"predicts NaN for scores outside .* Pass out_of_bounds='clip'"):
        cb.CalibratedClassifierCV(GaussianNB(), method=IsotonicRegression()).fit(X, y)
    hidden = make_pipeline(IsotonicRegression())
    model = cb.CalibratedClassifierCV(LinearSVC(random_state=0), method=hidden, cv=2).fit(X, y)
    with pytest.raises(CalibrantError, match=r"gave no number for the score .* of row \d+ \("):
        model.predict_proba(10.0 * X)


def test_a_regressor_is_no_saved_calibrator() -> None:
    X, y = problem(2)
    model = cb.CalibratedClassifierCV(GaussianNB(), method=LinearRegression(), cv=2).fit(X, y)
    with pytest.raises(CalibrantError, match="calibrated by a scikit-learn regressor"):
        _ = model.calibrators_


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("isotronic", "unknown method 'isotronic'. Did you mean 'isotonic'?"),
        ("nothing at all", "The 'method' parameter of CalibratedClassifierCV must be"),
        (3, "The 'method' parameter of CalibratedClassifierCV must be"),
        (cb.BetaCalibrator, r"method=BetaCalibrator is a class. Pass an instance: method=BetaCalibrator\(\)"),
        (cb.GroupedCalibrator(), "is a GroupedCalibrator, which a classifier's scores alone don't fit"),
        (cb.SegmentCalibrator(), "is a SegmentCalibrator, which"),
        (cb.MultilabelCalibrator(), "is a MultilabelCalibrator, which"),
        (cb.RankPreservingCalibrator(), "is a RankPreservingCalibrator, which"),
        (cb.ProbabilityCalibrator(), "is a ProbabilityCalibrator, which"),
    ],
)
def test_what_is_no_method_is_refused(method: object, message: str) -> None:
    X, y = problem(2)
    with pytest.raises((ValueError, TypeError), match=message):
        cb.CalibratedClassifierCV(GaussianNB(), method=method).fit(X, y)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (cb.BetaCalibrator(form="zz"), "unknown value of form: 'zz'"),
        (cb.MatrixScalingCalibrator(penalty=-5), "penalty=-5"),
        (cb.IsotonicCalibrator(bounded="no"), "bounded='no'"),
        (cb.IsotonicCalibrator(input="prob"), "unknown value of input: 'prob'"),
        (cb.OneVsRestCalibrator("isotonic", coupling="liklihood"), "unknown value of coupling: 'liklihood'"),
        (cb.HistogramCalibrator(n_bins=0), "n_bins=0"),
        (cb.MimicCalibrator(-3), "threshold_pos=-3"),
        (cb.AutoCalibrator(cv="x"), "cv='x'"),
    ],
)
def test_settings_of_an_instance_are_checked(method: Calibrator, message: str) -> None:
    X, y = problem(2)
    p = GaussianNB().fit(X, y).predict_proba(X)[:, 1]
    with pytest.raises(CalibrantError, match=message):
        method.fit(p, y)
    with pytest.raises(CalibrantError, match=message):
        cb.CalibratedClassifierCV(GaussianNB(), method=method, cv=2).fit(X, y)


def test_a_row_of_zeros_becomes_uniform() -> None:
    class Given(ClassifierMixin, BaseEstimator):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Given:
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(X)

    P = np.eye(3)[[0, 1, 2] * 10] * 0.7 + 0.1
    y = np.array([0, 1, 2] * 10)
    model = cb.CalibratedClassifierCV(FrozenEstimator(Given().fit(P, y)), method="isotonic").fit(P, y)
    np.testing.assert_array_equal(model.predict_proba(np.array([[0.1, 0.1, 0.8], [1 / 3, 1 / 3, 1 / 3]]))[0], [0, 0, 1])
    worse = np.array([1, 2, 0] * 10)
    turned = cb.CalibratedClassifierCV(FrozenEstimator(Given().fit(P, y)), method="histogram").fit(P[y != worse], worse)
    assert np.isfinite(turned.predict_proba(P)).all()


def test_one_decision_value_for_several_classes_is_a_score_of_each() -> None:
    class Ordinal(ClassifierMixin, BaseEstimator):
        def fit(self, X: np.ndarray, y: np.ndarray) -> Ordinal:
            self.classes_ = np.unique(y)
            return self

        def decision_function(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(X)[:, 0]

    x = np.random.default_rng(0).normal(size=600)
    y = np.digitize(x + np.random.default_rng(1).normal(size=600) * 0.3, [-0.7, 0.7])
    model = cb.CalibratedClassifierCV(Ordinal(), method="sigmoid", cv=3).fit(x[:, None], y)
    assert model.predict_proba([[-3.0], [3.0]]).argmax(axis=1).tolist() == [0, 2]
