"""Forecasts beside what came of them, and what they are worth: proper scores, coverage, sharpness."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.dependence import Dependence, Units, read_dependence, t_quantile
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.given_levels import checked_interval_level
from calibrant.forecasts.kinds import QuantileForecast, SampleForecast
from calibrant.forecasts.points import LARGEST, as_numbers
from calibrant.metrics import Estimate, mean_over_units, rate_estimate
from calibrant.numerics import FloatArray, IntArray, kish_size, normal_quantile
from calibrant.phrases import count
from calibrant.validation import ArrayLike, as_weight, check_fraction, check_same_length

#: Probabilities that are asked for at once, at most.
_BATCH = 1_000_000


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Forecasts with what came of them: rows of weight zero are gone, and `weight` is None where all are one.

    Where `as_given`, quantiles are taken to say what they say at their levels, and nothing between and beyond them.
    """

    forecast: Forecast
    y: FloatArray
    weight: FloatArray | None
    dependence: Dependence = field(default_factory=Dependence)
    as_given: bool = False

    def __len__(self) -> int:
        return self.y.size

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows."""
        return float(self.y.size) if self.weight is None else kish_size(self.weight)

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Return some of the rows, by their numbers or a mask."""
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        weight = None if self.weight is None else self.weight[numbers]
        taken = self.forecast[numbers], self.y[numbers], weight, self.dependence.take(numbers)
        return type(self)(*taken, as_given=self.as_given)

    def drawn(self, rng: np.random.Generator) -> Self:
        """Return the rows with outcomes drawn from their forecasts."""
        return replace(self, y=self.forecast.sample(1, rng)[:, 0])

    def fitted_without(self, folds: IntArray, fold: int) -> Self:
        """Return the rows to fit to where a fold is held out: those whose outcomes overlap none of its outcomes."""
        fitted = self.dependence.fitted_without(folds, fold)
        if not fitted.any():
            raise InvalidInputError(
                f"every outcome overlaps one of the {count(int((folds == fold).sum()), 'row')} held out: none is left "
                "to fit to. Pass rows of a longer time, or labels that end earlier."
            )
        return self.take(fitted)

    def levels_at(self, points: FloatArray) -> Iterator[FloatArray]:
        """Yield P(Y <= y) of each row, shape (n,), for each of some points y, asked for many at a time."""
        step = max(_BATCH // len(self), 1)
        for start in range(0, points.size, step):
            yield from np.ascontiguousarray(self.forecast.cdf(points[None, start : start + step]).T)

    def as_joined(self) -> Self:
        """Return the rows with quantiles joined into distributions, which is what recalibration maps."""
        return replace(self, as_given=False)

    def as_independent(self) -> Self:
        """Return the rows without what says that they are not independent."""
        return replace(self, dependence=Dependence())

    def pit_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return P(Y < y) and P(Y <= y) of each row, shape (n,) each; the same array where there are no atoms.

        Of quantiles that are taken as given: the levels on both sides of each outcome.
        """
        if self.as_given and isinstance(self.forecast, QuantileForecast) and self.forecast.given_levels is not None:
            return self.forecast.known_levels(self.y)
        high = self.forecast.cdf(self.y)
        return (self.forecast.cdf_below(self.y) if self.forecast.has_atoms else high), high

    def levels(self) -> FloatArray:
        """Return the level of each outcome: its probability integral transform, midway where it is an atom."""
        low, high = self.pit_ends()
        return np.array(high if low is high else 0.5 * (high + low), dtype=np.float64)

    def mean(self, values: FloatArray) -> float:
        """Return the mean of one value per row; infinite values stay infinite."""
        return _mean(values, self.weight)

    def mean_estimate(
        self, values: FloatArray, level: float, *, least: float = -np.inf, most: float = np.inf
    ) -> Estimate:
        """Return the mean of one value per row with its interval, cut to the range that it can lie in."""
        return mean_estimate(values, self.weights, self.units(values), level, least=least, most=most)

    def rate_estimate(self, happened: FloatArray, level: float) -> Estimate:
        """Return how often something happened, 1 or 0 in each row, with Wilson's interval.

        Of rows that are not independent, the number is divided by the design effect and by the square of how much
        longer Student's t is than the normal quantile (Korn and Graubard 1998, *Confidence intervals for proportions
        with small expected number of positive counts estimated from survey data*, Survey Methodology 24). Where it
        always or never happened, which shows no design effect, units count as rows.
        """
        rate, size = self.mean(happened), self.effective_size
        units = self.units(happened)
        if units is None:
            return rate_estimate(rate, size, level)
        error, degrees, _ = units.error_of_mean(happened, self.weights)
        stretch = (t_quantile(degrees, level) / normal_quantile(level)) ** 2
        variance = error**2 * stretch
        worth = (degrees + 1.0) / stretch if rate in (0.0, 1.0) else rate * (1.0 - rate) / max(variance, 1.0 / LARGEST)
        worth = min(worth, size)
        found = rate_estimate(rate, worth, level)
        return replace(found, method=f"Wilson ({units.words})", effect=size / worth)

    def units(self, values: FloatArray | None = None) -> Units | None:
        """Return the units of rows, for a mean of values; None where rows are independent.

        In time alone, blocks are as long as the values ask for, or where outcomes fell, or how far out, if that is
        longer: what is correlated shows there, which in the values may be hidden by what is not.
        """
        if not self.dependence.is_serial:
            return self.dependence.units()
        levels = self.levels()
        series = [levels, np.abs(levels - 0.5)] + ([] if values is None or not np.isfinite(values).all() else [values])
        return self.dependence.units(*(deviations(each, self.weights) for each in series))


def _mean(values: FloatArray, weight: FloatArray | None) -> float:
    with np.errstate(invalid="ignore"):  # of infinity and minus infinity NaN is right
        return float(np.average(values, weights=weight))


def deviations(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the weighted deviations of values from their mean."""
    return np.asarray(weight * (values - np.average(values, weights=weight)))


