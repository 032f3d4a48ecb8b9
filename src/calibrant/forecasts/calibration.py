"""Calibration errors of forecasts: on average, on both sides of a threshold rule, and by predicted distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import as_numbers, as_rising_levels, check_bins
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import EPS, BoolArray, FloatArray, IntArray
from calibrant.phrases import figure
from calibrant.readable import Readable, columns_of
from calibrant.summary import equal_mass_bins
from calibrant.validation import ArrayLike, check_integer, check_number

#: An atom of fewer levels than this is a point: its slope would swamp the others'.
_NARROW = 1e-9
#: Share of a number by which its rounding, as that of a quantile or a width, may be off.
_ROUNDING = 16.0 * EPS
#: Rows that a rule must leave on both sides to be counted.
MIN_ROWS = 21


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ThresholdErrors(Readable):
    """Threshold calibration errors over a family of rules.

    Attributes
    ----------
    y0, alpha : ndarray of shape (K,) and (A,)
        Thresholds on the number line, and the levels that P(Y <= y0) is compared with.
    values, weighted : ndarray of shape (K, A)
        The errors of both sides added, and weighted by the sides' shares of the rows; NaN where one has too few.
    """

    y0: FloatArray
    alpha: FloatArray
    values: FloatArray
    weighted: FloatArray

    def _columns(self) -> dict[str, Sequence[Any]]:
        y0, alpha = np.meshgrid(self.y0, self.alpha, indexing="ij")
        parts = {"y0": y0, "alpha": alpha, "value": self.values, "weighted": self.weighted}
        return columns_of({name: values.ravel() for name, values in parts.items()})

    def _before(self) -> list[str]:
        return [f"Threshold calibration errors: mean {figure(self.mean)}, greatest {figure(self.max)}."]

    @property
    def mean(self) -> float:
        """Mean over the rules with enough rows on both sides; NaN if none has."""
        return float("nan") if self.worst is None else float(self.values[np.isfinite(self.values)].mean())

    @property
    def max(self) -> float:
        """Greatest over the rules with enough rows on both sides; NaN if none has."""
        return float("nan") if self.worst is None else float(np.nanmax(self.values))

    @property
    def worst(self) -> tuple[float, float] | None:
        """The (y0, alpha) of the greatest error; None if no rule has enough rows on both sides."""
        if np.isnan(self.values).all():
            return None
        k, a = np.unravel_index(int(np.nanargmax(self.values)), self.values.shape)
        return float(self.y0[k]), float(self.alpha[a])


@dataclass(frozen=True, slots=True)
class Events:
    """The distribution of PIT values as jumps and changes of slope, sorted by place, with the row of each."""

    place: FloatArray
    jump: FloatArray
    slope: FloatArray
    row: IntArray

    @classmethod
    def of(cls, rows: Outcomes) -> Events:
        """Make the events of forecasts and outcomes: a jump at each PIT, a ramp over each atom's levels."""
        low, high = rows.pit_ends()
        weight = rows.weights
        is_ramp = high - low > _NARROW
        numbers = np.arange(high.size)
        steep = weight[is_ramp] / (high[is_ramp] - low[is_ramp])
        nothing = np.zeros(steep.size)
        place = np.concatenate((high[~is_ramp], low[is_ramp], high[is_ramp]))
        order = np.argsort(place, kind="stable")
        jump = np.concatenate((weight[~is_ramp], nothing, nothing))
        slope = np.concatenate((np.zeros(high.size - steep.size), steep, -steep))
        row = np.concatenate((numbers[~is_ramp], numbers[is_ramp], numbers[is_ramp]))
        return cls(place[order], jump[order], slope[order], row[order].astype(np.int64))

    def distances(self, first: IntArray, weight: FloatArray, n_cuts: int) -> tuple[FloatArray, FloatArray]:
        """Return distance from uniform and weight of both sides of each cut, shape (n_cuts, 2) each.

        A side without weight has distance 0. `first` is the first cut that has a row on its first side, as all later
        ones have; `n_cuts` where none has.
        """
        added: FloatArray = np.bincount(first, weights=weight, minlength=n_cuts + 1).astype(np.float64)
        mass = np.concatenate((np.cumsum(added)[:n_cuts], np.cumsum(added[::-1])[::-1][1:]))
        distances = np.empty(mass.size)
        events = self.place, self.jump, self.slope, first[self.row]
        kernels.distances_of_sides(*events, np.where(mass > 0.0, mass, 1.0), np.empty((3, mass.size)), distances)
        distances[mass <= 0.0] = 0.0
        return distances.reshape(2, n_cuts).T, mass.reshape(2, n_cuts).T


