"""What one call costs where rows are few: fits and applications of a hundred rows, one row at a time, and `evaluate`.

Each call is repeated in batches, all calls in turn; a figure is the median over the batches of the processor time of
one call, with the fastest batch beside it. Time that the process waits for other programs is in neither.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._harness import Tables
from calibrant.errors import DataWarning

N_ROWS = 100
N_CLASSES = 3
ROUNDS = 25
#: Processor time of a batch: many steps of the clock.
_BATCH_S = 0.02
_METHODS = ("sigmoid", "temperature", "isotonic", "beta")
#: The goals, in microseconds of processor time for a call.
_CALL_GOAL, _ROW_GOAL = 1_000.0, 30.0


class Case(NamedTuple):
    """A call, and its goal in microseconds; None where it is shown for comparison."""

    name: str
    call: Callable[[], object]
    goal: float | None = None


def run() -> Tables:
    """Measure all calls in turn, and judge those that have a goal."""
    results = Tables(
        f"Microseconds of processor time of one call: {N_ROWS} rows, or one; median and least of {ROUNDS} rounds"
    )
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", DataWarning)
        cases = [*_calls_of_many_rows(), *_calls_of_one_row(Path(folder)), *_for_comparison()]
        found = _measure(cases)
    rows = []
    for case, times in zip(cases, found, strict=True):
        median = statistics.median(times)
        if case.goal is not None:
            results.goal(f"{case.name}: at most {case.goal:,.0f} us", median, at_most=case.goal)
        goal = "" if case.goal is None else f"{case.goal:,.0f}"
        rows.append((case.name, goal, f"{median:,.1f}", f"{min(times):,.1f}"))
    results.add("Each call", ("call", "goal", "median us", "least us"), rows)
    return results


def _measure(cases: list[Case]) -> list[list[float]]:
    """Return the microseconds of each call in each round."""
    repeats = []
    for case in cases:
        case.call()  # compiled and imported
        case.call()
        once = _seconds(case.call, 3)
        repeats.append(max(3, int(_BATCH_S / once)))
    found: list[list[float]] = [[] for _ in cases]
    for _ in range(ROUNDS):
        for case, n, times in zip(cases, repeats, found, strict=True):
            times.append(1e6 * _seconds(case.call, n))
    return found


def _seconds(call: Callable[[], object], n: int) -> float:
    start = time.process_time()
    for _ in range(n):
        call()
    return (time.process_time() - start) / n


def _samples() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores and labels of two classes, and of several."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=N_ROWS)
    y = (rng.uniform(size=N_ROWS) < p).astype(int)
    P = rng.dirichlet(np.ones(N_CLASSES), N_ROWS)
    labels = (rng.uniform(size=N_ROWS)[:, None] > P.cumsum(axis=1)).sum(axis=1)
    return p, y, P, np.minimum(labels, N_CLASSES - 1)


def _calls_of_many_rows() -> list[Case]:
    import calibrant as cb
    from calibrant.calibrators import make_calibrator

    p, y, P, labels = _samples()
    cases = []
    for name in _METHODS:
        fitted = make_calibrator(name).fit(p, y)
        cases += [
            Case(f"fit {name}, {N_ROWS} rows", lambda name=name: make_calibrator(name).fit(p, y), _CALL_GOAL),
            Case(f"apply {name}, {N_ROWS} rows", lambda fitted=fitted: fitted.predict_proba(p), _CALL_GOAL),
        ]
    return [
        *cases,
        Case(f"evaluate, intervals=False, {N_ROWS} rows", lambda: cb.evaluate(y, p, intervals=False), _CALL_GOAL),
        Case(f"evaluate, intervals=False, {N_CLASSES} classes", lambda: cb.evaluate(labels, P, intervals=False)),
        Case("evaluate with intervals", lambda: cb.evaluate(y, p)),
    ]


def _calls_of_one_row(folder: Path) -> list[Case]:
    """Return calls of calibrators that were saved and loaded, as a server has them."""
    import calibrant as cb
    from calibrant.calibrators import make_calibrator
    from calibrant.runtime import load

    p, y, P, labels = _samples()

    def loaded(name: str, scores: np.ndarray, y: np.ndarray) -> object:
        path = os.fspath(folder / "calibrator.json")
        cb.save(make_calibrator(name).fit(scores, y), path)
        return load(path)

    cases = []
    for name in (*_METHODS, "spline", "venn_abers"):
        fitted = loaded(name, p, y)
        cases.append(Case(f"one row, {name}", lambda fitted=fitted: fitted.predict_proba(p[:1]), _ROW_GOAL))
    for name in ("temperature", "vector", "dirichlet", "sigmoid", "isotonic", "beta", "spline", "venn_abers"):
        fitted = loaded(name, P, labels)
        kind = "softmax" if name in ("temperature", "vector", "dirichlet") else "one-vs-rest"
        what = f"one row of {N_CLASSES} classes, {name} ({kind})"
        cases.append(Case(what, lambda fitted=fitted: fitted.predict_proba(P[:1]), _ROW_GOAL))
    return cases


def _for_comparison() -> list[Case]:
    """Return scikit-learn's calls for the same."""
    from sklearn.calibration import _SigmoidCalibration
    from sklearn.isotonic import IsotonicRegression
    from sklearn.linear_model import LogisticRegression

    p, y, P, labels = _samples()
    sigmoid = _SigmoidCalibration().fit(p, y)
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(p, y)
    logistic, softmax = LogisticRegression().fit(p[:, None], y), LogisticRegression().fit(P, labels)
    return [
        Case("scikit-learn: fit sigmoid", lambda: _SigmoidCalibration().fit(p, y)),
        Case("scikit-learn: one row, sigmoid", lambda: sigmoid.predict(p[:1])),
        Case("scikit-learn: one row, isotonic", lambda: isotonic.predict(p[:1])),
        Case("scikit-learn: one row, LogisticRegression.predict_proba", lambda: logistic.predict_proba(p[:1, None])),
        Case(
            f"scikit-learn: one row of {N_CLASSES} classes, LogisticRegression.predict_proba",
            lambda: softmax.predict_proba(P[:1]),
        ),
    ]
