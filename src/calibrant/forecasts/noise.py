"""What measured gaps owe to chance: their values for a forecast that is right, and draws of the noise in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.dependence import t_quantile
from calibrant.errors import InvalidTypeError
from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.decisions import SCALE, ReliabilityGaps
from calibrant.forecasts.level_maps import sum_by
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import FloatArray, IntArray
from calibrant.readable import Readable
from calibrant.validation import ArrayLike, as_generator, as_weight, check_fraction, check_integer

#: Rows that noise floors are measured on: those of more rows are smaller by the root of the ratio.
_FLOOR_ROWS = 2_000
#: Random subsets that the rows are divided into: their sums show how much sums over rows vary.
_N_SUBSETS = 100
_DRAWS = 200
#: Of a distribution on [0, 1] from uniform: all levels are 0, or 1.
_GREATEST_DISTANCE = 0.5
#: Parts of [0, 1] on which the noise of a distribution of levels is followed.
_PARTS = 32


@dataclass(frozen=True, slots=True, repr=False)
class NoiseFloor(Readable):
    """What a metric would be if the forecast were right.

    Attributes
    ----------
    mean, n_draws : float, int
        Mean over so many draws of the outcomes from the forecast.
    low, high, level : float
        Where the share `level` of the draws lies.
    """

    mean: float
    low: float
    high: float
    level: float
    n_draws: int


@dataclass(frozen=True, slots=True)
class GapByChance:
    """What chance alone makes of a gap: its mean, and a limit that a forecast that is right seldom exceeds."""

    mean: float
    limit: float

    @classmethod
    def of_draws(cls, found: FloatArray, share: float) -> GapByChance:
        """Return both from gaps of outcomes drawn from the forecast; one more lies above with a chance of `share`.

        The logarithms of gaps are close to normal. Of one more draw they are then Student's t, which allows for draws
        being few.
        """
        reach = t_quantile(found.size - 1.0, 1.0 - 2.0 * share) * math.sqrt(1.0 + 1.0 / found.size)
        if (found > 0.0).all():
            logs = np.log(found)
            return cls(float(found.mean()), math.exp(float(logs.mean()) + reach * float(logs.std(ddof=1))))
        return cls(float(found.mean()), float(found.mean()) + reach * float(found.std(ddof=1)))

    def raised(self, effect: float, noise: FloatArray, share: float) -> GapByChance:
        """Return it for rows that are not independent, from the design effect on the gap and draws of its noise.

        Few units make for more large gaps than many rows do, so that the draws say how far the limit lies.
        """
        mean = self.mean * math.sqrt(effect)
        spread = float(np.quantile(noise, 1.0 - share)) / float(noise.mean())
        return GapByChance(mean, max(mean * spread, self.limit * math.sqrt(effect)))


def noise_floor(
    forecast: Forecast,
    metric: Callable[..., float],
    *,
    sample_weight: ArrayLike | None = None,
    n_draws: int = 50,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
) -> NoiseFloor:
    """Measure a metric on outcomes drawn from the forecast itself.

    Parameters
    ----------
    forecast, sample_weight
        See `crps`.
    metric : callable
        Takes a forecast, outcomes and ``sample_weight=``, and returns a number: any metric of this module, or a
        function such as ``lambda f, y, sample_weight: reliability_gaps(f, y, sample_weight=sample_weight).mean``.
    n_draws : int
        Number of sets of outcomes.
    level : float
        Share of the draws between `low` and `high`.
    rng : int, Generator or None
        Of the draws.

    Notes
    -----
    Outcomes are drawn one by one, so that the floor is that of independent rows. `evaluate` and `evaluate_rule` raise
    theirs where rows are not.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, average_calibration_error, noise_floor
    >>> floor = noise_floor(GaussianForecast(np.zeros(1000), 1.0), average_calibration_error)
    >>> round(floor.mean, 3)
    0.01
    """
    forecast = as_forecast(forecast)
    n_draws, level = check_integer("n_draws", n_draws, minimum=2), check_fraction("level", level)
    if not callable(metric):
        raise InvalidTypeError(f"metric={metric!r:.60} can't be called. Pass a function of a forecast and outcomes.")
    weight = as_weight(sample_weight, len(forecast), rows="the forecast")
    generator = as_generator(rng)
    found = [metric(forecast, forecast.sample(1, generator)[:, 0], sample_weight=weight) for _ in range(n_draws)]
    low, high = np.quantile(found, [0.5 - 0.5 * level, 0.5 + 0.5 * level]).tolist()
    return NoiseFloor(float(np.mean(found)), low, high, level, len(found))


def floor_rows(rows: Outcomes, rng: np.random.Generator) -> Outcomes:
    """Return the rows that the noise floors of a sample go by: some of many, as if they were independent."""
    return rows.as_independent().take(np.sort(rng.choice(len(rows), min(len(rows), _FLOOR_ROWS), replace=False)))


class RandomSubsets:
    """Random subsets of the rows, and draws of how sums over the rows would vary over new rows.

    Clusters and blocks of time stay whole. The draws are then of a multivariate t distribution, as few subsets tell
    little of how they vary, and allow for what is lost at the ends of blocks.
    """

    def __init__(self, rows: Outcomes, rng: np.random.Generator, *, n_draws: int = _DRAWS) -> None:
        units = rows.units()
        n = len(rows) if units is None else units.n
        self.n = min(n, _N_SUBSETS)
        subset: IntArray = rng.permutation(np.arange(n, dtype=np.int64) % self.n)
        self._subset = subset if units is None else subset[units.code]
        self._weight = rows.weights / rows.weights.sum()
        drawn = rng.standard_normal((n_draws, self.n))
        self._spread = math.sqrt(self.n / max(self.n - 1, 1) / (1.0 if units is None else 1.0 - units.lost))
        self._draws: FloatArray = (drawn - drawn.mean(axis=1, keepdims=True)) * self._spread
        if units is not None:
            degrees = max(self.n - 1, 1)
            self._draws *= np.sqrt(degrees / rng.chisquare(degrees, (n_draws, 1)))

    def sums(self, place: IntArray, n_places: int, values: FloatArray) -> FloatArray:
        """Return the sum of the values of each subset at each place, shape (subsets, places)."""
        at = self._subset * n_places + place
        return sum_by(at, values, self.n * n_places).reshape(self.n, n_places)

    def stretch(self, mass: FloatArray) -> FloatArray:
        """Return by how much noise is larger among rows of few subsets, whose masses are of shape (subsets, places).

        Of k subsets, deviations from a mean are too small by the root of (k - 1) / k; k is Kish's effective number.
        """
        total = mass.sum(axis=0)
        squares = np.sum(mass**2, axis=0)
        k = np.divide(total**2, squares, out=np.full(total.size, 2.0), where=squares > 0.0)
        few = np.where(k > 1.0 + 1.0 / self.n, k / np.maximum(k - 1.0, 1.0 / self.n), 1.0)
        return np.asarray(np.sqrt(few * (1.0 - 1.0 / max(self.n, 2))))

    def noise(self, sums: FloatArray) -> FloatArray:
        """Return draws of the noise in totals: of sums of shape (subsets, ...) draws of shape (draws, ...)."""
        drawn = np.einsum("dg,gm->dm", self._draws, sums.reshape(self.n, -1))
        return np.asarray(drawn).reshape(-1, *sums.shape[1:])

    def influences(self, place: IntArray, n_places: int, values: FloatArray | None = None) -> FloatArray:
        """Return what subsets add to the weighted mean of the values, 1 by default, at each place: they sum to 0."""
        weight = self._weight if values is None else self._weight * values
        sums = self.sums(place, n_places, weight)
        mass = np.bincount(self._subset, weights=self._weight, minlength=self.n)
        return np.asarray(sums - mass[:, None] * sums.sum(axis=0))

    def variance(self, influences: FloatArray) -> FloatArray:
        """Return the variance of means from the subsets' influences, shape (places,)."""
        return np.asarray(self._spread**2 * np.sum(influences**2, axis=0))


