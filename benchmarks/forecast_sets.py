"""Regression sets with base forecasters that were trained on part of them, and one whose forecasts are the truth."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibrant.forecasts import Forecast, GaussianForecast, QuantileForecast

Array = np.ndarray[Any, np.dtype[np.float64]]
SETS = (
    "concrete",
    "crime",
    "energy_efficiency",
    "forest_fires",
    "power_plant",
    "wine_red",
    "yacht",
    "appliances_energy_9500",
)
TRUTH = "synthetic"
#: Most rows of the calibration and of the test part, each.
MOST_ROWS = 1_500
LEVELS = np.array([0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98])


class Run(NamedTuple):
    """Forecasts and outcomes of the calibration rows and of the test rows."""

    set: str
    base: str
    seed: int
    calibration: tuple[Forecast, Array]
    test: tuple[Forecast, Array]


def runs(n_seeds: int) -> Iterator[Run]:
    """Yield each set with each base forecaster, split anew by each seed, and the truth."""
    for name in SETS:
        yield from runs_of(name, "boosted normal", n_seeds)
        if name in ("concrete", "power_plant", "wine_red"):
            yield from runs_of(name, "quantile trees", n_seeds)
    for seed in range(n_seeds):
        yield truth(seed)


def runs_of(name: str, base: str, n_seeds: int) -> Iterator[Run]:
    """Yield a set with a base forecaster, split anew by each seed."""
    train = {"boosted normal": boosted_normal, "quantile trees": quantile_trees}[base]
    folder = Path(os.environ.get("CALIBRANT_DATA", "data")) / "regression"
    path = folder / f"{name}.csv"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing. Set CALIBRANT_DATA to the folder that holds regression/.")
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    for seed in range(n_seeds):
        yield split(name, base, train, table, seed)


def split(name: str, base: str, train: Callable[..., Any], table: Array, seed: int) -> Run:
    """Train on half of the rows, and forecast two other parts; outcomes are standardised by the training rows."""
    rows = np.random.default_rng(seed).permutation(len(table))
    half, rest = np.split(rows, [len(rows) // 2])
    calibration, test = np.array_split(rest, 2)
    x, y = table[:, :-1], table[:, -1]
    y = (y - y[half].mean()) / y[half].std()
    forecast = train(x[half], y[half], seed)
    parts = [(forecast(x[part]), y[part]) for part in (calibration[:MOST_ROWS], test[:MOST_ROWS])]
    return Run(name, base, seed, parts[0], parts[1])


def boosted_normal(x: Array, y: Array, seed: int) -> Callable[[Array], Forecast]:
    """Boost the mean, then the log of the squared residual of the same rows: too sure of itself, as many models are."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    mean = HistGradientBoostingRegressor(max_iter=60, random_state=seed).fit(x, y)
    residual = np.log(np.square(y - mean.predict(x)) + 1e-6)
    spread = HistGradientBoostingRegressor(max_iter=20, random_state=seed).fit(x, residual)
    # E log chi^2_1 = -1.27: what the log of a squared normal lies below the log of its variance, on average.
    return lambda new: GaussianForecast(mean.predict(new), np.exp(0.5 * (spread.predict(new) + 1.27)))


def quantile_trees(x: Array, y: Array, seed: int) -> Callable[[Array], Forecast]:
    """Boost each of seven quantiles by itself; rows whose quantiles cross are sorted."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, max_iter=40, random_state=seed).fit(x, y)
        for level in LEVELS
    ]

    def forecast(new: Array) -> Forecast:
        return QuantileForecast(LEVELS, np.sort(np.column_stack([model.predict(new) for model in models]), axis=1))

    return forecast


def truth(seed: int) -> Run:
    """Draw outcomes from the forecasts themselves."""
    rng = np.random.default_rng(1_000 + seed)

    def part(n: int) -> tuple[Forecast, Array]:
        mean, std = rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
        return GaussianForecast(mean, std), mean + std * rng.normal(size=n)

    return Run(TRUTH, "the truth", seed, part(MOST_ROWS), part(MOST_ROWS))
