"""scikit-learn's checks of estimators, for every method."""

from __future__ import annotations

import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator

import calibrant as cb
from calibrant.calibrators import CALIBRATORS

METHODS = {
    **{name: name for name in CALIBRATORS},
    "instance": cb.BetaCalibrator(),
    "regressor": IsotonicRegression(out_of_bounds="clip"),
}


#: Of naive Bayes' probabilities near 1, weights and repeated rows round differently, and beta sees the difference.
FINE = ("beta", "instance")
CASES = [
    *((name, LogisticRegression() if name in FINE else GaussianNB(), True) for name in METHODS),
    *((name, GaussianNB(), False) for name in ("sigmoid", "isotonic", "temperature", "auto")),
    *((name, LogisticRegression(), True) for name in ("sigmoid", "isotonic", "temperature")),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "base", "ensemble"), CASES)
def test_scikit_learns_checks_of_estimators(name: str, base: object, ensemble: bool) -> None:
    model = cb.CalibratedClassifierCV(base, method=METHODS[name], cv=3, ensemble=ensemble)
    results = check_estimator(model, on_fail=None, on_skip=None)
    assert len(results) > 55
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert failed == {}
