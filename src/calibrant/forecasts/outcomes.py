"""Forecasts beside what came of them: the gate of metrics and recalibrators, and means over its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.forecasts.adapters import as_forecast
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import as_numbers
from calibrant.metrics import Estimate, mean_of, normal_estimate
from calibrant.numerics import FloatArray, kish_size
from calibrant.validation import ArrayLike, as_weight, check_same_length


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Forecasts with what came of them: rows of weight zero are gone, and `weight` is None where all are one."""

    forecast: Forecast
    y: FloatArray
    weight: FloatArray | None

    def __len__(self) -> int:
        return self.y.size

    @property
    def weights(self) -> FloatArray:
        """The weight of each row, shape (n,)."""
        return np.ones(self.y.size) if self.weight is None else self.weight

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows."""
        return float(self.y.size) if self.weight is None else kish_size(self.weight)

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Return some of the rows, by their numbers or a mask."""
        numbers = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        weight = None if self.weight is None else self.weight[numbers]
        return type(self)(self.forecast[numbers], self.y[numbers], weight)

    def drawn(self, rng: np.random.Generator) -> Self:
        """Return the rows with outcomes drawn from their forecasts."""
        return type(self)(self.forecast, self.forecast.sample(1, rng)[:, 0], self.weight)

    def pit_ends(self) -> tuple[FloatArray, FloatArray]:
        """Return P(Y < y) and P(Y <= y) of each row, shape (n,) each; the same array where there are no atoms."""
        high = self.forecast.cdf(self.y)
        return (self.forecast.cdf_below(self.y) if self.forecast.has_atoms else high), high

    def levels(self) -> FloatArray:
        """Return the level of each outcome: its probability integral transform, midway where it is an atom."""
        low, high = self.pit_ends()
        return np.array(high if low is high else 0.5 * (high + low), dtype=np.float64)

    def mean(self, values: FloatArray) -> float:
        """Return the mean of one value per row; infinite values stay infinite."""
        return float(np.average(values, weights=self.weight))

    def mean_estimate(
        self, values: FloatArray, level: float, *, least: float = -np.inf, most: float = np.inf
    ) -> Estimate:
        """Return the mean of one value per row with its normal interval, cut to the range that it can lie in."""
        return normal_estimate(mean_of([(values, self.weights)], self.effective_size), level, least=least, most=most)


def read_outcomes(forecast: Forecast, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Outcomes:
    """Check a forecast and its outcomes, and drop rows of weight zero."""
    forecast = as_forecast(forecast)
    values = as_numbers(y, name="y")
    check_same_length(len(forecast), values.size, "forecast", "y")
    weight = as_weight(sample_weight, values.size, rows="the forecast")
    if weight is None or weight.all():
        return Outcomes(forecast, values, weight)
    kept = np.flatnonzero(weight > 0.0)
    return Outcomes(forecast[kept], values[kept], as_weight(weight[kept], kept.size))
