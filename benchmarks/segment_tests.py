"""The search over segments as a test: size on calibrated rows, power, and cost.

Beside the p-value of the search stand Bonferroni's, and that of the worst segment as if no other had been looked at,
which is MCGrad's `mce_pvalue` (0.1.5; `tests/metrics/test_multicalibration.py` holds its figures).
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from benchmarks._harness import Tables
from calibrant.metrics import multicalibration_error
from calibrant.metrics.calibration_tests import range_exceeds

LEVEL, SIZE_SETS, POWER_SETS, DRAWS = 0.05, 300, 100, 199
#: Two standard errors above the level, of so many sets.
MOST_FALSE = LEVEL + 2.0 * float(np.sqrt(LEVEL * (1.0 - LEVEL) / SIZE_SETS))
TESTS = ("search", "Bonferroni", "worst segment alone")


class Case(NamedTuple):
    """A kind of rows: their number and base rate, how many share a cluster, and how many features copy another one."""

    name: str
    n: int
    rate: float
    cluster: int = 1
    copies: int = 0
    weighted: bool = False


CASES = (
    Case("1,000 rows, rate 0.5", 1_000, 0.5),
    Case("1,000 rows, rate 0.05", 1_000, 0.05),
    Case("2,000 rows, rate 0.2", 2_000, 0.2),
    Case("1,000 rows, 6 features alike", 1_000, 0.5, copies=6),
    Case("1,000 weighted rows", 1_000, 0.5, weighted=True),
    Case("100 clusters of 10", 1_000, 0.5, cluster=10),
    Case("20 clusters of 50", 1_000, 0.5, cluster=50),
)
#: Shift of the logit of the segment that is off.
SHIFTS = (0.5, 0.8)


def run() -> Tables:
    """Simulate all tables."""
    tables = Tables(
        f"The search over segments: p at most {LEVEL:g} in {SIZE_SETS} calibrated sets, in {POWER_SETS} that are off"
    )
    size = {case: np.mean([_p_values(case, 0.0, seed) for seed in range(SIZE_SETS)], axis=0) for case in CASES}
    lines = [[case.name, *(f"{share:.3f}" for share in found)] for case, found in size.items()]
    tables.add(f"Size (standard error {np.sqrt(LEVEL * (1 - LEVEL) / SIZE_SETS):.3f})", ["rows", *TESTS], lines)
    largest = float(max(found[0] for found in size.values()))
    tables.goal("size of the search, largest", largest, at_most=MOST_FALSE)
    lines, excess = [], []
    for case in CASES:
        for shift in SHIFTS:
            found = np.mean([_p_values(case, shift, 10_000 + seed) for seed in range(POWER_SETS)], axis=0)
            lines.append([case.name, f"{shift:g}", *(f"{share:.3f}" for share in found[:2])])
            if case.cluster == 1:
                excess.append(found[0] - found[1])
    tables.add("Power, by the shift of the logit in one city", ["rows", "shift", *TESTS[:2]], lines)
    tables.goal("power of the search less Bonferroni's, independent rows, mean", float(np.mean(excess)), at_least=0.01)
    tables.goal("the same, least", float(np.min(excess)), at_least=-0.02)
    for what, seconds in _cost().items():
        tables.goal(f"CPU seconds, 100,000 rows, 10 features, depth 2: {what}", seconds, at_most=10.0)
    return tables


def _p_values(case: Case, shift: float, seed: int) -> list[bool]:
    """Return which tests reject on one draw of rows."""
    rng = np.random.default_rng((seed, case.n, case.cluster))
    n = case.n
    cluster = np.arange(n) // case.cluster
    center = np.log(case.rate / (1.0 - case.rate))
    z = center + rng.normal(0.0, 1.0, n)
    city = rng.integers(0, 3, n)
    p = 1.0 / (1.0 + np.exp(-z))
    truth = 1.0 / (1.0 + np.exp(-(z - np.where(city == 0, shift, 0.0))))
    u = rng.random(n)
    if case.cluster > 1:  # half of the clusters share their luck
        shared = rng.random(n // case.cluster)[cluster]
        u = np.where((rng.random(n // case.cluster) < 0.5)[cluster], shared, u)
    features: dict[str, Any] = {"city": city, "sex": rng.integers(0, 2, n), "age": rng.normal(size=n)}
    features |= {f"copy{j}": np.where(rng.random(n) < 0.1, rng.permutation(city), city) for j in range(case.copies)}
    weight = rng.gamma(1.0, 1.0, n) if case.weighted else None
    found = multicalibration_error(
        u < truth,
        p,
        features=features,
        sample_weight=weight,
        cluster=cluster if case.cluster > 1 else None,
        classes=[False, True],
        n_draws=DRAWS,
        rng=seed,
    )
    alone = range_exceeds(found.sigma)
    return [p_value <= LEVEL for p_value in (found.p_value, alone * found.n_segments, alone)]


def _cost() -> dict[str, float]:
    rng = np.random.default_rng(0)
    n = 100_000
    p = rng.random(n)
    features = {f"x{j}": rng.normal(size=n) for j in range(10)}
    seconds = {}
    for what, truth in (("calibrated", p), ("off", p**1.3)):
        y = rng.random(n) < truth
        start = time.process_time()
        multicalibration_error(y, p, features=features)
        seconds[what] = time.process_time() - start
    return seconds
