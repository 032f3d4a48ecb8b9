"""Conformal predictive distributions: levels that are uniform whatever the forecaster is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import Outcomes, as_forecast, as_numbers
from calibrant.forecasts.recalibrated import RowNumbers, base_quantiles
from calibrant.forecasts.recalibrators.base import Recalibrator
from calibrant.forecasts.recalibrators.layers import Layer, OneMap
from calibrant.forecasts.recalibrators.level_maps import mean_ranks, sum_groups
from calibrant.forecasts.settling import settled
from calibrant.numerics import SMALLEST_CLIP, FloatArray
from calibrant.validation import ArrayLike, as_generator, check_choice, check_same_length

Conformity: TypeAlias = Literal["normalised", "residual", "level"]
CONFORMITIES: tuple[Conformity, ...] = get_args(Conformity)


class ConformalRecalibrator(Recalibrator):
    """Replace forecasts by split conformal predictive distributions of their residuals.

    Parameters
    ----------
    conformity : {"normalised", "residual", "level"}
        What is ranked: (y - mean) / std, y - mean, or P(Y <= y).

    Attributes
    ----------
    scores_ : ndarray
        What was ranked of the fitting rows, distinct values, rising.
    layers_, n_rows_
        See `Recalibrator`.

    Notes
    -----
    If rows are exchangeable, the rank of a new row's score among those of n fitting rows is uniform on 1..n + 1, so
    that `randomised_pit` is exactly uniform for every n and every forecaster. `transform` gives the proper
    distribution between the two bounds of this system: it goes through i / (n + 1) at the i-th smallest score, in
    straight lines, so that P(level <= i / (n + 1)) = i / (n + 1) exactly where scores have no ties. The
    1 / (n + 1) beyond the outermost scores has the shape of the forecast before.

    Rows of weight 2 count as two. The law of the ranks holds for weights that don't depend on the outcomes.

    References
    ----------
    Vovk, Shen, Manokhin and Xie (2019), *Nonparametric predictive distributions based on conformal prediction*,
    Machine Learning 108, definition 1. Vovk, Petej, Nouretdinov, Manokhin and Gammerman (2020), *Computationally
    efficient versions of conformal predictive distributions*, Neurocomputing 397, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import ConformalRecalibrator, GaussianForecast
    >>> y = np.random.default_rng(0).exponential(size=999)
    >>> recalibrator = ConformalRecalibrator().fit(GaussianForecast(np.zeros(999), 1.0), y)
    >>> new = recalibrator.transform(GaussianForecast([0.0], 1.0))
    >>> bool(np.isclose(new.ppf(0.9)[0], np.sort(y)[899]))
    True
    """

    scores_: FloatArray

    def __init__(self, conformity: Conformity = "normalised") -> None:
        self.conformity = conformity

    def _check_settings(self) -> None:
        check_choice("conformity", self.conformity, CONFORMITIES)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        scores = conformity_scores(rows.forecast, rows.y, self.conformity)
        at, levels = mean_ranks(scores, rows.weights, 1.0)
        mass = sum_groups(np.searchsorted(at, scores), rows.weights)
        self.scores_ = at
        return (ConformalScores(self.conformity, at, levels, mass),)

    def bounds(self, forecast: Forecast, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest level that the conformal system gives each outcome, shape (n,) each."""
        self._check_fitted()
        forecast = as_forecast(forecast)
        values = as_numbers(y, name="y")
        check_same_length(len(forecast), values.size, "forecast", "y")
        layer = self.layers_[0]
        assert isinstance(layer, ConformalScores)  # noqa: S101 - for the type checker: `_fit` makes no other
        scores = conformity_scores(forecast, values, layer.conformity)
        below = np.concatenate(([0.0], np.cumsum(layer.mass)))
        total = below[-1] + 1.0
        low = below[np.searchsorted(layer.at, scores, side="left")]
        high = below[np.searchsorted(layer.at, scores, side="right")]
        return low / total, (high + 1.0) / total

    def randomised_pit(
        self, forecast: Forecast, y: ArrayLike, *, rng: int | np.random.Generator | None = None
    ) -> FloatArray:
        """Return a level between the two bounds of each outcome, drawn at random: exactly uniform."""
        low, high = self.bounds(forecast, y)
        return low + as_generator(rng).random(low.size) * (high - low)


@dataclass(frozen=True, slots=True)
class ConformalScores(Layer):
    """Distinct scores `at`, the level that each gets, and the weight of its rows."""

    conformity: Conformity
    at: FloatArray
    levels: FloatArray
    mass: FloatArray

    def apply(self, forecast: Forecast) -> Forecast:
        """Return the distribution of what has such scores."""
        if self.conformity == "level":
            inside = (self.at > 0.0) & (self.at < 1.0)
            x, y = (np.concatenate(([0.0], a[inside], [1.0])) for a in (self.at, self.levels))
            return OneMap(x, y).apply(forecast)
        return ConformalForecast(forecast, *_centre_and_scale(forecast, self.conformity), self.at, self.levels)


