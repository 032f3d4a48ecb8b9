"""How often the intervals of `forecasts.evaluate` and `evaluate_rule` hold the true figure.

Forecasts are normal, right or too narrow and shifted; rows are independent, or in clusters of 20 that share a part of
the error and of the predicted mean. True figures are those of a population of 400,000 rows; of families of thresholds,
which are taken from the outcomes, at the thresholds that each sample took.

Noise floors, which no interval depends on, are left out; the rest is what the public functions do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from calibrant.forecasts import GaussianForecast, ThresholdLoss, ThresholdRule, read_outcomes
from calibrant.forecasts.calibration import table_of_errors
from calibrant.forecasts.decisions import table_of_gaps
from calibrant.forecasts.evaluation import (
    gap_noises,
    loss_estimate,
    mean_estimates,
    measured_gaps,
)
from calibrant.forecasts.rule_scores import rule_estimates
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray

SIZES = (100, 1_000, 10_000)
LEVEL, INTERVAL_LEVEL = 0.95, 0.9
#: Samples for the intervals of means, and for those of gaps, which take longer.
MEAN_SETS, GAP_SETS = 1_000, 60
POPULATION = 400_000
_CLUSTER = 20
#: Share of the variance of errors and of predicted means that the rows of a cluster have in common.
_COMMON = 0.3
_RULE, _LOSS = ThresholdRule(0.2, 0.45), ThresholdLoss(0.2, ((0.0, 4.0), (1.0, 0.0))).problem
_THRESHOLDS = np.linspace(-7.0, 7.0, 141)


@dataclass(frozen=True)
class Covered:
    """How often the intervals of one score held the true figure, and how wide they were."""

    function: str
    score: str
    n: int
    is_calibrated: bool
    is_clustered: bool
    covered: float
    n_sets: int
    width: float
    is_bound: bool  # covers more often than it says: a gap's noise bounds


def draw(n: int, seed: int, *, is_calibrated: bool, is_clustered: bool) -> Outcomes:
    """Return rows of forecasts and what came of them."""
    rng = np.random.default_rng((n, seed, is_calibrated, is_clustered))
    cluster = np.arange(n) // _CLUSTER

    def normal() -> FloatArray:
        own = rng.normal(size=n)
        if not is_clustered:
            return own
        return np.asarray(np.sqrt(_COMMON) * rng.normal(size=n)[cluster] + np.sqrt(1.0 - _COMMON) * own)

    mean, spread = normal(), np.exp(0.3 * normal())
    y = mean + spread * normal()
    forecast = GaussianForecast(mean, spread) if is_calibrated else GaussianForecast(mean + 0.3, 0.7 * spread)
    return read_outcomes(forecast, y, cluster=cluster if is_clustered else None)


class Truth:
    """The figures of a population."""

    def __init__(self, *, is_calibrated: bool) -> None:
        rows = draw(POPULATION, 0, is_calibrated=is_calibrated, is_clustered=False)
        self.is_calibrated = is_calibrated
        self._gaps = table_of_gaps(rows, _THRESHOLDS)
        self._errors = table_of_errors(rows, _THRESHOLDS)
        found = {name: e.value for name, e in mean_estimates(rows, INTERVAL_LEVEL, LEVEL).items()}
        found |= {f"rule {name}": e.value for name, e in rule_estimates(rows, _RULE, _LOSS, LEVEL).items()}
        found |= measured_gaps(rows, self._errors, self._gaps)
        self.found = found

    def decision_loss(self, y0: FloatArray) -> float:
        """Return the mean loss of the best rules at these thresholds."""
        best = np.arange(self._gaps.cost.size)
        return float(np.interp(y0, _THRESHOLDS, self._gaps.true[:, best, best].mean(axis=1)).mean())

    def gap(self, name: str, errors: Any, gaps: Any) -> float:
        """Return a gap, at the thresholds of a sample where it has them."""
        if self.is_calibrated:
            return 0.0
        if name.endswith("threshold_calibration_error"):
            true = _at(errors.y0, self._errors.values)[np.isfinite(errors.values)]
        elif name.endswith("reliability_gap"):
            true = _at(gaps.y0, self._gaps.values)
        else:
            return self.found[name]
        return float(np.nanmax(true) if name.startswith("max_") else np.nanmean(true))


def _at(y0: FloatArray, table: FloatArray) -> FloatArray:
    """Return what a table over the population's thresholds has at the nearest of them."""
    return np.asarray(table[np.abs(y0[:, None] - _THRESHOLDS).argmin(axis=1)])


class Kind(NamedTuple):
    """Which forecasts, of which rows."""

    is_calibrated: bool
    is_clustered: bool


KINDS = tuple(Kind(*how) for how in product((True, False), (False, True)))


def rows_of(kind: Kind) -> list[Covered]:
    """Return the actual coverage of every interval, at every size."""
    found: list[Covered] = []
    truth = Truth(is_calibrated=kind.is_calibrated)
    for n in SIZES:
        for measure, most in ((_means, MEAN_SETS), (_bounds, GAP_SETS)):
            sets = (draw(n, seed, **kind._asdict()) for seed in range(1, most + 1))
            found += _covered(measure, truth, sets, n, kind._asdict())
    return found


def _covered(
    measure: Callable[[Outcomes, Truth, int], Iterator[tuple[str, float, float, float]]],
    truth: Truth,
    sets: Iterator[Outcomes],
    n: int,
    how: dict[str, bool],
) -> list[Covered]:
    held: dict[str, list[tuple[bool, float]]] = {}
    for seed, sample in enumerate(sets):
        for name, low, high, true in measure(sample, truth, seed):
            held.setdefault(name, []).append((low <= true <= high, high - low))
    out = []
    for name, each in held.items():
        inside, width = np.array(each).T
        function = "evaluate_rule" if name.startswith("rule ") else "forecasts.evaluate"
        figures = {"covered": float(inside.mean()), "n_sets": len(each), "width": float(width.mean())}
        out.append(Covered(function, name.removeprefix("rule "), n, **how, **figures, is_bound=measure is _bounds))
    return out


def _means(sample: Outcomes, truth: Truth, seed: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield name, ends and true figure of the intervals of means."""
    for name, found in mean_estimates(sample, INTERVAL_LEVEL, LEVEL).items():
        yield name, found.low, found.high, truth.found[name]
    for name, found in rule_estimates(sample, _RULE, _LOSS, LEVEL).items():
        is_gap = truth.is_calibrated and name == "reliability_gap"
        yield f"rule {name}", found.low, found.high, 0.0 if is_gap else truth.found[f"rule {name}"]
    if seed < 240:  # the table of gaps takes longer than all else
        gaps = table_of_gaps(sample)
        found = loss_estimate(sample, gaps, LEVEL)
        yield "decision_loss", found.low, found.high, truth.decision_loss(gaps.y0)


def _bounds(sample: Outcomes, truth: Truth, seed: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield name, ends and true figure of the noise bounds of gaps."""
    errors, gaps = table_of_errors(sample), table_of_gaps(sample)
    noise = gap_noises(sample, errors, gaps, np.random.default_rng(seed))
    for name, value in measured_gaps(sample, errors, gaps).items():
        if np.isfinite(value):
            reach = float(np.quantile(noise[name], LEVEL))
            yield name, max(value - reach, 0.0), value + reach, truth.gap(name, errors, gaps)
