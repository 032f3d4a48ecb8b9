"""Laws of predictive distributions of every kind, against quadrature, exact numbers and SciPy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from forecast_cases import CONTINUOUS, KINDS, WITH_DENSITY, forecasts

from calibrant.errors import (
    InvalidInputError,
    InvalidTypeError,
    ShapeError,
)
from calibrant.forecasts import (
    Forecast,
)

POINTS = np.concatenate((np.linspace(-6.0, 6.0, 49), [-np.inf, np.inf]))


@pytest.mark.parametrize("kind", KINDS)
def test_cdf_is_monotone_and_proper(kind):
    forecast = forecasts(30)[kind]
    cdf = forecast.cdf(np.sort(POINTS)[None, :])
    assert (np.diff(cdf, axis=1) >= 0.0).all()
    assert (cdf[:, 0] == 0.0).all()
    assert (cdf[:, -1] == 1.0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_ppf_is_the_least_value_whose_cdf_reaches_the_level(kind):
    forecast = forecasts(30)[kind]
    levels = np.random.default_rng(1).uniform(1e-6, 1.0 - 1e-6, (30, 40))
    at = forecast.ppf(levels)
    assert (forecast.cdf(at) >= levels - 1e-13).all()
    assert (forecast.cdf_below(at) <= levels + 1e-13).all()
    assert (np.diff(forecast.ppf(np.sort(levels, axis=1)), axis=1) >= 0.0).all()


@pytest.mark.parametrize("kind", CONTINUOUS)
def test_cdf_and_ppf_are_inverse_where_nothing_is_an_atom(kind):
    forecast = forecasts(30)[kind]
    levels = np.random.default_rng(1).uniform(1e-3, 1.0 - 1e-3, (30, 40))
    np.testing.assert_allclose(forecast.cdf(forecast.ppf(levels)), levels, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_cdf_below_differs_only_where_a_value_has_probability(kind):
    forecast = forecasts(30)[kind]
    at = forecast.ppf([[0.1, 0.3, 0.5, 0.9]])
    jump = forecast.cdf(at) - forecast.cdf_below(at)
    assert (jump >= 0.0).all()
    near = forecast.cdf(at) - forecast.cdf(np.nextafter(at, -np.inf))
    np.testing.assert_allclose(jump, near, atol=1e-12)
    if kind in CONTINUOUS:
        assert (jump == 0.0).all()


@pytest.mark.parametrize("kind", WITH_DENSITY)
def test_density_is_the_slope_of_the_cdf(kind):
    forecast = forecasts(30)[kind]
    at = np.random.default_rng(2).uniform(-2.5, 2.5, (30, 20)) + 1e-3
    step = 1e-7
    slope = (forecast.cdf(at + step) - forecast.cdf(at - step)) / (2.0 * step)
    np.testing.assert_allclose(forecast.pdf(at), slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_crps_equals_quadrature(kind):
    forecast = forecasts()[kind]
    nodes, weights = np.polynomial.legendre.leggauss(8)
    far = np.linspace(-80.0, 80.0, 1281)  # in steps of 1/8: whole numbers are ends of pieces
    for y in (-4.0, -0.3, 0.25, 5.0):
        scores = forecast.crps(np.full(6, y))
        for i in range(6):
            knots = forecast[i].ppf(np.linspace(0.0, 1.0, 1001)[None, :]).ravel()
            ends = np.unique(np.concatenate((far, knots[np.isfinite(knots)], [y])))
            half = 0.5 * np.diff(ends)
            at = ends[:-1, None] + half[:, None] * (1.0 + nodes)
            squared = (forecast[i].cdf(at.reshape(1, -1)).reshape(at.shape) - (at >= y)) ** 2
            assert scores[i] == pytest.approx(float(np.sum(half[:, None] * weights * squared)), abs=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "t", "smoothed", "quantile"])
def test_generic_quadrature_equals_the_closed_form(kind):
    forecast = forecasts(200)[kind]
    y = np.random.default_rng(3).normal(0.0, 2.0, 200)
    tolerance = {"gaussian": 1e-12, "t": 1e-9}.get(kind, 2e-3)
    np.testing.assert_allclose(Forecast._crps(forecast, y), forecast.crps(y), atol=tolerance)
    np.testing.assert_allclose(Forecast.mean(forecast), forecast.mean(), atol=tolerance)
    np.testing.assert_allclose(Forecast.std(forecast), forecast.std(), atol=max(tolerance, 1e-6))


@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_std_are_those_of_many_samples(kind):
    forecast = forecasts()[kind]
    drawn = forecast.sample(40_000, rng=0)
    assert drawn.shape == (6, 40_000)
    error = forecast.std() / 200.0
    np.testing.assert_allclose(drawn.mean(axis=1), forecast.mean(), atol=4.5 * error.max())
    np.testing.assert_allclose(drawn.std(axis=1), forecast.std(), rtol=0.06)
    np.testing.assert_array_equal(drawn, forecast.sample(40_000, rng=0))


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_alone_gives_the_same_bits_as_in_a_batch(kind):
    forecast = forecasts(37)[kind]
    y = np.random.default_rng(5).normal(size=37)
    grid = np.linspace(-2.0, 2.0, 7)[None, :]
    for i in (0, 17, 36):
        one = forecast[i]
        np.testing.assert_array_equal(one.cdf(grid), forecast.cdf(grid)[[i]])
        np.testing.assert_array_equal(one.cdf(y[[i]]), forecast.cdf(y)[[i]])
        np.testing.assert_array_equal(one.ppf([[0.1, 0.8]]), forecast.ppf([[0.1, 0.8]])[[i]])
        np.testing.assert_array_equal(one.crps(y[[i]]), forecast.crps(y)[[i]])
        np.testing.assert_array_equal(one.mean(), forecast.mean()[[i]])
        np.testing.assert_array_equal(one.std(), forecast.std()[[i]])


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_of_points_follow_one_rule(kind):
    forecast = forecasts(5)[kind]
    per_row, shared = np.linspace(-1.0, 1.0, 5), np.linspace(-1.0, 1.0, 4)[None, :]
    table = np.repeat(shared, 5, axis=0)
    np.testing.assert_array_equal(forecast.cdf(shared), forecast.cdf(table))
    np.testing.assert_array_equal(forecast.cdf(per_row), forecast.cdf(per_row[:, None])[:, 0])
    np.testing.assert_array_equal(forecast.cdf(0.5), forecast.cdf(np.full(5, 0.5)))
    np.testing.assert_array_equal(forecast.ppf([[0.2, 0.9]]), np.column_stack((forecast.ppf(0.2), forecast.ppf(0.9))))
    np.testing.assert_array_equal(forecast.ppf([[0.2]])[:, 0], forecast.ppf(0.2))
    low, high = forecast.interval(0.6)
    np.testing.assert_array_equal(low, forecast.ppf(0.5 - 0.3))
    assert (low <= high).all()
    np.testing.assert_allclose(forecast.sf(per_row), 1.0 - forecast.cdf(per_row), atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_picked_by_slice_mask_and_numbers(kind):
    forecast = forecasts(6)[kind]
    mask = np.array([True, False, True, False, False, True])
    whole = forecast.cdf(0.3)
    np.testing.assert_array_equal(forecast[mask].cdf(0.3), whole[mask])
    np.testing.assert_array_equal(forecast[::2].cdf(0.3), whole[::2])
    np.testing.assert_array_equal(forecast[[5, 0, 0]].cdf(0.3), whole[[5, 0, 0]])
    assert len(forecast[-1]) == 1
    assert repr(forecast[:2]) == f"{type(forecast).__name__} of 2 rows"
    for kept in (pickle.loads(pickle.dumps(forecast)), copy.deepcopy(forecast)):
        np.testing.assert_array_equal(kept.cdf(0.3), whole)


def test_index_errors_say_what_to_pass():
    forecast = forecasts(6)["gaussian"]
    with pytest.raises(InvalidInputError, match=r"forecast of 6 rows: .* Pass a slice, a mask or row numbers"):
        forecast[9]
    with pytest.raises(InvalidTypeError, match="one dimension, its rows"):
        forecast[0, 1]
    with pytest.raises(ShapeError, match="Pick at least one row of the 6"):
        forecast[6:]
