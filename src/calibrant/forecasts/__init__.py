"""Forecasts of a number: predictive distributions, what they are worth, and decisions taken on them."""

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.gaussian import GaussianForecast
from calibrant.forecasts.grid import GridForecast
from calibrant.forecasts.quantile import QuantileForecast
from calibrant.forecasts.sample import SampleForecast
from calibrant.forecasts.scipy_adapter import ScipyForecast

__all__ = [
    "Forecast",
    "GaussianForecast",
    "GridForecast",
    "QuantileForecast",
    "SampleForecast",
    "ScipyForecast",
]
