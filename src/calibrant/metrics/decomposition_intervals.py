"""Intervals of a Brier decomposition: sampling noise, and how much of it is isotonic regression fitting noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant import kernels
from calibrant.binning import equal_mass_bins
from calibrant.maps import StepMap
from calibrant.metrics.decomposition import Decomposition, split
from calibrant.metrics.estimates import Estimate, Mean, mean_of, rate_estimate, total
from calibrant.metrics.proper_scores import Losses, brier_losses, loss_parts
from calibrant.numerics import FloatArray, IntArray, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import Blocks, ScoreSummary

#: Rows whose labels are drawn in all refits of a decomposition together, and the bounds of the number of refits.
_DRAWN_ROWS = 4_000_000
_REFITS = (10, 200)
#: Groups of more rows than this have their labels drawn at once.
_ROWS_PER_GROUP = 4


class Overfit(NamedTuple):
    """What noise adds to miscalibration and to discrimination: mean and standard deviation of each."""

    miscalibration: Mean
    discrimination: Mean


@dataclass(frozen=True, slots=True, eq=False)
class ClassParts:
    """One class's decomposition, its overfit, and what gives each row's share of both parts."""

    decomposition: Decomposition
    overfit: Overfit
    refit: StepMap
    base_rate: float

    def of_rows(self, own: Rows) -> tuple[FloatArray, FloatArray]:
        """Return what recalibration saves, and what the base rate loses, on each row."""
        refitted = (self.refit.apply(own.scores) - own.positive) ** 2
        return (own.scores - own.positive) ** 2 - refitted, (self.base_rate - own.positive) ** 2 - refitted


def decomposition_estimates(summary: ScoreSummary, level: float, rng: np.random.Generator) -> dict[str, Estimate]:
    """Estimate miscalibration, discrimination and uncertainty of the Brier score of one column.

    Notes
    -----
    Miscalibration is [S(p) - S(t)] + [S(t) - S(q)], with t the true rate at each probability and q the fitted one.
    The first difference is a mean over rows whose spread the fitted rates give: to first order they may stand in for
    the true ones, because t minimises the expected score. The second is the overfit, never negative, whose mean and
    spread come from a parametric bootstrap. Discrimination is S(r) - S(q) likewise, with r the base rate.
    """
    blocks, cells_in_block, overfit = _fit(summary, 1, rng)
    groups, size = summary.tied(), summary.effective_size
    refitted = brier_losses(np.repeat(blocks.rate, cells_in_block))
    saved = _minus(brier_losses(summary.scores), refitted)
    gained = _minus(brier_losses(np.full(summary.scores.size, summary.base_rate)), refitted)
    mean_score = np.array([total(summary.weight, summary.scores) / summary.total_weight])
    at_mean = _minus(brier_losses(mean_score), brier_losses(np.array([smooth_base_rate(summary)])))
    errors = (
        mean_of(loss_parts(groups, saved), size, extra=np.concatenate(at_mean)).error,
        mean_of(loss_parts(groups, gained), size, extra=np.zeros(1)).error,
    )
    return {
        **part_estimates(split(summary, brier_losses, blocks), errors=errors, overfit=overfit, level=level),
        "uncertainty": uncertainty_estimate(summary, level),
    }


def class_parts(summary: ScoreSummary, n_classes: int, rng: np.random.Generator) -> ClassParts:
    """Decompose one of K classes against the rest."""
    blocks, _, overfit = _fit(summary, n_classes, rng)
    refit = StepMap(blocks.last[:-1], blocks.rate)
    return ClassParts(split(summary, brier_losses, blocks), overfit, refit, summary.base_rate)


def part_estimates(
    decomposition: Decomposition, *, errors: tuple[float, ...], overfit: Overfit, level: float
) -> dict[str, Estimate]:
    """Estimate miscalibration and discrimination, given their standard errors and the overfit in both."""
    mis, dis = decomposition.miscalibration, decomposition.discrimination
    return {
        "miscalibration": _corrected(Mean(mis, errors[0]), overfit.miscalibration, level),
        "discrimination": _corrected(Mean(dis, errors[1]), overfit.discrimination, level),
    }


def sum_of_overfits(parts: list[Overfit]) -> Overfit:
    """Sum over classes; standard deviations add up as if the classes' noise were one and the same, the worst case."""
    return Overfit(
        Mean(sum(o.miscalibration.value for o in parts), sum(o.miscalibration.error for o in parts)),
        Mean(sum(o.discrimination.value for o in parts), sum(o.discrimination.error for o in parts)),
    )


