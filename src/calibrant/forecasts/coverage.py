"""Coverage by level: how often outcomes fall below each quantile, and into each central interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.errors import InvalidProbabilityError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.given_levels import given_levels, is_within_levels
from calibrant.forecasts.kinds import QuantileForecast, SampleForecast
from calibrant.forecasts.points import as_rising_levels, central_ends, central_levels
from calibrant.forecasts.recalibrated import DerivedForecast
from calibrant.forecasts.scores import Outcomes, read_outcomes, row_is_covered
from calibrant.metrics import Estimate, named_scores
from calibrant.numerics import FloatArray
from calibrant.phrases import bracketed, figure, listed
from calibrant.results import Plain, Score
from calibrant.validation import ArrayLike, check_fraction

#: The levels that are measured where neither forecast nor caller names any.
_LEVELS = np.array([0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975])


@dataclass(frozen=True, slots=True, repr=False)
class CoverageByLevel(Plain):
    """How often outcomes fell below quantiles, and into the central intervals between them.

    Attributes
    ----------
    levels : tuple of float
        Levels of the quantiles.
    below : tuple of Score
        The share of outcomes at or below each quantile, named "below@0.1": its level, if the forecast is calibrated.
    central_levels : tuple of float
        Levels of the central intervals that two of the quantiles are the ends of, the narrowest first.
    coverage, sharpness : tuple of Score
        The share of outcomes in each, ends included, and its mean width, named "coverage@0.8" and "sharpness@0.8".
    """

    levels: tuple[float, ...]
    below: tuple[Score, ...]
    central_levels: tuple[float, ...]
    coverage: tuple[Score, ...]
    sharpness: tuple[Score, ...]

    @property
    def off(self) -> tuple[str, ...]:
        """Names of the shares whose interval excludes their level."""
        pairs = [*zip(self.levels, self.below, strict=True), *zip(self.central_levels, self.coverage, strict=True)]
        return tuple(score.name for level, score in pairs if not score.low <= level <= score.high)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return a table: its header, and a row of texts for each quantile and each interval."""
        header = ["level", "share", f"{100 * self.below[0].level:g}% interval", "width"]
        rows = [
            [f"below {level:g}", figure(found.value), bracketed(found.low, found.high), ""]
            for level, found in zip(self.levels, self.below, strict=True)
        ]
        rows += [
            [f"central {level:g}", figure(found.value), bracketed(found.low, found.high), figure(width.value)]
            for level, found, width in zip(self.central_levels, self.coverage, self.sharpness, strict=True)
        ]
        return header, rows

    def _columns(self) -> dict[str, Sequence[Any]]:
        found, none = [*self.below, *self.coverage], [math.nan] * len(self.below)
        return {
            "share": ["below"] * len(self.below) + ["central"] * len(self.coverage),
            "level": [*self.levels, *self.central_levels],
            "value": [score.value for score in found],
            "value_low": [score.low for score in found],
            "value_high": [score.high for score in found],
            "width": [*none, *(score.value for score in self.sharpness)],
        }


def coverage_by_level(
    forecast: Forecast,
    y: ArrayLike,
    *,
    levels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    evaluated_on: str = "given data",
) -> CoverageByLevel:
    """Measure how often outcomes fall below quantiles, and into the central intervals between them.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end, evaluated_on
        See `evaluate`.
    levels : array-like of shape (m,), optional
        Rising levels of the quantiles: by default those of a `QuantileForecast`, and of others nine from 0.025 to
        0.975. Levels beyond the quantiles that are given are refused.
    level : float
        Nominal coverage of each interval, Wilson's.

    Returns
    -------
    CoverageByLevel

    Notes
    -----
    Each interval is of its level alone: of twenty levels of a calibrated forecast, one is off by chance. An outcome
    that equals a quantile counts as below it, so that shares of forecasts with atoms lie above their levels.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import QuantileForecast, coverage_by_level
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> found = coverage_by_level(QuantileForecast([0.1, 0.5, 0.9], np.tile([-1.0, 0.0, 1.0], (1000, 1))), y)
    >>> print(found)
    share    level   value          interval  width
    below      10%  0.1670  [0.1452, 0.1914]    n/a
    below      50%  0.5340  [0.5030, 0.5647]    n/a
    below      90%  0.8510  [0.8276, 0.8717]    n/a
    central    80%  0.6840  [0.6545, 0.7121]      2
    """
    level = check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    return coverage_of(rows, _levels(levels, rows.forecast), level, evaluated_on)


