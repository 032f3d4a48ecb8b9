"""Fit and apply of every calibrator in multiples of one sort of the same scores, and against the peers installed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.calibration import _SigmoidCalibration, _TemperatureScaling
from sklearn.isotonic import IsotonicRegression

from benchmarks._harness import Results
from calibrant.calibrators import CALIBRATORS, make_calibrator
from calibrant.errors import CalibrantWarning

Array = npt.NDArray[Any]
SORT = "np.argsort"
#: Goals at 1e6 rows for fit and apply together, in multiples of the sort.
MOST_SORTS = {"venn_abers": 10.0, "spline": 10.0}
#: Goals at 1e6 rows for the fit, as many times faster than scikit-learn's.
TIMES_FASTER = {"sigmoid, given logits": 25.0, "isotonic": 10.0}


def run() -> Results:
    """Time the fit and the application of every calibrator."""
    results = Results("Each calibrator in multiples of one sort of the same scores; labels are Bernoulli(score^1.3)")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        measure(results, 10_000, rounds=9)
        measure(results, 1_000_000, rounds=3, has_goal=True)
    return results


def measure(results: Results, n: int, *, rounds: int, has_goal: bool = False) -> None:
    """Race fits, then applications, over n probabilities."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, n)
    y = (rng.uniform(size=n) < p**1.3).astype(np.int64)
    case = f"beta(1, 2) {n:.0e}"
    fits: dict[str, Callable[[], object]] = {SORT: lambda: np.argsort(p)}
    fits |= {name: _fit_of(name, p, y) for name in CALIBRATORS}
    z = np.log(p) - np.log1p(-p)
    fits["sigmoid, given logits"] = lambda: make_calibrator("sigmoid", input="logit").fit(z, y)
    fits["temperature, given logits"] = lambda: make_calibrator("temperature", input="logit").fit(z, y)
    fits |= _peers(p, z, y)
    times = results.race(f"fit {case}", fits, rounds=rounds)
    fitted = {name: make_calibrator(name).fit(p, y) for name in CALIBRATORS}
    applied: dict[str, Callable[[], object]] = {SORT: lambda: np.argsort(p)}
    applied |= {name: _apply_of(calibrator, p) for name, calibrator in fitted.items()}
    apply_times = results.race(f"apply {case}", applied, rounds=rounds)
    for name in CALIBRATORS:
        results.ratio(case, f"{name} fit / {SORT}", times[name], times[SORT])
        results.ratio(case, f"{name} apply / {SORT}", apply_times[name], apply_times[SORT])
        if name in MOST_SORTS:
            both = type(times[name])(
                [a + b for a, b in zip(times[name].wall_s, apply_times[name].wall_s, strict=True)],
                [a + b for a, b in zip(times[name].cpu_s, apply_times[name].cpu_s, strict=True)],
            )
            goal = MOST_SORTS[name] if has_goal else None
            results.ratio(case, f"{name} fit and apply / {SORT}", both, times[SORT], at_most=goal)
    for peer in times:
        ours = peer.partition(" of ")[2]
        if ours:
            goal = TIMES_FASTER.get(ours) if has_goal and peer.startswith("sklearn") else None
            results.ratio(case, f"{peer} / ours", times[peer], times[ours], at_least=goal)


def _fit_of(name: str, p: Array, y: Array) -> Callable[[], object]:
    return lambda: make_calibrator(name).fit(p, y)


def _apply_of(calibrator: Any, p: Array) -> Callable[[], object]:
    return lambda: calibrator.predict_proba(p)


def _peers(p: Array, z: Array, y: Array) -> dict[str, Callable[[], object]]:
    """Return the fits of other packages, named "<package> of <our name>"; those that aren't installed are left out."""
    peers: dict[str, Callable[[], object]] = {
        "sklearn of isotonic": lambda: IsotonicRegression(out_of_bounds="clip").fit(p, y),
        "sklearn of sigmoid, given logits": lambda: _SigmoidCalibration().fit(z, y),
        "sklearn of temperature, given logits": lambda: _TemperatureScaling().fit(z[:, None], y),
    }
    if find_spec("betacal") is not None:
        from betacal import BetaCalibration

        peers["betacal of beta"] = lambda: BetaCalibration().fit(p, y)
    if find_spec("venn_abers") is not None:
        from venn_abers import VennAbers

        peers["venn-abers of venn_abers"] = lambda: VennAbers().fit(np.column_stack((1 - p, p)), y)
    return peers
