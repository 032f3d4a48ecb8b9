"""Threshold-weighted CRPS: the part of the CRPS between two places of the number line.

int (F(t) - 1{y <= t})^2 dt from `low` to `high` is, with z the outcome moved into that range, the integral of F^2 from
`low` to z and of (1 - F)^2 from z to `high`. Both have closed forms for normal distributions, straight pieces,
exponential tails and steps; others go by a Gauss-Legendre rule between quantiles that are moved into the range.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts.base import Forecast, ranked_score_at
from calibrant.forecasts.kinds import GaussianForecast, PiecewiseForecast, SampleForecast
from calibrant.forecasts.points import is_number
from calibrant.forecasts.reference import ClimatologyForecast
from calibrant.forecasts.scores import Outcomes, read_outcomes
from calibrant.numerics import FloatArray
from calibrant.validation import ArrayLike

_ROOT_PI, _ROOT_TWO, _ROOT_TWO_PI = math.sqrt(math.pi), math.sqrt(2.0), math.sqrt(2.0 * math.pi)


def threshold_weighted_crps(
    forecast: Forecast,
    y: ArrayLike,
    *,
    low: float | None = None,
    high: float | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Measure the mean CRPS of one region of outcomes, such as floods or frost; smaller is better.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`.
    low, high : float, optional
        Ends of the region, in the units of y; without an end it is open on that side. At least one is needed.

    Returns
    -------
    float
        In the units of y. With both ends open it would be `crps`.

    Raises
    ------
    CalibrantError
        If an argument can't be used, `low` is not below `high`, or neither is given.

    Notes
    -----
    The mean of int w(t) (F(t) - 1{y <= t})^2 dt with the weight w(t) = 1 from `low` to `high` and 0 elsewhere. It is
    proper for any w, unlike the CRPS of those rows alone whose outcome was extreme. The scores of regions that make up
    the line add up to the CRPS.

    References
    ----------
    Gneiting and Ranjan (2011), *Comparing density forecasts using threshold- and quantile-weighted scoring rules*,
    Journal of Business and Economic Statistics 29, equation 8.

    Examples
    --------
    >>> from calibrant.forecasts import GaussianForecast, threshold_weighted_crps
    >>> forecast, y = GaussianForecast([0.0, 1.0], 1.0), [0.5, 1.0]
    >>> parts = [threshold_weighted_crps(forecast, y, high=1.0), threshold_weighted_crps(forecast, y, low=1.0)]
    >>> [round(part, 4) for part in parts]
    [0.2205, 0.062]
    >>> round(sum(parts), 4)
    0.2825
    """
    ends = as_region((low, high))
    rows = read_outcomes(forecast, y, sample_weight)
    return rows.mean(row_region_crps(rows, *ends))


def as_region(region: object) -> tuple[float, float]:
    """Check the ends of a region; None stands for an open end."""
    if not isinstance(region, (tuple, list)) or len(region) != 2:
        raise InvalidTypeError(f"region={region!r:.60} is no pair (low, high). Pass one such as (10.0, None).")
    for name, end in zip(("low", "high"), region, strict=True):
        if end is not None and (not is_number(end) or math.isnan(float(end))):
            raise InvalidTypeError(f"{name}={end!r:.60} is not a number. Pass one, or None for an open end.")
    low, high = (
        open_end if end is None else float(end) for end, open_end in zip(region, (-math.inf, math.inf), strict=True)
    )
    if math.isinf(low) and math.isinf(high):
        raise InvalidInputError("neither low nor high is given. Pass an end of the region, or use crps.")
    if not low < high:
        raise InvalidInputError(f"low={low:g} is not below high={high:g}. Pass the lower end first.")
    return low, high


def row_region_crps(rows: Outcomes, low: float, high: float) -> FloatArray:
    """Return the threshold-weighted CRPS of each row, shape (n,)."""
    forecast, y = rows.forecast, rows.y
    match forecast:
        case GaussianForecast():
            return _normal(forecast, y, low, high)
        case SampleForecast() | ClimatologyForecast():
            return forecast.clipped(low, high).crps(np.clip(y, low, high))
        case PiecewiseForecast():
            return _straight(forecast, y, low, high)
        case _:
            return _by_quadrature(forecast, y, low, high)


