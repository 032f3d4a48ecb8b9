"""Classifiers that compute in other libraries of arrays; run by test_array_api.py where SciPy dispatches too."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import estimator_checks_generator

import calibrant as cb
from calibrant.calibrators import CALIBRATORS
from calibrant.errors import CalibrantError

LIBRARIES = ("array_api_strict", "torch")
NO_TORCH = "torch has no wheel for CPUs on PyPI, only one of several GB with CUDA"
#: Another library than those that are tested here.
ELSEWHERE = ("cupy", "dpnp", "torch")


def other(values: Any, library: str) -> Any:
    return pytest.importorskip(library, reason=NO_TORCH if library == "torch" else None).asarray(values)


def back(values: Any, library: str) -> Any:
    assert type(values).__module__.partition(".")[0] == library
    return np.asarray(values)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("method", CALIBRATORS)
def test_probabilities_are_those_of_numpy(method: str, n_classes: int, library: str) -> None:
    X, y = make_classification(400, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0)
    model = cb.CalibratedClassifierCV(LinearDiscriminantAnalysis(), method=method, cv=3)
    expected = clone(model).fit(X, y)
    X_other, y_other = other(X, library), other(y, library)
    with config_context(array_api_dispatch=True):
        found = model.fit(X_other, y_other)
        q, label = found.predict_proba(X_other), found.predict(X_other)
        if method == "venn_abers":
            for end, of_numpy in zip(found.predict_interval(X_other), expected.predict_interval(X), strict=True):
                np.testing.assert_allclose(back(end, library), of_numpy, atol=1e-6)
    np.testing.assert_allclose(
        back(q, library), expected.predict_proba(X), atol=1e-6
    )  # the classifier rounds its own way
    np.testing.assert_array_equal(back(label, library), expected.predict(X))
    np.testing.assert_array_equal(back(found.classes_, library), expected.classes_)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_weights_text_single_precision_and_pickles(method: str, ensemble: bool, library: str) -> None:
    X, codes = make_classification(300, 6, n_informative=5, n_redundant=0, n_classes=3, random_state=1)
    X, y = X.astype(np.float32), np.array(["a", "b", "c"])[codes]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 300).astype(np.float32)
    model = cb.CalibratedClassifierCV(LogisticRegression(), method=method, cv=3, ensemble=ensemble)
    expected = clone(model).fit(X, y, sample_weight=weight)
    X_other, weight_other = other(X, library), other(weight, library)
    with config_context(array_api_dispatch=True):
        model.fit(X_other, y, sample_weight=weight_other)
        q, label = model.predict_proba(X_other), model.predict(X_other)
        again = pickle.loads(pickle.dumps(model)).predict_proba(X_other)
        (column, *_) = model.calibrated_classifiers_[0].calibrators
        if method == "sigmoid":
            np.testing.assert_array_less(back(column.predict(other(np.zeros(2), library)), library), 1.0)
    assert q.dtype == X_other.dtype
    assert label.tolist() == expected.predict(X).tolist()
    np.testing.assert_allclose(back(q, library), expected.predict_proba(X), atol=2e-3)  # of single precision
    np.testing.assert_array_equal(back(again, library), back(q, library))
    assert model.calibrators_[0].classes_.tolist() == ["a", "b", "c"]


def test_frames_and_lists_are_read_as_without_dispatch() -> None:
    X, y = make_classification(200, 6, random_state=2)
    for given, labels in ((pd.DataFrame(X), pd.Series(y)), (X.tolist(), y.tolist()), (X, y)):
        with config_context(array_api_dispatch=True):
            model = cb.CalibratedClassifierCV(LinearDiscriminantAnalysis(), cv=2).fit(given, labels)
            assert type(model.predict_proba(given)) is np.ndarray


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_of_another_library_than_the_fits_are_refused(library: str) -> None:
    X, y = make_classification(200, 6, random_state=2)
    with config_context(array_api_dispatch=True):
        model = cb.CalibratedClassifierCV(LinearDiscriminantAnalysis(), cv=2).fit(other(X, library), other(y, library))
        with pytest.raises(
            CalibrantError, match=rf"predict_proba\(\) must use the same .*arrays of {library} on .*of numpy"
        ):
            model.predict_proba(X)
        frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, y))
        model = cb.CalibratedClassifierCV(frozen).fit(X, y)
        with pytest.raises(CalibrantError, match=r"predict\(\) must use the same namespace"):
            model.predict(other(X, library))


@pytest.mark.filterwarnings("ignore:torch.asarray:UserWarning")
def test_torch_of_gradients_is_refused() -> None:
    torch = pytest.importorskip("torch", reason=NO_TORCH)
    X, y = make_classification(200, 6, random_state=2)
    model = cb.CalibratedClassifierCV(LinearDiscriminantAnalysis(), cv=2)
    with config_context(array_api_dispatch=True), pytest.raises(CalibrantError, match="without gradients"):
        model.fit(torch.asarray(X), torch.asarray(y * 1.0).requires_grad_())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["sigmoid", "temperature", "auto", "venn_abers"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_scikit_learns_checks_of_arrays(method: str, ensemble: bool) -> None:
    model = cb.CalibratedClassifierCV(LogisticRegression(C=1), method=method, cv=3, ensemble=ensemble)
    n_passed, skipped = 0, []
    for estimator, check in estimator_checks_generator(model):
        if "array_api" in check.func.__name__:
            try:
                check(estimator)
                n_passed += 1
            except SkipTest as why:
                skipped.append(str(why))
    assert [why for why in skipped if not why.startswith(ELSEWHERE)] == []
    assert n_passed >= 4