def mean_estimate(
    values: FloatArray,
    weight: FloatArray,
    units: Units | None,
    level: float,
    *,
    least: float = -np.inf,
    most: float = np.inf,
) -> Estimate:
    """Estimate a weighted mean as `mean_over_units` does, cut to the range that it can lie in."""
    value = _mean(values, weight)
    if not math.isfinite(value):
        note = "undefined: infinite in some rows, minus infinity in others" if math.isnan(value) else "infinite"
        return Estimate(value, value, value, "none", f"{note}: see log_score")
    found = mean_over_units(values, weight, () if units is None else (units,), level)
    return replace(found, low=max(found.low, least), high=min(found.high, most))


def read_outcomes(
    forecast: Forecast,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
) -> Outcomes:
    """Check a forecast, its outcomes and which rows hang together, and drop rows of weight zero."""
    forecast = as_forecast(forecast)
    values = as_numbers(y, name="y")
    check_same_length(len(forecast), values.size, "forecast", "y")
    weight = as_weight(sample_weight, values.size, rows="the forecast")
    dependence = read_dependence(values.size, cluster, time, label_end, rows="the forecast")
    rows = Outcomes(forecast, values, weight, dependence, as_given=True)
    if weight is not None and not weight.all():
        rows = rows.take(weight > 0.0)
        rows = replace(rows, weight=as_weight(rows.weight, len(rows)))
    if rows.dependence.is_one:
        name = "time" if cluster is None else "cluster"
        raise InvalidInputError(
            f"{name} is the same in all {count(len(rows), 'row')}, which doesn't tell how much others would differ. "
            f"Pass rows of several, or leave {name} out."
        )
    return rows


