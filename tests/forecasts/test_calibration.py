"""Calibration errors of forecasts: brute force on fine grids, identities, and figures of another implementation."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right
from hypothesis import given, strategies as st

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts import (
    Forecast,
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    ThresholdRule,
    average_calibration_error,
    crps,
    distribution_calibration_error,
    log_score,
    noise_floor,
    pit,
    reliability_gap,
    reliability_gaps,
    threshold_calibration_error,
    threshold_calibration_errors,
)

FORECAST, Y = right(30)
#: Middles of 200,000 equal parts of [0, 1].
FINE = (np.arange(200_000) + 0.5) / 200_000


def brute(values, weight=None):
    """Return int |F(c) - c| dc of PIT values by a Riemann sum."""
    order = np.argsort(values)
    weight = np.ones(values.size) if weight is None else weight
    heights = np.concatenate(([0.0], np.cumsum(weight[order]))) / weight.sum()
    return float(np.abs(heights[np.searchsorted(values[order], FINE, side="right")] - FINE).mean())


def test_weight_two_is_two_rows_in_bins_of_like_forecasts():
    for seed in range(20):
        forecast, y = misjudged(37, seed)
        weight = np.random.default_rng(seed).integers(1, 4, 37)
        rows = np.repeat(np.arange(37), weight)
        weighted = distribution_calibration_error(forecast, y, sample_weight=weight)
        assert weighted == pytest.approx(distribution_calibration_error(forecast[rows], y[rows]), abs=1e-12)


def test_scale_of_weights_changes_no_bins_of_like_forecasts():
    for seed in range(20):
        forecast, y = misjudged(37, seed)
        weight = np.random.default_rng(seed).exponential(size=37)
        expected = distribution_calibration_error(forecast, y, sample_weight=weight)
        for scale in (1e-6, 1 / weight.sum(), 1e6):
            scaled = distribution_calibration_error(forecast, y, sample_weight=scale * weight)
            assert scaled == pytest.approx(expected, abs=1e-12)


def test_equal_widths_have_one_bin_though_rounding_tells_them_apart():
    rng = np.random.default_rng(6)
    forecast = GaussianForecast(10.0 * rng.normal(size=300), 1.0)
    y = forecast.sample(1, rng)[:, 0]
    assert np.unique(np.subtract(*forecast.interval(0.8))).size > 1
    by_width = distribution_calibration_error(forecast, y, n_bins=(5, 3))
    assert by_width == distribution_calibration_error(forecast, y, n_bins=(5, 1))


@pytest.mark.parametrize("n", [1, 2, 17, 400])
def test_average_calibration_error_equals_a_riemann_sum(n):
    forecast, y = misjudged(n)
    weight = np.random.default_rng(n).random(n) + 0.1
    assert average_calibration_error(forecast, y) == pytest.approx(brute(pit(forecast, y)), abs=1e-5)
    weighted = average_calibration_error(forecast, y, sample_weight=weight)
    assert weighted == pytest.approx(brute(pit(forecast, y), weight), abs=1e-5)


@pytest.mark.parametrize("y0", [-1.0, 0.0, 0.7])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_threshold_calibration_error_equals_a_riemann_sum(y0, alpha):
    forecast, y = misjudged()
    weight = np.random.default_rng(1).random(400) + 0.1
    values, picked = pit(forecast, y), forecast.cdf(y0) <= alpha
    expected = brute(values[picked]) + brute(values[~picked])
    assert threshold_calibration_error(forecast, y, y0, alpha) == pytest.approx(expected, abs=1e-5)
    expected = brute(values[picked], weight[picked]) + brute(values[~picked], weight[~picked])
    weighted = threshold_calibration_error(forecast, y, y0, alpha, sample_weight=weight)
    assert weighted == pytest.approx(expected, abs=1e-5)


def test_rule_that_picks_all_rows_leaves_the_average_calibration_error():
    forecast, y = misjudged()
    expected = average_calibration_error(forecast, y)
    assert threshold_calibration_error(forecast, y, 0.0, 1.0) == expected
    assert threshold_calibration_error(forecast, y, 50.0, 0.5) == expected


@pytest.mark.parametrize("kind", ["gaussian", "quantile, ties", "sample", "poisson"])
def test_family_is_the_errors_of_its_rules(kind):
    forecast = forecasts(80)[kind]
    y = np.round(np.random.default_rng(1).normal(0.5, 1.0, 80), 1)
    y0, alpha = np.array([-0.5, 0.3, 1.1]), np.array([0.2, 0.5, 0.9])
    weight = np.random.default_rng(2).random(80) + 0.1
    table = threshold_calibration_errors(forecast, y, y0=y0, alpha=alpha, min_rows=5, sample_weight=weight)
    assert np.isfinite(table.values).any()
    for k, threshold in enumerate(y0):
        for a, level in enumerate(alpha):
            n_picked = int((forecast.cdf(threshold) <= level).sum())
            if not 5 <= n_picked <= 75:
                assert np.isnan(table.values[k, a])
                continue
            error = threshold_calibration_error(forecast, y, threshold, level, sample_weight=weight)
            assert table.values[k, a] == pytest.approx(error, abs=1e-13)
            assert table.weighted[k, a] <= table.values[k, a]
    assert table.max == np.nanmax(table.values)
    assert table.mean == np.nanmean(table.values)
    assert threshold_calibration_error(forecast, y, *table.worst, sample_weight=weight) == pytest.approx(table.max)


def test_few_rows_have_no_rule_with_enough_on_both_sides():
    table = threshold_calibration_errors(*right(30))
    assert np.isnan(table.mean)
    assert np.isnan(table.max)
    assert table.worst is None


def test_atoms_count_as_randomised_levels_do_on_average():
    forecast = forecasts(40)["sample"]
    y = np.round(np.random.default_rng(1).normal(size=40), 1)
    repeated = np.repeat(np.arange(40), 2000)
    values = pit(forecast[repeated], y[repeated], rng=3)
    assert average_calibration_error(forecast, y) == pytest.approx(brute(values), abs=2e-3)


def test_figures_of_another_implementation():
    """Gap, errors, CRPS and log score of 309 forecasts of the strength of concrete, found with other code."""
    mean, std, y = np.loadtxt(Path(__file__).parent / "concrete_forecasts.csv", delimiter=",", skiprows=1).T
    forecast = GaussianForecast(mean, std)
    gaps, errors = reliability_gaps(forecast, y), threshold_calibration_errors(forecast, y)
    # the other code counted outcomes on a threshold, such as the least and the greatest, on its other side
    assert gaps.mean == pytest.approx(0.075676, abs=5e-4)
    assert gaps.max == pytest.approx(0.405458, abs=1e-6)
    assert errors.max == pytest.approx(0.221772, abs=1e-6)
    # the other code took means over sorted values for the integral, which differ by the order of 1 / n
    assert errors.mean == pytest.approx(0.083913, abs=1.1e-3)
    assert average_calibration_error(forecast, y) == pytest.approx(0.018431, abs=1e-3)
    assert crps(forecast, y) == pytest.approx(0.246927, abs=1e-4)
    assert log_score(forecast, y) == pytest.approx(0.560315, abs=1e-6)


@pytest.mark.slow
def test_forecast_that_is_the_truth_is_within_sampling_error():
    forecast, y = right(1500)
    for metric in (
        average_calibration_error,
        lambda f, y, **options: threshold_calibration_errors(f, y, **options).mean,
        lambda f, y, **options: threshold_calibration_error(f, y, 0.0, 0.5, **options),
        lambda f, y, **options: reliability_gaps(f, y, **options).mean,
        lambda f, y, **options: reliability_gaps(f, y, **options).max,
        distribution_calibration_error,
    ):
        floor = noise_floor(forecast, metric, n_draws=30, level=0.99)
        assert metric(forecast, y) <= 1.3 * floor.high
        assert floor.low <= floor.mean <= floor.high


def test_noise_floor_of_the_average_error_is_that_of_uniform_values():
    floor = noise_floor(GaussianForecast(np.zeros(500), 1.0), average_calibration_error, n_draws=400)
    assert floor.mean == pytest.approx(np.sqrt(2.0 / np.pi) * np.pi / 8.0 / np.sqrt(500.0), rel=0.05)
    again = noise_floor(GaussianForecast(np.zeros(500), 1.0), average_calibration_error, n_draws=400)
    assert again == floor


def test_error_by_distribution_sees_what_averages_out():
    rng = np.random.default_rng(1)
    shift = np.repeat([-0.5, 0.5], 1000)
    mean = np.repeat([-3.0, 3.0], 1000)
    forecast, y = GaussianForecast(mean, 1.0), mean + shift + rng.normal(size=2000)
    assert distribution_calibration_error(forecast, y) > 0.12
    assert distribution_calibration_error(forecast, y, n_bins=(1, 1)) < 0.06
    assert distribution_calibration_error(forecast, y, n_bins=(1, 1)) == average_calibration_error(forecast, y)


# --- the paper's theorem, where it holds and where it doesn't -------------------------------------------------
GRID = np.linspace(0.0, 3.0, 601)
MIDDLES = (np.arange(1500) + 0.5) / 1500


def outcomes_of(predicted, true) -> tuple[Forecast, np.ndarray]:
    """Return forecasts of CDFs, each with outcomes at even levels of its true CDF."""
    y = QuantileOf(true).ppf(MIDDLES[None, :])
    rows = np.repeat(np.arange(len(predicted)), MIDDLES.size)
    return GridForecast(GRID, np.array(predicted))[rows], y.ravel()


def QuantileOf(cdfs) -> GridForecast:  # noqa: N802 - reads as a distribution
    return GridForecast(GRID, np.array(cdfs))


def test_zero_matched_gap_does_not_make_the_threshold_error_zero():
    low = np.where(GRID < 1.0, GRID**2 / 3.0, GRID / 3.0)
    high = np.where(GRID < 1.0, (2.0 * GRID - GRID**2) / 3.0, GRID / 3.0)
    bump = np.where((GRID > 1.0) & (GRID < 2.0), 0.1 * np.sin(np.pi * (GRID - 1.0)) ** 2, 0.0)
    forecast, y = outcomes_of([low, high], [low + bump, high - bump])
    y0 = np.linspace(0.1, 2.9, 29)
    assert reliability_gaps(forecast, y, y0=y0, scale=1.0).max < 2e-3
    assert threshold_calibration_errors(forecast, y, y0=y0).max > 0.03


@functools.cache
def no_threshold_error() -> tuple[Forecast, np.ndarray]:
    """Return forecasts without threshold calibration error, of which no row's is right."""
    t = GRID / 3.0
    a = np.where(t < 0.5, 2.0 * t * t, 0.0)
    b = np.where(t < 0.5, 0.5 - 2.0 * (0.5 - t) ** 2, 0.0)
    p = np.where(t >= 0.5, 0.5 + 2.0 * (t - 0.5) ** 2, 0.0)
    q = np.where(t >= 0.5, 1.0 - 2.0 * (1.0 - t) ** 2, 0.0)
    predicted = [a + p, a + q, b + p, b + q]
    true = [f + s * 0.08 * np.sin(2.0 * np.pi * f) for f, s in zip(predicted, (1, -1, -1, 1), strict=True)]
    return outcomes_of(predicted, true)


