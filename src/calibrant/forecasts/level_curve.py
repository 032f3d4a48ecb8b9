"""The reliability curve of quantiles: how often outcomes fell below them, against how often they should."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import uniform_distance
from calibrant.forecasts.decisions import ThresholdRule, as_rule
from calibrant.forecasts.outcomes import Outcomes, read_outcomes
from calibrant.forecasts.pit import share_up_to
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike, check_fraction

#: Levels at which the curve is read.
_LEVELS = np.linspace(0.0, 1.0, 101)


@dataclass(frozen=True, slots=True, eq=False)
class LevelCurve:
    """How often outcomes fell at or below their forecasts' quantiles.

    Attributes
    ----------
    levels : ndarray of shape (m,)
        Levels of the quantiles.
    share : ndarray of shape (m,)
        Share of the weight at or below them: `levels` itself if the forecast is calibrated.
    low, high : ndarray of shape (m,)
        Where the share at each level would lie, at `level`, if the forecast were calibrated.
    error : float
        Area between the curve and the diagonal.
    n : int
        Number of rows.
    level : float
    label : str
        What the curve shows, for a legend.
    """

    levels: FloatArray
    share: FloatArray
    low: FloatArray
    high: FloatArray
    error: float
    n: int
    level: float
    label: str = ""


def level_curve(
    forecast: Forecast, y: ArrayLike, *, sample_weight: ArrayLike | None = None, level: float = 0.95, label: str = ""
) -> LevelCurve:
    """Measure how often outcomes fall below the quantiles of their forecasts.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    sample_weight : array-like of shape (n,), optional
    level : float
        Coverage of the band of forecasts that are calibrated, at each level by itself.
    label : str
        What the curve shows.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, level_curve
    >>> curve = level_curve(GaussianForecast([0.0, 0.0], 1.0), [-1.0, 0.5])
    >>> float(curve.share[50])
    0.5
    """
    return _curve(read_outcomes(forecast, y, sample_weight), check_fraction("level", level), label)


def threshold_curves(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    *,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
) -> tuple[LevelCurve, LevelCurve]:
    """Measure the curves of the rows on both sides of a threshold rule: yes, and no.

    Their `error` adds up to the threshold calibration error of the rule.

    Raises
    ------
    InvalidInputError
        If all rows are on one side.
    """
    rule, level = as_rule(decision), check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight)
    yes = rule.decide(rows.forecast)
    if yes.all() or not yes.any():
        raise InvalidInputError(
            f"decision={rule!r} says {'yes' if yes.all() else 'no'} in all {yes.size:,} rows. Pass a rule with rows on "
            "both sides."
        )
    names = [f"P(Y ≤ {rule.y0:g}) {sign} {rule.alpha:g}" for sign in ("≤", ">")]
    names = names[::-1] if rule.is_above else names
    return _curve(rows.take(yes), level, names[0]), _curve(rows.take(~yes), level, names[1])


def _curve(rows: Outcomes, level: float, label: str) -> LevelCurve:
    from scipy.stats import binom

    share = share_up_to(_LEVELS, *rows.pit_ends(), rows.weights)
    n = max(round(rows.effective_size), 1)
    tail = 0.5 - 0.5 * level
    low, high = binom.ppf(tail, n, _LEVELS) / n, binom.isf(tail, n, _LEVELS) / n
    low[[0, -1]] = high[[0, -1]] = [0.0, 1.0]
    return LevelCurve(_LEVELS, share, low, high, uniform_distance(rows), len(rows), level, label)
