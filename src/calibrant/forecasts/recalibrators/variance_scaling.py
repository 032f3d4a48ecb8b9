"""Variance scaling: the normal scores of the outcomes brought to standard deviation one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.gaussian import GaussianForecast
from calibrant.forecasts.points import Outcomes
from calibrant.forecasts.recalibrated import ProbitRows, RecalibratedForecast
from calibrant.forecasts.recalibrators.base import Recalibrator
from calibrant.forecasts.recalibrators.layers import Layer
from calibrant.forecasts.recalibrators.search_state import outcome_levels
from calibrant.forecasts.recalibrators.settings import check_boolean
from calibrant.numerics import SMALLEST_CLIP, FloatArray, dot


class VarianceScalingRecalibrator(Recalibrator):
    """Widen or narrow all forecasts by one factor, and on request move them by one number of standard deviations.

    Parameters
    ----------
    shift : bool
        Whether to move the forecasts too.

    Attributes
    ----------
    scale_ : float
        What standard deviations are multiplied by.
    shift_ : float
        By how many of its standard deviations, before scaling, each forecast moves up.
    layers_, n_rows_
        See `Recalibrator`.

    Notes
    -----
    The likelihood is greatest at scale^2 = mean (z - shift)^2 and shift = mean z, z being (y - mean) / std of normal
    forecasts, which stay normal. Of other forecasts z is the normal score of the level of the outcome, moved into
    [1e-12, 1 - 1e-12] first, and levels are mapped by z -> (z - shift) / scale.

    References
    ----------
    Levi, Gispan, Giladi and Fetaya (2022), *Evaluating and calibrating uncertainty prediction in regression tasks*,
    Sensors 22, equation 8. Laves et al. (2020), *Well-calibrated regression uncertainty in medical imaging with deep
    learning*, MIDL.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, VarianceScalingRecalibrator
    >>> y = np.random.default_rng(0).normal(scale=2.0, size=5000)
    >>> recalibrator = VarianceScalingRecalibrator().fit(GaussianForecast(np.zeros(5000), 1.0), y)
    >>> recalibrator.transform(GaussianForecast([10.0], 1.0)).std().round(2)
    array([1.99])
    """

    scale_: float
    shift_: float

    def __init__(self, *, shift: bool = False) -> None:
        self.shift = shift

    def _check_settings(self) -> None:
        check_boolean("shift", self.shift)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        z, weight = normal_scores(rows.forecast, rows.y), rows.weights
        total = float(weight.sum())
        self.shift_ = dot(weight, z) / total if self.shift else 0.0
        centred = z - self.shift_
        self.scale_ = float(np.sqrt(dot(weight, centred * centred) / total))
        if self.scale_ < SMALLEST_CLIP:
            raise InvalidInputError(
                "y lies on the forecasts' centre in every row, so that the likelihood grows without bound as they "
                "narrow. Fit on rows of which the outcomes differ from the forecast."
            )
        return (ProbitScale(self.scale_, self.shift_),)


@dataclass(frozen=True, slots=True)
class ProbitScale(Layer):
    """The map z -> (z - shift) / scale of normal scores."""

    scale: float
    shift: float

    def apply(self, forecast: Forecast) -> Forecast:
        """Return normal forecasts with other parameters, and others with mapped levels."""
        if isinstance(forecast, GaussianForecast):
            std = forecast.std()
            return GaussianForecast(forecast.mean() + self.shift * std, self.scale * std)
        return RecalibratedForecast(forecast, ProbitRows(self.scale, self.shift))


def normal_scores(forecast: Forecast, y: FloatArray) -> FloatArray:
    """Return the normal score of each outcome: exactly (y - mean) / std of normal forecasts."""
    if isinstance(forecast, GaussianForecast):
        z: FloatArray = (y - forecast.mean()) / forecast.std()
        return z
    level = np.clip(outcome_levels(forecast, y), SMALLEST_CLIP, 1.0 - SMALLEST_CLIP)
    scores: FloatArray = ndtri(level)
    return scores
