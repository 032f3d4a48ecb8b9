"""Distributions given by samples from them."""

from __future__ import annotations

import numpy as np

from calibrant import kernels
from calibrant.errors import InvalidWeightError, ShapeError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.piecewise import PiecewiseForecast, QuantileForecast
from calibrant.forecasts.points import as_matrix, as_numbers, frozen, refuse
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, as_scores, check_same_length


class SampleForecast(Forecast):
    """Distributions that put probability on each of a row's samples: the same on each, or by their weights.

    Parameters
    ----------
    samples : array-like of shape (n, m)
        At least two samples per row, in any order.
    weights : array-like of shape (m,) or (n, m), optional
        What each sample counts, of all rows or of each, such as that of a member of an ensemble or the leaf weights
        of a forest. Only their ratios within a row matter.

    Raises
    ------
    CalibrantError
        If a sample is not finite, or a row's weights are negative or all zero.

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
        given = as_matrix(samples, name="samples")
        if weights is None:
            self._samples = frozen(np.sort(given, axis=1))
            self._shares = frozen(np.arange(1, given.shape[1] + 1)[None, :] / given.shape[1])
            return
        weight = _as_weights(weights, given)
        order = np.argsort(given, axis=1, kind="stable")
        cumulative = np.cumsum(np.take_along_axis(np.broadcast_to(weight, given.shape), order, axis=1), axis=1)
        self._samples = frozen(np.take_along_axis(given, order, axis=1))
        self._shares = frozen(cumulative / cumulative[:, -1:])

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def _masses(self) -> FloatArray:
        """The probability of each sample, shape (n, m) or (1, m)."""
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
        fair: FloatArray = self._crps(values) - spread * more
        return fair

    def _cdf(self, y: FloatArray) -> FloatArray:
        return kernels.sample_cdf(y, self._samples, self._shares, False)

    def _cdf_below(self, y: FloatArray) -> FloatArray:
        return kernels.sample_cdf(y, self._samples, self._shares, True)

    def _ppf(self, u: FloatArray) -> FloatArray:
        return kernels.sample_quantiles(u, self._samples, self._shares)

    def _crps(self, y: FloatArray) -> FloatArray:
        return kernels.sample_crps(y, self._samples, self._shares)

    def mean(self) -> FloatArray:
        """Return the mean of each row's samples, shape (n,)."""
        mean: FloatArray = np.sum(self._masses * self._samples, axis=1)
        return mean

    def std(self) -> FloatArray:
        """Return the standard deviation of each row's samples, shape (n,): of the distribution, divided by m."""
        off = self._samples - self.mean()[:, None]
        std: FloatArray = np.sqrt(np.sum(self._masses * off * off, axis=1))
        return std


def _as_weights(weights: ArrayLike, samples: FloatArray) -> FloatArray:
    """Check the weights of samples, and bring them to shape (1, m) or (n, m), the greatest of a row being 1."""
    weight = as_scores(weights, name="weights").values
    weight = weight[None, :] if weight.ndim == 1 else weight
    n, m = samples.shape
    if weight.shape not in ((1, m), (n, m)):
        raise ShapeError(
            f"weights has shape {np.shape(weights)} for samples of shape {(n, m)}. Pass ({m},) or {(n, m)}."
        )
    least, largest = weight.min(axis=1), weight.max(axis=1)
    refuse(least < 0.0, least, "weights", "is negative", "Pass weights of 0 or more.", InvalidWeightError)
    problem, fix = "is the weight of all samples", "Give a sample a positive weight."
    refuse(largest <= 0.0, largest, "weights", problem, fix, InvalidWeightError)
    scaled: FloatArray = weight / largest[:, None]
    return scaled
