"""Quantiles are judged at the levels given: nothing between and beyond them is held against them, or made up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.proportion import proportion_confint

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.forecasts import (
    AverageRecalibrator,
    GaussianForecast,
    GridForecast,
    QuantileForecast,
    average_calibration_error,
    coverage,
    coverage_by_level,
    evaluate,
    interval_score,
    sharpness,
    threshold_calibration_error,
)
from calibrant.forecasts.verdict import recalibration_advice
from calibrant.metrics import Estimate


def right(n: int, levels: list[float], seed: int) -> tuple[QuantileForecast, np.ndarray]:
    """Return the true quantiles of normal outcomes, and outcomes."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    forecast = GaussianForecast(mean, std)
    return QuantileForecast(levels, forecast.ppf(np.array([levels]))), mean + std * rng.normal(size=n)


@pytest.mark.parametrize("levels", [[0.1, 0.5, 0.9], [0.25, 0.75], [0.5, 0.9], [0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95]])
def test_quantiles_that_are_right_are_called_calibrated(levels: list[float]) -> None:
    """Findings D3: straight lines and tails that nobody gave made 3,000 rows of right quantiles "not calibrated"."""
    assert not any("Not calibrated" in evaluate(*right(3_000, levels, seed)).verdict for seed in range(2))
    forecast, y = right(3_000, levels, 9)
    wrong = QuantileForecast(levels, forecast.ppf(np.array([levels])) + 0.25)
    assert "Not calibrated" in evaluate(wrong, y).verdict


def test_the_error_is_that_of_shares_at_the_levels_joined() -> None:
    forecast, y = right(200, [0.1, 0.5, 0.9], 1)
    shares = [float((y <= forecast.ppf(level)).mean()) for level in (0.1, 0.5, 0.9)]
    at = np.linspace(0.0, 1.0, 200_001)
    joined = np.interp(at, [0.0, 0.1, 0.5, 0.9, 1.0], [0.0, *shares, 1.0])
    assert average_calibration_error(forecast, y) == pytest.approx(float(np.abs(joined - at).mean()), abs=1e-6)
    everyone = threshold_calibration_error(forecast, y, 1e9, 1.0)  # all rows on one side
    assert everyone == pytest.approx(average_calibration_error(forecast, y), abs=1e-12)


@given(st.lists(st.integers(0, 4), min_size=3, max_size=3), st.integers(-1, 5))
def test_known_levels_are_those_around_the_outcome(values: list[int], y: int) -> None:
    quantiles = sorted(map(float, values))
    forecast = QuantileForecast([0.2, 0.5, 0.7], [quantiles])
    low, high = forecast.known_levels(np.array([float(y)]))
    padded = list(zip([-np.inf, *quantiles, np.inf], [0.0, 0.2, 0.5, 0.7, 1.0], strict=True))
    assert low[0] == max(level for q, level in padded if q < y)
    equal = [level for q, level in padded if q == y]
    assert high[0] == (max(equal) if equal else min(level for q, level in padded if q > y))


def test_intervals_beyond_the_quantiles_are_refused_and_not_made_up() -> None:
    """Findings D3: quantiles .1, .5, .9 were scored as "intervals of 90%"."""
    forecast, y = right(100, [0.1, 0.5, 0.9], 0)
    words = r"=0\.9 asks for quantiles at 0\.05 and 0\.95, but those given reach from 0\.1 to 0\.9.*Pass 0\.8"
    with pytest.raises(InvalidInputError, match="interval_level" + words):
        evaluate(forecast, y, interval_level=0.9)
    for function in (coverage, interval_score):
        with pytest.raises(InvalidInputError, match="level" + words):
            function(forecast, y, level=0.9)
        assert function(forecast, y) == function(forecast, y, level=0.8)
    low, high = forecast.ppf(np.array([[0.1, 0.9]])).T
    assert sharpness(forecast) == pytest.approx(float((high - low).mean()))
    assert coverage(forecast, y) == float(((low <= y) & (y <= high)).mean())