def crps(forecast: Forecast, y: ArrayLike, *, fair: bool = False, sample_weight: ArrayLike | None = None) -> float:
    """Measure the mean continuous ranked probability score; smaller is better.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    fair : bool
        Of a `SampleForecast`: score the distribution that the samples were drawn from, in place of the samples
        themselves, which look the worse the fewer they are (`SampleForecast.fair_crps`).
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.

    Returns
    -------
    float
        In the units of y; the mean absolute error where forecasts are single values.

    Notes
    -----
    The mean of int (F(t) - 1{y <= t})^2 dt: exact for normal distributions (Gneiting and Raftery 2007, equation 21),
    for CDFs with straight pieces and exponential tails, and for samples; by quadrature for others.

    References
    ----------
    Gneiting and Raftery (2007), *Strictly proper scoring rules, prediction, and estimation*, JASA 102. Ferro (2014),
    *Fair scores for ensemble forecasts*, QJRMS 140.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, crps
    >>> round(crps(GaussianForecast([0.0, 1.0], 1.0), [0.5, 1.0]), 4)
    0.2825
    """
    rows = read_outcomes(forecast, y, sample_weight)
    if not fair:
        return rows.mean(rows.forecast.crps(rows.y))
    if not isinstance(rows.forecast, SampleForecast):
        raise InvalidTypeError(
            f"fair=True with a {type(forecast).__name__}: only samples have a score to be made fair. Pass a "
            "SampleForecast, or fair=False."
        )
    return rows.mean(rows.forecast.fair_crps(rows.y))


def log_score(forecast: Forecast, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> float:
    """Measure the mean negative log density at what happened, in nats; smaller is better.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.

    Notes
    -----
    Infinite where something happened that had no density. Samples have no density, which raises an InvalidTypeError. Of
    a discrete distribution the probability takes the place of the density. An outcome on an atom of another forecast,
    whose density there is infinite, makes the score minus infinity. Where both happen, it is NaN.
    """
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_log_score(rows))


def pinball_loss(
    forecast: Forecast, y: ArrayLike, *, level: float = 0.5, sample_weight: ArrayLike | None = None
) -> float:
    """Measure the mean pinball loss of the quantile at `level`; smaller is better.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    level : float
        Of the quantile.

    Notes
    -----
    level * (y - q) above the quantile q and (1 - level) * (q - y) below it (Koenker and Bassett 1978).
    """
    level = check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_pinball(rows, level))


def interval_score(
    forecast: Forecast, y: ArrayLike, *, level: float | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Measure the mean interval score of central intervals; smaller is better.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    level : float, optional
        As in `coverage`.

    Notes
    -----
    The width, plus 2 / (1 - level) times how far outside the outcome lies (Gneiting and Raftery 2007, equation 43).
    """
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_interval_score(rows, checked_interval_level(level, rows.forecast)))


def coverage(
    forecast: Forecast, y: ArrayLike, *, level: float | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Measure how often outcomes lie in the central intervals that should hold `level` of them; ends included.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    level : float, optional
        Of the intervals: 0.9 by default, of a `QuantileForecast` the nearest of its own. One beyond its quantiles is
        refused. `coverage_by_level` measures all levels.
    """
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_is_covered(rows, checked_interval_level(level, rows.forecast)))


def sharpness(forecast: Forecast, *, level: float | None = None, sample_weight: ArrayLike | None = None) -> float:
    """Measure the mean width of central intervals, in the units of the outcome: how much forecasts say at all.

    Parameters
    ----------
    forecast, sample_weight
        See `crps`.
    level : float, optional
        As in `coverage`.
    """
    forecast = as_forecast(forecast)
    level = checked_interval_level(level, forecast)
    weight = as_weight(sample_weight, len(forecast), rows="the forecast")
    low, high = forecast.interval(level)
    return float(np.average(high - low, weights=weight))


def row_log_score(rows: Outcomes) -> FloatArray:
    """Return the negative log density at each outcome, shape (n,)."""
    return -rows.forecast.logpdf(rows.y)


def row_pinball(rows: Outcomes, level: float) -> FloatArray:
    """Return the pinball loss of each row, shape (n,)."""
    above = rows.y - rows.forecast.ppf(level)
    return np.where(above >= 0.0, level * above, (level - 1.0) * above)


def row_interval_score(rows: Outcomes, level: float) -> FloatArray:
    """Return the interval score of each row, shape (n,)."""
    low, high = rows.forecast.interval(level)
    outside = np.maximum(low - rows.y, 0.0) + np.maximum(rows.y - high, 0.0)
    return high - low + 2.0 / (1.0 - level) * outside


def row_is_covered(rows: Outcomes, level: float) -> FloatArray:
    """Return 1 where the outcome lies in the central interval, shape (n,)."""
    low, high = rows.forecast.interval(level)
    return ((low <= rows.y) & (rows.y <= high)).astype(np.float64)
