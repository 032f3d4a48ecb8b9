"""The weighted interval score: interval scores of several levels and the error of the median, in one number."""

from __future__ import annotations

import numpy as np

from calibrant.errors import InvalidInputError, InvalidProbabilityError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.given_levels import given_levels, is_within_levels
from calibrant.forecasts.kinds import QuantileForecast
from calibrant.forecasts.points import as_rising_levels, central_ends
from calibrant.forecasts.scores import Outcomes, read_outcomes, row_interval_score
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike

#: Levels of the central intervals of the COVID-19 Forecast Hub, by Bracher et al.
_HUB_LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])


def weighted_interval_score(
    forecast: Forecast, y: ArrayLike, *, levels: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> float:
    """Measure the mean weighted interval score; smaller is better.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    levels : array-like of shape (K,), optional
        Rising levels of the central intervals: by default those that two quantiles of a `QuantileForecast` are the ends
        of, and of other forecasts the eleven of the COVID-19 Forecast Hub, 0.1, 0.2, ..., 0.9, 0.95 and 0.98.

    Returns
    -------
    float
        In the units of y.

    Raises
    ------
    CalibrantError
        If an argument can't be used, or `levels` ask for quantiles beyond those that are given.

    Notes
    -----
    (|y - median| / 2 + sum_k (1 - level_k) / 2 * interval score_k) / (K + 1/2), twice the mean pinball loss of all ends
    and the median (Bracher et al., equations 1 and 3). With many levels it comes near the CRPS. Of quantiles that don't
    reach around the median, the median is left out, and the sum is divided by K.

    References
    ----------
    Bracher, Ray, Gneiting and Reich (2021), *Evaluating epidemic forecasts in an interval format*, PLOS Computational
    Biology 17.

    Examples
    --------
    >>> from calibrant.forecasts import QuantileForecast, weighted_interval_score
    >>> round(weighted_interval_score(QuantileForecast([0.1, 0.5, 0.9], [[0.0, 2.0, 5.0]]), [6.0]), 4)
    2.3333
    """
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_weighted_interval_score(rows, _checked(levels, rows.forecast)))


def interval_levels(forecast: Forecast) -> FloatArray:
    """Return the levels of the central intervals that are scored where nobody names any; there may be none."""
    return np.array(forecast.central_levels[::-1]) if isinstance(forecast, QuantileForecast) else _HUB_LEVELS


def row_weighted_interval_score(rows: Outcomes, levels: FloatArray) -> FloatArray:
    """Return the weighted interval score of each row, shape (n,)."""
    total, weight = np.zeros(len(rows)), float(levels.size)
    for level in levels.tolist():
        total += 0.5 * (1.0 - level) * row_interval_score(rows, level)
    if is_within_levels(rows.forecast, 0.5):
        total += 0.5 * np.abs(rows.y - rows.forecast.ppf(0.5))
        weight += 0.5
    return np.asarray(total / weight)


def _checked(levels: ArrayLike | None, forecast: Forecast) -> FloatArray:
    if levels is None:
        found = interval_levels(forecast)
        if not found.size:
            raise InvalidInputError(
                "no two quantiles given are the ends of a central interval. Pass quantiles such as 0.1 and 0.9."
            )
        return found
    found = as_rising_levels(levels, name="levels")
    if found[0] <= 0.0 or found[-1] >= 1.0:
        raise InvalidProbabilityError(f"levels={found.tolist()!r} are not all in (0, 1). Pass such as [0.5, 0.9].")
    given = given_levels(forecast)
    if given is not None and not is_within_levels(forecast, *central_ends(float(found[-1]))):
        raise InvalidProbabilityError(
            f"levels: {found[-1]:g} asks for quantiles beyond those given, from {given[0]:g} to {given[-1]:g}. "
            "Leave levels out, or pass levels within them."
        )
    return found
