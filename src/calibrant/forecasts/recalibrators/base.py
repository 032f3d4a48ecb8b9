"""What all recalibrators share: the gate, the fitted layers, and applying them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from calibrant.errors import NotFittedError
from calibrant.forecasts.base import Forecast
from calibrant.forecasts.points import Outcomes, as_forecast, read_outcomes
from calibrant.forecasts.recalibrators.layers import Layer
from calibrant.validation import ArrayLike


class Recalibrator(ABC):
    """Corrects forecasts of a number by what came of earlier ones: `fit` on those, then `transform` new ones.

    Attributes
    ----------
    layers_ : tuple of Layer
        What was fitted, as data: each layer turns a forecast into another, in this order. Empty where the forecasts
        were best left alone.
    n_rows_ : int
        Number of rows it was fitted on: those with weight.
    """

    layers_: tuple[Layer, ...]
    n_rows_: int
    metadata_: dict[str, Any]

    def fit(self, forecast: Forecast, y: ArrayLike, *, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to forecasts and what came of them.

        Parameters
        ----------
        forecast : Forecast, or frozen distribution of SciPy
            For rows that the forecaster was not trained on.
        y : array-like of shape (n,)
            The outcomes.
        sample_weight : array-like of shape (n,), optional
            A weight of 2 counts as two rows, of 0 as none.

        Returns
        -------
        self

        Raises
        ------
        CalibrantError
            If an argument can't be used; the message says where and why.
        """
        self._check_settings()
        rows = read_outcomes(forecast, y, sample_weight)
        self.layers_ = self._fit(rows)
        self.n_rows_ = len(rows)
        return self

    def transform(self, forecast: Forecast) -> Forecast:
        """Return the recalibrated forecast.

        Parameters
        ----------
        forecast : Forecast, or frozen distribution of SciPy
            From the same forecaster as those of the fit, of any number of rows.

        Raises
        ------
        NotFittedError
            Before `fit`.
        InvalidTypeError
            If it is no forecast.
        """
        self._check_fitted()
        forecast = as_forecast(forecast)
        for layer in self.layers_:
            forecast = layer.apply(forecast)
        return forecast

    @abstractmethod
    def _check_settings(self) -> None:
        """Refuse settings that can't be used."""

    @abstractmethod
    def _fit(self, rows: Outcomes) -> tuple[Layer, ...]:
        """Return the layers that the rows ask for."""

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted. Call fit(forecast, y) first.")
