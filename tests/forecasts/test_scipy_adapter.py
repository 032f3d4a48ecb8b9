"""Forecasts by SciPy's distributions: what SciPy says, and what takes them as they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.errors import (
    InvalidTypeError,
)
from calibrant.forecasts import (
    AverageRecalibrator,
    GaussianForecast,
    SampleForecast,
    ScipyForecast,
    ThresholdRule,
    crps,
    sharpness,
)


def test_crps_of_a_discrete_distribution_is_that_of_many_samples():
    forecast = ScipyForecast(stats.poisson([0.2, 3.0, 40.0]))
    y = [0.0, 2.5, 55.0]
    many = SampleForecast(forecast.ppf((np.arange(20_000)[None, :] + 0.5) / 20_000))
    np.testing.assert_allclose(forecast.crps(y), many.crps(y), atol=2e-4)


def test_scipy_distributions_answer_as_scipy_does():
    mean, std = np.arange(4.0), np.arange(1.0, 5.0)
    forecast = ScipyForecast(stats.gumbel_r(mean, scale=std))
    y = np.linspace(-1.0, 4.0, 4)
    np.testing.assert_array_equal(forecast.cdf(y), stats.gumbel_r.cdf(y, mean, std))
    np.testing.assert_array_equal(forecast[1:3].logpdf(y[1:3]), stats.gumbel_r.logpdf(y, mean, std)[1:3])
    np.testing.assert_array_equal(forecast.std(), stats.gumbel_r.std(mean, std))
    assert len(ScipyForecast(stats.norm(), n=5)) == 5
    poisson = ScipyForecast(stats.poisson([2.0]))
    assert poisson.logpdf(3.0)[0] == pytest.approx(stats.poisson.logpmf(3, 2.0))
    assert poisson.cdf_below(3.0)[0] == stats.poisson.cdf(2, 2.0)
    assert poisson.cdf_below(2.5)[0] == stats.poisson.cdf(2, 2.0)


def test_metrics_and_recalibrators_take_frozen_distributions_as_they_are():
    mean, y = np.linspace(-1.0, 1.0, 40), np.linspace(-2.0, 2.0, 40)
    frozen, same = stats.norm(mean, 0.5), GaussianForecast(mean, 0.5)
    assert crps(frozen, y) == pytest.approx(crps(same, y), rel=1e-6)
    assert sharpness(frozen) == pytest.approx(sharpness(same))
    np.testing.assert_array_equal(ThresholdRule(0.0, 0.4).decide(frozen), ThresholdRule(0.0, 0.4).decide(same))
    fitted = AverageRecalibrator().fit(frozen, y)
    np.testing.assert_allclose(fitted.transform(frozen).cdf(0.3), fitted.transform(same).cdf(0.3))
    with pytest.raises(InvalidTypeError, match="forecast is a norm_gen, not a forecast"):
        crps(stats.norm, y)
