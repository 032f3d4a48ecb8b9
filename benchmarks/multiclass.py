"""Fit and apply of the multi-class calibrators, in multiples of scikit-learn's temperature scaling."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.calibration import _TemperatureScaling
from sklearn.linear_model import LogisticRegression

from benchmarks._harness import Results
from calibrant.calibrators import CALIBRATORS, Calibrator, make_calibrator
from calibrant.errors import CalibrantWarning
from calibrant.numerics import softmax

SIZES = ((100_000, 10), (10_000, 100))
METHODS = ("temperature", "ensemble_temperature", "vector", "matrix", "dirichlet", "auto")
#: FINDINGS C: CPU seconds of probmetrics' structured matrix scaling in units of scikit-learn's temperature, there.
SMS_IN_TEMPERATURES = {10: 1.03 / 0.106, 100: 0.58 / 0.100}
PEER_TEMPERATURE, PEER_MATRIX = "sklearn temperature", "sklearn multinomial regression (matrix scaling)"


def run() -> Results:
    """Time every multi-class method at both sizes."""
    results = Results(
        "Multi-class calibration of over-confident probabilities (softmax of normal logits, times 2). The times of "
        "probmetrics'\nmatrix scaling are those of its measurement beside scikit-learn's temperature, scaled by the "
        "latter here: it is not run."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        warnings.simplefilter("ignore", UserWarning)
        for n, n_classes in SIZES:
            measure(results, n, n_classes)
    return results


def measure(results: Results, n: int, n_classes: int) -> None:
    """Race fits, then applications, over n rows of K probabilities."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, n_classes)) * 1.5
    truth = softmax(z).cumsum(axis=1)
    y = np.minimum((truth < rng.uniform(size=(n, 1))).sum(axis=1), n_classes - 1)
    p = softmax(2.0 * z)
    log_p = np.log(p)
    methods = [name for name in METHODS if name in CALIBRATORS]
    fits: dict[str, Callable[[], object]] = {
        PEER_TEMPERATURE: lambda: _TemperatureScaling().fit(p, y),
        PEER_MATRIX: lambda: LogisticRegression(C=1.0, max_iter=100).fit(log_p, y),
    }
    fits |= {name: _fit_of(name, p, y) for name in methods}
    case = f"{n:.0e} x {n_classes}"
    times = results.race(f"fit {case}", fits, rounds=3)
    applied = {name: _apply_of(make_calibrator(name).fit(p, y), p) for name in methods}
    results.race(f"apply {case}", applied, rounds=3)
    for name in methods:
        at_most = 1.0 if name == "temperature" else None
        results.ratio(case, f"{name} / {PEER_TEMPERATURE}", times[name], times[PEER_TEMPERATURE], at_most=at_most)
    results.ratio(case, f"{PEER_MATRIX} / matrix", times[PEER_MATRIX], times["matrix"], at_least=1.0)
    at_most = SMS_IN_TEMPERATURES[n_classes] / 5.0
    claim = f"matrix / {PEER_TEMPERATURE}; a fifth of probmetrics' is {at_most:.2f}"
    results.ratio(case, claim, times["matrix"], times[PEER_TEMPERATURE], at_most=at_most)


def _fit_of(name: str, p: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    return lambda: make_calibrator(name).fit(p, y)


def _apply_of(calibrator: Calibrator, p: np.ndarray) -> Callable[[], object]:
    return lambda: calibrator.predict_proba(p)
