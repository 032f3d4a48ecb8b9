"""Distributions given by their CDF on a grid."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InvalidInputError, InvalidProbabilityError, ShapeError
from calibrant.forecasts.piecewise import TAILS, PiecewiseForecast, Tails
from calibrant.forecasts.points import as_matrix, check_rising, in_reach
from calibrant.validation import ArrayLike, as_probabilities, as_scores, check_choice


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
        points = in_reach(as_scores(y, name="y").values, "y")
        points = points[None, :] if points.ndim == 1 else points
        if points.shape[0] not in (1, levels.shape[0]) or points.shape[1] != levels.shape[1]:
            raise ShapeError(
                f"y has shape {np.shape(y)} and cdf {levels.shape}. Pass points of shape ({levels.shape[1]},), or of "
                f"shape {levels.shape}."
            )
        check_rising(points, name="y", fix="Sort the points, and the columns of cdf with them.")
        if (levels[:, 0] == levels[:, -1]).any():
            row = int((levels[:, 0] == levels[:, -1]).argmax())
            raise InvalidProbabilityError(
                f"cdf row {row}: {levels[row, 0].item()!r} at all points, so that they say nothing of the "
                "distribution. Pass points where it rises."
            )
        if (points[:, 0] == points[:, -1]).any():
            row = int((points[:, 0] == points[:, -1]).argmax())
            raise InvalidInputError(f"y row {row}: all points are {points[row, 0].item()!r}. Pass distinct points.")
        self._set(points, levels, tails)
