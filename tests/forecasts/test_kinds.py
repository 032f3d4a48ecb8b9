"""Forecasts by quantiles, grids and samples: tails, atoms, crossings, exact sums, weights, and fair scores."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts
from hypothesis import given, strategies as st

from calibrant.errors import (
    DataWarning,
    InvalidTypeError,
)
from calibrant.forecasts import (
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    SampleForecast,
    crps,
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


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=12), st.floats(0.0, 1.0))
def test_quantile_of_samples_is_exact(samples, level):
    forecast = SampleForecast([samples])
    at = forecast.ppf(level)[0]
    assert at in samples
    assert at == min(samples) or forecast.cdf_below(at)[0] < level
    assert forecast.cdf(at)[0] >= level


def test_crps_of_samples_equals_the_double_sum():
    rng = np.random.default_rng(4)
    samples, y = rng.normal(size=(20, 7)), rng.normal(size=20)
    spread = np.abs(samples[:, :, None] - samples[:, None, :]).mean(axis=(1, 2))
    expected = np.abs(samples - y[:, None]).mean(axis=1) - 0.5 * spread
    np.testing.assert_allclose(SampleForecast(samples).crps(y), expected, atol=1e-14)


def test_weights_of_samples_are_repetitions():
    rng = np.random.default_rng(5)
    samples, weights, y = rng.normal(size=(30, 6)), rng.integers(0, 4, (30, 6)) + np.eye(6)[2], rng.normal(size=30)
    weighted = SampleForecast(samples, weights)
    points, levels = np.sort(rng.normal(size=(30, 20))), rng.random((30, 20))
    for i in range(30):
        repeated = SampleForecast([np.repeat(samples[i], weights[i].astype(int)).tolist() * 2])
        one = weighted[[i]]
        for name in ("mean", "std"):
            np.testing.assert_allclose(getattr(one, name)(), getattr(repeated, name)(), atol=1e-12)
        np.testing.assert_allclose(one.cdf(points[[i]]), repeated.cdf(points[[i]]), atol=1e-12)
        np.testing.assert_array_equal(one.ppf(levels[[i]]), repeated.ppf(levels[[i]]))
        np.testing.assert_allclose(one.crps(y[[i]]), repeated.crps(y[[i]]), atol=1e-12)
    shared = SampleForecast(samples, weights[0])
    np.testing.assert_array_equal(shared.cdf(points), SampleForecast(samples, np.tile(weights[0], (30, 1))).cdf(points))
    even = SampleForecast(samples, np.full(6, 0.7))
    np.testing.assert_allclose(even.smoothed().ppf(levels), SampleForecast(samples).smoothed().ppf(levels), atol=1e-9)
    np.testing.assert_allclose(even.fair_crps(y), SampleForecast(samples).fair_crps(y), atol=1e-12)


def test_fair_crps_takes_pairs_of_different_samples_and_is_unbiased():
    rng = np.random.default_rng(6)
    samples, y = rng.normal(size=(20_000, 4)), rng.normal(size=20_000)
    pairs = np.abs(samples[:, :, None] - samples[:, None, :]).sum(axis=(1, 2)) / 12.0
    expected = np.abs(samples - y[:, None]).mean(axis=1) - 0.5 * pairs
    forecast = SampleForecast(samples)
    np.testing.assert_allclose(forecast.fair_crps(y), expected, atol=1e-12)
    truth = GaussianForecast(np.zeros(20_000), 1.0).crps(y)
    error = np.std(expected - truth) / np.sqrt(20_000)
    assert abs(np.mean(expected - truth)) < 4.0 * error
    assert np.mean(forecast.crps(y) - truth) > 10.0 * error
    assert crps(forecast, y, fair=True) == pytest.approx(expected.mean())
    with pytest.raises(InvalidTypeError, match="fair=True with a GaussianForecast"):
        crps(GaussianForecast([0.0], 1.0), [0.0], fair=True)


def test_samples_have_no_density_but_smoothed_ones_do():
    forecast = forecasts()["sample"]
    with pytest.raises(InvalidTypeError, match=r"SampleForecast has no density.*smoothed"):
        forecast.logpdf(0.0)
    assert not forecast.has_density
    assert np.isfinite(forecasts()["smoothed"].logpdf(0.0)).all()
