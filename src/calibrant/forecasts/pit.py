"""The probability integral transform: its values, histogram and distribution, and tests of whether they are uniform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.dependence import t_quantile
from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import distance_of_sides
from calibrant.forecasts.decisions import ThresholdRule, as_rule
from calibrant.forecasts.noise import RandomSubsets
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import FloatArray, IntArray, normal_quantile
from calibrant.phrases import bracketed, count, percent_level
from calibrant.readable import Readable, columns_of
from calibrant.sketch import sketch_of_curve
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer

#: Levels at which the curve is read.
_LEVELS = np.linspace(0.0, 1.0, 101)
#: Draws of noise, and parts of [0, 1] on which it is followed, for the tests of rows that are not independent.
_TEST_DRAWS, _TEST_PARTS = 1_999, 128


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PitHistogram(Readable):
    """How often outcomes fell into each part of their forecasts.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
        Equal bins of [0, 1].
    density : ndarray of shape (m,)
        Share of the weight in each bin, times m: 1 everywhere if calibrated.
    low, high, low_all, high_all : float
        Where one bin of a calibrated forecast lies, at `level`, and where all bins together lie.
    level, n : float, int
        Coverage of these bands, and the number of rows.
    """

    edges: FloatArray
    density: FloatArray
    low: float
    high: float
    low_all: float
    high_all: float
    level: float
    n: int

    def _columns(self) -> dict[str, Sequence[Any]]:
        return columns_of({"pit_low": self.edges[:-1], "pit_high": self.edges[1:], "density": self.density})

    def _before(self) -> list[str]:
        each, at_once = (bracketed(*ends) for ends in ((self.low, self.high), (self.low_all, self.high_all)))
        calibrated = f"{percent_level(self.level)} of calibrated forecasts have one bin in {each}, all in {at_once}"
        return [f"PIT of {count(self.n, 'row')}: {calibrated}."]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LevelCurve(Readable):
    """How often outcomes fell at or below their forecasts' quantiles.

    Attributes
    ----------
    levels, share : ndarray of shape (m,)
        Levels of the quantiles, and the share of the weight at or below them: the same if the forecast is calibrated.
    low, high : ndarray of shape (m,)
        Where the share at each level would lie, at `level`, if the forecast were calibrated.
    error : float
        Area between the curve and the diagonal.
    n, level : int, float
        Number of rows, and the coverage of the band.
    label : str
        What the curve shows, for a legend.
    """

    levels: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    error: float
    n: int
    level: float
    label: str = ""

    def _picture(self) -> str:
        bars = zip(self.levels.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        words, axes = "Share of outcomes at or below each quantile", ("level", "share")
        x, y = self.levels.tolist(), self.share.tolist()
        return sketch_of_curve(x, y, x_range=(0.0, 1.0), words=words, axes=axes, bars=bars)


@dataclass(frozen=True, slots=True, repr=False)
class UniformityTest(Readable):
    """Tests of whether PIT values are uniform, as they are if the forecast is calibrated on average.

    Attributes
    ----------
    kolmogorov_smirnov, kolmogorov_smirnov_p_value : float
        Largest distance of the distribution of the values from uniform.
    cramer_von_mises, cramer_von_mises_p_value : float
        The squared distance, integrated, times the number of rows.
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
    forecast, y
        See `crps`.
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
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    n_bins: int = 20,
    level: float = 0.95,
) -> PitHistogram:
    """Count outcomes by where they fell in their forecasts.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    cluster, time, label_end
        As for `evaluate`.
    n_bins : int
        Number of equal bins, at least 2.
    level : float
        Coverage of the bands.

    Notes
    -----
    An outcome on an atom is spread over the levels between P(Y < y) and P(Y <= y) in equal parts, so that nothing is
    drawn at random. The bands are binomial with Kish's effective number of rows, divided by the largest design effect
    on a bin where rows are not independent; the wider one is Bonferroni's, for all bins at once.
    """
    n_bins, level = check_integer("n_bins", n_bins, minimum=2), check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    return histogram_of(rows, n_bins, level)


def histogram_of(rows: Outcomes, n_bins: int, level: float) -> PitHistogram:
    """Return what `pit_histogram` does of checked rows."""
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    density = np.diff(_share_up_to(edges, rows)) * n_bins
    one, every = (
        [float(end) * n_bins for end in _binomial_band(_sizes(rows, n_bins, each, False).min(), 1.0 / n_bins, each)]
        for each in (level, 1.0 - (1.0 - level) / n_bins)
    )
    return PitHistogram(edges, density, one[0], one[1], every[0], every[1], level, len(rows))


def level_curve(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    label: str = "",
) -> LevelCurve:
    """Measure how often outcomes fall below the quantiles of their forecasts.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    cluster, time, label_end
        As for `evaluate`: the band then goes by the effective number of rows at each level.
    level : float
        Coverage of the band of forecasts that are calibrated, at each level by itself.
    label : str
        As in `LevelCurve`.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, level_curve
    >>> curve = level_curve(GaussianForecast([0.0, 0.0], 1.0), [-1.0, 0.5])
    >>> float(curve.share[50])
    0.5
    """
    level = check_fraction("level", level)
    return curve_of(
        read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end), level, label
    )


