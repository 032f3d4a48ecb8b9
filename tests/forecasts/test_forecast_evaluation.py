"""evaluate of forecasts: the figures of the functions, intervals that cover, gaps beside their noise floors."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right

from calibrant.errors import InvalidInputError
from calibrant.forecasts import (
    GaussianForecast,
    average_calibration_error,
    coverage,
    crps,
    distribution_calibration_error,
    evaluate,
    interval_score,
    log_score,
    pinball_loss,
    reliability_gaps,
    sharpness,
    threshold_calibration_errors,
)


@pytest.fixture(scope="module")
def scores():
    return evaluate(*misjudged(600), evaluated_on="held-out")


def test_figures_are_those_of_the_functions(scores):
    forecast, y = misjudged(600)
    errors, gaps = threshold_calibration_errors(forecast, y), reliability_gaps(forecast, y)
    best = np.arange(50)
    expected = {
        "crps": crps(forecast, y),
        "log_score": log_score(forecast, y),
        "pinball_loss": pinball_loss(forecast, y),
        "interval_score": interval_score(forecast, y),
        "coverage": coverage(forecast, y),
        "sharpness": sharpness(forecast),
        "bias": float(np.mean(forecast.mean() - y)),
        "average_calibration_error": average_calibration_error(forecast, y),
        "threshold_calibration_error": errors.mean,
        "max_threshold_calibration_error": errors.max,
        "distribution_calibration_error": distribution_calibration_error(forecast, y),
        "reliability_gap": gaps.mean,
        "max_reliability_gap": gaps.max,
        "decision_loss": float(gaps.true[:, best, best].mean()),
    }
    assert list(scores) == list(expected)
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value, abs=1e-12)
        assert scores[name].low <= value <= scores[name].high
        assert scores[name].n == 600
        assert scores[name].evaluated_on == "held-out"


def test_gaps_stand_beside_their_noise_floor(scores):
    gaps = [name for name in scores if name.endswith(("_error", "_gap"))]
    assert len(gaps) == 6
    floors = {name: float(scores[name].note.removeprefix("noise floor ")) for name in gaps}
    assert floors["average_calibration_error"] == pytest.approx(0.3133 / np.sqrt(600.0), rel=0.35)
    assert all(0.0 < floor < scores[name].value for name, floor in floors.items())


def test_verdict_says_what_is_wrong(scores):
    assert scores.verdict.startswith("Not calibrated: on average over levels (error ")
    assert "in the losses that they promise (gap " in scores.verdict
    assert "Intervals are too narrow: those of 90% hold " in scores.verdict
    wide = evaluate(GaussianForecast(np.zeros(400), 3.0), np.random.default_rng(1).normal(size=400))
    assert "Intervals are too wide: those of 90% hold 100.0%" in wide.verdict


def test_forecasts_that_are_right_are_rarely_called_wrong():
    verdicts = [evaluate(*right(120, seed)).verdict for seed in range(12)]
    fine = [text.startswith("No gap is beyond what chance gives a forecast that is right.") for text in verdicts]
    assert sum(fine) >= 9


def test_intervals_cover_the_values_of_many_rows():
    names = ("crps", "coverage", "average_calibration_error", "threshold_calibration_error")
    forecast, y = misjudged(60_000, 99)
    truth = (
        crps(forecast, y),
        coverage(forecast, y),
        average_calibration_error(forecast, y),
        threshold_calibration_errors(forecast, y).mean,
    )
    inside = np.zeros(4)
    for seed in range(12):
        found = evaluate(*misjudged(400, seed))
        inside += [found[name].low <= value <= found[name].high for name, value in zip(names, truth, strict=True)]
    assert (inside >= 10).all()


def test_interval_of_the_decision_loss_is_that_of_a_mean(scores):
    loss = scores["decision_loss"]
    assert 0.5 * (loss.low + loss.high) == pytest.approx(loss.value, abs=1e-12)


def test_same_seed_gives_the_same_scores():
    forecast, y = misjudged(100)
    assert evaluate(forecast, y, rng=3).to_dict() == evaluate(forecast, y, rng=3).to_dict()
    assert evaluate(forecast, y, rng=3).to_dict() != evaluate(forecast, y, rng=4).to_dict()


def test_forecasts_without_a_density_have_no_log_score():
    sample = evaluate(forecasts(50)["sample"], np.random.default_rng(1).normal(size=50))
    assert "log_score" not in sample
    assert np.isnan(evaluate(*right(20))["threshold_calibration_error"].value)
    assert evaluate(*right(20))["threshold_calibration_error"].note == (
        "undefined: no rule leaves 21 rows on both sides"
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_are_scored_without_a_silent_nan(n):
    for score in evaluate(*right(n)).values():
        assert np.isfinite([score.value, score.low, score.high]).all() or score.note


def test_weights_count_as_rows():
    forecast, y = misjudged(80)
    weight = np.random.default_rng(1).integers(1, 3, 80)
    numbers = np.repeat(np.arange(80), weight)
    weighted, repeated = evaluate(forecast, y, sample_weight=weight), evaluate(forecast[numbers], y[numbers])
    for name in ("crps", "coverage", "average_calibration_error", "decision_loss", "bias"):
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)


def test_refusals_name_what_is_wrong():
    with pytest.raises(InvalidInputError, match=r"interval_level=1.5 is outside"):
        evaluate(*right(5), interval_level=1.5)
    with pytest.raises(InvalidInputError, match=r"y row 1: nan is not finite \(1 of 2 rows\)"):
        evaluate(GaussianForecast([0.0, 1.0], 1.0), [0.0, np.nan])
