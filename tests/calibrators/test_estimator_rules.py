"""Calibrators pass scikit-learn's checks of estimators, but for those whose table of features they can't take.

A calibrator takes scores, and the checks pass tables of features. So there are two runs: of each calibrator as it is,
where the checks of its settings must pass; and of each behind a fixed formula that makes scores of a table, where all
must pass but the ones listed here, each with its reason.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError as TheirNotFittedError
from sklearn.utils import ClassifierTags
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import validate_data

import calibrant as cb
from calibrant.calibrators import CALIBRATORS, Calibrator
from calibrant.errors import InvalidLabelError, NotFittedError

#: Checks that no calibrator passes behind the formula either.
EXPECTED = {
    "check_supervised_y_2d": "labels of shape (n, 1) are refused with what to pass, where scikit-learn warns",
}
#: Checks that one calibrator does not pass besides.
EXPECTED_OF = {
    "auto": {
        "check_sample_weight_equivalence_on_dense_data": "passes a list of splits as cv, which is a number of folds",
    },
}
#: Checks that need no table of features: the calibrator as it is passes them.
OF_SETTINGS = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
}


def scores_of(X: Any, n_classes: int) -> Any:
    """Make probabilities of a table by a fixed linear formula; rows that are not finite stay so."""
    weights = np.random.default_rng(0).normal(size=(X.shape[1], n_classes if n_classes > 2 else 1))
    s = np.asarray(X, dtype=np.float64) @ weights / 10.0
    p = softmax(s, axis=1) if n_classes > 2 else expit(s[:, 0])
    is_finite = np.isfinite(s).all(axis=1)
    return np.where(is_finite[:, None] if n_classes > 2 else is_finite, p, np.nan)


def behind_formula(kind: type[Calibrator]) -> type[Calibrator]:
    """Return the calibrator as a classifier of tables; what is fitted and predicted is left to it."""

    class OfTable(ClassifierMixin, kind, BaseEstimator):  # type: ignore[misc, valid-type]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            X = validate_data(self, X, ensure_all_finite=False)
            n_classes = 2 if y is None else len(np.unique(np.asarray(y)))
            return super().fit(scores_of(X, n_classes), y, sample_weight=sample_weight)

        def predict_proba(self, X: Any) -> Any:
            self.check_fitted()
            X = validate_data(self, X, reset=False, ensure_all_finite=False)
            q = super().predict_proba(scores_of(X, len(self.classes_)))
            return np.column_stack((1.0 - q, q)) if q.ndim == 1 else q

        def predict(self, X: Any) -> Any:
            q = self.predict_proba(X)
            return self.classes_[q.argmax(axis=1)]

        def __sklearn_tags__(self) -> Any:
            tags = BaseEstimator().__sklearn_tags__()
            tags.estimator_type = "classifier"
            tags.classifier_tags = ClassifierTags(poor_score=True)  # the formula doesn't look at the labels
            tags.target_tags.required = True
            return tags

    OfTable.__init__ = kind.__init__  # type: ignore[method-assign]  # whose arguments scikit-learn reads
    OfTable.__name__ = OfTable.__qualname__ = f"{kind.__name__}OfTable"
    return OfTable


OF_TABLES = {name: behind_formula(kind) for name, kind in CALIBRATORS.items()}
globals().update({kind.__name__: kind for kind in OF_TABLES.values()})  # where pickle looks for them


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators_behind_a_formula_pass_the_checks(name: str) -> None:
    expected = EXPECTED | EXPECTED_OF.get(name, {})
    found = check_estimator(OF_TABLES[name](), expected_failed_checks=expected, on_fail=None, on_skip=None)
    status: dict[str, set[str]] = {}
    for each in found:
        status.setdefault(each["status"], set()).add(each["check_name"])
    assert len(found) > 55
    assert status.pop("failed", set()) == set()
    assert status.pop("skipped", set()) <= {"check_array_api_input"}  # see tests/reference/test_array_api.py
    assert status.pop("xfail") == set(expected), "a check that passes must leave the list"
    assert set(status) == {"passed"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators_as_they_are_pass_the_checks_of_settings(name: str) -> None:
    found = check_estimator(CALIBRATORS[name](), on_fail=None, on_skip=None)
    status = {each["check_name"]: each["status"] for each in found}
    assert {check: status[check] for check in OF_SETTINGS} == dict.fromkeys(OF_SETTINGS, "passed")


def test_what_is_not_fitted_is_scikit_learns_error_too() -> None:
    for error in (NotFittedError, TheirNotFittedError):
        with pytest.raises(error, match=r"SigmoidCalibrator is not fitted. Call fit\(scores, y\) first.") as caught:
            cb.SigmoidCalibrator().predict_proba([0.5])
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is type(caught.value)
    assert str(again) == str(caught.value)


def test_labels_that_were_forgotten_are_named() -> None:
    with pytest.raises(InvalidLabelError, match=r"y: Expected array-like .*, got None\. Pass one label per row"):
        cb.SigmoidCalibrator().fit([0.5, 0.2], None)
