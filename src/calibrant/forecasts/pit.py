"""The probability integral transform: its values, histogram, and tests of whether they are uniform."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.outcomes import read_outcomes
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer


@dataclass(frozen=True, slots=True, eq=False)
class PitHistogram:
    """How often outcomes fell into each part of their forecasts.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
        Equal bins of [0, 1].
    density : ndarray of shape (m,)
        Share of the weight in each bin, times m: 1 everywhere if calibrated.
    low, high : float
        Where one bin of a calibrated forecast lies, at `level`.
    low_all, high_all : float
        Where all bins together lie, at `level`.
    level : float
    n : int
        Number of rows.
    """

    edges: FloatArray
    density: FloatArray
    low: float
    high: float
    low_all: float
    high_all: float
    level: float
    n: int


@dataclass(frozen=True, slots=True)
class UniformityTest:
    """Tests of whether PIT values are uniform, as they are if the forecast is calibrated on average.

    Attributes
    ----------
    kolmogorov_smirnov : float
        Largest distance of the distribution of the values from uniform.
    kolmogorov_smirnov_p_value : float
    cramer_von_mises : float
        The squared distance, integrated, times the number of rows.
    cramer_von_mises_p_value : float
    n : int
        Number of rows.
    """

    kolmogorov_smirnov: float
    kolmogorov_smirnov_p_value: float
    cramer_von_mises: float
    cramer_von_mises_p_value: float
    n: int


def pit(forecast: Forecast, y: ArrayLike, *, rng: int | np.random.Generator | None = None) -> FloatArray:
    """Return the probability integral transform of each outcome, F(y), shape (n,).

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    rng : int, Generator or None
        Where the outcome is an atom of its forecast, F jumps, and a uniform draw between P(Y < y) and P(Y <= y) is
        taken: the values are then uniform if the forecast is right. Nothing is drawn elsewhere.

    References
    ----------
    Czado, Gneiting and Held (2009), *Predictive model assessment for count data*, Biometrics 65.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, pit
    >>> pit(GaussianForecast([0.0, 1.0], 1.0), [0.0, 1.0])
    array([0.5, 0.5])
    """
    return _drawn(*read_outcomes(forecast, y).pit_ends(), rng)


def pit_histogram(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 20,
    level: float = 0.95,
) -> PitHistogram:
    """Count outcomes by where they fell in their forecasts.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
    n_bins : int
        Number of equal bins, at least 2.
    level : float
        Coverage of the bands.

    Notes
    -----
    An outcome on an atom is spread over the levels between P(Y < y) and P(Y <= y) in equal parts, so that nothing is
    drawn at random. The bands are binomial with Kish's effective number of rows; the wider one is Bonferroni's, for
    all bins at once.
    """
    n_bins, level = check_integer("n_bins", n_bins, minimum=2), check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight)
    low, high = rows.pit_ends()
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    density = np.diff(share_up_to(edges, low, high, rows.weights)) * n_bins
    one = _binomial_band(rows.effective_size, n_bins, level)
    every = _binomial_band(rows.effective_size, n_bins, 1.0 - (1.0 - level) / n_bins)
    return PitHistogram(edges, density, *one, *every, level, len(rows))


def pit_test(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
) -> UniformityTest:
    """Test whether the PIT values are uniform: Kolmogorov-Smirnov and Cramer-von Mises.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
    sample_weight : array-like of shape (n,), optional
        The tests take Kish's effective number of rows.
    rng : int, Generator or None
        For outcomes on atoms; see `pit`.

    Notes
    -----
    The p-values are SciPy's: exact for Kolmogorov-Smirnov, asymptotic with a correction for few rows for Cramer-von
    Mises (Csorgo and Faraway 1996). A large sample rejects departures that don't matter: read
    `average_calibration_error` beside it.
    """
    from scipy.stats import kstwo

    rows = read_outcomes(forecast, y, sample_weight)
    values = _drawn(*rows.pit_ends(), rng)
    order = np.argsort(values)
    values, weight = values[order], rows.weights[order]
    above = np.cumsum(weight) / weight.sum()
    below = above - weight / weight.sum()
    largest = float(np.maximum(above - values, values - below).max())
    # int (F - c)^2 dc, piece by piece between the values
    ends = np.concatenate(([0.0], values, [1.0]))
    heights = np.concatenate(([0.0], above))
    squared = float(np.sum((ends[1:] - heights) ** 3 - (ends[:-1] - heights) ** 3)) / 3.0
    size = rows.effective_size
    statistic = max(squared * size, 1.0 / (12.0 * size))
    return UniformityTest(
        largest, float(kstwo.sf(largest, max(round(size), 1))), statistic, _cramer_p_value(statistic, size), len(rows)
    )


def _drawn(low: FloatArray, high: FloatArray, rng: int | np.random.Generator | None) -> FloatArray:
    """Return a uniform draw between both ends of each PIT, from the generator only where outcomes are on atoms."""
    if bool((low == high).all()):
        return high
    return low + (high - low) * as_generator(rng).random(low.size)


def _cramer_p_value(statistic: float, size: float) -> float:
    """Return the chance of a larger statistic, as SciPy's test gives it to values that have this one."""
    from scipy.stats import cramervonmises

    n = max(round(size), 2)
    middle = (np.arange(n) + 0.5) / n
    # even values, all moved by one distance: the statistic is n times its square, plus 1 / (12 n)
    shift = math.sqrt(max(statistic - 1.0 / (12.0 * n), 0.0) / n)
    return float(cramervonmises(middle + shift, lambda values: values).pvalue)


def share_up_to(levels: FloatArray, low: FloatArray, high: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the share of the weight with a PIT up to each of some rising levels; of an atom, the part below."""
    is_point = high <= low
    total = weight.sum()
    order = np.argsort(high[is_point])
    points, own = high[is_point][order], np.concatenate(([0.0], np.cumsum(weight[is_point][order])))
    share: FloatArray = own[np.searchsorted(points, levels, side="right")]
    if not is_point.all():
        a, b, w = low[~is_point], high[~is_point], weight[~is_point]
        share = share + np.array([float(np.sum(w * np.clip((c - a) / (b - a), 0.0, 1.0))) for c in levels])
    share = share / total
    share[levels <= 0.0] = 0.0
    share[levels >= 1.0] = 1.0
    return share


def _binomial_band(size: float, n_bins: int, level: float) -> tuple[float, float]:
    """Return where the density of one bin of uniform values lies with probability `level`, at least."""
    from scipy.stats import binom

    n = max(round(size), 1)
    tail = 0.5 - 0.5 * level
    return float(binom.ppf(tail, n, 1.0 / n_bins)) / n * n_bins, float(binom.isf(tail, n, 1.0 / n_bins)) / n * n_bins
