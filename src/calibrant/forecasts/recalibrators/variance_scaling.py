"""Variance scaling: the normal scores of the outcomes brought to standard deviation one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.special import ndtri

from calibrant.document_field import DocumentField
from calibrant.errors import InvalidInputError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.kinds import GaussianForecast
from calibrant.forecasts.recalibrated import ProbitRows, RecalibratedForecast
from calibrant.forecasts.recalibrators.base import Layer, Recalibrator, named, numbers_within_reach
from calibrant.forecasts.scores import Outcomes
from calibrant.numerics import SMALLEST_CLIP, FloatArray, dot
from calibrant.validation import check_flag


@named("variance")
@dataclass(kw_only=True, eq=False, repr=False)
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

    shift: bool = False
    scale_: float = field(init=False)
    shift_: float = field(init=False)

    def _check_settings(self) -> None:
        check_flag("shift", self.shift)

    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        z, weight = normal_scores(rows), rows.weights
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

    def in_words(self) -> str:
        moved = f", moved by {self.shift_:.4g} of them" if self.shift_ else ""
        return f"standard deviations times {self.scale_:.4g}{moved}"

    def restore(self, body: DocumentField) -> None:
        super().restore(body)
        only = self._only_layer(ProbitScale, body)
        self.scale_, self.shift_ = only.scale, only.shift


@named("probit_scale")
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

    @classmethod
    def decode(cls, body: DocumentField) -> Self:
        fields = body.members(("scale", "shift"))
        scale, shift = fields["scale"].number(), fields["shift"].number()
        if scale <= 0.0:
            fields["scale"].refuse("is not above 0")
        numbers_within_reach(fields["scale"], np.array([scale]))
        numbers_within_reach(fields["shift"], np.array([shift]))
        return cls(scale, shift)


def normal_scores(rows: Outcomes) -> FloatArray:
    """Return the normal score of each outcome: exactly (y - mean) / std of normal forecasts."""
    if isinstance(rows.forecast, GaussianForecast):
        return (rows.y - rows.forecast.mean()) / rows.forecast.std()
    scores: FloatArray = ndtri(np.clip(rows.levels(), SMALLEST_CLIP, 1.0 - SMALLEST_CLIP))
    return scores