def coverage_of(rows: Outcomes, levels: FloatArray | None, level: float, evaluated_on: str) -> CoverageByLevel:
    """Return what `coverage_by_level` does of checked rows."""
    levels = _levels(None, rows.forecast) if levels is None else levels
    quantiles = rows.forecast.ppf(levels[None, :])
    below = {
        f"below@{each:g}": rows.rate_estimate((rows.y <= quantiles[:, k]).astype(np.float64), level)
        for k, each in enumerate(levels)
    }
    central = central_levels(levels)[::-1]
    covered, widths = {}, {}
    for each in central:
        covered[f"coverage@{each:g}"] = rows.rate_estimate(row_is_covered(rows, each), level)
        ends = rows.forecast.interval(each)
        widths[f"sharpness@{each:g}"] = rows.mean_estimate(ends[1] - ends[0], level, least=0.0)

    def scores(found: dict[str, Estimate]) -> tuple[Score, ...]:
        known: dict[str, Any] = {"level": level, "n": len(rows), "n_eff": rows.effective_size}
        return tuple(named_scores(found, evaluated_on=evaluated_on, **known).values()) if found else ()

    return CoverageByLevel(tuple(levels.tolist()), scores(below), tuple(central), scores(covered), scores(widths))


def promised_coverage(rows: Outcomes, interval_level: float) -> tuple[float, float]:
    """Return the least and the greatest share of outcomes that central intervals hold where the forecasts are right.

    Both are the level where outcomes have a density. An end that is an atom, as of counts, holds more. Equal quantiles
    say that there may be one, and only between which levels it lies.

    Right samples are draws from the distribution of the outcome. Where it has a density, each of the m + 1 gaps between
    m samples is as likely to hold the outcome, which gives the least share. Where it has none, outcomes may equal
    samples, and the greatest share is that of all samples in the interval, both ends included.
    """
    forecast = rows.forecast
    low, high = forecast.interval(interval_level)
    if rows.as_given and isinstance(forecast, QuantileForecast) and forecast.given_levels is not None:
        first, last = central_ends(interval_level)
        most = forecast.around_atoms(high, last)[1] - forecast.around_atoms(low, first)[0]
        return interval_level, rows.mean(most)
    if not forecast.has_atoms:
        return interval_level, interval_level
    held, m = rows.mean(forecast.cdf(high) - forecast.cdf_below(low)), _n_samples(forecast)
    return (held if m == 0 else rows.mean(forecast.cdf(high) - forecast.cdf(low)) * m / (m + 1.0)), held


def _n_samples(forecast: Forecast) -> int:
    """Return the number of samples that a row's distribution is made of; 0 where it is made of none."""
    while isinstance(forecast, DerivedForecast):
        forecast = forecast.base
    return forecast.n_samples if isinstance(forecast, SampleForecast) else 0


def _levels(levels: ArrayLike | None, forecast: Forecast) -> FloatArray:
    """Check levels, or take those that are given."""
    given = given_levels(forecast)
    if levels is None:
        return _LEVELS if given is None else given[(given > 0.0) & (given < 1.0)]
    found = as_rising_levels(levels, name="levels")
    if given is not None and not is_within_levels(forecast, float(found[0]), float(found[-1])):
        raise InvalidProbabilityError(
            f"levels reach from {found[0]:g} to {found[-1]:g}, but the quantiles of the forecast from {given[0]:g} to "
            f"{given[-1]:g}. Pass levels within: {listed(given.tolist())}."
        )
    return found
