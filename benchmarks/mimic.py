"""Mimic calibration: its time in sorts, its growth where merging is hardest, and the original README's comparison."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss
from sklearn.naive_bayes import GaussianNB

import calibrant as cb
from benchmarks._harness import Results

OURS, PASSES = "MimicCalibrator.fit", "passes over all bins, in Python"
#: Bins of the hardest case.
HARD = (1_000, 2_000, 4_000)
HARD_FOR_OURS = (50_000, 100_000, 200_000)


def run() -> Results:
    """Time fits and applications, then compare held-out scores with isotonic calibration."""
    results = Results("Mimic calibration: speed, growth in the hardest case, comparison with isotonic")
    for n, rounds in ((10_000, 25), (1_000_000, 7)):
        speed(results, n, rounds=rounds)
    growth(results)
    readme(results, None, mimic=0.1026, isotonic=0.1027)
    readme(results, [0.8], mimic=0.0833, isotonic=0.0832)
    return results


def speed(results: Results, n: int, *, rounds: int) -> None:
    """Race fit and apply against sorting, labels being Bernoulli(score)."""
    rng = np.random.default_rng(0)
    s = rng.uniform(size=n)
    y = (rng.uniform(size=n) < s).astype(np.int64)
    fitted = cb.MimicCalibrator().fit(s, y)
    case = f"uniform {n:.0e}"
    times = results.race(
        case,
        {
            OURS: lambda: cb.MimicCalibrator().fit(s, y),
            f"{OURS}, with history": lambda: cb.MimicCalibrator(record_history=True).fit(s, y),
            "IsotonicCalibrator.fit": lambda: cb.IsotonicCalibrator().fit(s, y),
            "predict_proba": lambda: fitted.predict_proba(s),
            "np.argsort": lambda: np.argsort(s),
        },
        rounds=rounds,
    )
    *ours, argsort = times
    for name in ours:
        goal = 3.0 if name == OURS and n == 1_000_000 else None
        results.ratio(case, f"{name} / np.argsort", times[name], times[argsort], at_most=goal)


def growth(results: Results) -> None:
    """Double the hardest case: bins of equal rate, and a run of negatives above them that joins one in each pass."""
    case = "hardest merging"
    rivals: dict[str, Any] = {}
    for bins in HARD_FOR_OURS:
        s, y = hardest(bins)
        rivals[f"{OURS}, {bins:,} bins"] = lambda s=s, y=y: cb.MimicCalibrator(1).fit(s, y)
        rivals[f"np.argsort, {bins:,} bins"] = lambda s=s: np.argsort(s)
    for bins in HARD:
        table = [(1.0, 2.0)] * bins + [(0.0, float(bins))]
        rivals[f"{PASSES}, {bins:,} bins"] = lambda table=table: repeat_passes(table)
    times = results.race(case, rivals, rounds=5)
    for bins in HARD_FOR_OURS:
        ours, argsort = (times[f"{what}, {bins:,} bins"] for what in (OURS, "np.argsort"))
        results.ratio(case, f"{OURS} / np.argsort, {bins:,} bins", ours, argsort, at_most=3.0)
    for what, sizes in ((OURS, HARD_FOR_OURS), ("np.argsort", HARD_FOR_OURS), (PASSES, HARD)):
        for small, large in itertools.pairwise(sizes):
            claim = f"{what}: {large:,} bins / {small:,} bins"
            results.ratio(case, claim, *(times[f"{what}, {bins:,} bins"] for bins in (large, small)))


def hardest(bins: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return shuffled rows whose first bins have rate 1/2 each but the last, which has rate 0."""
    y = np.concatenate((np.tile([0, 1], bins), np.zeros(bins, np.int64)))
    order = np.random.default_rng(0).permutation(y.size)
    return order / y.size, y[order]


def repeat_passes(bins: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge (positives, rows) of neighbours as the method's description says it: all bins, until nothing changes."""
    while True:
        merged = bins[:1]
        for p, n in bins[1:]:
            if merged[-1][0] / merged[-1][1] > p / n:
                merged[-1] = (merged[-1][0] + p, merged[-1][1] + n)
            else:
                merged.append((p, n))
        if len(merged) == len(bins):
            return merged
        bins = merged


def readme(results: Results, weights: list[float] | None, *, mimic: float, isotonic: float) -> None:
    """Train, calibrate and test on a third each, as the original project's example does."""
    n = 10_000
    X, y = make_classification(n_samples=3 * n, n_features=6, random_state=42, weights=weights)
    scores = GaussianNB().fit(X[:n], y[:n]).predict_proba(X[n:])[:, 1]
    held_out = y[2 * n :]
    case = f"naive Bayes, {y.mean():.0%} positives"
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores[:n], y[n : 2 * n]).predict(scores[n:])
    brier_isotonic = brier_score_loss(held_out, reference)
    claim = f"held-out Brier score of isotonic, distance from the README's {isotonic}"
    results.difference(case, claim, abs(brier_isotonic - isotonic), at_most=5e-5)
    for boundary in ("mean", "unweighted"):
        fitted = cb.MimicCalibrator(5, boundary=boundary).fit(scores[:n], y[n : 2 * n])
        q = fitted.predict_proba(scores[n:])
        brier = brier_score_loss(held_out, q)
        name = f'mimic, boundary="{boundary}"'
        if boundary == "unweighted":  # as the original merges
            claim = f"held-out Brier score of {name}, distance from the README's {mimic}"
            results.difference(case, claim, abs(brier - mimic), at_most=5e-5)
        results.difference(
            case, f"held-out Brier score of {name}, less isotonic's", brier - brier_isotonic, at_most=3e-4
        )
        share = np.unique(reference).size / np.unique(q).size
        claim = f"distinct outputs, isotonic / {name}"
        results.difference(case, claim, share, at_most=0.05)
