"""Forecasts of every kind, and outcomes for them."""

from __future__ import annotations

import numpy as np
from scipy import stats

from calibrant.forecasts import (
    Forecast,
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    SampleForecast,
    ScipyForecast,
)

LEVELS = np.array([0.05, 0.2, 0.5, 0.7, 0.95])


def forecasts(n: int = 6, seed: int = 0) -> dict[str, Forecast]:
    """Return a forecast of n rows of each kind."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), rng.gamma(3.0, 0.4, n) + 0.1
    rising = np.sort(rng.normal(size=(n, 5)), axis=1)
    cdf = np.sort(rng.random((n, 5)), axis=1)
    return {
        "gaussian": GaussianForecast(mean, std),
        "quantile": QuantileForecast(LEVELS, rising),
        "quantile, atoms": QuantileForecast(LEVELS, np.round(rising), tails="atoms"),
        "quantile, ties": QuantileForecast(LEVELS, np.round(rising)),
        "quantile, closed": QuantileForecast([0.0, 0.3, 1.0], rising[:, :3]),
        "sample": SampleForecast(np.round(rng.normal(size=(n, 9)), 1)),
        "sample, weights": SampleForecast(
            np.round(rng.normal(size=(n, 9)), 1), rng.integers(0, 4, (n, 9)) + np.eye(9)[4]
        ),
        "smoothed, weights": SampleForecast(rng.normal(size=(n, 9)), rng.random((n, 9)) + 0.1).smoothed(),
        "smoothed": SampleForecast(rng.normal(size=(n, 9))).smoothed(),
        "grid": GridForecast([-1.0, 0.0, 0.5, 1.0, 2.0], cdf),
        "grid, jump": GridForecast([-1.0, 0.0, 0.0, 1.0, 2.0], np.column_stack((np.zeros(n), cdf[:, 1:4], np.ones(n)))),
        "grid, rows": GridForecast(rising, cdf, tails="atoms"),
        "t": ScipyForecast(stats.t(df=5.0, loc=mean, scale=std)),
        "poisson": ScipyForecast(stats.poisson(np.exp(mean))),
    }


KINDS = tuple(forecasts(2))
WITH_DENSITY = tuple(name for name, forecast in forecasts(2).items() if forecast.has_density and name != "poisson")
CONTINUOUS = ("gaussian", "quantile", "quantile, closed", "smoothed", "grid", "t")


def misjudged(n: int = 400, seed: int = 0) -> tuple[GaussianForecast, np.ndarray]:
    """Return normal forecasts that are too narrow and shifted where the mean is high, and outcomes."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=n)
    return GaussianForecast(mean, 0.6), mean + 0.4 * (mean > 0.3) + rng.normal(size=n)


def right(n: int = 400, seed: int = 0) -> tuple[GaussianForecast, np.ndarray]:
    """Return normal forecasts and outcomes drawn from them."""
    rng = np.random.default_rng(seed)
    forecast = GaussianForecast(rng.normal(size=n), rng.gamma(3.0, 0.4, n) + 0.1)
    return forecast, forecast.sample(1, rng)[:, 0]
