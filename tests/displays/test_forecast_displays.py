"""Pictures of forecasts show the numbers of the functions that measure them."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt

import calibrant as cb
from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.forecasts import (
    GaussianForecast,
    average_calibration_error,
    level_curve,
    pit_histogram,
    reliability_gaps,
    threshold_calibration_error,
    threshold_curves,
)

RNG = np.random.default_rng(0)
MEAN = RNG.normal(size=400)
Y = MEAN + RNG.normal(size=400)
NARROW, TRUE = GaussianForecast(MEAN, 0.5), GaussianForecast(MEAN, 1.0)


def test_pit_bars_are_the_histogram() -> None:
    display = cb.PitDisplay.from_forecast(NARROW, Y, n_bins=10)
    expected = pit_histogram(NARROW, Y, n_bins=10)
    bars = [patch for patch in display.ax_.patches if type(patch).__name__ == "StepPatch"]
    np.testing.assert_array_equal(bars[0].get_data().values, expected.density)
    assert display.ax_.get_title() == "n = 400 rows"
    labels = display.ax_.get_legend_handles_labels()[1]
    assert labels == ["95% of all bins", "95% of one bin"]
    assert expected.density[[0, -1]].min() > expected.high_all


def test_level_curve_is_the_share_of_outcomes_below_quantiles() -> None:
    weight = np.arange(400.0)
    curve = level_curve(NARROW, Y, sample_weight=weight)
    for level, share in zip(curve.levels, curve.share, strict=True):
        below = NARROW.ppf(level) >= Y
        assert share == pytest.approx(np.average(below, weights=weight), abs=1e-12)
    assert curve.error == average_calibration_error(NARROW, Y, sample_weight=weight)
    assert curve.n == 399


def test_band_holds_the_curve_of_a_calibrated_forecast_as_often_as_it_says() -> None:
    inside = []
    for seed in range(100):
        y = TRUE.sample(1, seed)[:, 0]
        curve = level_curve(TRUE, y, level=0.9)
        inside.append((curve.low <= curve.share) & (curve.share <= curve.high))
    assert 0.88 <= np.mean(inside) <= 0.96


def test_curves_of_a_rule_add_up_to_its_error() -> None:
    yes, no = threshold_curves(NARROW, Y, (0.2, 0.4))
    assert yes.error + no.error == pytest.approx(threshold_calibration_error(NARROW, Y, 0.2, 0.4))
    assert yes.n == int((NARROW.cdf(0.2) <= 0.4).sum())
    assert (yes.label, no.label) == ("P(Y ≤ 0.2) ≤ 0.4", "P(Y ≤ 0.2) > 0.4")
    with pytest.raises(InvalidInputError, match=r"says yes in all 400 rows. Pass a rule with rows on both sides"):
        threshold_curves(NARROW, Y, (0.2, 1.0))


def test_reliability_lines_are_the_curves() -> None:
    display = cb.ForecastReliabilityDisplay.from_forecast({"before": NARROW, "after": TRUE}, Y)
    lines = display.ax_.lines[1:]
    for line, forecast in zip(lines, (NARROW, TRUE), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), level_curve(forecast, Y).share)
    assert [line.get_label() for line in lines] == [
        f"before: error {average_calibration_error(NARROW, Y):.3f}",
        f"after: error {average_calibration_error(TRUE, Y):.3f}",
    ]
    sides = cb.ForecastReliabilityDisplay.from_forecast(NARROW, Y, decision=(0.2, 0.4))
    assert [curve.label for curve in sides.curves] == ["P(Y ≤ 0.2) ≤ 0.4", "P(Y ≤ 0.2) > 0.4"]


def test_gap_maps_and_losses_are_the_table() -> None:
    display = cb.ReliabilityGapDisplay.from_forecast({"before": NARROW, "after": TRUE}, Y)
    before = reliability_gaps(NARROW, Y)
    np.testing.assert_allclose(display.axes_[0].collections[0].get_array(), before.values.mean(axis=2).T)
    assert display.axes_[0].get_title() == f"before\nmean gap {before.mean:.3f}, max {before.max:.3f}"
    shown = display.axes_[2].lines[0]
    step = before.true.size // 1500
    np.testing.assert_array_equal(shown.get_xdata(), before.predicted.ravel()[::step])
    np.testing.assert_array_equal(shown.get_ydata(), before.true.ravel()[::step])


def test_display_draws_where_it_is_told() -> None:
    _, (left, right) = plt.subplots(1, 2)
    assert cb.PitDisplay(pit_histogram(TRUE, Y)).plot(left).ax_ is left
    assert cb.ForecastReliabilityDisplay(level_curve(TRUE, Y)).plot(right).ax_ is right


def test_refusals_say_what_to_pass() -> None:
    with pytest.raises(InvalidTypeError, match=r"histogram is a int. .* PitDisplay.from_forecast\(forecast, y\)"):
        cb.PitDisplay(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match="curve holds a int"):
        cb.ForecastReliabilityDisplay([3])  # type: ignore[list-item]
    with pytest.raises(ShapeError, match="curve is an empty sequence"):
        cb.ForecastReliabilityDisplay([])
    with pytest.raises(ShapeError, match="forecast is an empty mapping"):
        cb.ForecastReliabilityDisplay.from_forecast({}, Y)
    with pytest.raises(InvalidTypeError, match="gaps holds a int"):
        cb.ReliabilityGapDisplay(3)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="gaps is an empty mapping"):
        cb.ReliabilityGapDisplay({})
