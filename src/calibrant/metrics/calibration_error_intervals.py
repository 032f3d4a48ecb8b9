"""Intervals of binned calibration errors, from the noise of each bin's rate."""

from __future__ import annotations

import math

import numpy as np

from calibrant.metrics.bins import Bins
from calibrant.metrics.calibration_error import binned_error, debiased_square
from calibrant.metrics.estimates import Estimate
from calibrant.numerics import normal_quantile

#: Draws of the noise in the bins' rates.
_DRAWS = 4000
#: A gap this many times its noise keeps its sign, so noise moves it up as often as down.
_CLEAR = 4.0


def ece_estimate(bins: list[Bins], size: float, level: float, rng: np.random.Generator) -> Estimate:
    """Estimate the mean absolute gap of bins, with an interval from the triangle inequality.

    Parameters
    ----------
    bins : list of Bins
        Of one column; or of each class, to estimate the mean over classes.
    size : float
        Effective number of rows.
    level : float
        Nominal coverage.
    rng : Generator
        For the draws of the noise that makes the plug-in estimate too large.

    Notes
    -----
    Noise in the rates moves the sum of absolute gaps down by at most its signed sum, and up by at most its absolute
    sum, which is what happens where the true gaps are zero. Hence the upper end is the estimate plus the normal
    quantile of the one, and the lower end the estimate minus the simulated quantile of the other; a gap of more
    than four times its noise counts as signed. Both include the chance of which bins the rows fell into.

    Over classes the ends are averaged: right if the classes' noise is one and the same, as that of two classes is,
    and too wide if it isn't.
    """
    ends = np.mean([_ece_ends(each, size, level, rng) for each in bins], axis=0)
    value, low, high = ends.tolist()
    return Estimate(value, max(low, 0.0), min(high, 1.0), "bin noise bounds")


def _ece_ends(bins: Bins, size: float, level: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the mean absolute gap and the ends of its interval, which may lie outside [0, 1]."""
    value = binned_error(bins, "l1")
    share, gap = bins.share, np.abs(bins.gap)
    noise = np.sqrt(bins.rate_variance)
    between = max(float(np.sum(share * gap**2)) - value**2, 0.0) / size
    signed = math.sqrt(float(np.sum((share * noise) ** 2)) + between)
    draws = rng.standard_normal((_DRAWS, noise.size))
    excess = np.where(gap > _CLEAR * noise, draws, np.abs(draws)) @ (share * noise)
    excess += math.sqrt(between) * rng.standard_normal(_DRAWS)
    return value, value - float(np.quantile(excess, 0.5 + 0.5 * level)), value + normal_quantile(level) * signed


def ece_debiased_estimate(bins: list[Bins], size: float, level: float) -> Estimate:
    """Estimate the root of the debiased mean squared gap of bins: of one column, or the mean over those of classes.

    Notes
    -----
    The ends are roots of the mean squared gaps that lie just z standard errors from the estimate, the variance being
    that which each of them would have: 2 sum w^2 v^2 from noise alone, where v is a bin's rate variance, and
    4 sum w^2 v gap^2 in proportion to the mean squared gap, with the gaps in the proportions that were seen. So the
    lower end is above zero just where perfect calibration is rejected, on the null's own variance.

    Over classes squares are averaged, and so are standard errors: right if the classes' noise is one and the same,
    as that of two classes is, and too wide if it isn't.
    """
    parts = np.array([_square_parts(each, size) for each in bins])
    square, seen = parts[:, :2].mean(axis=0).tolist()
    alone, by_gap = np.square(np.sqrt(parts[:, 2:]).mean(axis=0)).tolist()
    by_gap = by_gap / seen if seen > 0.0 else 0.0
    z2 = normal_quantile(level) ** 2
    centre = square + 0.5 * z2 * by_gap
    half = math.sqrt(max(centre**2 - square**2 + z2 * alone, 0.0))
    value, low, high = (math.sqrt(min(max(end, 0.0), 1.0)) for end in (square, centre - half, centre + half))
    return Estimate(value, min(low, value), high, "score (squared gaps)")


def _square_parts(bins: Bins, size: float) -> tuple[float, float, float, float]:
    """Return the debiased and the plain mean squared gap, and the variance without gaps and in proportion to them."""
    square = debiased_square(bins)
    share, seen, variance = bins.share, bins.gap**2, bins.rate_variance
    by_noise = 2.0 * float(np.sum((share * variance) ** 2))
    by_gap = 4.0 * float(np.sum(share**2 * variance * seen))
    by_place = max(float(np.sum(share * np.maximum(seen - variance, 0.0) ** 2)) - square**2, 0.0) / size
    return square, float(np.sum(share * seen)), by_noise + by_place, by_gap
