"""Normal distributions."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import as_numbers, frozen, is_number, refuse
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, check_number, check_same_length

_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_ROOT_PI = math.sqrt(math.pi)


class GaussianForecast(Forecast):
    """Normal distributions with a mean and a standard deviation per row.

    Parameters
    ----------
    mean : array-like of shape (n,)
    std : float or array-like of shape (n,)
        Standard deviations, above zero; a number stands for all rows.

    Raises
    ------
    CalibrantError
        If a mean is not finite, or a standard deviation not above zero.

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

    def __len__(self) -> int:
        return self._mean.size

    def _z(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # infinitely many standard deviations away is right
            z: FloatArray = (y - self._mean[:, None]) / self._std[:, None]
        return z

    def _cdf(self, y: FloatArray) -> FloatArray:
        levels: FloatArray = ndtr(self._z(y))
        return levels

    def _sf(self, y: FloatArray) -> FloatArray:
        levels: FloatArray = ndtr(-self._z(y))
        return levels

    def _ppf(self, u: FloatArray) -> FloatArray:
        quantiles: FloatArray = self._mean[:, None] + self._std[:, None] * ndtri(u)
        return quantiles

    def _logpdf(self, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            log_density: FloatArray = -0.5 * self._z(y) ** 2 - _LOG_ROOT_TWO_PI - np.log(self._std)[:, None]
        return log_density

    def _crps(self, y: FloatArray) -> FloatArray:
        z = self._z(y[:, None])[:, 0]
        density = np.exp(self._logpdf(y[:, None])[:, 0] + np.log(self._std))
        score: FloatArray = (y - self._mean) * (2.0 * ndtr(z) - 1.0) + self._std * (2.0 * density - 1.0 / _ROOT_PI)
        return np.maximum(score, 0.0)

    def mean(self) -> FloatArray:
        return self._mean

    def std(self) -> FloatArray:
        return self._std
