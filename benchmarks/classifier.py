"""What CalibratedClassifierCV costs beside the fits of its base model, ours against scikit-learn's."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import sklearn.calibration
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from benchmarks._harness import Results

ROWS, FEATURES = 100_000, 20
METHODS = ("sigmoid", "isotonic", "temperature")
#: Times that ours must cost less.
FIT_GOALS = {"sigmoid": 3.0, "isotonic": 3.0, "temperature": 1.0}
KINDS = {"ours": cb.CalibratedClassifierCV, "sklearn": sklearn.calibration.CalibratedClassifierCV}


class Settled(ClassifierMixin, BaseEstimator):
    """A linear classifier whose fit costs nothing: its coefficients were found before."""

    def __init__(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        self.coef = coef
        self.intercept = intercept

    def fit(self, X: np.ndarray, y: np.ndarray) -> Settled:
        """Note the classes."""
        self.classes_ = np.arange(max(2, len(self.intercept)))
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return one value per row for two classes, else one per class."""
        z = X @ self.coef.T + self.intercept
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return labels, which scikit-learn asks of every estimator that it cross-validates."""
        z = self.decision_function(X)
        return z.argmax(axis=1) if z.ndim == 2 else (z > 0.0).astype(np.int64)


def run() -> Results:
    """Time fits and predictions in every ensemble mode, and the calibration curve."""
    results = Results(
        f"CalibratedClassifierCV on {ROWS:,} rows x {FEATURES} features, over a base model whose fit is free: what "
        "is left is calibration's own cost (splitting, copying rows, predicting, calibrating)"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n_classes in (2, 10):
            measure(results, n_classes)
    measure_curve(results)
    return results


def measure(results: Results, n_classes: int) -> None:
    """Race fits and predictions for one number of classes."""
    X, y = make_classification(
        n_samples=ROWS, n_features=FEATURES, n_informative=10, n_classes=n_classes, flip_y=0.2, random_state=0
    )
    base = LogisticRegression(max_iter=50).fit(X[:5000], y[:5000])
    settled = Settled(base.coef_, base.intercept_)
    modes = {
        "cv=5": (settled, {"ensemble": True}),
        "cv=5, ensemble=False": (settled, {"ensemble": False}),
        "frozen": (FrozenEstimator(Settled(base.coef_, base.intercept_).fit(X, y)), {}),
    }
    for mode, (estimator, options) in modes.items():
        fits: dict[str, Callable[[], object]] = {}
        models = {}
        for method in METHODS:
            for who, kind in KINDS.items():
                models[method, who] = kind(estimator, method=method, **options)
                fits[f"{method}, {who}"] = _fit_of(models[method, who], X, y)
        case = f"{n_classes} classes, {mode}"
        for fit in 2 * [*fits.values()]:
            fit()  # loops are loaded by the second: what that costs is what the benchmark of first calls shows
        times = results.race(f"fit {case}", fits, rounds=5)
        predictions: dict[str, Callable[[], object]] = {}
        for (method, who), model in models.items():
            predictions[f"{method}, {who}"] = _predict_of(model, X)
            predictions[f"one row, {method}, {who}"] = _one_row_of(model, X)
        asked = results.race(f"predict {case}", predictions, rounds=3)
        for method in METHODS:
            ours, theirs = f"{method}, ours", f"{method}, sklearn"
            results.ratio(case, f"sklearn / ours, {method} fit", times[theirs], times[ours], at_least=FIT_GOALS[method])
            results.ratio(case, f"sklearn / ours, {method} predict", asked[theirs], asked[ours], at_least=1.0)
            one = (asked[f"one row, {theirs}"], asked[f"one row, {ours}"])
            results.ratio(case, f"sklearn / ours, {method} predict of one row", *one, at_least=1.0)


def measure_curve(results: Results) -> None:
    """Race calibration_curve over a million rows."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 1_000_000)
    y = (rng.uniform(size=p.size) < p).astype(np.int64)
    curves = {"ours": cb.calibration_curve, "sklearn": sklearn.calibration.calibration_curve}
    for strategy in ("uniform", "quantile"):
        rivals = {f"{strategy}, {who}": _curve_of(curve, y, p, strategy) for who, curve in curves.items()}
        times = results.race("calibration_curve 1e6", rivals, rounds=9)
        claim = f"sklearn / ours, calibration_curve {strategy}"
        results.ratio("1e6 rows", claim, times[f"{strategy}, sklearn"], times[f"{strategy}, ours"], at_least=5.0)


def _fit_of(model: BaseEstimator, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    return lambda: model.fit(X, y)


def _predict_of(model: BaseEstimator, X: np.ndarray) -> Callable[[], object]:
    return lambda: model.predict_proba(X)


def _one_row_of(model: BaseEstimator, X: np.ndarray) -> Callable[[], object]:
    return lambda: [model.predict_proba(X[i : i + 1]) for i in range(100)]


def _curve_of(curve: Callable[..., object], y: np.ndarray, p: np.ndarray, strategy: str) -> Callable[[], object]:
    return lambda: curve(y, p, strategy=strategy, n_bins=10)
