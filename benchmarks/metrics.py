"""Every metric in multiples of one sort of the same scores, and against what scikit-learn has of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from benchmarks._harness import Results
from calibrant import metrics

METRICS: dict[str, Callable[..., object]] = {
    "brier_score": metrics.brier_score,
    "log_loss": metrics.log_loss,
    "roc_auc": metrics.roc_auc,
    "ece": metrics.ece,
    "ece_debiased": metrics.ece_debiased,
    "smooth_ece": metrics.smooth_ece,
    "integrated_calibration_index": metrics.integrated_calibration_index,
    "decompose": metrics.decompose,
    "calibration_in_the_large": metrics.calibration_in_the_large,
    "calibration_slope_intercept": metrics.calibration_slope_intercept,
    "calibration_intercept": metrics.calibration_intercept,
    "spiegelhalter_z": metrics.spiegelhalter_z,
    "hosmer_lemeshow": metrics.hosmer_lemeshow,
    "kolmogorov_smirnov": metrics.kolmogorov_smirnov,
    "kuiper": metrics.kuiper,
    "calibration_e_value": metrics.calibration_e_value,
}
#: scikit-learn's, by the name of ours.
THEIRS: dict[str, Callable[..., object]] = {
    "brier_score": brier_score_loss,
    "log_loss": log_loss,
    "roc_auc": roc_auc_score,
}
SORT = "np.argsort"
ALL = "all of these"


def run() -> Results:
    """Time each metric alone, all of them together, and the reliability curve."""
    results = Results("Each metric, called alone, in multiples of one sort of the same scores")
    measure(results, 10_000, rounds=15)
    measure(results, 1_000_000, rounds=5, has_goal=True)
    return results


def measure(results: Results, n: int, *, rounds: int, has_goal: bool = False) -> None:
    """Race our metrics, scikit-learn's and a sort over n nearly calibrated probabilities."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n)
    y = (rng.uniform(size=n) < p).astype(np.int64)
    case = f"uniform {n:.0e}"
    rivals: dict[str, Callable[[], object]] = {SORT: lambda: np.argsort(p)}
    rivals |= {name: bind(metric, y, p) for name, metric in METRICS.items()}
    rivals |= {f"sklearn {name}": bind(metric, y, p) for name, metric in THEIRS.items()}
    rivals[ALL] = lambda: [metric(y, p) for metric in METRICS.values()]
    rivals["evaluate"] = bind(metrics.evaluate, y, p)
    rivals["reliability_curve"] = lambda: metrics.reliability_curve(y, p, n_bins=10, strategy="uniform")
    rivals["sklearn calibration_curve"] = lambda: calibration_curve(y, p, n_bins=10, strategy="uniform")
    rivals["reliability_curve, quantile"] = lambda: metrics.reliability_curve(y, p, n_bins=10)
    rivals["sklearn calibration_curve, quantile"] = lambda: calibration_curve(y, p, n_bins=10, strategy="quantile")
    rivals["reliability_curve with its band"] = lambda: metrics.reliability_curve(y, p, band="consistency")
    times = results.race(case, rivals, rounds=rounds)
    goals = {"smooth_ece": 3.0, ALL: 10.0, "evaluate": 10.0} if has_goal else {}
    for name in (*METRICS, ALL, "evaluate"):
        results.ratio(case, f"{name} / {SORT}", times[name], times[SORT], at_most=goals.get(name))
    for name in THEIRS:
        results.ratio(case, f"sklearn {name} / {name}", times[f"sklearn {name}"], times[name])
    curve = "reliability_curve"
    for suffix in ("", ", quantile"):
        rival = f"sklearn calibration_curve{suffix}"
        goal = 8.0 if has_goal else None
        results.ratio(case, f"{rival} / {curve}{suffix}", times[rival], times[f"{curve}{suffix}"], at_least=goal)
    results.ratio(
        case, f"reliability_curve with its band / {SORT}", times["reliability_curve with its band"], times[SORT]
    )


def bind(function: Callable[..., object], y: npt.NDArray[Any], p: npt.NDArray[Any]) -> Callable[[], object]:
    """Return a call without arguments."""
    return lambda: function(y, p)
