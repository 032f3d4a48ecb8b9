"""Scorers: scikit-learn's own where it has them, and the metric of each fold elsewhere."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB

from calibrant import metrics
from calibrant.errors import CalibrantError, MissingPackageError

X, Y = make_classification(n_samples=600, n_informative=4, flip_y=0.2, random_state=0)
NAMES = (
    *("log_loss", "brier_score", "ece", "ece_debiased", "smooth_ece", "max_calibration_error"),
    *("integrated_calibration_index", "roc_auc"),
)


@pytest.mark.parametrize(
    ("name", "theirs"), [("log_loss", "neg_log_loss"), ("brier_score", "neg_brier_score"), ("roc_auc", "roc_auc")]
)
@pytest.mark.parametrize("labels", [Y, np.array(["no", "yes"])[Y]])
def test_where_scikit_learn_has_one_scores_are_the_same(name: str, theirs: str, labels: Any) -> None:
    model = LogisticRegression()
    scoring = theirs if labels.dtype.kind == "i" or name != "brier_score" else None
    ours = cross_val_score(model, X, labels, scoring=metrics.scorer(name), cv=5)
    expected = cross_val_score(model, X, labels if scoring else Y, scoring=theirs, cv=5)
    assert ours == pytest.approx(expected)


def test_of_several_classes_log_loss_is_theirs_and_labels_may_be_text() -> None:
    data, y = load_iris(return_X_y=True)
    expected = cross_val_score(GaussianNB(), data, y, scoring="neg_log_loss", cv=3)
    for labels in (y, np.array(["ant", "bee", "cow"])[y]):
        ours = cross_val_score(GaussianNB(), data, labels, scoring=metrics.scorer("log_loss"), cv=3)
        assert ours == pytest.approx(expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_scorer_gives_the_metric_of_each_fold_with_its_sign(name: str) -> None:
    folds = StratifiedKFold(3)
    found = cross_val_score(GaussianNB(), X, Y, scoring=metrics.scorer(name), cv=folds)
    sign = 1.0 if name == "roc_auc" else -1.0
    for score, (fitted, held) in zip(found, folds.split(X, Y), strict=True):
        prob = GaussianNB().fit(X[fitted], Y[fitted]).predict_proba(X[held])[:, 1]
        assert score == pytest.approx(sign * getattr(metrics, name)(Y[held], prob))


def test_options_reach_the_metric_and_several_scorers_go_together() -> None:
    scoring = {"few": metrics.scorer("ece", n_bins=3), "many": metrics.scorer("ece", n_bins=30)}
    found = cross_validate(GaussianNB(), X, Y, scoring=scoring, cv=3)
    assert (found["test_many"] < found["test_few"]).all(), "more bins show more noise: a larger error, a lower score"
    certain = metrics.scorer("log_loss", clip=1e-3)
    assert certain(GaussianNB().fit(X, Y), X, Y) > -np.log(1e3)


def test_a_search_chooses_the_model_of_the_least_loss() -> None:
    data, y = load_digits(n_class=3, return_X_y=True)
    noisy = data + np.random.default_rng(0).normal(scale=12.0, size=data.shape)
    grid = {"var_smoothing": [1e-9, 1e-2, 1.0]}
    ours = GridSearchCV(GaussianNB(), grid, scoring=metrics.scorer("log_loss"), cv=3).fit(noisy, y)
    theirs = GridSearchCV(GaussianNB(), grid, scoring="neg_log_loss", cv=3).fit(noisy, y)
    assert ours.best_params_ == theirs.best_params_


def test_a_fold_that_lacks_a_class_needs_the_classes() -> None:
    data, y = load_iris(return_X_y=True)
    model = GaussianNB().fit(data, y)
    part = y < 2
    with pytest.raises(CalibrantError, match="classes"):
        metrics.scorer("log_loss")(model, data[part], y[part] * 7)
    named = metrics.scorer("log_loss", classes=[0, 1, 2])
    expected = -np.log(model.predict_proba(data[part])[np.arange(part.sum()), y[part]]).mean()
    assert named(model, data[part], y[part]) == pytest.approx(-expected)


def test_weights_are_routed() -> None:
    weight = np.arange(600) % 3 + 1.0
    with sklearn.config_context(enable_metadata_routing=True):
        made = metrics.scorer("brier_score").set_score_request(sample_weight=True)
        model = GaussianNB().set_fit_request(sample_weight=True)
        found = cross_val_score(model, X, Y, scoring=made, cv=StratifiedKFold(3), params={"sample_weight": weight})
    for score, (fitted, held) in zip(found, StratifiedKFold(3).split(X, Y), strict=True):
        prob = GaussianNB().fit(X[fitted], Y[fitted], weight[fitted]).predict_proba(X[held])[:, 1]
        assert -score == pytest.approx(np.average((prob - Y[held]) ** 2, weights=weight[held]))


def test_scorers_can_be_pickled_and_cloned_with_their_search() -> None:
    made = metrics.scorer("smooth_ece")
    model = GaussianNB().fit(X, Y)
    assert pickle.loads(pickle.dumps(made))(model, X, Y) == made(model, X, Y)
    search = clone(GridSearchCV(GaussianNB(), {}, scoring=made, cv=3)).fit(X, Y)
    assert search.best_score_ < 0.0


def test_what_is_no_metric_is_refused() -> None:
    with pytest.raises(CalibrantError, match=r"unknown metric 'smoothece'\. Did you mean 'smooth_ece'"):
        metrics.scorer("smoothece")
    with pytest.raises(CalibrantError, match="is no name"):
        metrics.scorer(len)  # type: ignore[arg-type]


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.metrics", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'calibrant\[sklearn\]'"):
        metrics.scorer("log_loss")
