"""An estimate with its interval, and the elementary intervals: of a mean, of a rate and of a mean absolute gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.numerics import FloatArray, normal_quantile
from calibrant.results import Score

#: With fewer rows of a class, intervals of ranking and of the calibration line are too short.
FEW = 20.0
#: A gap this many times its noise keeps its sign, so noise moves it up as often as down.
CLEAR = 4.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the ends of its interval, how that was found, what a reader must know, and of which rows it is.

    `level` and `n` are told where the interval is not of the level that was asked for, or not of all rows.
    """

    value: float
    low: float
    high: float
    method: str
    note: str = ""
    where: str = ""
    level: float | None = None
    n: int | None = None

    def to_score(self, name: str, *, level: float, n: int, evaluated_on: str) -> Score:
        """Return the estimate under a name, with what is known of its rows."""
        level, n = level if self.level is None else self.level, n if self.n is None else self.n
        return Score(name, self.value, self.low, self.high, level, n, self.method, evaluated_on, self.note, self.where)


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


def noise_bounds(
    value: float, gap: FloatArray, noise: FloatArray, between: float, level: float, rng: np.random.Generator
) -> Estimate:
    """Bound a mean absolute gap by the triangle inequality, where the noise of neighbouring gaps moves together.

    Parameters
    ----------
    value : float
        The estimate.
    gap : ndarray of shape (m,)
        Share of the rows times their gap, at m places: its absolute values sum to about `value`.
    noise : ndarray of shape (n_draws, m)
        Draws of the noise in `gap`.
    between : float
        Variance from the chance of where the rows fell.
    level : float
        Nominal coverage.
    rng : Generator

    Notes
    -----
    Noise moves the sum of absolute gaps down by at most its signed sum, and up by at most its absolute sum, which is
    what happens where the true gaps are zero; see `ece_estimate`, which does the same for bins.
    """
    sign = np.sign(gap)
    is_clear = np.abs(gap) > CLEAR * np.sqrt(np.mean(noise**2, axis=0))
    upward = np.sum(np.where(is_clear, noise * sign, np.abs(noise)), axis=1)
    upward += math.sqrt(between) * rng.standard_normal(len(noise))
    signed = math.sqrt(float(np.mean(np.sum(noise * sign, axis=1) ** 2)) + between)
    low = value - float(np.quantile(upward, 0.5 + 0.5 * level))
    high = value + normal_quantile(level) * signed
    return Estimate(value, min(max(low, 0.0), value), min(high, 1.0), "noise bounds")
