"""The kinds of forecast: normal distributions, quantiles or a CDF joined by straight lines, and samples."""

from __future__ import annotations

import copy
import math
from typing import Literal, Self, TypeAlias, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant import kernels
from calibrant.errors import DataWarning, InvalidProbabilityError, InvalidWeightError, ShapeError, warn
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import (
    as_numbers,
    as_rising_levels,
    central_levels,
    check_rising,
    frozen,
    is_number,
    refuse,
    within_reach,
)
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_probabilities, as_scores, check_choice, check_number, check_same_length

Tails: TypeAlias = Literal["exponential", "atoms"]
TAILS: tuple[str, ...] = get_args(Tails)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_PI = math.sqrt(math.pi)


class GaussianForecast(Forecast):
    """Normal distributions with a mean and a standard deviation per row.

    Parameters
    ----------
    mean : array-like of shape (n,)
    std : float or array-like of shape (n,)
        Standard deviations, above zero; a number stands for all rows.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast
    >>> forecast = GaussianForecast([0.0, 1.0], [1.0, 2.0])
    >>> forecast
    GaussianForecast of 2 rows
    >>> forecast.cdf([0.0, 1.0])
    array([0.5, 0.5])
    >>> forecast.cdf([[0.0, 1.0, 2.0]]).shape
    (2, 3)
    """

    __slots__ = _by_row = ("_mean", "_std")

    def __init__(self, mean: ArrayLike, std: ArrayLike) -> None:
        self._mean = frozen(as_numbers(mean, name="mean"))
        if is_number(std):
            self._std = frozen(np.full(self._mean.size, check_number("std", std)))
        else:
            self._std = frozen(as_numbers(std, name="std"))
            check_same_length(self._mean.size, self._std.size, "mean", "std")
        fix = "Pass standard deviations; where a model gives none, use SampleForecast or QuantileForecast."
        refuse(self._std <= 0.0, self._std, "std", "is not above zero", fix)

    def _z(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # infinitely many standard deviations away is right
            return np.asarray((y - self._mean[:, None]) / self._std[:, None])

    def _cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(self._z(y)))

    def _sf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr(-self._z(y)))

    def _ppf(self, u: FloatArray) -> FloatArray:
        return np.asarray(self._mean[:, None] + self._std[:, None] * ndtri(u))

    def _logpdf(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(-0.5 * self._z(y) ** 2 - _LOG_ROOT_TWO_PI - np.log(self._std)[:, None])

    def _crps(self, y: FloatArray) -> FloatArray:
        z = self._z(y[:, None])[:, 0]
        density = np.exp(self._logpdf(y[:, None])[:, 0] + np.log(self._std))
        score: FloatArray = (y - self._mean) * (2.0 * ndtr(z) - 1.0) + self._std * (2.0 * density - 1.0 / _ROOT_PI)
        return np.maximum(score, 0.0)

    def mean(self) -> FloatArray:
        return self._mean

    def std(self) -> FloatArray:
        return self._std


class PiecewiseForecast(Forecast):
    """Distributions whose CDFs are straight lines between knots.

    `y` and `levels` have shape (n, K), or (1, K) where all rows share them; at least one has n rows. Probability
    below the first knot and above the last is an exponential tail whose density goes on from the nearest piece of
    positive width, or sits on that knot itself where `tails` is "atoms" or no piece has a width.
    """

    __slots__ = _by_row = ("_levels", "_scales", "_y")

    def __init__(self, y: FloatArray, levels: FloatArray, tails: Tails) -> None:
        self._y, self._levels = frozen(y), frozen(levels)
        n = max(len(y), len(levels))
        scales = np.zeros((n, 2))
        if tails == "exponential":
            scales[:, 0] = _scale_beside(self._y, self._levels)
            scales[:, 1] = _scale_beside(-self._y[:, ::-1], 1.0 - self._levels[:, ::-1])
        self._scales = frozen(scales)

    def pieces(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return knots and levels of each row, shape (n, K), and the scales of both tails, shape (n, 2)."""
        shape = len(self), self._y.shape[1]
        return np.broadcast_to(self._y, shape), np.broadcast_to(self._levels, shape), self._scales

    def _cdf(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_cdf(y, self._y, self._levels, self._scales, False)

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_cdf(y, self._y, self._levels, self._scales, True)

    def _ppf(self, u: FloatArray) -> FloatArray:
        return kernels.piecewise_quantiles(u, self._y, self._levels, self._scales)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        density = kernels.piecewise_density(y, self._y, self._levels, self._scales)
        with np.errstate(divide="ignore"):  # no density is right between knots of one level
            return np.asarray(np.log(density))

    def _crps(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_crps(y, self._y, self._levels, self._scales)

    def mean(self) -> FloatArray:
        origin = self._y[:, :1]
        y, mass = self._y - origin, np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        inner: FloatArray = np.sum(mass * (y[:, :-1] + y[:, 1:]), axis=1) * 0.5
        tails: FloatArray = last * (y[:, -1] + self._scales[:, 1]) - first * self._scales[:, 0]
        return origin[:, 0] + inner + tails

    def std(self) -> FloatArray:
        y, mass = self._y - self.mean()[:, None], np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        (left, right), a, b = self._scales.T, y[:, :-1], y[:, 1:]
        inner: FloatArray = np.sum(mass * (a * a + a * b + b * b), axis=1) / 3.0
        tails = first * ((y[:, 0] - left) ** 2 + left**2) + last * ((y[:, -1] + right) ** 2 + right**2)
        return np.asarray(np.sqrt(inner + tails))


class QuantileForecast(PiecewiseForecast):
    """Distributions given by their quantiles at some levels, joined by straight lines.

    Parameters
    ----------
    levels : array-like of shape (m,)
        Levels of the quantiles in [0, 1], rising; at least two.
    values : array-like of shape (n, m)
        Quantiles of each row. Values that cross are sorted, and a `DataWarning` says in how many rows.
    tails : {"exponential", "atoms"}
        What lies beyond the outer quantiles: exponential tails that hold the missing probability, with the density of
        the nearest piece at the outer quantile; or nothing, the missing probability sitting on the outer quantiles.

    Notes
    -----
    Equal quantiles of one row are an atom there: its CDF jumps and its density is infinite. Sorting quantiles that
    cross never makes them worse (Chernozhukov, Fernandez-Val and Galichon, 2010, *Quantile and probability curves
    without crossing*, Econometrica 78).

    Examples
    --------
    >>> from calibrant.forecasts import QuantileForecast
    >>> forecast = QuantileForecast([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]])
    >>> forecast.cdf([1.0])
    array([0.7])
    >>> forecast.ppf([[0.1, 0.3]])
    array([[-1. , -0.5]])
    """

    __slots__ = ()

    def __init__(self, levels: ArrayLike, values: ArrayLike, *, tails: Tails = "exponential") -> None:
        check_choice("tails", tails, TAILS)
        heights = as_rising_levels(levels, name="levels", more=", and the columns of values likewise")
        quantiles = as_numbers(values, name="values", ndim=2)
        if quantiles.shape[1] != heights.size:
            raise ShapeError(f"values has {quantiles.shape[1]} columns for {heights.size} levels. Pass one per level.")
        crossed = (np.diff(quantiles, axis=1) < 0.0).any(axis=1)
        if crossed.any():
            warn(
                f"values: the quantiles of {crossed.sum():,} of {crossed.size:,} rows cross, first in row "
                f"{int(crossed.argmax())}; they were sorted.",
                DataWarning,
            )
            quantiles = np.sort(quantiles, axis=1)
        super().__init__(quantiles, heights[None, :], tails)

    @property
    def given_levels(self) -> FloatArray | None:
        """The levels of the quantiles, shape (m,); None where each row has its own."""
        return self._levels[0] if len(self._levels) == 1 else None

    def known_levels(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return between which of the given levels each number lies, shape (n,) each: all that quantiles say of it.

        They are 0 and 1 beyond the outermost quantiles; of a number that is a quantile, the upper one is its level.
        """
        below = (self._y < y[:, None]).sum(axis=1)
        up_to = (self._y <= y[:, None]).sum(axis=1)
        levels = np.concatenate(([0.0], self._levels[0], [1.0]))
        return levels[below], levels[np.maximum(up_to, below + 1)]

    def around_atoms(self, y: FloatArray, otherwise: float) -> tuple[FloatArray, FloatArray]:
        """Return, where several quantiles equal a number of y, the levels next below and above theirs.

        Elsewhere both are `otherwise`; shape (n,) each. Such a number may be an atom: it holds at most what lies
        between the two levels.
        """
        below, up_to = (self._y < y[:, None]).sum(axis=1), (self._y <= y[:, None]).sum(axis=1)
        levels = np.concatenate(([0.0], self._levels[0], [1.0]))
        is_atom = up_to - below > 1
        return np.where(is_atom, levels[below], otherwise), np.where(is_atom, levels[up_to + 1], otherwise)

    @property
    def central_levels(self) -> list[float]:
        """The levels of the central intervals that two of the quantiles are the ends of, the widest first."""
        return central_levels(self._levels[0])


class GridForecast(PiecewiseForecast):
    """Distributions given by their CDF at points, joined by straight lines.

    Parameters
    ----------
    y : array-like of shape (m,) or (n, m)
        Points in rising order, of all rows or of each. A point given twice is an atom: the CDF jumps there from its
        first value to its second.
    cdf : array-like of shape (n, m)
        P(Y <= y) of each row, rising or staying.
    tails : {"exponential", "atoms"}
        What lies beyond the grid where the CDF begins above 0 or ends below 1: exponential tails with the density of
        the nearest piece, or nothing, the missing probability sitting on the outer points.

    Examples
    --------
    >>> from calibrant.forecasts import GridForecast
    >>> forecast = GridForecast([0.0, 1.0, 3.0], [[0.0, 0.5, 1.0], [0.0, 0.2, 1.0]])
    >>> forecast.mean()
    array([1.25, 1.7 ])
    >>> forecast.cdf(2.0)
    array([0.75, 0.6 ])
    """

    __slots__ = ()

    def __init__(self, y: ArrayLike, cdf: ArrayLike, *, tails: Tails = "exponential") -> None:
        check_choice("tails", tails, TAILS)
        levels = as_numbers(as_probabilities(cdf, name="cdf", sum_to_one=False).values, name="cdf", ndim=2)
        check_rising(levels, name="cdf", fix="Pass a CDF; numpy.maximum.accumulate(cdf, axis=1) mends rounding.")
        points = within_reach(as_scores(y, name="y").values, "y")
        points = points[None, :] if points.ndim == 1 else points
        if points.shape[0] not in (1, levels.shape[0]) or points.shape[1] != levels.shape[1]:
            raise ShapeError(
                f"y has shape {np.shape(y)} and cdf {levels.shape}. Pass points of shape ({levels.shape[1]},), or of "
                f"shape {levels.shape}."
            )
        check_rising(points, name="y", fix="Sort the points, and the columns of cdf with them.")
        is_flat, is_point = (table[:, 0] == table[:, -1] for table in (levels, points))
        problem = "at all points, so that they say nothing of the distribution"
        refuse(is_flat, levels[:, 0], "cdf", problem, "Pass points where it rises.", InvalidProbabilityError)
        refuse(is_point, points[:, 0], "y", "at all points", "Pass distinct points.")
        super().__init__(points, levels, tails)


def _scale_beside(y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the scale of the left tail: mass below the first knot, over the density of the first piece with both."""
    width, mass = np.broadcast_arrays(np.diff(y, axis=1), np.diff(levels, axis=1))
    usable = (width > 0.0) & (mass > 0.0)
    piece = usable.argmax(axis=1)[:, None]
    at_width, at_mass = (np.take_along_axis(part, piece, axis=1)[:, 0] for part in (width, mass))
    return np.where(usable.any(axis=1), levels[:, 0] * at_width / np.where(at_mass > 0.0, at_mass, 1.0), 0.0)


class SampleForecast(Forecast):
    """Distributions that put probability on each of a row's samples: the same on each, or by their weights.

    Parameters
    ----------
    samples : array-like of shape (n, m)
        At least two samples per row, in any order.
    weights : array-like of shape (m,) or (n, m), optional
        What each sample counts, of all rows or of each, such as that of a member of an ensemble or the leaf weights
        of a forest: 0 or more, and not all 0. Only their ratios within a row matter.

    Notes
    -----
    The CDF is that of the samples, a step at each: `ppf` gives back samples, `crps` is exact for these steps, and
    there is no density. `smoothed` joins the steps into a CDF that has one. With few samples the steps make a
    forecast look worse than the distribution that they were drawn from: the CRPS of m samples exceeds it by 1/m of
    half their mean absolute difference. `fair_crps` takes that off.

    Examples
    --------
    >>> from calibrant.forecasts import SampleForecast
    >>> forecast = SampleForecast([[3.0, 1.0, 2.0, 4.0]])
    >>> forecast.cdf(2.5)
    array([0.5])
    >>> forecast.crps([2.5])
    array([0.375])
    >>> SampleForecast([[3.0, 1.0, 2.0, 4.0]], [1.0, 3.0, 0.0, 1.0]).cdf(2.5)
    array([0.6])
    """

    __slots__ = _by_row = ("_samples", "_shares")

    def __init__(self, samples: ArrayLike, weights: ArrayLike | None = None) -> None:
        given = as_numbers(samples, name="samples", ndim=2)
        if weights is None:
            self._samples = frozen(np.sort(given, axis=1))
            self._shares = frozen(np.arange(1, given.shape[1] + 1)[None, :] / given.shape[1])
            return
        weight = _as_weights(weights, given)
        order = np.argsort(given, axis=1, kind="stable")
        cumulative = np.cumsum(np.take_along_axis(np.broadcast_to(weight, given.shape), order, axis=1), axis=1)
        self._samples = frozen(np.take_along_axis(given, order, axis=1))
        self._shares = frozen(cumulative / cumulative[:, -1:])

    @classmethod
    def from_cdf(cls, samples: FloatArray, cdf: FloatArray) -> Self:
        """Return the forecasts with the CDF `cdf` at sorted samples, shape (n, m) each; 1 at the last of them."""
        made = cls.__new__(cls)
        made._samples, made._shares = frozen(samples), frozen(cdf)
        return made

    @property
    def n_samples(self) -> int:
        """Number of samples of a row."""
        return int(self._samples.shape[1])

    def _atoms(self) -> FloatArray:
        return self._samples

    @property
    def _masses(self) -> FloatArray:
        return np.diff(self._shares, axis=1, prepend=0.0)

    def smoothed(self) -> QuantileForecast:
        """Return distributions with a density: samples as quantiles at i/(m + 1), with exponential tails.

        Of weighted samples, m is Kish's effective number of them, and i that part of it which lies up to each.
        """
        size = self._samples.shape[1]
        if len(self._shares) == 1:
            return QuantileForecast(np.arange(1, size + 1) / (size + 1.0), self._samples)
        effective = 1.0 / np.square(self._masses).sum(axis=1, keepdims=True)
        smooth = QuantileForecast.__new__(QuantileForecast)  # its own gate takes one set of levels for all rows
        PiecewiseForecast.__init__(smooth, self._samples, self._shares * (effective / (effective + 1.0)), "exponential")
        return smooth

    def clipped(self, low: float, high: float) -> SampleForecast:
        """Return the distributions of the numbers moved into [low, high], which rises as they do."""
        moved = copy.copy(self)
        moved._samples = frozen(np.clip(self._samples, low, high))
        return moved

    def fair_crps(self, y: ArrayLike) -> FloatArray:
        """Return the CRPS of each row as infinitely many samples of its distribution would have it, shape (n,).

        Notes
        -----
        Unbiased, and so may fall below zero in a row: half the mean distance between samples is taken over pairs of
        different ones (Ferro 2014, *Fair scores for ensemble forecasts*, QJRMS 140). A row whose weight is all on one
        sample keeps its score. A forecast that means its samples to be the distribution is scored by `crps`.
        """
        values = as_numbers(y, name="y")
        check_same_length(len(self), values.size, "the forecast", "y")
        spread = np.sum(np.diff(self._samples, axis=1) * (self._shares * (1.0 - self._shares))[:, :-1], axis=1)
        same = np.square(self._masses).sum(axis=1)
        more = np.divide(same, 1.0 - same, out=np.zeros_like(same), where=same < 1.0)
        return np.asarray(self._crps(values) - spread * more)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return kernels.sample_cdf(y, self._samples, self._shares, False)

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return kernels.sample_cdf(y, self._samples, self._shares, True)

    def _ppf(self, u: FloatArray) -> FloatArray:
        return kernels.sample_quantiles(u, self._samples, self._shares)

    def _crps(self, y: FloatArray) -> FloatArray:
        return kernels.sample_crps(y, self._samples, self._shares)

    def mean(self) -> FloatArray:
        return np.asarray(np.sum(self._masses * self._samples, axis=1))

    def std(self) -> FloatArray:
        """Return the standard deviation of each row's samples, shape (n,): of the distribution, divided by m."""
        off = self._samples - self.mean()[:, None]
        return np.asarray(np.sqrt(np.sum(self._masses * off * off, axis=1)))


def _as_weights(weights: ArrayLike, samples: FloatArray) -> FloatArray:
    """Check the weights of samples, and bring them to shape (1, m) or (n, m), the greatest of a row being 1."""
    weight = as_scores(weights, name="weights").values
    weight = weight[None, :] if weight.ndim == 1 else weight
    n, m = samples.shape
    if weight.shape not in ((1, m), (n, m)):
        raise ShapeError(f"weights has shape {np.shape(weights)} for samples of {(n, m)}. Pass ({m},) or {(n, m)}.")
    least, largest = weight.min(axis=1), weight.max(axis=1)
    refuse(least < 0.0, least, "weights", "is negative", "Pass weights of 0 or more.", InvalidWeightError)
    problem, fix = "is the weight of all samples", "Give a sample a positive weight."
    refuse(largest <= 0.0, largest, "weights", problem, fix, InvalidWeightError)
    return np.asarray(weight / largest[:, None])
