"""An estimate with its interval, and the elementary intervals: of a mean and of a rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from calibrant.numerics import FloatArray, normal_quantile
from calibrant.results import Score

FloatOrArray = TypeVar("FloatOrArray", float, FloatArray)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the ends of its interval, how the interval was found, and what a reader must know."""

    value: float
    low: float
    high: float
    method: str
    note: str = ""

    def to_score(self, name: str, *, level: float, n: int, evaluated_on: str) -> Score:
        """Return the estimate under a name, with what is known of its rows."""
        return Score(name, self.value, self.low, self.high, level, n, self.method, evaluated_on, self.note)


class Mean(NamedTuple):
    """A weighted mean and its standard error."""

    value: float
    error: float


def wilson(rate: FloatArray, size: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return Wilson's score interval of rates seen in `size` independent rows each; never of width zero."""
    z2 = normal_quantile(level) ** 2
    centre = (rate + z2 / (2.0 * size)) / (1.0 + z2 / size)
    half = np.sqrt(z2 * (rate * (1.0 - rate) / size + z2 / (4.0 * size**2))) / (1.0 + z2 / size)
    # at a rate of 0 or 1 the near end is the rate itself, which rounding may miss
    low = np.where(rate == 0.0, 0.0, np.clip(centre - half, 0.0, 1.0))
    return low, np.where(rate == 1.0, 1.0, np.clip(centre + half, 0.0, 1.0))


def rate_estimate(rate: float, size: float, level: float) -> Estimate:
    """Estimate a rate with Wilson's interval."""
    low, high = wilson(np.array([rate]), np.array([size]), level)
    return Estimate(rate, float(low[0]), float(high[0]), "Wilson")


def total(weight: FloatArray, values: FloatArray) -> float:
    """Sum weight * value, where a weight of zero takes even an infinite value away."""
    with np.errstate(invalid="ignore"):
        result = float(np.sum(weight * values))
    if math.isnan(result):
        counted = weight > 0.0
        return float(np.sum(weight[counted] * values[counted]))
    return result


def mean_of(parts: Sequence[tuple[FloatArray, FloatArray]], size: float, *, extra: FloatArray | None = None) -> Mean:
    """Return the mean of values with weights, given in parts, and its standard error by the central limit theorem.

    Parameters
    ----------
    parts : sequence of (values, weights)
    size : float
        Effective number of rows.
    extra : ndarray, optional
        Values that two more rows are imagined to have, on average over this array, when the spread is measured: so
        that data in which nothing varied do not claim certainty.
    """
    weight = math.fsum(float(w.sum()) for _, w in parts)
    mean = math.fsum(total(w, v) for v, w in parts) / weight
    if not math.isfinite(mean):
        return Mean(mean, math.nan)
    with np.errstate(invalid="ignore"):
        spread = math.fsum(total(w, (v - mean) ** 2) for v, w in parts) / weight
    return mean_of_moments(mean, spread, size, extra=extra)


def mean_of_moments(mean: float, spread: float, size: float, *, extra: FloatArray | None = None) -> Mean:
    """Return a mean and its standard error from the weighted variance of the values; see `mean_of`."""
    if not math.isfinite(mean):
        return Mean(mean, math.nan)
    if extra is not None:
        spread = (spread + 2.0 / size * float(np.mean((extra - mean) ** 2))) / (1.0 + 2.0 / size)
    return Mean(mean, math.sqrt(spread / size))


def normal_estimate(mean: Mean, level: float, *, least: float, most: float) -> Estimate:
    """Estimate a mean with its normal interval, cut to the range that it can lie in."""
    half = normal_quantile(level) * mean.error
    return Estimate(mean.value, max(mean.value - half, least), min(mean.value + half, most), "normal (CLT)")