class ConformalForecast(Forecast):
    """Distributions of `centre` + `scale` * score: straight between the scores, and beyond them a base's shape."""

    __slots__ = ("_at", "_base", "_centre", "_levels", "_outer", "_scale")

    def __init__(
        self, base: Forecast, centre: FloatArray, scale: FloatArray, at: FloatArray, levels: FloatArray
    ) -> None:
        self._base = base
        self._centre, self._scale = centre, scale
        self._at, self._levels = at, levels
        low, high = (centre + scale * end for end in (at[0], at[-1]))
        outer = np.column_stack((base._cdf(low[:, None]), base._sf(high[:, None])))
        self._outer = np.where(outer > SMALLEST_CLIP, outer, 0.0)  # less has no shape that levels could follow

    @property
    def base(self) -> Forecast:
        """The forecast before."""
        return self._base

    @property
    def has_density(self) -> bool:
        """Whether the forecast before has a density: the tails are its own."""
        return self._base.has_density

    def __len__(self) -> int:
        return self._centre.size

    def _take(self, rows: RowNumbers) -> Self:
        taken = type(self).__new__(type(self))
        taken._base, taken._at, taken._levels = self._base._take(rows), self._at, self._levels
        taken._centre, taken._scale, taken._outer = self._centre[rows], self._scale[rows], self._outer[rows]
        return taken

    def _shares(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return which share of each of the base's tails lies beyond y; none where the base has no such tail."""
        low, high = self._outer[:, :1], self._outer[:, 1:]
        below, above = self._base._cdf(y), self._base._sf(y)
        with np.errstate(over="ignore"):  # of a tail that is next to nothing
            left = np.divide(below, low, out=np.zeros_like(below), where=low > 0.0)
            right = np.divide(above, high, out=np.zeros_like(above), where=high > 0.0)
        return np.minimum(left, 1.0), np.minimum(right, 1.0)

    def _score(self, y: FloatArray) -> FloatArray:
        score: FloatArray = (y - self._centre[:, None]) / self._scale[:, None]
        return score

    def _cdf(self, y: FloatArray) -> FloatArray:
        score = self._score(y)
        left, right = self._shares(y)
        first, last = self._levels[0], self._levels[-1]
        out = np.where(score > self._at[-1], 1.0 - (1.0 - last) * right, np.interp(score, self._at, self._levels))
        return np.where(score < self._at[0], first * left, out)

    def _ppf(self, u: FloatArray) -> FloatArray:
        u = np.broadcast_to(u, (len(self), u.shape[1]))
        low, high = self._outer[:, :1], self._outer[:, 1:]
        first, last = self._levels[0], self._levels[-1]
        inner = self._centre[:, None] + self._scale[:, None] * np.interp(u, self._levels, self._at)
        below = np.minimum(u / first, 1.0) * low
        above = np.minimum((1.0 - u) / (1.0 - last), 1.0) * high
        # A base without probability beyond the outer score has its tail on that score.
        left = np.where(low > 0.0, np.minimum(base_quantiles(self._base, below, u), inner), inner)
        right = np.where(high > 0.0, np.maximum(base_quantiles(self._base, 1.0 - above, u), inner), inner)
        return settled(self, np.where(u < first, left, np.where(u > last, right, inner)), u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        score = self._score(y)
        is_left = score < self._at[0]
        mass = np.where(is_left, self._levels[0], 1.0 - self._levels[-1])
        with np.errstate(divide="ignore", invalid="ignore"):  # no density is right where the base has none
            tail = self._base._logpdf(y) + np.log(mass) - np.log(np.where(is_left, *np.hsplit(self._outer, 2)))
        tail = np.where(np.isfinite(tail), tail, -np.inf)
        if self._at.size < 2:
            return tail
        piece = np.clip(np.searchsorted(self._at, score, side="right") - 1, 0, self._at.size - 2)
        log_slope = np.log(np.diff(self._levels) / np.diff(self._at))
        inner = log_slope[piece] - np.log(self._scale)[:, None]
        return np.where(is_left | (score > self._at[-1]), tail, inner)


def conformity_scores(forecast: Forecast, y: FloatArray, conformity: Conformity) -> FloatArray:
    """Return the score of each outcome."""
    if conformity == "level":
        return forecast._cdf(y[:, None])[:, 0]
    centre, scale = _centre_and_scale(forecast, conformity)
    return (y - centre) / scale


def _centre_and_scale(forecast: Forecast, conformity: Conformity) -> tuple[FloatArray, FloatArray]:
    centre = forecast.mean()
    return centre, forecast.std() if conformity == "normalised" else np.ones(centre.size)