def average_calibration_error(forecast: Forecast, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Measure how far the PIT values are from uniform: int |P[h(Y) <= c] - c| dc over levels c, exactly.

    Returns
    -------
    float
        In [0, 1/2]: the mean distance between a level and how often outcomes fall below its quantile.

    Notes
    -----
    Biased upward: n outcomes of a calibrated forecast give about 0.31 / sqrt(n). `noise_floor` measures it. Outcomes
    on atoms count with equal parts of the levels between P(Y < y) and P(Y <= y), as a randomised PIT does in
    expectation, and those of a `QuantileForecast` with equal parts of the given levels around them.

    The weighted mean of `threshold_calibration_error` where a rule puts all rows on one side.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, average_calibration_error
    >>> average_calibration_error(GaussianForecast([0.0], 1.0), [0.0])
    0.25
    """
    return distance_of_sides(read_outcomes(forecast, y, sample_weight))


def threshold_calibration_error(
    forecast: Forecast, y: ArrayLike, y0: float, alpha: float, *, sample_weight: ArrayLike | None = None
) -> float:
    """Measure how far PIT values are from uniform among the rows that a threshold rule picks, and among the others.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    y0, alpha : float
        The rule picks the rows with P(Y <= y0) <= alpha.

    Returns
    -------
    float
        In [0, 1]: int |P[h(Y) <= c | picked] - c| dc + int |P[h(Y) <= c | not picked] - c| dc, exactly. A side
        without rows adds nothing.

    Notes
    -----
    The sum of both sides, not weighted by their size, as the paper has it: a side of few rows is mostly noise. With
    zero error at all alpha, the reliability gap of rules and losses at y0 is zero; the converse doesn't hold, nor
    does it for losses at other thresholds than the rule's.

    "Threshold calibration" also names another thing, P(Y <= y | F(y)) = F(y) (Henzi, Ziegel and Gneiting 2021;
    Gneiting and Resin 2023), of which this is no measure.

    References
    ----------
    Sahoo, Zhao, Chen and Ermon (2021), *Reliable decisions with threshold calibration*, NeurIPS, definition 4.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, threshold_calibration_error
    >>> forecast = GaussianForecast([0.0, 4.0], 1.0)
    >>> threshold_calibration_error(forecast, [0.0, 4.0], 2.0, 0.5)
    0.5
    """
    rows = read_outcomes(forecast, y, sample_weight)
    levels = rows.forecast.cdf(check_number("y0", y0))
    return distance_of_sides(rows, levels <= check_number("alpha", alpha, minimum=0.0, maximum=1.0))


def distance_of_sides(rows: Outcomes, picked: BoolArray | None = None) -> float:
    """Return the threshold calibration error of a rule that picks some of the rows, all by default."""
    first = np.zeros(len(rows), dtype=np.int64) if picked is None else (~picked).astype(np.int64)
    distances, _ = Events.of(rows).distances(first, rows.weights, 1)
    return float(distances.sum())


def threshold_calibration_errors(
    forecast: Forecast,
    y: ArrayLike,
    *,
    y0: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    min_rows: int = MIN_ROWS,
    sample_weight: ArrayLike | None = None,
) -> ThresholdErrors:
    """Measure threshold calibration errors over a family of rules.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    y0 : array-like of shape (K,), optional
        Thresholds; by default 50 at equal steps from the 20% to the 80% quantile of the outcomes, as in the paper.
    alpha : array-like of shape (A,), optional
        Levels; 20 at equal steps from 0.05 to 0.95 by default.
    min_rows : int
        Rules that leave fewer rows than this on a side are NaN.
    """
    return table_of_errors(read_outcomes(forecast, y, sample_weight), y0, alpha, min_rows)


def table_of_errors(
    rows: Outcomes, y0: ArrayLike | None = None, alpha: ArrayLike | None = None, min_rows: int = MIN_ROWS
) -> ThresholdErrors:
    """Return what `threshold_calibration_errors` does of checked rows."""
    alpha = alphas_of(alpha, 20)
    check_integer("min_rows", min_rows, minimum=1)
    events, weight = Events.of(rows), rows.weights
    if y0 is None:
        order = np.argsort(rows.y)
        share = np.cumsum(weight[order]) / weight.sum()
        ends = rows.y[order][np.searchsorted(share, [0.2, 0.8], side="right").clip(max=len(rows) - 1)]
        y0 = np.linspace(ends[0], ends[1], 50)
    y0 = as_numbers(y0, name="y0")
    distances, mass = np.full((2, y0.size, alpha.size, 2), np.nan)
    for k, first in enumerate(first_cuts(rows, y0, alpha)):
        enough = enough_rows(first, alpha.size, min_rows)
        if enough.any():
            distances[k], mass[k] = events.distances(first, weight, alpha.size)
            distances[k, ~enough] = np.nan
    return ThresholdErrors(y0, alpha, distances.sum(axis=2), (distances * mass).sum(axis=2) / weight.sum())


def first_cuts(rows: Outcomes, y0: FloatArray, alpha: FloatArray) -> Iterator[IntArray]:
    """Yield, for each y0, the number of the first of rising levels that P(Y <= y0) of each row does not exceed."""
    for levels in rows.levels_at(y0):
        yield np.searchsorted(alpha, levels).astype(np.int64)


def enough_rows(first: IntArray, n_cuts: int, min_rows: int = MIN_ROWS) -> BoolArray:
    """Say which cuts have `min_rows` on both sides; see `Events.distances`."""
    n_left = np.cumsum(np.bincount(first, minlength=n_cuts + 1))[:n_cuts]
    return (n_left >= min_rows) & (first.size - n_left >= min_rows)


def distribution_calibration_error(
    forecast: Forecast, y: ArrayLike, *, n_bins: tuple[int, int] = (5, 3), sample_weight: ArrayLike | None = None
) -> float:
    """Measure how far PIT values are from uniform among rows with like forecasts, on average over the rows.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    n_bins : pair of int
        Bins of near-equal size by predicted median, and in each of these by predicted width (90th less 10th
        percentile). Fewer where rows are few or forecasts equal.

    Notes
    -----
    A binned form of distribution calibration (Song, Diethe, Kull and Flach 2019, *Distribution calibration for
    regression*, ICML): zero error in all bins is necessary for it. Biased upward, more with more bins.
    """
    by_median, by_width = check_bins("n_bins", n_bins)
    rows = read_outcomes(forecast, y, sample_weight)
    return mean_distance_in_bins(rows, bins_of_rows(rows, by_median, by_width))


def mean_distance_in_bins(rows: Outcomes, bins: IntArray) -> float:
    """Return the distribution calibration error of checked rows, by their bins."""
    events, weight = Events.of(rows), rows.weights
    total = 0.0
    for j in np.unique(bins):
        distances, mass = events.distances((bins != j).astype(np.int64), weight, 1)
        total += float(mass[0, 0] * distances[0, 0])
    return total / float(weight.sum())


def bins_of_rows(rows: Outcomes, by_median: int, by_width: int) -> IntArray:
    """Return the bin of each row by the predicted median and, within that, by the predicted width."""
    low, median, high = rows.forecast.ppf(np.array([[0.1, 0.5, 0.9]])).T
    rounding = _ROUNDING * np.maximum(np.abs(low), np.abs(high))
    outer = _equal_mass(median, rounding, rows.weights, by_median)
    bins = np.zeros(len(rows), dtype=np.int64)
    for j in np.unique(outer):
        own = outer == j
        bins[own] = j * by_width + _equal_mass((high - low)[own], rounding[own], rows.weights[own], by_width)
    return bins


def _equal_mass(values: FloatArray, rounding: FloatArray, weight: FloatArray, n_bins: int) -> IntArray:
    """Return bins of near-equal weight, 0 to n_bins - 1; values that are equal but for rounding share a bin."""
    order = np.argsort(values, kind="stable")
    rising, apart = values[order], rounding[order]
    tie = np.empty(values.size, dtype=np.int64)
    tie[order] = np.append(0, np.cumsum(np.diff(rising) > np.maximum(apart[1:], apart[:-1])))
    return equal_mass_bins(np.bincount(tie, weights=weight).astype(np.float64), n_bins)[tie]


def alphas_of(alpha: ArrayLike | None, count: int) -> FloatArray:
    """Check rising levels, or make `count` at equal steps from 0.05 to 0.95."""
    if alpha is None:
        return np.linspace(0.05, 0.95, count)
    return as_rising_levels(alpha, name="alpha")
