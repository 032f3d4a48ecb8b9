"""Rows whose forecasts are wrong in a known way, and reference forecasts with an independent rendering's figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.forecasts import GaussianForecast

Array = np.ndarray[Any, np.dtype[np.float64]]
FOLDER = Path(__file__).parent / "fixtures"
NAMES = ("power_plant_v30_s0", "crime_v10_s0", "concrete_v30_s0")


def misspecified(n: int, seed: int = 0) -> tuple[GaussianForecast, Array]:
    """Draw forecasts that are too narrow above zero and too wide below."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return GaussianForecast(mean, std), mean + std * rng.normal(size=n) * np.where(mean > 0.0, 1.7, 0.6)


def truthful(n: int, seed: int = 0) -> tuple[GaussianForecast, Array]:
    """Draw outcomes from the forecasts."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return GaussianForecast(mean, std), mean + std * rng.normal(size=n)


def fixture(name: str) -> tuple[tuple[GaussianForecast, Array], tuple[GaussianForecast, Array], dict[str, Any]]:
    """Return calibration rows, test rows and the expected figures."""
    parts = []
    for part in ("cal", "test"):
        mean, std, y = np.loadtxt(FOLDER / f"{name}_{part}.csv", delimiter=",", skiprows=1).T
        parts.append((GaussianForecast(mean, std), y))
    expected = json.loads((FOLDER / "expected.json").read_text("utf-8"))[name]
    return parts[0], parts[1], expected
