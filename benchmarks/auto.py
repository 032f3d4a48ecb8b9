"""Cost of automatic calibration, in multiples of the candidate that costs most."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from benchmarks._harness import Results
from calibrant.calibrators import make_calibrator
from calibrant.errors import CalibrantWarning
from calibrant.numerics import softmax

N_ROWS, N_CLASSES, N_BINARY = 10_000, 10, 100_000


def run() -> Results:
    """Time auto beside its candidates, of ten classes and of two."""
    results = Results(
        "Automatic calibration beside its candidates: softmax of normal logits, times 2 (10 classes), and scores whose "
        "rate is\ntheir power 1.5. Before its folds started from the fit to all rows it took 13 times matrix scaling, "
        "which took 2.5 times\nas long as now, and 20 times the spline."
    )
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N_ROWS, N_CLASSES)) * 1.5
    truth = softmax(z).cumsum(axis=1)
    y = np.minimum((truth < rng.uniform(size=(N_ROWS, 1))).sum(axis=1), N_CLASSES - 1)
    measure(results, softmax(2.0 * z), y, ("temperature", "matrix"), "matrix")
    p = rng.beta(0.7, 0.7, N_BINARY)
    happened = rng.uniform(size=N_BINARY) < p**1.5
    measure(results, p, happened.astype(np.int64), ("temperature", "spline", "venn_abers"), "spline")
    return results


def measure(results: Results, p: np.ndarray, y: np.ndarray, candidates: tuple[str, ...], unit: str) -> None:
    """Race auto and some of its candidates over the same rows."""
    case = f"{len(p):.0e}" if p.ndim == 1 else f"{len(p):.0e} x {p.shape[1]}"
    fits: dict[str, Callable[[], object]] = {name: _fit_of(name, p, y) for name in (*candidates, "auto")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        times = results.race(f"fit {case}", fits, rounds=7)
    results.ratio(case, f"auto / {unit}", times["auto"], times[unit], at_most=10.0)


def _fit_of(name: str, p: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    return lambda: make_calibrator(name).fit(p, y)
