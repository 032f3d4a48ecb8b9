"""`evaluate` against one sort of the scores and against the three metrics that scikit-learn has."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import calibrant as cb
from benchmarks._harness import Results

SKLEARN = "sklearn Brier + log loss + AUC"


def run() -> Results:
    """Time all of our scores with their intervals, and scikit-learn's three without any."""
    results = Results("Every score with its interval (evaluate), in multiples of one sort of the same scores")
    measure(results, 10_000, rounds=15)
    measure(results, 1_000_000, rounds=5)
    return results


def measure(results: Results, n: int, *, rounds: int) -> None:
    """Race `evaluate`, scikit-learn's metrics and a sort over n calibrated probabilities."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=n)
    y = (rng.uniform(size=n) < p).astype(np.int64)
    case = f"uniform {n:.0e}"
    times = results.race(
        case,
        {
            "evaluate": lambda: cb.evaluate(y, p),
            SKLEARN: lambda: (brier_score_loss(y, p), log_loss(y, p), roc_auc_score(y, p)),
            "np.argsort": lambda: np.argsort(p),
        },
        rounds=rounds,
    )
    ours, sklearn, argsort = times.values()
    results.ratio(case, "evaluate / np.argsort", ours, argsort)
    results.ratio(case, f"{SKLEARN} / np.argsort", sklearn, argsort)
    results.ratio(case, f"evaluate / {SKLEARN}", ours, sklearn)
