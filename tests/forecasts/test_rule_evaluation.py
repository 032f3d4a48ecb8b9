"""evaluate_rule: the figures of the functions, intervals that cover, and weights that are rows."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.forecasts import (
    ThresholdRule,
    decision_loss,
    evaluate_rule,
    reliability_gap,
    threshold_calibration_error,
)

TABLE = ((0.0, 4.0), (1.0, 0.0))
RULE = (0.2, 0.45)


def test_figures_are_those_of_the_functions():
    forecast, y = misjudged(500)
    weight = np.random.default_rng(0).random(500) + 0.2
    scores = evaluate_rule(forecast, y, RULE, TABLE, sample_weight=weight, evaluated_on="held-out")
    losses = decision_loss(forecast, y, RULE, TABLE, sample_weight=weight)
    expected = {
        "decided_yes": np.average(forecast.cdf(0.2) <= 0.45, weights=weight),
        "promised_loss": losses.predicted,
        "realised_loss": losses.true,
        "reliability_gap": reliability_gap(forecast, y, RULE, TABLE, sample_weight=weight),
        "threshold_calibration_error": threshold_calibration_error(forecast, y, *RULE, sample_weight=weight),
    }
    assert set(scores) == set(expected)
    for name, value in expected.items():
        assert scores[name].value == pytest.approx(value, abs=1e-12)
        assert scores[name].low <= value <= scores[name].high
        assert (scores[name].n, scores[name].evaluated_on) == (500, "held-out")
    for name in ("reliability_gap", "threshold_calibration_error"):
        assert scores[name].note.startswith("noise floor 0.")


def test_without_a_loss_only_the_error_is_measured():
    scores = evaluate_rule(*right(200), ThresholdRule(0.0, 0.5, is_above=True))
    assert list(scores) == ["decided_yes", "threshold_calibration_error"]
    assert scores["threshold_calibration_error"].value == pytest.approx(
        threshold_calibration_error(*right(200), 0.0, 0.5)
    )


def test_intervals_hold_the_true_figures_as_often_as_they_say():
    """Of the rows of a large sample, small ones are drawn: its figures are the true ones."""
    forecast, y = misjudged(40_000, 3)
    true = evaluate_rule(forecast, y, RULE, TABLE)
    rng = np.random.default_rng(1)
    inside = dict.fromkeys(true, 0)
    for seed in range(100):
        rows = rng.integers(0, 40_000, 400)
        scores = evaluate_rule(forecast[rows], y[rows], RULE, TABLE, rng=seed)
        for name in inside:
            inside[name] += scores[name].low <= true[name].value <= scores[name].high
    assert min(inside.values()) >= 88


def test_the_verdict_tells_the_truth_from_what_is_misjudged():
    accused = sum("beyond" in evaluate_rule(*right(300, seed), RULE, TABLE).verdict for seed in range(40))
    assert accused <= 6
    verdict = evaluate_rule(*misjudged(3_000), RULE, TABLE).verdict
    assert "Not calibrated on the sides of this rule" in verdict
    assert "was promised" in verdict


def test_a_weight_of_two_is_two_rows():
    forecast, y = misjudged(200)
    weight = np.random.default_rng(2).integers(0, 3, 200)
    rows = np.repeat(np.arange(200), weight)
    weighted = evaluate_rule(forecast, y, RULE, TABLE, sample_weight=weight)
    repeated = evaluate_rule(forecast[rows], y[rows], RULE, TABLE)
    for name in weighted:
        assert weighted[name].value == pytest.approx(repeated[name].value, abs=1e-12)
        assert weighted[name].high - weighted[name].low >= repeated[name].high - repeated[name].low - 0.02


@pytest.mark.parametrize("kind", ["quantile, atoms", "sample", "poisson", "grid, jump"])
def test_every_kind_of_forecast_is_taken(kind):
    forecast = forecasts(60)[kind]
    scores = evaluate_rule(forecast, forecast.sample(1, 1)[:, 0], (0.5, 0.5), TABLE)
    assert all(np.isfinite([s.value, s.low, s.high]).all() for s in scores.values())


def test_refusals_name_what_is_wrong():
    with pytest.raises(InvalidTypeError, match=r"Pass ThresholdRule\(y0, alpha\)"):
        evaluate_rule(*right(30), 0.5)
    with pytest.raises(InvalidInputError, match=r"level=1\.5 is outside"):
        evaluate_rule(*right(30), RULE, level=1.5)
