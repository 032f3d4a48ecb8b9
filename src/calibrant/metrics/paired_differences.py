"""Differences between the scores of two models on the same rows, with paired intervals.

What both models find hard cancels in a difference, so that its interval is shorter than those of the two scores tell.

- Of mean losses it is the mean over rows of the difference of losses: Student's t by Hall's transformation, over rows
  or over what they share, as `mean_over_units` has it.
- Of the AUC it is DeLong's, from the differences of the influences of rows.
- The debiased calibration error is the root of a square that may be near zero, where no normal interval is right. Its
  difference has the interval of Zou and Donner (2008), which is made of the intervals of both and of their correlation:
  exact where both are normal, and as skewed as they are elsewhere.

References: DeLong, DeLong and Clarke-Pearson (1988), *Comparing the areas under two or more correlated receiver
operating characteristic curves*, Biometrics 44. Zou and Donner (2008), *Construction of confidence limits about effect
measures: a general approach*, Statistics in Medicine 27; for correlated estimates Zou (2007), *Toward using confidence
intervals to compare correlations*, Psychological Methods 12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibrant.dependence import Units
from calibrant.dependent_rows import DesignEffects, units_of
from calibrant.metrics.bins import bin_rows
from calibrant.metrics.estimates import FEW, Estimate, degrees_of_variance, mean_over_units
from calibrant.metrics.proper_scores import brier_of_each_class, loss_less, row_brier, row_log_loss
from calibrant.metrics.ranking import UNDEFINED, influence_of
from calibrant.numerics import FloatArray, IntArray, kish_size, normal_quantile
from calibrant.results import Score
from calibrant.rows import Rows

#: Names of the scores whose differences are measured; more is better of the last one alone.
COMPARED = ("log_loss", "brier", "ece_debiased", "auc")
#: With probabilities that are the same in every row but for rounding, nothing differs.
_SAME = Estimate(0.0, 0.0, 0.0, "same probabilities")
_SAME_ORDER = Estimate(0.0, 0.0, 0.0, "same order")
#: Probabilities that are no further apart may have been rounded differently.
_ROUNDING = 1e-14


@dataclass(frozen=True, slots=True)
class Model:
    """The probabilities that a model gave the rows, and its scores at the level of the differences."""

    rows: Rows
    scores: Mapping[str, Score]


def difference_estimates(model: Model, champion: Model, *, n_bins: int, level: float) -> dict[str, Estimate]:
    """Estimate the scores of a model less those of the champion, by the names of the scores."""
    if _are_same(model.rows, champion.rows):
        return dict.fromkeys(COMPARED, _SAME)
    return {
        "log_loss": _of_losses(model.rows, champion.rows, level, is_log=True),
        "brier": _of_losses(model.rows, champion.rows, level, is_log=False),
        "ece_debiased": _of_errors(model, champion, n_bins),
        "auc": _of_areas(model, champion, level),
    }


def _are_same(rows: Rows, of_champion: Rows) -> bool:
    """Whether probabilities differ by rounding only, as those do that a map leaves alone by way of their logits.

    Losses tell apart what lies within rounding of 0 or 1.
    """
    if not np.allclose(rows.scores, of_champion.scores, rtol=0.0, atol=_ROUNDING):
        return False
    return np.allclose(row_log_loss(rows), row_log_loss(of_champion), rtol=1e-9, atol=_ROUNDING)


def _of_losses(model: Rows, champion: Rows, level: float, *, is_log: bool) -> Estimate:
    """Estimate the difference of mean losses.

    Rows in which nothing varied claim no certainty: the variance of a row is at least what two more rows would make it,
    one of each class at the mean prediction, if these alone varied. Of rare events few rows make up the variance, and
    Student's t has as many degrees of freedom as these allow.
    """
    row_loss = row_log_loss if is_log else row_brier
    each = loss_less(row_loss(model), row_loss(champion))
    weight, size = model.weights, kish_size(model.weights)
    if not np.isfinite(each).all():
        with np.errstate(invalid="ignore"):  # infinite losses of both, on different rows, have no difference: NaN
            mean = float(np.average(each, weights=weight))
        note = "infinite: something happened that had probability 0"
        if math.isnan(mean):
            note = "undefined: the log loss of both is infinite, on different rows"
        return Estimate(mean, mean, mean, "none", note)
    at_mean = _at_mean(model, size, is_log=is_log) - _at_mean(champion, size, is_log=is_log)
    mean = float(np.average(each, weights=weight))
    least = 2.0 / size * float(np.mean((at_mean - mean) ** 2)) / (1.0 + 2.0 / size)
    degrees = degrees_of_variance(each, weight)
    return mean_over_units(each, weight, units_of(model), level, least_variance=least, most_degrees=degrees)


def _at_mean(rows: Rows, size: float, *, is_log: bool) -> FloatArray:
    """Return the loss of a row of each class whose probabilities are the mean ones, shape (K,)."""
    mean = np.average(rows.scores, axis=0, weights=rows.weight)
    prob = np.array([1.0 - mean, mean]) if rows.is_binary else mean
    if is_log:
        return np.asarray(-np.log(np.where(prob > 0.0, prob, 1.0 / (size + 2.0))))
    return np.asarray((1.0 - prob) ** 2) if rows.is_binary else brier_of_each_class(prob)


def _of_areas(model: Model, champion: Model, level: float) -> Estimate:
    """Estimate the difference of the AUC, or of its mean over the classes."""
    ours, theirs = model.scores["auc"], champion.scores["auc"]
    if math.isnan(ours.value) or math.isnan(theirs.value):
        return UNDEFINED
    if _are_in_one_order(model.rows.scores, champion.rows.scores):
        return _SAME_ORDER
    rows, weight = model.rows, model.rows.weights
    influence = _area_influences(rows) - _area_influences(champion.rows)
    size = kish_size(weight)
    rates = rows.class_weight[rows.class_weight > 0.0] / rows.total_weight
    rarest = float(min(rates.min(), 1.0 - rates.max()))
    # the influences of a class, times its share, are the differences of DeLong's placements of its rows
    squares = [
        (rate * size, float(np.average((rate * influence[rows.codes == k]) ** 2, weights=weight[rows.codes == k])))
        for k, rate in enumerate(rows.class_weight / rows.total_weight)
        if rate > 0.0
    ]
    variance = sum(square / max(n - 1.0, 1.0) for n, square in squares)
    if variance <= 0.0 or size * rarest < FEW:
        return replace(joined_intervals(ours, theirs, 0.0), method="Zou and Donner, of the intervals of both")
    dependence = DesignEffects.of(rows)
    effect = float(dependence.of_means(rows, influence[:, None])[0])
    half = normal_quantile(level) * math.sqrt(variance * effect * dependence.widening(level))
    value = ours.value - theirs.value
    return Estimate(value, value - half, value + half, "DeLong, paired", effect=effect)


def _are_in_one_order(scores: FloatArray, others: FloatArray) -> bool:
    """Say whether a rising map makes the scores of one model those of another, column by column."""
    columns = zip(np.atleast_2d(scores.T), np.atleast_2d(others.T), strict=True)
    return all(np.array_equal(_places(ours), _places(theirs)) for ours, theirs in columns)


def _places(column: FloatArray) -> IntArray:
    return np.unique(column, return_inverse=True)[1]


def _area_influences(rows: Rows) -> FloatArray:
    """Return the influence of each row on the AUC, or on its mean over the classes that have rows."""
    if rows.is_binary:
        return influence_of(rows.summary()).apply(rows)
    total, n_classes = np.zeros(rows.n_rows), 0
    for k in range(rows.n_classes):
        own = rows.of_class(k)
        summary = own.summary()
        if 0.0 < summary.base_rate < 1.0:
            total += influence_of(summary).apply(own)
            n_classes += 1
    return total / max(n_classes, 1)


def _of_errors(model: Model, champion: Model, n_bins: int) -> Estimate:
    """Estimate the difference of the debiased calibration errors, of several classes those of the top label."""
    correlation = _error_correlation(model.rows, champion.rows, n_bins)
    found = joined_intervals(model.scores["ece_debiased"], champion.scores["ece_debiased"], correlation)
    return replace(found, method=f"Zou and Donner, correlation {correlation:.2f}")


def joined_intervals(score: Score, less: Score, correlation: float) -> Estimate:
    """Return the difference of two scores with the interval that theirs and their correlation make."""
    value = score.value - less.value

    def reach(up: float, down: float) -> float:
        return math.sqrt(max(up**2 + down**2 - 2.0 * correlation * up * down, 0.0))

    low = value - reach(score.value - score.low, less.high - less.value)
    high = value + reach(score.high - score.value, less.value - less.low)
    return Estimate(value, low, high, "")


def _error_correlation(model: Rows, champion: Rows, n_bins: int) -> float:
    """Return the correlation of the noise in the mean squared gaps of two models.

    Given the bins, a mean squared gap is the sum over bins of G^2 / share, where G, the share times the gap, is a sum
    over rows. With C the covariances of the sums G of one model and another, that of the squares is 2 C^2 + 4 C g g'
    over the shares of both, summed over pairs of bins, if the sums are normal with the means g. Those of products of
    sums are g g' + C.
    """
    ours, theirs = _BinSums.of(model, n_bins), _BinSums.of(champion, n_bins)
    units = min(units_of(model), key=lambda each: each.n, default=None)
    own, other, between = (a.covariance(b, units) for a, b in ((ours, ours), (theirs, theirs), (ours, theirs)))
    by_gaps = max(own.by_gaps, 0.0), max(other.by_gaps, 0.0)
    most = math.sqrt(by_gaps[0] * by_gaps[1])
    product = math.sqrt((own.by_noise + by_gaps[0]) * (other.by_noise + by_gaps[1]))
    covariance = between.by_noise + min(max(between.by_gaps, -most), most)
    return min(max(covariance / product, -1.0), 1.0) if product > 0.0 else 0.0


class _Covariance(NamedTuple):
    """The parts of the covariance of two mean squared gaps: what noise alone makes, and what it makes with gaps."""

    by_noise: float
    by_gaps: float


@dataclass(frozen=True, slots=True, eq=False)
class _BinSums:
    """The bin of each row, what it adds to the noise of the bin's sum, and shares and sums of the bins."""

    at: IntArray
    noise: FloatArray
    share: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, rows: Rows, n_bins: int) -> _BinSums:
        column = rows.one_column()
        bins = bin_rows(column, n_bins, "quantile")
        at = np.searchsorted(bins.edges[1:, 0], column.scores, side="right")
        noise = column.weights * (column.positive - bins.rate[at]) / column.total_weight
        return cls(at, noise, bins.share, bins.share * bins.gap)

    def covariance(self, other: _BinSums, units: Units | None) -> _Covariance:
        """Return the covariance of the mean squared gaps of two models, whose noise is independent between units."""
        m, k = self.share.size, other.share.size
        if units is None:
            c = np.bincount(self.at * k + other.at, self.noise * other.noise, m * k).reshape(m, k).astype(np.float64)
        else:
            c = self.over(units).T @ other.over(units)
        shares = np.outer(self.share, other.share)
        by_gaps = c * (np.outer(self.sums, other.sums) - c)
        return _Covariance(2.0 * float(np.sum(c**2 / shares)), 4.0 * float(np.sum(by_gaps / shares)))

    def over(self, units: Units) -> FloatArray:
        """Return the sums of the noise of each bin over each unit, shape (n units, m)."""
        m = self.share.size
        sums = np.bincount(units.code * m + self.at, self.noise, units.n * m).astype(np.float64)
        return sums.reshape(units.n, m)
