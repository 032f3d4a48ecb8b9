"""Any number of labels per row: each calibrated on its own, in the same estimator."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import calibrant as cb
from calibrant.classifier.splits import splits
from calibrant.errors import InvalidTypeError

X, Y = make_multilabel_classification(n_samples=400, n_features=8, n_classes=4, allow_unlabeled=True, random_state=0)


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize(
    "base",
    [
        OneVsRestClassifier(GaussianNB()),
        OneVsRestClassifier(LinearSVC(random_state=0)),
        RandomForestClassifier(20, random_state=0),
    ],
    ids=["table", "decision values", "list of tables"],
)
def test_each_label_is_calibrated_as_a_problem_of_its_own(base: object, ensemble: bool) -> None:
    model = cb.CalibratedClassifierCV(base, method="isotonic", cv=KFold(3), ensemble=ensemble).fit(X, Y)
    q = model.predict_proba(X)
    assert q.shape == Y.shape
    np.testing.assert_array_equal(model.predict(X), (q > 0.5).astype(int))
    if isinstance(base, OneVsRestClassifier):
        for j in range(4):
            single = cb.CalibratedClassifierCV(base.estimator, method="isotonic", cv=KFold(3), ensemble=ensemble)
            np.testing.assert_allclose(q[:, j], single.fit(X, Y[:, j]).predict_proba(X)[:, 1], rtol=1e-9)


@pytest.mark.parametrize("cv", [None, 3])
def test_groups_stay_whole_in_the_folds_and_in_those_of_the_calibrators(cv: int | None) -> None:
    groups = np.arange(400) % 40
    for split in splits(cv, X, Y, 400, None, {"groups": groups}):
        assert not set(groups[split.train]) & set(groups[split.test])
    base = OneVsRestClassifier(GaussianNB()).fit(X, Y)
    model = cb.CalibratedClassifierCV(FrozenEstimator(base), method="auto", cv=cv).fit(X, Y, groups=groups)
    p, q = base.predict_proba(X), model.predict_proba(X)
    for j in range(4):
        alone = cb.AutoCalibrator().fit(p[:, j], Y[:, j], cluster=groups)
        np.testing.assert_allclose(q[:, j], alone.predict_proba(p[:, j]), rtol=1e-12)


@pytest.mark.slow
def test_indicators_in_other_containers() -> None:
    base = OneVsRestClassifier(LogisticRegression())
    plain = cb.CalibratedClassifierCV(base, cv=3).fit(X, Y).predict_proba(X)
    for other in (Y.astype(bool), csr_matrix(Y), Y.astype(float)):
        np.testing.assert_allclose(cb.CalibratedClassifierCV(base, cv=3).fit(X, other).predict_proba(X), plain)


def test_a_frozen_classifier_and_its_calibrator_taken_out(tmp_path: Path) -> None:
    base = OneVsRestClassifier(GaussianNB()).fit(X[:200], Y[:200])
    model = cb.CalibratedClassifierCV(FrozenEstimator(base), method="beta").fit(X[200:], Y[200:])
    cb.save(model.calibrators_[0], tmp_path / "labels.json")
    taken = cb.load(tmp_path / "labels.json")
    np.testing.assert_array_equal(taken.predict_proba(base.predict_proba(X)), model.predict_proba(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


def test_weights_count_as_rows() -> None:
    base = FrozenEstimator(OneVsRestClassifier(GaussianNB()).fit(X, Y))
    weight = np.where(np.arange(400) % 2 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(400), weight.astype(int))
    weighted = cb.CalibratedClassifierCV(base).fit(X, Y, sample_weight=weight).predict_proba(X)
    np.testing.assert_allclose(cb.CalibratedClassifierCV(base).fit(X[rows], Y[rows]).predict_proba(X), weighted)


def test_a_method_of_all_classes_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="labels are calibrated each on its own"):
        cb.CalibratedClassifierCV(OneVsRestClassifier(GaussianNB()), method="temperature", cv=3).fit(X, Y)
