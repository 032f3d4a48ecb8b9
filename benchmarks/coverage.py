"""How often the intervals of `evaluate`, `evaluate_classes`, `evaluate_groups` and forecasts hold the true figure.

Rows are calibrated or over-confident, independent or in clusters of ten that share a part of the chance. The true
figure is that of a population of independent rows. Left out is `worst_bin_gap`, whose bin the sample chooses: its
interval is of that bin alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from benchmarks import coverage_forecasts
from benchmarks._harness import Tables
from benchmarks.simulated_rows import Array, draw_rows
from calibrant.metrics import (
    SCORE_BINS,
    check_settings,
    classes_of_rows,
    evaluate_rows,
    groups_of_rows,
)
from calibrant.results import Score
from calibrant.rows import Rows

SIZES, LEVEL = (100, 1_000, 10_000), 0.95
DRAWS, POPULATION = {100: 400, 1_000: 400, 10_000: 200}, 400_000
#: What smooth figures are to keep within, and above.
BAND, LEAST = (0.93, 0.975), 0.92
#: Errors that are cut at zero and parts of a score that are biased upward, as the docstring of `evaluate` says of each:
#: they cover more often than they say. So do levels that are corrected for the number of classes or groups.
BOUNDS = (
    *("ece", "classwise_ece", "ece_debiased", "marginal_calibration_error", "smooth_ece", "ici"),
    *("miscalibration", "discrimination"),
)
_LEFT_OUT = ("worst_bin_gap", "class_gap", "class_share_gap", "worst_gap")


class Case(NamedTuple):
    """What is measured, of which rows."""

    what: str
    n_classes: int
    is_calibrated: bool
    clustered: bool
    n: int


def over_confident(p: Array) -> Array:
    """Return true probabilities that lie nearer to the middle than p."""
    if p.ndim == 1:
        z = 0.7 * (np.log(p) - np.log1p(-p)) + 0.2
        return np.asarray(1.0 / (1.0 + np.exp(-z)))
    powers = p**0.7 * np.array([1.2, *[1.0] * (p.shape[1] - 1)])
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def measured(case: Case, rows: Rows) -> dict[str, Score]:
    """Return the scores of a sample by what they are of."""
    settings = check_settings(SCORE_BINS, LEVEL, 0)
    if case.what == "evaluate":
        return dict(evaluate_rows(rows, settings, "simulated"))
    parts: Mapping[Any, Mapping[str, Score]]
    if case.what == "evaluate_classes":
        parts = classes_of_rows(rows, settings, "simulated").classes
    else:
        parts = groups_of_rows(rows, "groups", settings, "simulated")[0].groups
    return {f"{name} of {part}": score for part, scores in parts.items() for name, score in scores.items()}


def draw(case: Case, n: int, seed: int, *, clustered: bool) -> Rows:
    """Draw rows; groups are by chance, whole clusters where there are any."""
    rng = np.random.default_rng((seed, n, case.n_classes))
    truth: Callable[[Array], Array] = (lambda p: p) if case.is_calibrated else over_confident
    return draw_rows(n, 0.3, rng, n_classes=case.n_classes, clustered=clustered, truth=truth, n_groups=2)


def covered(case: Case) -> Iterator[tuple[str, float, float]]:
    """Yield the name of each score, how often its interval held the true figure, and its median width."""
    true = measured(case, draw(case, POPULATION, 0, clustered=False))
    held: dict[str, list[tuple[bool, float]]] = {}
    for seed in range(1, DRAWS[case.n] + 1):
        for name, score in measured(case, draw(case, case.n, seed, clustered=case.clustered)).items():
            if name.split(" of ")[0] in _LEFT_OUT or not np.isfinite([score.low, score.high]).all():
                continue
            value = 0.0 if case.is_calibrated and _is_gap(name) else true[name].value
            near = 1e-9
            held.setdefault(name, []).append((score.low - near <= value <= score.high + near, score.high - score.low))
    for name, each in held.items():
        hits, widths = np.array(each).T
        yield name, float(hits.mean()), float(np.median(widths))


def _is_gap(name: str) -> bool:
    """Say whether calibrated rows have the figure zero, of which a population still shows noise."""
    kind = name.split(" of ")[0]
    return kind.endswith(("_gap", "ece", "_error")) or kind in ("ece_debiased", "ici", "miscalibration")


def _is_smooth(case: Case, name: str) -> bool:
    return case.what == "evaluate" and name not in BOUNDS and not (name == "uncertainty" and case.n_classes > 2)


def run() -> Tables:
    """Simulate all cases."""
    counts = ", ".join(f"{m:,} samples of {n:,} rows ({np.sqrt(0.0475 / m):.3f})" for n, m in DRAWS.items())
    tables = Tables(f"Coverage of {LEVEL:.0%} intervals in {counts}; in brackets the standard error")
    kinds = [("evaluate", 2), ("evaluate", 3), ("evaluate_classes", 3), ("evaluate_groups", 2)]
    cases = [Case(*kind, *how) for kind, *how in product(kinds, (True, False), (False, True), SIZES)]
    with ProcessPoolExecutor() as pool:
        of_forecasts = pool.map(coverage_forecasts.rows_of, coverage_forecasts.KINDS)
        found = dict(zip(cases, pool.map(_list_of, cases), strict=True))
        forecasts = list(chain.from_iterable(of_forecasts))
    for kind, is_calibrated in product(kinds, (True, False)):
        columns = [Case(*kind, is_calibrated, clustered, n) for clustered in (False, True) for n in SIZES]
        each = [{name: (share, width) for name, share, width in found[case]} for case in columns]
        lines = []
        for name in dict.fromkeys(name for column in each for name in column):
            shown = [f"{column[name][0]:.3f} ({column[name][1]:.2g})" if name in column else "" for column in each]
            lines.append([name, "" if _is_smooth(columns[0], name) else "bound", *shown])
        header = ["score", "", *(f"{'clusters' if case.clustered else 'rows'} n={case.n:,}" for case in columns)]
        state = "calibrated" if is_calibrated else "over-confident"
        tables.add(f"{kind[0]}, {kind[1]} classes, {state}: coverage (median width)", header, lines)
    smooth, bounds = (
        [share for case, each in found.items() for name, share, _ in each if _is_smooth(case, name) is wanted]
        for wanted in (True, False)
    )
    tables.goal("smooth figures of evaluate: least coverage", min(smooth), at_least=LEAST)
    inside = float(np.mean([BAND[0] <= share <= BAND[1] for share in smooth]))
    tables.goal(
        f"smooth figures of evaluate: share of cells within {BAND[0]:.1%} to {BAND[1]:.1%}", inside, at_least=0.9
    )
    tables.goal("bounds: least coverage", min(bounds), at_least=LEAST)
    means = min(row.covered for row in forecasts if not row.is_bound)
    tables.goal("means and rates of forecasts and rules: least coverage", means, at_least=LEAST)
    lines = [
        [f"{row.function} {row.score}", "bound" if row.is_bound else "", f"{row.n:,}",
         "calibrated" if row.is_calibrated else "not calibrated", "clusters" if row.is_clustered else "independent",
         f"{row.covered:.3f} ({row.width:.2g}), {row.n_sets} samples"]
        for row in forecasts
    ]  # fmt: skip
    tables.add("Forecasts: coverage (median width)", ["score", "", "n", "forecasts", "rows", "coverage"], lines)
    return tables


def _list_of(case: Case) -> list[tuple[str, float, float]]:
    return list(covered(case))
