"""Distributions given by some of their quantiles."""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.errors import DataWarning, InvalidInputError, ShapeError
from calibrant.forecasts.piecewise import TAILS, PiecewiseForecast, Tails
from calibrant.forecasts.points import as_matrix, as_numbers
from calibrant.validation import ArrayLike, check_choice


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
        heights = as_numbers(levels, name="levels")
        bad = (heights < 0.0) | (heights > 1.0) | (np.diff(heights, prepend=-1.0) <= 0.0)
        if bad.any():
            k = int(bad.argmax())
            raise InvalidInputError(
                f"levels row {k}: {heights[k].item()!r} doesn't rise within [0, 1] ({bad.sum():,} of {bad.size:,}). "
                "Pass distinct levels in rising order, such as [0.1, 0.5, 0.9], and the columns of values likewise."
            )
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
        self._set(quantiles, heights[None, :], tails)