def level_noise(rows: Outcomes, firsts: list[IntArray], n_cuts: int, rng: np.random.Generator) -> list[FloatArray]:
    """Draw the noise of distributions of PIT values, in total variation of area, for several families of cuts.

    For each family, in which `first` is the first cut with a row on its first side, return the noise of
    int |F(c) - c| dc of the rows on both sides of each cut, shape (draws, n_cuts, 2); of all rows, shape
    (draws, 1, 1), where there is no cut.
    """
    part = _parts(rows)
    weight = rows.weights / rows.weights.sum()
    subsets = RandomSubsets(rows, rng)
    found = []
    for first in firsts:
        sums = subsets.sums(first * _PARTS + part, (n_cuts + 1) * _PARTS, weight).reshape(-1, n_cuts + 1, _PARTS)
        before = sums.cumsum(axis=1)
        noise = subsets.noise(before.cumsum(axis=2))
        sides = [(noise, before)]
        if n_cuts:
            after = np.flip(np.flip(sums, 1).cumsum(axis=1), 1)[:, 1:]
            sides = [(noise[:, :-1], before[:, :-1]), (noise[:, -1:] - noise[:, :-1], after)]
        areas = [_area(drawn, side.sum(axis=0)) * subsets.stretch(side.sum(axis=2)) for drawn, side in sides]
        found.append(np.stack(areas, axis=2))
    return found


