"""How often `compare`'s intervals hold the difference on new rows of methods fitted to all rows, and where it ranks.

Rows are drawn from known probabilities, so that the figures of new rows are exact for those of a population:
independent rows, and rows in clusters of ten that share a part of the chance, which are declared. The figures that
`ProbabilityCalibrator` gives before and after are compared with those of as many new rows. The kinds of error took no
part in the choice of the intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

from benchmarks._harness import Tables
from benchmarks.coverage import over_confident
from benchmarks.simulated_rows import CLUSTER_SIZE, NEW_KINDS, Array, outcomes, probabilities
from calibrant import CalibrationConfig, ProbabilityCalibrator
from calibrant.calibrators import make_calibrator
from calibrant.comparison import NONE, compare_rows
from calibrant.metrics import top_label_ece
from calibrant.rows import Rows, read_rows

SIZES, LEVEL, POPULATION = (100, 300, 1_000, 3_000), 0.95, 10_000
#: Samples of each design, of two classes and of more.
DRAWS = {2: 8, 3: 5}
RATES = (0.2, 0.4)
METHODS = ("temperature", "sigmoid", "spline", "venn_abers", "isotonic", "auto")
NEW_SETS, N_BINS, LEAST_OF_A_CLASS = 10, 10, 3
_ROUNDING = 1e-9


class Design(NamedTuple):
    """What rows are drawn from."""

    kind: str
    n_classes: int
    is_clustered: bool
    n: int


class Sample(NamedTuple):
    """What one sample showed.

    `held` is, of the log loss and the Brier score of each method, whether the interval held the figure, NaN where it
    has none. `ranks` are those of "auto" by `compare` and in truth, `first` the methods that these rank first. `eces`
    are those before and after, and those of as many new rows.
    """

    held: Array
    ranks: tuple[float, float]
    first: tuple[str, str]
    eces: Array


def designs() -> list[Design]:
    """Return what is drawn from, each number of rows of each."""
    kinds = [*((kind, 2, False) for kind in ("calibrated", *NEW_KINDS)), ("calibrated", 2, True)]
    kinds += [*((kind, 2, True) for kind in list(NEW_KINDS)[::2]), ("over-confident", 2, True)]
    kinds += [(kind, 3, clustered) for kind in ("calibrated", "over-confident") for clustered in (False, True)]
    return [Design(*kind, n) for kind in kinds for n in SIZES]


def samples(design: Design) -> list[Sample]:
    """Draw from a design, and compare."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(_samples(design))


def _samples(design: Design) -> Iterator[Sample]:
    truth = _truth(design.kind)
    for draw in range(DRAWS[design.n_classes]):
        rng = np.random.default_rng((design.n, draw, len(design.kind), design.n_classes, design.is_clustered))
        p = probabilities(design.n + POPULATION, RATES[draw % 2], design.n_classes, rng)
        cluster = np.arange(design.n) // CLUSTER_SIZE if design.is_clustered else None
        y = outcomes(truth(p)[: design.n], cluster, rng)
        if np.bincount(y, minlength=design.n_classes).min() < LEAST_OF_A_CLASS:
            continue
        rows = read_rows(p[: design.n], y, classes=np.arange(design.n_classes), cluster=cluster)
        population, chances = p[design.n :], truth(p)[design.n :]
        yield _sample(rows, population, chances, rng)


def _truth(kind: str) -> Callable[[Array], Array]:
    known: dict[str, Callable[[Array], Array]] = {"calibrated": lambda p: p, "over-confident": over_confident}
    return known[kind] if kind in known else lambda p: NEW_KINDS[kind](p, 1.0)


def _sample(rows: Rows, population: Array, chances: Array, rng: np.random.Generator) -> Sample:
    ranked = {m.name: m for m in compare_rows(rows, methods=METHODS, cv=5, seed=0, level=LEVEL).methods}
    fits = {name: make_calibrator(name).fit_rows(rows) for name in METHODS}
    true = {NONE: losses(population, chances)}
    true |= {name: losses(fitted.apply(Rows(population)), chances) for name, fitted in fits.items()}
    held = np.full((2, len(METHODS)), np.nan)
    for j, name in enumerate(METHODS):
        found = ranked[name].log_loss_difference, ranked[name].brier_difference
        for i, (difference, value) in enumerate(zip(found, true[name] - true[NONE], strict=True)):
            if np.isfinite([difference.low, difference.high, value]).all():
                held[i, j] = difference.low - _ROUNDING <= value <= difference.high + _ROUNDING
    in_truth = sorted(true, key=lambda name: true[name][0])
    ranks = list(ranked).index("auto") + 1.0, in_truth.index("auto") + 1.0
    return Sample(held, ranks, (next(iter(ranked)), in_truth[0]), _eces(rows, population, chances, rng))