def test_zero_threshold_error_makes_matched_gaps_zero_and_others_not():
    forecast, y = no_threshold_error()
    y0 = np.linspace(0.1, 2.9, 29)
    assert threshold_calibration_errors(forecast, y, y0=y0).max < 2e-3
    assert reliability_gaps(forecast, y, y0=y0, scale=1.0).max < 2e-3
    picked = ThresholdRule(0.75, 0.2).decide(forecast)
    assert 0 < picked.sum() < picked.size
    excess = (forecast.cdf(1.8) - (y <= 1.8))[picked]
    assert abs(excess.sum() / picked.size) > 0.01


@given(
    st.floats(0.1, 2.9),
    st.floats(0.0, 1.0),
    st.lists(st.floats(-10.0, 10.0), min_size=4, max_size=4),
    st.booleans(),
)
def test_zero_threshold_error_keeps_every_promise_at_the_rules_own_threshold(y0, alpha, losses, is_above):
    forecast, y = no_threshold_error()
    rule, table = ThresholdRule(y0, alpha, is_above), np.reshape(losses, (2, 2))
    assert reliability_gap(forecast, y, rule, table) <= 2e-3 * max(np.ptp(table), 1.0)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: threshold_calibration_error(FORECAST, Y, 0.0, 1.5), InvalidInputError, r"alpha=1.5 is outside"),
        (lambda: threshold_calibration_error(FORECAST, Y, np.nan, 0.5), InvalidInputError, "y0=nan is outside"),
        (lambda: threshold_calibration_error(FORECAST, Y, "a", 0.5), InvalidTypeError, "y0='a' is not a number"),
        (lambda: threshold_calibration_errors(FORECAST, Y, alpha=[0.5, 0.4]), InvalidInputError, "alpha row 1: 0.4"),
        (lambda: threshold_calibration_errors(FORECAST, Y, min_rows=0), InvalidInputError, "min_rows=0 is too small"),
        (lambda: distribution_calibration_error(FORECAST, Y, n_bins=5), InvalidTypeError, "n_bins=5 is no pair"),
        (lambda: noise_floor(FORECAST, "crps"), InvalidTypeError, "metric='crps' can't be called"),
        (lambda: reliability_gaps(FORECAST, Y, cost=[1.5]), InvalidInputError, r"cost row 0: 1.5 is outside \[0, 1\]"),
        (lambda: reliability_gaps(FORECAST, Y, scale=0.0), InvalidInputError, r"scale=0\.0 is outside \(0, inf\)"),
    ],
)  # fmt: skip
def test_refusals_name_argument_and_value(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_quantile_forecasts_of_the_truth_are_calibrated():
    truth, y = right(3000)
    levels = np.arange(1, 100) / 100.0
    quantiles = QuantileForecast(levels, truth.ppf(levels[None, :]))
    assert average_calibration_error(quantiles, y) == pytest.approx(average_calibration_error(truth, y), abs=2e-3)
    assert crps(quantiles, y) == pytest.approx(crps(truth, y), rel=1e-3)
