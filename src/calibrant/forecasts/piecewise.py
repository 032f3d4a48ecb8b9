"""CDFs that are straight lines between knots, given by quantiles or on a grid, with a stated tail on either side."""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant import kernels
from calibrant.errors import DataWarning, InvalidProbabilityError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import as_matrix, as_rising_levels, check_rising, frozen, refuse, within_reach
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_probabilities, as_scores, check_choice

Tails: TypeAlias = Literal["exponential", "atoms"]
TAILS: tuple[str, ...] = get_args(Tails)


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
        scales = np.zeros((n, 2)) if tails == "atoms" else _tail_scales(self._y, self._levels)
        self._scales = frozen(np.broadcast_to(scales, (n, 2)))

    def __len__(self) -> int:
        return len(self._scales)

    def _cdf(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_cdf(y, self._y, self._levels, self._scales, False)

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_cdf(y, self._y, self._levels, self._scales, True)

    def _ppf(self, u: FloatArray) -> FloatArray:
        return kernels.piecewise_quantiles(u, self._y, self._levels, self._scales)

    def _logpdf(self, y: FloatArray) -> FloatArray:
        density = kernels.piecewise_density(y, self._y, self._levels, self._scales)
        with np.errstate(divide="ignore"):  # no density is right between knots of one level
            log_density: FloatArray = np.log(density)
        return log_density

    def _crps(self, y: FloatArray) -> FloatArray:
        return kernels.piecewise_crps(y, self._y, self._levels, self._scales)

    def mean(self) -> FloatArray:
        """Return the mean of each row, shape (n,)."""
        origin = self._y[:, :1]
        y, mass = self._y - origin, np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        inner: FloatArray = np.sum(mass * (y[:, :-1] + y[:, 1:]), axis=1) * 0.5
        tails: FloatArray = last * (y[:, -1] + self._scales[:, 1]) - first * self._scales[:, 0]
        mean: FloatArray = origin[:, 0] + inner + tails
        return mean

    def std(self) -> FloatArray:
        """Return the standard deviation of each row, shape (n,)."""
        y, mass = self._y - self.mean()[:, None], np.diff(self._levels, axis=1)
        first, last = self._levels[:, 0], 1.0 - self._levels[:, -1]
        (left, right), a, b = self._scales.T, y[:, :-1], y[:, 1:]
        inner: FloatArray = np.sum(mass * (a * a + a * b + b * b), axis=1) / 3.0
        tails = first * ((y[:, 0] - left) ** 2 + left**2) + last * ((y[:, -1] + right) ** 2 + right**2)
        std: FloatArray = np.sqrt(inner + tails)
        return std


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

    Raises
    ------
    CalibrantError
        If levels don't rise within [0, 1], or a value is not finite.

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
        quantiles = as_matrix(values, name="values")
        if quantiles.shape[1] != heights.size:
            raise ShapeError(
                f"values has {quantiles.shape[1]} columns for {heights.size} levels. Pass one column per level."
            )
        crossed = (np.diff(quantiles, axis=1) < 0.0).any(axis=1)
        if crossed.any():
            warnings.warn(
                f"values: the quantiles of {crossed.sum():,} of {crossed.size:,} rows cross, first in row "
                f"{int(crossed.argmax())}; they were sorted.",
                DataWarning,
                stacklevel=2,
            )
            quantiles = np.sort(quantiles, axis=1)
        super().__init__(quantiles, heights[None, :], tails)


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

    Raises
    ------
    CalibrantError
        If a CDF falls, leaves [0, 1], or has another shape than its points.

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
        levels = as_matrix(as_probabilities(cdf, name="cdf", sum_to_one=False).values, name="cdf")
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


def _tail_scales(y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the scales of both tails, shape (n, 2)."""
    left = _scale_beside(y, levels)
    right = _scale_beside(-y[:, ::-1], 1.0 - levels[:, ::-1])
    return np.column_stack((left, right))


def _scale_beside(y: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the scale of the left tail: mass below the first knot, over the density of the first piece with both."""
    width, mass = np.broadcast_arrays(np.diff(y, axis=1), np.diff(levels, axis=1))
    usable = (width > 0.0) & (mass > 0.0)
    piece = usable.argmax(axis=1)[:, None]
    at_width, at_mass = (np.take_along_axis(part, piece, axis=1)[:, 0] for part in (width, mass))
    return np.where(usable.any(axis=1), levels[:, 0] * at_width / np.where(at_mass > 0.0, at_mass, 1.0), 0.0)
