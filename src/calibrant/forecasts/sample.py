"""Distributions given by samples from them."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import as_matrix, frozen
from calibrant.forecasts.quantile import QuantileForecast
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike


class SampleForecast(Forecast):
    """Distributions that put the same probability on each of a row's samples.

    Parameters
    ----------
    samples : array-like of shape (n, m)
        At least two samples per row, in any order.

    Raises
    ------
    CalibrantError
        If a sample is not finite.

    Notes
    -----
    The CDF is that of the samples, a step of 1/m at each: `ppf` gives back samples, `crps` is exact for these steps,
    and there is no density. `smoothed` joins the steps into a CDF that has one. With few samples the steps make a
    forecast look worse than the distribution that they were drawn from: the CRPS of m samples exceeds it by 1/m of
    half their mean absolute difference.

    Examples
    --------
    >>> from calibrant.forecasts import SampleForecast
    >>> forecast = SampleForecast([[3.0, 1.0, 2.0, 4.0]])
    >>> forecast.cdf(2.5)
    array([0.5])
    >>> forecast.crps([2.5])
    array([0.375])
    """

    __slots__ = ("_samples",)

    def __init__(self, samples: ArrayLike) -> None:
        self._samples = frozen(np.sort(as_matrix(samples, name="samples"), axis=1))

    def __len__(self) -> int:
        return len(self._samples)

    def _take(self, rows: npt.NDArray[np.intp]) -> Self:
        taken = type(self).__new__(type(self))
        taken._samples = frozen(self._samples[rows])
        return taken

    def smoothed(self) -> QuantileForecast:
        """Return distributions with a density: samples as quantiles at i/(m + 1), with exponential tails."""
        size = self._samples.shape[1]
        return QuantileForecast(np.arange(1, size + 1) / (size + 1.0), self._samples)

    def _cdf(self, y: FloatArray) -> FloatArray:
        out = np.empty((len(self), y.shape[1]))
        kernels.count_samples(y, self._samples, False, out)
        return out

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        out = np.empty((len(self), y.shape[1]))
        kernels.count_samples(y, self._samples, True, out)
        return out

    def _ppf(self, u: FloatArray) -> FloatArray:
        out = np.empty((len(self), u.shape[1]))
        kernels.pick_samples(u, self._samples, out)
        return out

    def _crps(self, y: FloatArray) -> FloatArray:
        out = np.empty(len(self))
        kernels.score_samples(y, self._samples, out)
        return out

    def mean(self) -> FloatArray:
        """Return the mean of each row's samples, shape (n,)."""
        mean: FloatArray = self._samples.mean(axis=1)
        return mean

    def std(self) -> FloatArray:
        """Return the standard deviation of each row's samples, shape (n,): of the distribution, divided by m."""
        std: FloatArray = self._samples.std(axis=1)
        return std
