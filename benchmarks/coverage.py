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
DRAWS, POPULATION = 200, 400_000
#: What smooth figures are to keep within, and the noise of a share of `DRAWS`.
LEAST, MOST = 0.92, 0.975
#: Gaps from noise that are cut at zero, and levels corrected for many: they cover more often than they say.
BOUNDS = ("ece", "classwise_ece", "ece_debiased", "marginal_calibration_error", "smooth_ece", "ici", "class", "group")
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
    for seed in range(1, DRAWS + 1):
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


def run() -> Tables:
    """Simulate all cases."""
    tables = Tables(
        f"Coverage of {LEVEL:.0%} intervals in {DRAWS} samples (standard error {np.sqrt(0.0475 / DRAWS):.3f})"
    )
    kinds = [("evaluate", 2), ("evaluate", 3), ("evaluate_classes", 3), ("evaluate_groups", 2)]
    cases = [Case(*kind, *how) for kind, *how in product(kinds, (True, False), (False, True), SIZES)]
    with ProcessPoolExecutor() as pool:
        of_forecasts = pool.map(coverage_forecasts.rows_of, coverage_forecasts.KINDS)
        found = dict(zip(cases, pool.map(_list_of, cases), strict=True))
        forecasts = list(chain.from_iterable(of_forecasts))
    smooth: list[float] = []
    for (what, n_classes), is_calibrated in product(kinds, (True, False)):
        columns = [(clustered, n) for clustered in (False, True) for n in SIZES]
        each = [{n: (c, w) for n, c, w in found[Case(what, n_classes, is_calibrated, *at)]} for at in columns]
        lines = []
        for name in dict.fromkeys(name for column in each for name in column):
            shares = [column[name][0] if name in column else np.nan for column in each]
            widths = [column[name][1] if name in column else np.nan for column in each]
            is_smooth = name not in BOUNDS and what == "evaluate"
            smooth += [share for share in shares if is_smooth and not np.isnan(share)]
            shown = [f"{share:.3f} ({width:.2g})" for share, width in zip(shares, widths, strict=True)]
            lines.append([name, "" if is_smooth else "bound", *shown])
        header = ["score", "", *(f"{'clusters' if clustered else 'rows'} n={n:,}" for clustered, n in columns)]
        state = "calibrated" if is_calibrated else "over-confident"
        tables.add(f"{what}, {n_classes} classes, {state}: coverage (median width)", header, lines)
    tables.goal(f"smooth figures of evaluate: share of cells below {LEAST:.0%}", _share_below(smooth), at_most=0.05)
    tables.goal("smooth figures of evaluate: mean coverage", float(np.mean(smooth)), at_least=0.93, at_most=MOST)
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


def _share_below(shares: list[float]) -> float:
    return float(np.mean(np.array(shares) < LEAST))