def uncertainty_estimate(summary: ScoreSummary, level: float) -> Estimate:
    """Estimate r (1 - r) of the base rate r, with the values that it takes in Wilson's interval of r."""
    rate = rate_estimate(summary.base_rate, summary.effective_size, level)
    ends = (rate.low * (1.0 - rate.low), rate.high * (1.0 - rate.high))
    high = 0.25 if rate.low <= 0.5 <= rate.high else max(ends)
    return Estimate(rate.value * (1.0 - rate.value), min(ends), high, "Wilson, mapped")


def smooth_base_rate(summary: ScoreSummary) -> float:
    """Return the base rate with one event and one non-event added: never 0 or 1, where noise would not show."""
    return (summary.base_rate * summary.effective_size + 1.0) / (summary.effective_size + 2.0)


def _fit(summary: ScoreSummary, n_classes: int, rng: np.random.Generator) -> tuple[Blocks, IntArray, Overfit]:
    """Fit isotonic blocks; return them, the number of distinct scores in each, and their overfit.

    The rates that labels are drawn from for the latter are those of the blocks with one row at the base rate added
    to each.
    """
    blocks = summary.isotonic_blocks()
    cells_in_block = np.diff(np.append(np.searchsorted(summary.scores, blocks.first), summary.scores.size))
    size = blocks.weight * (summary.effective_size / summary.total_weight)
    rate = np.maximum.accumulate((blocks.rate * size + smooth_base_rate(summary)) / (size + 1.0))
    n_draws = min(max(int(_DRAWN_ROWS / (n_classes * summary.effective_size)), _REFITS[0]), _REFITS[1])
    return blocks, cells_in_block, _overfit(summary, np.repeat(rate, cells_in_block), n_draws, rng)


def _overfit(summary: ScoreSummary, true_rate: FloatArray, n_draws: int, rng: np.random.Generator) -> Overfit:
    """Draw labels from rates, refit, and measure how far the refit's Brier score lies below that of the rates.

    The labels are of as many rows as there are effectively: neighbouring scores that together weigh less than one
    share a row. Any coarser grouping would hide overfit.
    """
    weight, truth = summary.weight, true_rate
    if not np.array_equal(summary.weight, summary.weight_squared):
        n_groups = max(1, int(summary.effective_size))
        first = np.flatnonzero(np.diff(equal_mass_bins(summary.weight, n_groups), prepend=-1))
        weight = np.add.reduceat(summary.weight, first)
        truth = np.clip(np.add.reduceat(summary.weight * true_rate, first) / weight, 0.0, 1.0)
    share = weight / summary.total_weight
    size = np.maximum(np.rint(share * summary.effective_size), 1.0).astype(np.int64)
    room = np.empty(share.size), np.empty(share.size)
    draws = np.array(
        [kernels.refit_drawn_labels(draw_hits(size, truth, rng), size, share, truth, *room) for _ in range(n_draws)]
    )
    excess, shift = draws.T
    return Overfit(_mean_of_draws(excess), _mean_of_draws(excess - shift**2))


def draw_hits(size: IntArray, truth: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw the number of positives in each group: row by row, or at once where rows are many more than groups."""
    n_rows = int(size.sum())
    if n_rows > max(_DRAWN_ROWS, _ROWS_PER_GROUP * size.size):
        return np.asarray(rng.binomial(size, truth), dtype=np.int64)
    hits = np.empty(size.size, np.int64)
    kernels.count_hits(rng.random(n_rows), size, truth, hits)
    return hits


def _mean_of_draws(draws: FloatArray) -> Mean:
    """Return the mean of simulated values and the spread of one more about it."""
    return Mean(float(np.mean(draws)), float(np.std(draws, ddof=1)) * math.sqrt(1.0 + 1.0 / draws.size))


def _corrected(part: Mean, overfit: Mean, level: float) -> Estimate:
    """Return a normal interval around the part without its overfit, stretched to hold the part as it is."""
    half = normal_quantile(level) * math.hypot(part.error, overfit.error)
    centre = part.value - overfit.value
    low, high = max(min(centre - half, part.value), 0.0), max(centre + half, part.value)
    return Estimate(part.value, low, high, "CLT less bootstrapped overfit")


def _minus(a: Losses, b: Losses) -> Losses:
    return Losses(a.if_positive - b.if_positive, a.if_negative - b.if_negative)