def noise_in_bins(rows: Outcomes, bins: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the distance from uniform in each bin of rows, mean over the rows, shape (draws,)."""
    weight, n_bins = rows.weights / rows.weights.sum(), int(bins.max()) + 1
    subsets = RandomSubsets(rows, rng)
    sums = subsets.sums(bins * _PARTS + _parts(rows), n_bins * _PARTS, weight).reshape(-1, n_bins, _PARTS)
    share, mass = sums.sum(axis=0), sums.sum(axis=2)
    area = _area(subsets.noise(sums.cumsum(axis=2)), share) * subsets.stretch(mass)
    area[:, np.count_nonzero(mass, axis=0) == 1] = _GREATEST_DISTANCE  # one subset shows no noise: it may be all
    return np.asarray(area @ share.sum(axis=1))


def _parts(rows: Outcomes) -> IntArray:
    """Return the part of [0, 1] that each outcome's level is in."""
    _, high = rows.pit_ends()
    return np.minimum((high * _PARTS).astype(np.int64), _PARTS - 1)


def _area(noise: FloatArray, share: FloatArray) -> FloatArray:
    """Return int |noise of F| dc, shape (draws, cuts), of noise up to each part (draws, cuts, parts).

    `share`, shape (cuts, parts), is that of the rows in each part alone.
    """
    mass = share.sum(axis=1)
    safe = np.where(mass > 0.0, mass, 1.0)
    height = share.cumsum(axis=1) / safe[:, None]
    moved = noise - height * noise[:, :, -1:]
    return np.asarray(np.abs(moved, out=moved).mean(axis=2) / safe)


def gap_noise(rows: Outcomes, gaps: ReliabilityGaps, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw the noise of reliability gaps over a family: its mean and its maximum in each draw, shape (draws,) each."""
    subsets = RandomSubsets(rows, rng)
    mean, largest = np.zeros(_DRAWS), np.zeros(_DRAWS)
    for threshold, levels in zip(gaps.y0, rows.levels_at(gaps.y0), strict=True):
        first = np.searchsorted(gaps.alpha, levels).astype(np.int64)
        excess = subsets.influences(first, gaps.alpha.size + 1, levels - (rows.y <= threshold))
        up_to = subsets.noise(excess.cumsum(axis=1))
        means, maxima = _sizes_over_costs(up_to[:, :-1], up_to[:, -1:], gaps.cost)
        mean += SCALE * means.mean(axis=1) / gaps.y0.size
        np.maximum(largest, SCALE * maxima.max(axis=1), out=largest)
    return mean, largest


def _sizes_over_costs(a: FloatArray, b: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the maximum of |a - c b| over costs c: the sign changes at c = a / b."""
    rising, n = np.sort(cost), cost.size
    sums = np.concatenate(([0.0], np.cumsum(rising)))
    with np.errstate(divide="ignore", invalid="ignore"):
        below = np.searchsorted(rising, a / b)
    mean = np.abs(a * (2 * below - n) - b * (2.0 * sums[below] - sums[-1])) / n
    return mean, np.maximum(np.abs(a - rising[0] * b), np.abs(a - rising[-1] * b))
