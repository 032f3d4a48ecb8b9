"""Displays of fitted classifiers and of cross-validations: the curves of the probabilities that these give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB

import calibrant as cb
from calibrant.errors import CalibrantError
from calibrant.results import Curve

X, Y = make_classification(500, random_state=5, flip_y=0.2)
X3, Y3 = make_classification(600, n_informative=4, n_classes=3, random_state=5)
NAMES = np.array(["ant", "bee", "cow"])


def same(one: Curve, other: Curve) -> bool:
    fields = ("x", "y", "low", "high", "n")
    return all(getattr(one, field).tolist() == getattr(other, field).tolist() for field in fields)


def test_of_one_and_of_several_estimators() -> None:
    models = {"naive": GaussianNB().fit(X[:250], Y[:250]), "logistic": LogisticRegression().fit(X[:250], Y[:250])}
    (one,) = cb.ReliabilityDisplay.from_estimator(models["naive"], X[250:], Y[250:], n_bins=4).curves
    display = cb.ReliabilityDisplay.from_estimator(models, X[250:], Y[250:], n_bins=4, band="consistency")
    expected = cb.reliability_curve(Y[250:], models["naive"].predict_proba(X[250:])[:, 1], n_bins=4)
    assert same(one, expected)
    assert same(display.curves[0], expected)
    assert [curve.label for curve in (one, *display.curves)] == ["GaussianNB", "naive", "logistic"]
    assert all(curve.band_low is not None for curve in display.curves)


def test_other_positive_class_turns_the_curve_round() -> None:
    model = GaussianNB().fit(X, NAMES[Y])
    (bee,) = cb.ReliabilityDisplay.from_estimator(model, X, NAMES[Y], n_bins=5, strategy="uniform").curves
    (ant,) = cb.ReliabilityDisplay.from_estimator(
        model, X, NAMES[Y], n_bins=5, strategy="uniform", pos_label="ant"
    ).curves
    assert ant.y == pytest.approx(1.0 - bee.y[::-1])
    assert ant.x == pytest.approx(1.0 - bee.x[::-1])


def test_of_three_classes_shows_the_top_label_or_the_class_asked_for() -> None:
    model = GaussianNB().fit(X3, NAMES[Y3])
    p = model.predict_proba(X3)
    (top,) = cb.ReliabilityDisplay.from_estimator(model, X3, NAMES[Y3], n_bins=5).curves
    assert same(top, cb.reliability_curve(NAMES[Y3], p, n_bins=5))
    display = cb.ReliabilityDisplay.from_estimator(model, X3, NAMES[Y3], n_bins=5, class_label="cow")
    assert same(display.curves[0], cb.reliability_curve(Y3 == 2, p[:, 2], n_bins=5))
    assert display.histograms[0].events.sum() == (Y3 == 2).sum()


def test_panels_of_an_estimator_take_labels_that_lack_a_class() -> None:
    model = GaussianNB().fit(X3, NAMES[Y3])
    held = Y3 != 1
    display = cb.MulticlassReliabilityDisplay.from_estimator(
        model, X3[held], NAMES[Y3[held]], n_bins=4, band="consistency", strategy="isotonic"
    )
    assert [curve.label for curve in display.curves] == list(NAMES)
    assert display.curves[1].y.tolist() == [0.0] * display.curves[1].y.size
    assert all(curve.band_low is not None for curve in (display.top_label, *display.curves))


@pytest.mark.parametrize("as_frame", [False, True])
def test_folds_are_measured_on_the_rows_they_were_not_fitted_to(as_frame: bool) -> None:
    table = pd.DataFrame(X, index=np.arange(500)[::-1]) if as_frame else X
    result = cross_validate(GaussianNB(), table, Y, cv=4, return_estimator=True, return_indices=True)
    weight = np.random.default_rng(2).integers(1, 4, 500)
    display = cb.ReliabilityDisplay.from_cv_results(result, table, Y, n_bins=3, sample_weight=weight)
    assert [curve.label for curve in display.curves] == ["fold 1", "fold 2", "fold 3", "fold 4"]
    for curve, model, test in zip(display.curves, result["estimator"], result["indices"]["test"], strict=True):
        rows = table.iloc[test] if as_frame else X[test]
        p = model.predict_proba(rows)[:, 1]
        assert same(curve, cb.reliability_curve(Y[test], p, n_bins=3, sample_weight=weight[test]))


def test_labels_of_their_own_for_each_curve() -> None:
    rng = np.random.default_rng(0)
    p = {"a": rng.random(100), "b": rng.random(60)}
    y = {name: rng.random(values.size) < values for name, values in p.items()}
    display = cb.ReliabilityDisplay.from_predictions(y, p, n_bins=3)
    for curve, name in zip(display.curves, p, strict=True):
        assert same(curve, cb.reliability_curve(y[name], p[name], n_bins=3))
    with pytest.raises(CalibrantError, match="y_true has not the names of y_prob"):
        cb.ReliabilityDisplay.from_predictions({"a": y["a"]}, p)
    with pytest.raises(CalibrantError, match="y_true has not the names of y_prob"):
        cb.ReliabilityDisplay.from_predictions(y, p["a"])
    with pytest.raises(CalibrantError, match="sample_weight has not the names of y_prob"):
        cb.ReliabilityDisplay.from_predictions(y, p, sample_weight=np.ones(100))


def refused(make: Any, *arguments: Any, **options: Any) -> str:
    with pytest.raises(CalibrantError) as caught:
        make(*arguments, **options)
    return str(caught.value)


def test_refusals_name_the_argument_and_the_fix() -> None:
    two, three = GaussianNB().fit(X, Y), GaussianNB().fit(X3, Y3)
    make, folded = cb.ReliabilityDisplay.from_estimator, cb.ReliabilityDisplay.from_cv_results
    assert "Draw classifiers of the same classes" in refused(make, {"two": two, "three": three}, X, Y)
    assert "Pass class_label to show one of them" in refused(make, three, X3, Y3, pos_label=1)
    assert "name='x' is for one model" in refused(make, {"a": two}, X, Y, name="x")
    assert "cv_results lacks ['indices']" in refused(folded, {"estimator": [two]}, X, Y)
    result = cross_validate(GaussianNB(), X, Y, cv=2, return_estimator=True, return_indices=True)
    assert "y has 9 rows, but the folds of cv_results reach row 499" in refused(folded, result, X, Y[:9])
    assert "X has 9 rows" in refused(folded, result, X[:9], Y)
    assert "sample_weight has 9 rows" in refused(folded, result, X, Y, sample_weight=np.ones(9))