def test_scores_of_intervals_are_left_out_where_no_quantiles_are_their_ends() -> None:
    forecast, y = right(300, [0.5, 0.9], 0)
    scores = evaluate(forecast, y)
    assert not {"coverage", "sharpness", "interval_score"} & set(scores)
    assert "pinball_loss" in scores
    assert "pinball_loss" not in evaluate(*right(300, [0.6, 0.9], 0))
    with pytest.raises(InvalidInputError, match="are the ends of no central interval"):
        coverage(forecast, y)
    (note,) = scores.notes
    assert "known at 2 levels" in note
    assert evaluate(GaussianForecast(y, 1.0), y).notes == []


def test_recalibration_goes_on_by_the_joined_distribution() -> None:
    levels = [0.1, 0.5, 0.9]
    forecast, y = right(300, levels, 0)
    grid = GridForecast(forecast.ppf(np.array([levels])), np.tile(levels, (300, 1)))
    at = np.linspace(-3.0, 3.0, 41)[None, :]
    one, other = (AverageRecalibrator(n_knots=10).fit(each, y).transform(each).cdf(at) for each in (forecast, grid))
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_coverage_by_level_is_wilson_of_statsmodels_at_each_level() -> None:
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    forecast, y = right(400, levels, 2)
    found = coverage_by_level(forecast, y)
    assert (found.levels, found.central_levels) == (tuple(levels), (0.5, 0.9))
    for level, score in zip(levels, found.below, strict=True):
        hits = int((y <= forecast.ppf(level)).sum())
        assert score.value == hits / 400
        np.testing.assert_allclose((score.low, score.high), proportion_confint(hits, 400, method="wilson"), atol=1e-12)
    for level, score, width in zip(found.central_levels, found.coverage, found.sharpness, strict=True):
        low, high = forecast.interval(level)
        assert score.value == ((low <= y) & (y <= high)).mean()
        assert width.value == pytest.approx((high - low).mean())
        assert score.name == f"coverage@{level:g}"
    wrong = QuantileForecast(levels, forecast.ppf(np.array([levels])) * 0.2)
    assert "coverage@0.9" in coverage_by_level(wrong, y).off
    assert len(found.lines()[1]) == 7
    assert set(found.to_dict()) == {"levels", "below", "central_levels", "coverage", "sharpness"}


def test_coverage_by_level_of_clusters_is_wider_and_of_wrong_levels_refused() -> None:
    forecast, y = right(60, [0.1, 0.5, 0.9], 3)
    rows = np.repeat(np.arange(60), 10)
    alone = coverage_by_level(forecast[rows], y[rows]).below[1]
    together = coverage_by_level(forecast[rows], y[rows], cluster=rows).below[1]
    assert together.high - together.low > 2.0 * (alone.high - alone.low)
    with pytest.raises(
        CalibrantError, match=r"levels reach from 0\.05 to 0\.95, but the quantiles of the forecast from"
    ):
        coverage_by_level(forecast, y, levels=[0.05, 0.95])
    assert coverage_by_level(GaussianForecast(y, 1.0), y, levels=[0.2, 0.8]).central_levels == (0.6,)


@pytest.mark.parametrize("before", ["calibrated", "miscalibrated"])
@pytest.mark.parametrize("after", ["calibrated", "miscalibrated"])
@pytest.mark.parametrize(("low", "high"), [(-0.2, -0.1), (-0.1, 0.1), (0.1, 0.2)])
def test_headline_and_advice_of_a_recalibration_never_contradict(
    before: str, after: str, low: float, high: float
) -> None:
    """Findings D3: "After recalibration: not calibrated" stood above "Use the recalibrated forecasts"."""
    found = recalibration_advice(before, after, Estimate(0.5 * (low + high), low, high, "t"), 0.95)
    is_better, is_worse = high < 0.0, low > 0.0
    gone = before == "miscalibrated" and after == "calibrated"
    assert found.what_to_do.startswith("Use") == (is_better or (gone and not is_worse))
    assert found.headline.startswith("Better") == is_better
    assert found.headline.startswith("Worse") == is_worse
    if found.what_to_do.startswith("Use") and after == "miscalibrated":
        assert "still not calibrated" in found.headline
        assert "gaps beyond chance are left" in found.what_to_do
    if after == "calibrated":
        assert "not calibrated" not in found.headline