def _normal(forecast: GaussianForecast, y: FloatArray, low: float, high: float) -> FloatArray:
    mean, std = forecast.mean(), forecast.std()
    a, z, b = ((end - mean) / std for end in (low, np.clip(y, low, high), high))
    return np.asarray(std * (_squares_below(z) - _squares_below(a) + _squares_below(-z) - _squares_below(-b)))


def _squares_below(z: FloatArray) -> FloatArray:
    """Return int Phi(t)^2 dt up to z: z Phi^2 + 2 Phi phi - Phi(sqrt 2 z) / sqrt pi; 0 at minus infinity."""
    finite = np.where(np.isneginf(z), 0.0, z)
    level, density = ndtr(finite), np.exp(-0.5 * finite**2) / _ROOT_TWO_PI
    found = finite * level**2 + 2.0 * level * density - ndtr(_ROOT_TWO * finite) / _ROOT_PI
    return np.where(np.isneginf(z), 0.0, found)


def _straight(forecast: PiecewiseForecast, y: FloatArray, low: float, high: float) -> FloatArray:
    """Return the score of straight pieces with exponential tails, exactly: the outcome is one more end of a piece."""
    knots, levels, scales = forecast.pieces()
    at = np.clip(y, low, high)
    ends = np.sort(np.column_stack((np.clip(knots, low, high), np.clip(knots[:, :1], low, high), at)), axis=1)
    ends = np.clip(ends, np.maximum(low, knots[:, :1]), np.minimum(high, knots[:, -1:]))
    f, g = forecast.cdf(ends[:, :-1]), forecast.cdf_below(ends[:, 1:])
    width = np.diff(ends, axis=1)
    f, g = np.where(width > 0.0, f, 0.0), np.where(width > 0.0, g, 0.0)
    is_up_to = ends[:, 1:] <= at[:, None]
    below, above = f * f + f * g + g * g, (1.0 - f) ** 2 + (1.0 - f) * (1.0 - g) + (1.0 - g) ** 2
    inner = np.sum(width * np.where(is_up_to, below, above), axis=1) / 3.0
    first, last = np.clip(knots[:, 0], low, high), np.clip(knots[:, -1], low, high)
    left = _tail(knots[:, 0] - first, knots[:, 0] - low, knots[:, 0] - at, levels[:, 0], scales[:, 0])
    right = _tail(last - knots[:, -1], high - knots[:, -1], at - knots[:, -1], 1.0 - levels[:, -1], scales[:, 1])
    return np.asarray(inner + left + right)


def _tail(near: FloatArray, far: FloatArray, at: FloatArray, mass: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the score of a tail between two distances beyond its knot, `at` being how far out the outcome lies.

    The CDF beyond the knot is mass * exp(-distance / scale), seen from the side of the tail: its square is integrated
    beyond the outcome, and the square of what is missing to 1 up to it.
    """
    near, far = np.maximum(near, 0.0), np.maximum(far, 0.0)
    middle = np.clip(at, near, np.maximum(far, near))
    safe = np.where(scale > 0.0, scale, 1.0)

    def left(distance: FloatArray, times: float) -> FloatArray:
        """Return the integral of the CDF, or its square, beyond a distance."""
        beyond = (mass**times) * safe / times * np.exp(-times * np.where(np.isinf(distance), 0.0, distance) / safe)
        return np.where((scale > 0.0) & ~np.isinf(distance), beyond, 0.0)

    squares = left(middle, 2.0) - left(np.maximum(far, middle), 2.0)
    missed = (middle - near) - 2.0 * (left(near, 1.0) - left(middle, 1.0)) + left(near, 2.0) - left(middle, 2.0)
    return np.where(far > near, squares + missed, 0.0)


def _by_quadrature(forecast: Forecast, y: FloatArray, low: float, high: float) -> FloatArray:
    def of(part: Forecast, ends: FloatArray, outcomes: FloatArray) -> FloatArray:
        return ranked_score_at(part, np.clip(ends, low, high), np.clip(outcomes, low, high))

    return forecast.integrals(of, y)[:, 0]
