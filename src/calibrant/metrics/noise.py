"""Intervals of mean absolute gaps, from draws of the noise in the gaps."""

from __future__ import annotations

import math

import numpy as np

from calibrant.metrics.estimates import Estimate
from calibrant.numerics import FloatArray, normal_quantile

#: A gap this many times its noise keeps its sign, so noise moves it up as often as down.
CLEAR = 4.0


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
