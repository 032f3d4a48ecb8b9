"""The verdict as a test: how often it finds calibrated rows off, and how often rows that are off in eighteen ways.

The parts of the test were chosen on twelve of these ways; six others took no part, and are reported apart. All rows are
drawn from seeds of their own. How often calibrated, independent rows are said to look dependent is counted too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from benchmarks._harness import Tables, kept
from benchmarks.simulated_rows import CLUSTER_SIZE, KINDS, NEW_KINDS, draw_rows
from calibrant.metrics import (
    SCORE_BINS,
    check_settings,
    evaluate_rows,
    kuiper,
    spiegelhalter_z,
    verdict,
)
from calibrant.results import Scores
from calibrant.rows import Rows

SIZES, RATES, CLASSES = (100, 1_000, 10_000), (0.5, 0.05, 0.005), (2, 3, 10)
DRAWS, POWER_DRAWS = 2_000, 500
LEVEL, MOST_FALSE = 0.95, 0.06
#: Other draws than those that the margin of the combined p-value was chosen on.
_SEED = 2027
#: Rows, base rate, strength of each kind.
PowerCase: TypeAlias = tuple[int, float, float]
POWER_CASES: tuple[PowerCase, ...] = (
    (300, 0.5, 1.8),
    (1_000, 0.5, 1.0),
    (1_000, 0.05, 2.0),
    (10_000, 0.05, 0.7),
    (10_000, 0.005, 2.0),
)
#: Power of the best single test from which a share of its excess is more than noise.
_LEAST_POWER = 0.15
SINGLE = ("spiegelhalter", "ece_debiased", "slope", "kuiper")


def run() -> Tables:
    """Simulate all tables."""
    tables = Tables(f"The verdict: false alarms in {DRAWS:,} calibrated sets, power in {POWER_DRAWS} sets of each kind")
    cases = list(product(CLASSES, (False, True), SIZES, RATES))
    kinds = list(product(POWER_CASES, [*KINDS, *NEW_KINDS]))
    with ProcessPoolExecutor() as pool:
        found = dict(zip(cases, pool.map(partial(kept, _false_alarms, of=(DRAWS, _SEED)), cases), strict=True))
        power = dict(zip(kinds, pool.map(partial(kept, _power, of=(POWER_DRAWS, _SEED)), kinds), strict=True))
    rows = []
    for n_classes, clustered, n in product(CLASSES, (False, True), SIZES):
        shares = [found[n_classes, clustered, n, rate]["found off"] for rate in RATES]
        kind = f"clusters of {CLUSTER_SIZE}" if clustered else "independent"
        rows.append([str(n_classes), kind, f"{n:,}", *(f"{share:.4f}" for share in shares)])
    header = ["K", "rows", "n", *(f"base rate {rate:g}" for rate in RATES)]
    tables.add(f"Found off though calibrated (standard error {np.sqrt(0.05 * 0.95 / DRAWS):.4f})", header, rows)
    worst = max(each["found off"] for each in found.values())
    tables.goal(f"found off in at most {MOST_FALSE:.0%} of calibrated sets", worst, at_most=MOST_FALSE)
    hinted = [each["hinted"] for (_, clustered, *_), each in found.items() if not clustered]
    of = f"{DRAWS * len(hinted):,} calibrated sets of independent rows"
    tables.goal(f"said to look dependent, of {of}", float(np.mean(hinted)), at_most=1e-3)
    for what, named in (("Found off", KINDS), ("Found off, kinds that took no part in the choice of parts", NEW_KINDS)):
        lines, least = _power_lines({case: each for case, each in power.items() if case[1] in named})
        tables.add(what, ["n", "base rate", "kind", *SINGLE, "verdict", "share of the best excess"], lines)
        tables.goal(f"{what}: share of the best single test's power above its size", least, at_least=0.5)
    return tables


def _power_lines(power: dict[tuple[PowerCase, str], dict[str, float]]) -> tuple[list[list[str]], float]:
    """Return a line for each case, and the least share of the best single test's excess over its size."""
    shares, lines = [], []
    for ((n, rate, _), kind), named in power.items():
        best = max(named[name] for name in SINGLE)
        share = (named["verdict"] - 0.05) / (best - 0.05) if best >= _LEAST_POWER else np.nan
        shares.append(share)
        of_best = "" if np.isnan(share) else f"{share:.2f}"
        lines.append([f"{n:,}", f"{rate:g}", kind, *(f"{named[name]:.3f}" for name in (*SINGLE, "verdict")), of_best])
    return lines, float(np.nanmin(shares))


def _draws(n_draws: int, draw: Callable[[np.random.Generator], Rows]) -> Iterable[Rows]:
    return (draw(np.random.default_rng((_SEED, seed))) for seed in range(n_draws))


def _scores(rows: Rows) -> Scores:
    return evaluate_rows(rows, check_settings(SCORE_BINS, LEVEL, 0), "simulated", only_to_judge=True)


def _is_found_off(rows: Rows) -> dict[str, bool]:
    """Say what the verdict finds, and the intervals that it shows."""
    scores = _scores(rows)
    found = {"verdict": verdict(scores).is_off, "ece_debiased": scores["ece_debiased"].low > 0.0}
    if "slope" in scores:
        found["slope"] = not scores["slope"].note and not scores["slope"].low <= 1.0 <= scores["slope"].high
    return found


def _false_alarms(case: tuple[int, bool, int, float]) -> dict[str, float]:
    """Return the shares of calibrated sets that were found off, and of which it was said that rows look dependent."""
    n_classes, clustered, n, rate = case
    draw = partial(draw_rows, n, rate, n_classes=n_classes, clustered=clustered)
    found = [(verdict(scores).is_off, bool(scores.notes)) for scores in map(_scores, _draws(DRAWS, draw))]
    return dict(zip(("found off", "hinted"), np.mean(found, axis=0).tolist(), strict=True))


def _power(case: tuple[PowerCase, str]) -> dict[str, float]:
    (n, rate, strength), kind = case
    draw: Any = partial(draw_rows, n, rate, truth=lambda p: (KINDS | NEW_KINDS)[kind](p, strength))
    found = []
    for rows in _draws(POWER_DRAWS, draw):
        y, p = rows.codes, rows.scores
        tests = {"spiegelhalter": spiegelhalter_z(y, p, classes=[0, 1]), "kuiper": kuiper(y, p, classes=[0, 1])}
        found.append(_is_found_off(rows) | {name: test.p_value < 1.0 - LEVEL for name, test in tests.items()})
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}
