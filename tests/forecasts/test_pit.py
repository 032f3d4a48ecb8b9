"""The probability integral transform, its histogram and tests, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right
from scipy import stats

from calibrant.forecasts import (
    GaussianForecast,
    GridForecast,
    SampleForecast,
    ScipyForecast,
    average_calibration_error,
    pit,
    pit_histogram,
    pit_test,
)


def uniform(n):
    """Return a forecast whose CDF is the identity on [0, 1]: outcomes are their own PIT."""
    return GridForecast([0.0, 1.0], np.tile([0.0, 1.0], (n, 1)))


@pytest.mark.parametrize("n", [2, 7, 300])
def test_pit_test_is_that_of_scipy(n):
    values = np.random.default_rng(n).random(n) ** 1.2
    test = pit_test(uniform(n), values)
    kolmogorov = stats.kstest(values, "uniform", method="exact")
    cramer = stats.cramervonmises(values, "uniform")
    assert test.kolmogorov_smirnov == pytest.approx(kolmogorov.statistic, abs=1e-14)
    assert test.kolmogorov_smirnov_p_value == pytest.approx(kolmogorov.pvalue, abs=1e-9)
    assert test.cramer_von_mises == pytest.approx(cramer.statistic, rel=1e-10)
    assert test.cramer_von_mises_p_value == pytest.approx(cramer.pvalue, abs=1e-9)
    assert test.n == n


@pytest.mark.slow
def test_p_values_of_a_forecast_that_is_right_are_uniform():
    found = [pit_test(*right(60, seed)) for seed in range(200)]
    for name in ("kolmogorov_smirnov_p_value", "cramer_von_mises_p_value"):
        values = [getattr(test, name) for test in found]
        assert stats.kstest(values, "uniform").pvalue > 0.01
    assert pit_test(*misjudged()).cramer_von_mises_p_value < 1e-6


def test_even_weights_test_as_no_weights_and_few_heavy_rows_as_few():
    forecast, y = right(100)
    plain = pit_test(forecast, y)
    assert pit_test(forecast, y, sample_weight=np.full(100, 3.0)) == plain
    heavy = pit_test(forecast, y, sample_weight=np.where(np.arange(100) < 10, 1.0, 1e-9))
    few = pit_test(forecast[:10], y[:10])
    assert heavy.kolmogorov_smirnov_p_value == pytest.approx(few.kolmogorov_smirnov_p_value, rel=1e-6)


def test_pit_of_discrete_forecasts_is_uniform_if_they_are_right():
    rng = np.random.default_rng(1)
    forecast = ScipyForecast(stats.poisson(rng.gamma(2.0, 1.0, 4000)))
    y = forecast.sample(1, rng)[:, 0]
    values = pit(forecast, y, rng=2)
    assert stats.kstest(values, "uniform").pvalue > 0.01
    np.testing.assert_array_equal(values, pit(forecast, y, rng=2))
    assert ((values >= forecast.cdf_below(y)) & (values <= forecast.cdf(y))).all()
    assert average_calibration_error(forecast, y) < 0.01
    assert np.abs(pit_histogram(forecast, y).density - 1.0).max() < 0.2


def test_pit_of_continuous_forecasts_draws_nothing():
    forecast, y = right()
    np.testing.assert_array_equal(pit(forecast, y, rng=1), pit(forecast, y, rng=2))
    np.testing.assert_array_equal(pit(forecast, y), forecast.cdf(y))


def test_histogram_counts_outcomes_by_level():
    histogram = pit_histogram(uniform(5), [0.1, 0.2, 0.4, 0.5, 0.95], n_bins=2)
    np.testing.assert_allclose(histogram.density, [1.6, 0.4])
    np.testing.assert_array_equal(histogram.edges, [0.0, 0.5, 1.0])
    ends = pit_histogram(uniform(2), [0.0, 1.0], n_bins=4)
    np.testing.assert_allclose(ends.density, [2.0, 0.0, 0.0, 2.0])


def test_outcome_on_an_atom_is_spread_over_its_levels():
    forecast = GridForecast([-1.0, 0.0, 0.0, 1.0], [[0.0, 0.25, 0.75, 1.0]])
    np.testing.assert_allclose(pit_histogram(forecast, [0.0], n_bins=4).density, [0.0, 2.0, 2.0, 0.0])
    samples = SampleForecast([[0.0, 1.0]])
    np.testing.assert_allclose(pit_histogram(samples, [0.0], n_bins=2).density, [2.0, 0.0])


def test_bands_hold_the_bins_of_forecasts_that_are_right_as_often_as_they_say():
    one, every = [], []
    for seed in range(200):
        histogram = pit_histogram(*right(500, seed), n_bins=10, level=0.9)
        inside = (histogram.low <= histogram.density) & (histogram.density <= histogram.high)
        all_inside = (histogram.low_all <= histogram.density) & (histogram.density <= histogram.high_all)
        one.append(inside.mean())
        every.append(all_inside.all())
    assert 0.88 <= np.mean(one) <= 0.96
    assert 0.86 <= np.mean(every) <= 0.98


def test_saturated_levels_are_counted():
    forecast = GaussianForecast(np.zeros(4), 1.0)
    far = np.array([9.0, -9.0, 50.0, -50.0])
    assert pit_test(forecast, far).kolmogorov_smirnov == pytest.approx(0.5)
    assert pit_histogram(forecast, far, n_bins=2).density == pytest.approx([1.0, 1.0])


def test_every_kind_of_forecast_has_a_histogram_of_mass_one():
    for forecast in forecasts(40).values():
        density = pit_histogram(forecast, np.round(np.random.default_rng(1).normal(size=40), 1), n_bins=7).density
        assert density.mean() == pytest.approx(1.0, abs=1e-12)