def threshold_curves(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[LevelCurve, LevelCurve]:
    """Measure the curves of the rows on both sides of a threshold rule: yes, and no; see `level_curve`.

    Their `error` adds up to the threshold calibration error of the rule. Both sides must have rows.
    """
    rule, level = as_rule(decision), check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    yes = rule.decide(rows.forecast)
    if yes.all() or not yes.any():
        raise InvalidInputError(
            f"decision={rule!r} says {'yes' if yes.all() else 'no'} in all {yes.size:,} rows. Pass a rule with rows on "
            "both sides."
        )
    names = [f"P(Y ≤ {rule.y0:g}) {sign} {rule.alpha:g}" for sign in ("≤", ">")]
    names = names[::-1] if rule.is_above else names
    return curve_of(rows.take(yes), level, names[0]), curve_of(rows.take(~yes), level, names[1])


def curve_of(rows: Outcomes, level: float, label: str) -> LevelCurve:
    """Return what `level_curve` does of checked rows."""
    share = _share_up_to(_LEVELS, rows)
    sizes = _sizes(rows, _LEVELS.size - 1, level, True)
    low, high = _binomial_band(np.concatenate((sizes[:1], sizes)), _LEVELS, level)
    low[[0, -1]] = high[[0, -1]] = [0.0, 1.0]
    return LevelCurve(_LEVELS, share, low, high, distance_of_sides(rows), len(rows), level, label)


def pit_test(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
) -> UniformityTest:
    """Test whether the PIT values are uniform: Kolmogorov-Smirnov and Cramer-von Mises.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`; the tests take Kish's effective number of rows.
    cluster, time, label_end
        As for `evaluate`.
    rng : int, Generator or None
        For outcomes on atoms, see `pit`, and for the p-values of rows that are not independent.

    Notes
    -----
    The p-values are SciPy's: exact for Kolmogorov-Smirnov, asymptotic with a correction for few rows for Cramer-von
    Mises (Csorgo and Faraway 1996). Where rows are not independent, they are the share of 1,999 draws of the noise in
    the distribution of the values, by cluster or block of time, that lie as far from 0. A large
    sample rejects departures that don't matter: read `average_calibration_error` beside it.
    """
    from scipy.stats import kstwo

    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    generator = as_generator(rng)
    values = _drawn(*rows.pit_ends(), generator)
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
    if rows.dependence:
        noise = _noise_of_shares(rows, generator)
        chances = [
            (1.0 + np.count_nonzero(drawn >= found)) / (1.0 + len(noise))
            for drawn, found in ((np.abs(noise).max(axis=1), largest), (np.mean(noise**2, axis=1), squared))
        ]
        return UniformityTest(largest, float(chances[0]), statistic, float(chances[1]), len(rows))
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


def _share_up_to(levels: FloatArray, rows: Outcomes) -> FloatArray:
    """Return the share of the weight with a PIT up to each of some rising levels; of an atom, the part below."""
    low, high = rows.pit_ends()
    weight = rows.weights
    is_point = high <= low
    order = np.argsort(high[is_point])
    up_to = np.concatenate(([0.0], np.cumsum(weight[is_point][order])))
    share: FloatArray = up_to[np.searchsorted(high[is_point][order], levels, side="right")]
    if not is_point.all():
        a, b, w = low[~is_point], high[~is_point], weight[~is_point]
        share = share + np.array([float(np.sum(w * np.clip((c - a) / (b - a), 0.0, 1.0))) for c in levels])
    share = share / weight.sum()
    share[levels <= 0.0] = 0.0
    share[levels >= 1.0] = 1.0
    return share


def _place(rows: Outcomes, n: int) -> IntArray:
    """Return which of n equal parts of [0, 1] each outcome's level is in."""
    return np.clip(np.ceil(rows.levels() * n).astype(np.int64) - 1, 0, n - 1)


def _noise_of_shares(rows: Outcomes, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the shares up to the ends of equal parts of [0, 1], shape (draws, parts)."""
    subsets = RandomSubsets(rows, rng, n_draws=_TEST_DRAWS)
    influences = subsets.influences(_place(rows, _TEST_PARTS), _TEST_PARTS)
    return subsets.noise(influences.cumsum(axis=1))


def _sizes(rows: Outcomes, n: int, level: float, cumulative: bool) -> FloatArray:
    """Return the effective number of rows for the share in each of n equal parts of [0, 1], or up to its end.

    Of dependent rows: Kish's, divided by the design effect and by the square of how much longer t is than normal.
    """
    size = np.full(n, rows.effective_size)
    if not rows.dependence:
        return size
    subsets = RandomSubsets(rows, np.random.default_rng(0))
    place = _place(rows, n)
    influences, share = subsets.influences(place, n), np.bincount(place, weights=rows.weights, minlength=n)
    share = share / share.sum()
    if cumulative:
        influences, share = influences.cumsum(axis=1), share.cumsum()
    stretch = (t_quantile(max(subsets.n - 1, 1), level) / normal_quantile(level)) ** 2
    alone = np.maximum(share * (1.0 - share), 0.0) / size
    effect = np.divide(subsets.variance(influences), alone, out=np.ones(n), where=alone > 0.0)
    return np.asarray(size / np.maximum(stretch * effect, 1.0))


def _binomial_band(size: FloatArray | float, rate: FloatArray | float, level: float) -> tuple[FloatArray, FloatArray]:
    """Return between which shares of the rows an event of such a rate happens with probability `level`, at least."""
    from scipy.stats import binom

    n, tail = np.maximum(np.round(size), 1), 0.5 - 0.5 * level
    low, high = binom.ppf(tail, n, rate), binom.isf(tail, n, rate)
    return np.asarray(low / n), np.asarray(high / n)
