"""Scores of forecasts: closed forms, weights, propriety."""

from __future__ import annotations

import math

import numpy as np
import pytest
from forecast_cases import KINDS, forecasts, misjudged, right
from scipy import integrate, stats

from calibrant.errors import InvalidTypeError, InvalidWeightError, ShapeError
from calibrant.forecasts import (
    GaussianForecast,
    GridForecast,
    ScipyForecast,
    average_calibration_error,
    coverage,
    crps,
    distribution_calibration_error,
    interval_score,
    log_score,
    pinball_loss,
    pit_histogram,
    reliability_gap,
    reliability_gaps,
    sharpness,
    threshold_calibration_error,
    threshold_calibration_errors,
)

LOSS = ((0.0, 10.0), (2.0, 1.0))
#: Every metric as a function of forecast and outcomes, thresholds fixed.
METRICS = {
    "crps": crps,
    "pinball_loss": pinball_loss,
    "interval_score": interval_score,
    "coverage": coverage,
    "average_calibration_error": average_calibration_error,
    "threshold_calibration_error": lambda f, y, sample_weight=None: threshold_calibration_error(
        f, y, 0.1, 0.4, sample_weight=sample_weight
    ),
    "weighted threshold errors": lambda f, y, sample_weight=None: float(
        np.nansum(threshold_calibration_errors(f, y, y0=[-0.5, 0.2], min_rows=1, sample_weight=sample_weight).weighted)
    ),
    "distribution_calibration_error": lambda f, y, sample_weight=None: distribution_calibration_error(
        f, y, n_bins=(1, 1), sample_weight=sample_weight
    ),
    "reliability_gap": lambda f, y, sample_weight=None: reliability_gap(
        f, y, (0.1, 0.4), LOSS, sample_weight=sample_weight
    ),
    "reliability_gaps": lambda f, y, sample_weight=None: (
        reliability_gaps(f, y, y0=[-0.5, 0.2], sample_weight=sample_weight).mean
    ),
    "pit_histogram": lambda f, y, sample_weight=None: float(
        np.square(pit_histogram(f, y, sample_weight=sample_weight).density).sum()
    ),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", ["gaussian", "quantile, ties", "sample"])
def test_weight_two_equals_two_rows(name, kind):
    forecast = forecasts(60)[kind]
    y = np.round(np.random.default_rng(1).normal(size=60), 1)
    weight = np.random.default_rng(2).integers(0, 4, 60)
    numbers = np.repeat(np.arange(60), weight)
    weighted = METRICS[name](forecast, y, sample_weight=weight)
    assert weighted == pytest.approx(METRICS[name](forecast[numbers], y[numbers]), abs=1e-12)
    doubled = METRICS[name](forecast, y, sample_weight=np.full(60, 2.0))
    assert doubled == pytest.approx(METRICS[name](forecast, y), abs=1e-13)


@pytest.mark.parametrize("name", METRICS)
def test_weight_zero_equals_no_row(name):
    forecast = forecasts(60)["gaussian"]
    y = np.random.default_rng(1).normal(size=60)
    weight = np.random.default_rng(2).random(60) * (np.arange(60) % 3 > 0)
    kept = weight > 0.0
    assert METRICS[name](forecast, y, sample_weight=weight) == METRICS[name](
        forecast[kept], y[kept], sample_weight=weight[kept]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_crps_is_the_integral_of_twice_the_pinball_loss(kind):
    forecast = forecasts(12)[kind]
    y = np.random.default_rng(3).normal(size=12)
    levels = (np.arange(20_000) + 0.5) / 20_000
    above = y[:, None] - forecast.ppf(levels[None, :])
    loss = np.where(above >= 0.0, levels * above, (levels - 1.0) * above)
    assert crps(forecast, y) == pytest.approx(2.0 * loss.mean(), abs=3e-4)
    median = pinball_loss(forecast, y)
    assert median == pytest.approx(0.5 * np.abs(y - forecast.ppf(0.5)).mean())


def test_crps_of_normal_forecasts_equals_its_definition():
    score = crps(GaussianForecast([1.0], 2.0), [0.3])
    low = integrate.quad(lambda t: stats.norm.cdf(t, 1.0, 2.0) ** 2, -40.0, 0.3, epsabs=1e-12)[0]
    high = integrate.quad(lambda t: stats.norm.sf(t, 1.0, 2.0) ** 2, 0.3, 40.0, epsabs=1e-12)[0]
    assert score == pytest.approx(low + high, abs=1e-10)


def test_log_score_is_the_mean_negative_log_density():
    forecast, y = misjudged()
    assert log_score(forecast, y) == pytest.approx(-stats.norm.logpdf(y, forecast.mean(), 0.6).mean(), rel=1e-12)
    assert log_score(GridForecast([0.0, 1.0], [[0.0, 1.0]]), [2.0]) == math.inf
    assert log_score(ScipyForecast(stats.poisson([2.0])), [1.0]) == pytest.approx(2.0 - math.log(2.0))
    with pytest.raises(InvalidTypeError, match="SampleForecast has no density, and so no log score"):
        log_score(forecasts(2)["sample"], [0.0, 0.0])


def test_interval_score_is_two_pinball_losses():
    forecast, y = misjudged()
    both = pinball_loss(forecast, y, level=0.1) + pinball_loss(forecast, y, level=0.9)
    assert interval_score(forecast, y, level=0.8) == pytest.approx(both / 0.1, rel=1e-9)
    assert sharpness(forecast, level=0.8) == pytest.approx(2.0 * 0.6 * stats.norm.ppf(0.9))
    weights = np.arange(1.0, 4.0)
    wide = sharpness(GaussianForecast(np.zeros(3), [1.0, 2.0, 3.0]), level=0.5, sample_weight=weights)
    assert wide == pytest.approx(2.0 * stats.norm.ppf(0.75) * (1.0 + 4.0 + 9.0) / 6.0)


def test_coverage_counts_ends():
    forecast = GridForecast([0.0, 1.0], [[0.0, 1.0]] * 3)
    assert coverage(forecast, [0.25, 0.75, 0.76], level=0.5) == pytest.approx(2.0 / 3.0)


def test_the_truth_scores_best():
    truth, y = right(4000)
    shifted = GaussianForecast(truth.mean() + 0.3, truth.std())
    narrow = GaussianForecast(truth.mean(), 0.6 * truth.std())
    wide = GaussianForecast(truth.mean(), 1.6 * truth.std())
    for score in (crps, log_score, interval_score):
        assert score(truth, y) < min(score(wrong, y) for wrong in (shifted, narrow, wide))


def test_refusals_name_what_is_wrong():
    forecast = forecasts(3)["gaussian"]
    with pytest.raises(InvalidTypeError, match="forecast is a ndarray, not a forecast"):
        crps(np.zeros(3), np.zeros(3))
    with pytest.raises(ShapeError, match="forecast has 3 rows and y has 2"):
        crps(forecast, [0.0, 1.0])
    with pytest.raises(InvalidWeightError, match="sample_weight is zero in all 3 rows"):
        crps(forecast, [0.0, 1.0, 2.0], sample_weight=[0.0, 0.0, 0.0])
    with pytest.raises(ShapeError, match="the forecast has 3 rows and sample_weight has 2"):
        sharpness(forecast, sample_weight=[1.0, 2.0])