def losses(q: Array, chances: Array) -> Array:
    """Return the expected log loss and Brier score of probabilities, of the outcomes' true chances."""
    q, chances = (np.column_stack((1.0 - each, each)) if each.ndim == 1 else each for each in (q, chances))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_loss = -np.where(chances > 0.0, chances * np.log(q), 0.0).sum(axis=1)
    brier = (q**2 - 2.0 * q * chances + chances).sum(axis=1) * (0.5 if q.shape[1] == 2 else 1.0)
    return np.array([log_loss.mean(), brier.mean()])


def _eces(rows: Rows, population: Array, chances: Array, rng: np.random.Generator) -> Array:
    """Return the facade's ECE before and after, and the means of those of sets of as many new rows."""
    facade = ProbabilityCalibrator(CalibrationConfig()).fit_rows(rows)
    after, found = facade.fitted_map.apply(population), []
    for _ in range(NEW_SETS):
        at = rng.choice(POPULATION, rows.n_rows, replace=False)
        y = outcomes(chances[at], None, rng)
        found.append([top_label_ece(y, q[at], n_bins=N_BINS, classes=rows.classes) for q in (population, after)])
    return np.array([facade.metrics_.ece_before, facade.metrics_.ece_after, *np.mean(found, axis=0)])


def run() -> Tables:
    """Simulate all designs."""
    tables = Tables(f"Coverage of compare's {LEVEL:.0%} intervals of the difference on new rows of fits to all rows")
    with ProcessPoolExecutor() as pool:
        found = dict(zip(designs(), pool.map(samples, designs()), strict=True))
    parts: dict[str, Callable[[Design], bool]] = {
        "2 classes, independent": lambda d: d.n_classes == 2 and not d.is_clustered,
        "2 classes, clusters": lambda d: d.n_classes == 2 and d.is_clustered,
        "3 classes, independent": lambda d: d.n_classes == 3 and not d.is_clustered,
        "3 classes, clusters": lambda d: d.n_classes == 3 and d.is_clustered,
    }
    lines, whole = [], {}
    for part, is_in in parts.items():
        for j, loss in enumerate(("log loss", "Brier score")):
            each = [_of([s for d in found if is_in(d) and d.n == n for s in found[d]], j) for n in SIZES]
            every = _of([s for d in found if is_in(d) for s in found[d]], j)
            whole[part, loss] = every[0]
            lines.append([part, loss, *(f"{share:.3f} ({error:.3f})" for share, error in (*each, every))])
    header = ["rows", "loss", *(f"n={n:,}" for n in SIZES), "all"]
    tables.add("Coverage; in brackets the standard error, between samples", header, lines)
    for (part, loss), share in whole.items():
        tables.goal(f"{part}: coverage of {loss} differences", share, at_least=0.93, at_most=0.97)
    kept = [s for each in found.values() for s in each]
    lines = []
    for i, name in enumerate(METHODS):
        known = [[s.held[j, i] for s in kept if np.isfinite(s.held[j, i])] for j in range(2)]
        held = [f"{np.mean(each):.3f}" if each else "infinite" for each in known]
        lines.append([name, "", *held, *(f"{np.mean([s.first[k] == name for s in kept]):.3f}" for k in range(2))])
    header = ["method", "", "log loss", "Brier score", "ranked first", "truly best"]
    tables.add("Methods: coverage, and how often compare ranks each first", header, lines)
    ranks = np.mean([s.ranks for s in kept], axis=0)
    tables.add("Mean rank of auto", ["", "", "by compare", "in truth"], [["auto", "", *(f"{r:.2f}" for r in ranks)]])
    tables.goal("mean rank of auto by compare less that in truth", float(ranks[0] - ranks[1]), at_most=0.5)
    lines = []
    for n in SIZES:
        before, after, new_before, new_after = np.mean([s.eces for d in found if d.n == n for s in found[d]], axis=0)
        ratios = before / new_before, after / new_after
        for when, ratio in zip(("before", "after"), ratios, strict=True):
            tables.goal(f"ECE {when}, n={n:,}, over that of new rows", float(ratio), at_least=0.9, at_most=1.1)
        lines.append([f"{n:,}", "", *(f"{v:.4f}" for v in (before, new_before, after, new_after))])
    header = ["n", "", "before", "of new rows", "after", "of new rows"]
    tables.add("ECE that ProbabilityCalibrator gives", header, lines)
    return tables


def _of(found: list[Sample], loss: int) -> tuple[float, float]:
    """Return the coverage of a loss, and its standard error: methods of one sample are no independent draws."""
    shares = np.array([np.nanmean(s.held[loss]) for s in found])
    return float(shares.mean()), float(shares.std() / np.sqrt(shares.size))
