"""The verdict as a test: how often it finds calibrated rows off, and how often rows that are off in twelve ways."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Any

import numpy as np

from benchmarks._harness import Tables
from benchmarks.simulated_rows import CLUSTER_SIZE, KINDS, draw_rows
from calibrant.metrics import (
    SCORE_BINS,
    check_settings,
    evaluate_rows,
    kuiper,
    spiegelhalter_z,
    verdict,
)
from calibrant.rows import Rows

SIZES, RATES, CLASSES = (100, 1_000, 10_000), (0.5, 0.05, 0.005), (2, 3, 10)
DRAWS, POWER_DRAWS = 2_000, 500
LEVEL, MOST_FALSE = 0.95, 0.06
#: Rows, base rate, strength of each kind.
POWER_CASES = ((300, 0.5, 1.8), (1_000, 0.5, 1.0), (1_000, 0.05, 2.0), (10_000, 0.05, 0.7), (10_000, 0.005, 2.0))
#: Power of the best single test from which a share of its excess is more than noise.
_LEAST_POWER = 0.15
SINGLE = ("spiegelhalter", "ece_debiased", "slope", "kuiper")


def run() -> Tables:
    """Simulate both tables."""
    tables = Tables(f"The verdict: false alarms in {DRAWS:,} calibrated sets, power in {POWER_DRAWS} sets of each kind")
    cases = list(product(CLASSES, (False, True), SIZES, RATES))
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(_false_alarms, cases))
        power = list(pool.map(_power, product(POWER_CASES, KINDS)))
    rows = []
    for n_classes, clustered, n in product(CLASSES, (False, True), SIZES):
        shares = [share for case, share in zip(cases, found, strict=True) if case[:3] == (n_classes, clustered, n)]
        kind = f"clusters of {CLUSTER_SIZE}" if clustered else "independent"
        rows.append([str(n_classes), kind, f"{n:,}", *(f"{share:.4f}" for share in shares)])
    header = ["K", "rows", "n", *(f"base rate {rate:g}" for rate in RATES)]
    tables.add(f"Found off though calibrated (standard error {np.sqrt(0.05 * 0.95 / DRAWS):.4f})", header, rows)
    tables.goal(f"found off in at most {MOST_FALSE:.0%} of calibrated sets", max(found), at_most=MOST_FALSE)
    shares, lines = [], []
    for ((n, rate, _), kind), named in zip(product(POWER_CASES, KINDS), power, strict=True):
        best = max(named[name] for name in SINGLE)
        share = (named["verdict"] - 0.05) / (best - 0.05) if best >= _LEAST_POWER else np.nan
        shares.append(share)
        of_best = "" if np.isnan(share) else f"{share:.2f}"
        lines.append([f"{n:,}", f"{rate:g}", kind, *(f"{named[name]:.3f}" for name in (*SINGLE, "verdict")), of_best])
    tables.add("Found off", ["n", "base rate", "kind", *SINGLE, "verdict", "share of the best excess"], lines)
    tables.goal("share of the best single test's power above its size", float(np.nanmin(shares)), at_least=0.5)
    return tables


def _draws(n_draws: int, draw: Callable[[np.random.Generator], Rows]) -> Iterable[Rows]:
    return (draw(np.random.default_rng(seed)) for seed in range(n_draws))


def is_found_off(rows: Rows) -> dict[str, bool]:
    """Say what the verdict finds, and the intervals that it shows."""
    scores = evaluate_rows(rows, check_settings(SCORE_BINS, LEVEL, 0), "simulated", only_to_judge=True)
    found = {"verdict": verdict(scores).is_off, "ece_debiased": scores["ece_debiased"].low > 0.0}
    if "slope" in scores:
        found["slope"] = not scores["slope"].note and not scores["slope"].low <= 1.0 <= scores["slope"].high
    return found


def _false_alarms(case: tuple[int, bool, int, float]) -> float:
    n_classes, clustered, n, rate = case
    draw = functools.partial(draw_rows, n, rate, n_classes=n_classes, clustered=clustered)
    return float(np.mean([is_found_off(rows)["verdict"] for rows in _draws(DRAWS, draw)]))


def _power(case: tuple[tuple[int, float, float], str]) -> dict[str, float]:
    (n, rate, strength), kind = case
    draw: Any = functools.partial(draw_rows, n, rate, truth=lambda p: KINDS[kind](p, strength))
    found = []
    for rows in _draws(POWER_DRAWS, draw):
        y, p = rows.codes, rows.scores
        tests = {"spiegelhalter": spiegelhalter_z(y, p, classes=[0, 1]), "kuiper": kuiper(y, p, classes=[0, 1])}
        found.append(is_found_off(rows) | {name: test.p_value < 1.0 - LEVEL for name, test in tests.items()})
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}
