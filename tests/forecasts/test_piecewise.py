"""Forecasts by quantiles and grids: tails, atoms, crossings, and the distributions that they come from."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts

from calibrant.errors import (
    DataWarning,
)
from calibrant.forecasts import (
    GridForecast,
    QuantileForecast,
)


def test_quantiles_that_cross_are_sorted_and_said():
    with pytest.warns(DataWarning, match="quantiles of 1 of 2 rows cross, first in row 1; they were sorted"):
        crossed = QuantileForecast([0.1, 0.5, 0.9], [[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(crossed.ppf([[0.1, 0.5, 0.9]]), [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]])


def test_tails_of_quantiles_go_on_with_the_density_at_the_outer_quantile():
    forecast = QuantileForecast([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]])
    assert forecast.pdf(-1.0 - 1e-9)[0] == pytest.approx(0.4)
    assert forecast.pdf(2.0 + 1e-9)[0] == pytest.approx(0.2)
    assert forecast.cdf(-1.25)[0] == pytest.approx(0.1 * np.exp(-1.0))
    assert forecast.sf(3.0)[0] == pytest.approx(0.1 * np.exp(-2.0))
    flat = QuantileForecast([0.1, 0.5, 0.9], [[-1.0, 0.0, 2.0]], tails="atoms")
    assert flat.cdf_below(-1.0)[0] == 0.0
    assert flat.cdf(-1.0)[0] == 0.1
    assert flat.cdf_below(2.0)[0] == 0.9
    assert flat.cdf(2.0)[0] == 1.0
    np.testing.assert_array_equal(flat.ppf([[0.0, 1.0]]), [[-1.0, 2.0]])


def test_equal_quantiles_are_an_atom():
    forecast = QuantileForecast([0.0, 0.2, 0.8, 1.0], [[0.0, 1.0, 1.0, 2.0]])
    assert forecast.cdf(1.0)[0] == 0.8
    assert forecast.cdf_below(1.0)[0] == 0.2
    assert forecast.pdf(1.0)[0] == np.inf
    assert forecast.pdf(1.5)[0] == pytest.approx(0.2)
    constant = QuantileForecast([0.2, 0.8], [[1.0, 1.0]])
    assert constant.cdf(1.0)[0] == 1.0
    assert constant.cdf_below(1.0)[0] == 0.0
    assert constant.crps([3.0])[0] == 2.0
    assert constant.mean()[0] == 1.0
    assert constant.std()[0] == 0.0


def test_levels_without_points_between_have_no_density():
    forecast = GridForecast([0.0, 1.0, 2.0, 3.0], [[0.0, 0.5, 0.5, 1.0]])
    assert forecast.logpdf(1.5)[0] == -np.inf
    assert forecast.ppf(0.5)[0] == 1.0
    np.testing.assert_array_equal(forecast.ppf([[0.0, 1.0]]), [[0.0, 3.0]])


def test_grid_of_a_normal_distribution_is_nearly_that_distribution():
    normal, y = forecasts(20)["gaussian"], np.random.default_rng(1).normal(size=20)
    points = np.linspace(-12.0, 12.0, 4001)
    grid = GridForecast(points, normal.cdf(points[None, :]))
    np.testing.assert_allclose(grid.crps(y), normal.crps(y), atol=1e-5)
    np.testing.assert_allclose(grid.mean(), normal.mean(), atol=1e-5)
    np.testing.assert_allclose(grid.std(), normal.std(), atol=1e-4)
