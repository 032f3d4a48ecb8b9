"""Conformal predictive distributions: levels that are uniform whatever the forecaster is worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias, cast, get_args

import numpy as np

from calibrant.document_field import DocumentField
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.level_maps import mean_ranks, sum_by, with_ends
from calibrant.forecasts.points import refuse
from calibrant.forecasts.recalibrated import DerivedForecast, base_quantiles, refine_quantiles
from calibrant.forecasts.recalibrators.base import Layer, Recalibrator, named, numbers_within_reach
from calibrant.forecasts.recalibrators.maps import OneMap
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import EPS, SMALLEST_CLIP, FloatArray
from calibrant.validation import ArrayLike, as_generator, check_choice

Conformity: TypeAlias = Literal["normalised", "residual", "level"]
CONFORMITIES: tuple[Conformity, ...] = get_args(Conformity)
#: A standard deviation of this share of the mean, or less, is the rounding of samples that are all equal.
_ROUNDING = 16.0 * EPS


@named("conformal")
@dataclass(eq=False, repr=False)
class ConformalRecalibrator(Recalibrator):
    """Replace forecasts by split conformal predictive distributions of their residuals.

    Parameters
    ----------
    conformity : {"normalised", "residual", "level"}
        What is ranked: (y - mean) / std, y - mean, or P(Y <= y). "normalised" needs forecasts that all have a width,
        which an ensemble whose members agree has not, and both residuals a finite mean: `fit` and `transform` raise an
        InvalidInputError of others.

    Attributes
    ----------
    scores_ : ndarray
        What was ranked of the fitting rows, distinct values, rising.

    Notes
    -----
    If rows are exchangeable, the rank of a new row's score among those of n fitting rows is uniform on 1..n + 1, so
    that `randomised_pit` is exactly uniform for every n and every forecaster. `transform` gives the proper
    distribution between the two bounds of this system: it goes through i / (n + 1) at the i-th smallest score, in
    straight lines, so that P(level <= i / (n + 1)) = i / (n + 1) exactly where scores have no ties. The
    1 / (n + 1) beyond the outermost scores has the shape of the forecast before.

    Rows of weight 2 count as two. The law of the ranks holds for weights that don't depend on the outcomes.

    With `cluster`, clusters are taken to be exchangeable, and each counts as one row, shared evenly among its rows: the
    level of a row of a new cluster is then uniform (Lee, Barber and Willett). Rows in time are not exchangeable, and
    the law doesn't hold for them.

    References
    ----------
    Vovk, Shen, Manokhin and Xie (2019), *Nonparametric predictive distributions based on conformal prediction*,
    Machine Learning 108, definition 1. Vovk, Petej, Nouretdinov, Manokhin and Gammerman (2020), *Computationally
    efficient versions of conformal predictive distributions*, Neurocomputing 397, section 4. Lee, Barber and Willett
    (2023), *Distribution-free inference with hierarchical data*, section 3.

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

    unsaved = ("conformity",)

    conformity: Conformity = "normalised"
    scores_: FloatArray = field(init=False)

    def _check_settings(self) -> None:
        check_choice("conformity", self.conformity, CONFORMITIES)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        scores = _conformity_scores(rows.forecast, rows.y, self.conformity)
        weight, cluster = rows.weights, rows.dependence.cluster
        if cluster is not None:
            weight = weight / np.bincount(cluster, weights=weight)[cluster]
        at, levels = mean_ranks(scores, weight, 1.0)
        mass = sum_by(np.searchsorted(at, scores), weight)
        self.scores_ = at
        return (ConformalScores(self.conformity, at, levels, mass),)

    def describe(self) -> list[str]:
        return [{"normalised": "normalised residuals", "residual": "residuals", "level": "levels"}[self.conformity]]

    def restore(self, body: DocumentField) -> None:
        super().restore(body)
        only = self._only_layer(ConformalScores, body)
        self.conformity, self.scores_ = only.conformity, only.at

    def bounds(self, forecast: Forecast, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the least and the greatest level that the conformal system gives each outcome, shape (n,) each."""
        self.check_fitted()
        rows, fitted = read_outcomes(forecast, y).as_joined(), cast("ConformalScores", self.layers_[0])
        scores = _conformity_scores(rows.forecast, rows.y, self.conformity)
        below = np.concatenate(([0.0], np.cumsum(fitted.mass)))
        total = below[-1] + 1.0
        low = below[np.searchsorted(fitted.at, scores, side="left")]
        high = below[np.searchsorted(fitted.at, scores, side="right")]
        return low / total, (high + 1.0) / total

    def randomised_pit(
        self, forecast: Forecast, y: ArrayLike, *, rng: int | np.random.Generator | None = None
    ) -> FloatArray:
        """Return a level between the two bounds of each outcome, drawn at random: exactly uniform."""
        low, high = self.bounds(forecast, y)
        return low + as_generator(rng).random(low.size) * (high - low)


@named("conformal_scores")
@dataclass(frozen=True, slots=True)
class ConformalScores(Layer):
    """Distinct scores `at`, the level that each gets, and the weight of its rows."""

    conformity: Conformity
    at: FloatArray
    levels: FloatArray
    mass: FloatArray

    def apply(self, forecast: Forecast) -> Forecast:
        if self.conformity == "level":
            inside = (self.at > 0.0) & (self.at < 1.0)
            return OneMap(*with_ends(self.at[inside], self.levels[inside])).apply(forecast)
        return ConformalForecast(forecast, *_centre_and_scale(forecast, self.conformity), self.at, self.levels)

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("conformity", "at", "levels", "mass"))
        conformity = fields["conformity"].choice(CONFORMITIES)
        at, levels, mass = fields["at"].rising(), fields["levels"].rising(), fields["mass"].numbers()
        for key, values in (("at", at), ("mass", mass)):
            numbers_within_reach(fields[key], values)
        for key, values in (("levels", levels), ("mass", mass)):
            if values.size != at.size:
                fields[key].refuse(f"does not go with {at.size} scores: one number for each is needed")
        if levels[0] <= 0.0 or levels[-1] >= 1.0:
            fields["levels"].refuse("has a level outside (0, 1)")
        if (mass <= 0.0).any():
            fields["mass"].refuse("holds a weight that is not above 0")
        return cls(conformity, at, levels, mass)


class ConformalForecast(DerivedForecast):
    """Distributions of `centre` + `scale` * score: straight between the scores, and beyond them a base's shape."""

    __slots__ = ("_at", "_centre", "_levels", "_outer", "_scale")
    _by_row = ("base", "_centre", "_outer", "_scale")

    def __init__(
        self, base: Forecast, centre: FloatArray, scale: FloatArray, at: FloatArray, levels: FloatArray
    ) -> None:
        super().__init__(base)
        self._centre, self._scale = centre, scale
        self._at, self._levels = at, levels
        low, high = (centre + scale * end for end in (at[0], at[-1]))
        outer = np.column_stack((base.cdf(low[:, None]), base.sf(high[:, None])))
        self._outer = np.where(outer > SMALLEST_CLIP, outer, 0.0)  # less has no shape that levels could follow

    def _shares(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return which share of each of the base's tails lies beyond y; none where the base has no such tail."""
        low, high = self._outer[:, :1], self._outer[:, 1:]
        below, above = self.base.cdf(y), self.base.sf(y)
        with np.errstate(over="ignore"):  # of a tail that is next to nothing
            left = np.divide(below, low, out=np.zeros_like(below), where=low > 0.0)
            right = np.divide(above, high, out=np.zeros_like(above), where=high > 0.0)
        return np.minimum(left, 1.0), np.minimum(right, 1.0)

    def _score(self, y: FloatArray) -> FloatArray:
        return (y - self._centre[:, None]) / self._scale[:, None]

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
        left = np.where(low > 0.0, np.minimum(base_quantiles(self.base, below, u), inner), inner)
        right = np.where(high > 0.0, np.maximum(base_quantiles(self.base, 1.0 - above, u), inner), inner)
        return refine_quantiles(self, np.where(u < first, left, np.where(u > last, right, inner)), u)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        score = self._score(y)
        is_left = score < self._at[0]
        mass = np.where(is_left, self._levels[0], 1.0 - self._levels[-1])
        with np.errstate(divide="ignore", invalid="ignore"):  # no density is right where the base has none
            tail = self.base.logpdf(y) + np.log(mass) - np.log(np.where(is_left, *np.hsplit(self._outer, 2)))
        tail = np.where(np.isfinite(tail), tail, -np.inf)
        if self._at.size < 2:
            return tail
        piece = np.clip(np.searchsorted(self._at, score, side="right") - 1, 0, self._at.size - 2)
        log_slope = np.log(np.diff(self._levels) / np.diff(self._at))
        inner = log_slope[piece] - np.log(self._scale)[:, None]
        return np.where(is_left | (score > self._at[-1]), tail, inner)


def _conformity_scores(forecast: Forecast, y: FloatArray, conformity: Conformity) -> FloatArray:
    if conformity == "level":
        return forecast.cdf(y)
    centre, scale = _centre_and_scale(forecast, conformity)
    return (y - centre) / scale


def _centre_and_scale(forecast: Forecast, conformity: Conformity) -> tuple[FloatArray, FloatArray]:
    """Return what is subtracted from outcomes and what this is divided by; refuse rows where either is no number."""
    centre = forecast.mean()
    problem, fix = "is not finite, so that no residual can be ranked", 'Use ConformalRecalibrator("level").'
    refuse(~np.isfinite(centre), centre, "mean of the forecast,", problem, fix)
    if conformity == "residual":
        return centre, np.ones(centre.size)
    scale = forecast.std()
    has_width = np.isfinite(scale) & (scale > _ROUNDING * np.abs(centre))
    problem = "is zero up to rounding, or not finite, so that no residual can be divided by it"
    fix = 'Use ConformalRecalibrator("residual"), or "level".'
    refuse(~has_width, scale, "standard deviation of the forecast,", problem, fix)
    return centre, scale
