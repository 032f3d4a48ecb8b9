"""Policies: the best rule of all, decisions of least cost, and promises that are kept."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import misjudged, right

from calibrant.forecasts import (
    CostPolicy,
    GaussianForecast,
    ThresholdLoss,
    ThresholdPolicy,
)

FORECAST, Y = right(30)
FROST = ThresholdLoss(0.0, ((0.0, 10.0), (2.0, 2.0)))


def test_policy_finds_the_best_rule_of_all():
    forecast, _ = misjudged(60)
    loss = ThresholdLoss(-0.3, ((1.0, 7.0), (3.0, -2.0)))
    candidates = np.array([-1.0, -0.3, 0.4])
    policy = ThresholdPolicy(loss, y0=candidates).fit(forecast)
    costs = loss.expected(forecast)
    best = np.inf
    for y0 in candidates:
        levels = forecast.cdf(y0)
        for alpha in np.concatenate(([-1.0], np.sort(levels))):
            for is_above in (False, True):
                yes = (levels <= alpha) ^ is_above
                best = min(best, float(np.where(yes, costs[:, 1], costs[:, 0]).mean()))
    assert policy.promised_.value == pytest.approx(best, abs=1e-12)
    yes = policy.decide(forecast)
    assert np.where(yes, costs[:, 1], costs[:, 0]).mean() == pytest.approx(best, abs=1e-12)


def test_policy_on_the_losss_own_threshold_decides_each_row_as_is_best_for_it():
    forecast, _ = misjudged(200)
    policy = ThresholdPolicy(FROST).fit(forecast)
    costs = FROST.expected(forecast)
    np.testing.assert_array_equal(policy.decide(forecast), costs[:, 1] < costs[:, 0])
    assert policy.promised_.value == pytest.approx(costs.min(axis=1).mean(), abs=1e-12)
    assert policy.rule_.is_above
    assert policy.rule_.alpha == pytest.approx(FROST.level, abs=0.05)


@pytest.mark.parametrize("table", [((0.0, 1.0), (5.0, 5.0)), ((5.0, 5.0), (0.0, 1.0))])
def test_policy_may_decide_the_same_for_all_rows(table):
    forecast, y = misjudged(50)
    policy = ThresholdPolicy(ThresholdLoss(0.0, table)).fit(forecast)
    assert set(policy.decide(forecast).tolist()) == {table[0][0] > table[1][0]}
    scores = policy.evaluate(forecast, y)
    assert scores.realised.value == scores.baseline.value


@pytest.mark.parametrize("is_above", [False, True])
def test_policy_of_one_way_may_decide_the_same_for_all_rows(is_above):
    forecast = GaussianForecast([5.0, 6.0], 1.0)
    for table in (((0.0, 1.0), (10.0, 10.0)), ((10.0, 10.0), (0.0, 1.0))):
        policy = ThresholdPolicy(ThresholdLoss(5.0, table), is_above=is_above).fit(forecast)
        assert policy.decide(forecast).tolist() == [table[0][0] > 0.0] * 2
        assert policy.rule_.is_above == is_above
        assert policy.promised_.value == pytest.approx(forecast.cdf(5.0).mean())


def test_policy_of_given_levels_takes_one_of_them():
    forecast, _ = misjudged(200)
    policy = ThresholdPolicy(FROST, alpha=[0.1, 0.6]).fit(forecast)
    assert policy.rule_.alpha in (0.1, 0.6)
    costs = FROST.expected(forecast)
    tried = [
        np.where((forecast.cdf(0.0) <= alpha) ^ above, costs[:, 1], costs[:, 0]).mean()
        for alpha in (0.1, 0.6)
        for above in (False, True)
    ]
    assert policy.promised_.value == pytest.approx(min(tried), abs=1e-12)


def test_promise_is_kept_by_the_truth_and_broken_by_narrow_forecasts():
    inside = 0
    for seed in range(60):
        truth, y = right(300, seed)
        gap = ThresholdPolicy(FROST).fit(truth).evaluate(truth, y).gap
        inside += gap.low <= 0.0 <= gap.high
    assert inside >= 51
    forecast, y = misjudged(4000)
    scores = ThresholdPolicy(FROST).fit(forecast).evaluate(forecast, y)
    assert scores.gap.low > 0.0
    assert scores.gap.value == pytest.approx(scores.realised.value - scores.promised.value, abs=1e-12)
    assert scores.realised.evaluated_on == "held-out"
    assert "The promise was not kept." in scores.verdict


def test_policy_of_a_function_of_the_outcome():
    """Stock of one unit sells at 3 if demand is above zero, and spoils for 1 if not: order where it pays."""
    forecast, y = right(500)
    policy = ThresholdPolicy(lambda d, t: np.where(d, np.where(t > 0.0, -3.0, 1.0), 0.0)).fit(forecast)
    exact = ThresholdPolicy(ThresholdLoss(0.0, ((0.0, 0.0), (-3.0, 1.0)))).fit(forecast)
    assert policy.promised_.value == pytest.approx(exact.promised_.value, abs=0.02)
    assert policy.evaluate(forecast, y).realised.value == pytest.approx(
        exact.evaluate(forecast, y).realised.value, abs=0.1
    )


def test_weights_of_a_policy_are_rows():
    forecast, y = misjudged(80)
    weight = np.random.default_rng(1).integers(0, 3, 80)
    numbers = np.repeat(np.arange(80), weight)
    weighted = ThresholdPolicy(FROST).fit(forecast, sample_weight=weight)
    repeated = ThresholdPolicy(FROST).fit(forecast[numbers])
    assert weighted.promised_.value == pytest.approx(repeated.promised_.value, abs=1e-12)
    np.testing.assert_array_equal(weighted.decide(forecast[numbers]), repeated.decide(forecast[numbers]))
    a = weighted.evaluate(forecast, y, sample_weight=weight)
    b = weighted.evaluate(forecast[numbers], y[numbers])
    for name in ("promised", "realised", "gap", "baseline"):
        assert getattr(a, name).value == pytest.approx(getattr(b, name).value, abs=1e-12)


def test_cost_policy_decides_by_least_expected_cost():
    rng = np.random.default_rng(1)
    prob = rng.dirichlet([1.0, 1.0, 1.0], 3000)
    y = (rng.random(3000)[:, None] > prob.cumsum(axis=1)).sum(axis=1)
    costs = np.array([[0.0, 4.0, 9.0], [2.0, 0.0, 3.0], [3.0, 3.0, 0.0], [1.5, 1.5, 1.5]])
    policy = CostPolicy(costs)
    decided = policy.decide(prob)
    np.testing.assert_array_equal(decided, (prob @ costs.T).argmin(axis=1))
    scores = policy.evaluate(y, prob)
    assert scores.realised.value == pytest.approx(costs[decided, y].mean(), abs=1e-12)
    assert scores.promised.value == pytest.approx((prob @ costs.T).min(axis=1).mean(), abs=1e-12)
    assert scores.gap.low <= 0.0 <= scores.gap.high
    assert scores.realised.high < scores.baseline.low
    weight = rng.integers(0, 3, 3000)
    weighted = policy.evaluate(y, prob, sample_weight=weight)
    repeated = policy.evaluate(np.repeat(y, weight), np.repeat(prob, weight, axis=0))
    assert weighted.gap.value == pytest.approx(repeated.gap.value, abs=1e-12)


def test_cost_policy_of_two_classes_is_a_threshold_on_the_probability():
    policy = CostPolicy([[0.0, 9.0], [1.0, 0.0]])
    np.testing.assert_array_equal(policy.decide([0.05, 0.0999, 0.1001, 0.9]), [0, 0, 1, 1])
    scores = policy.evaluate(["no", "yes"], [0.05, 0.9])
    assert scores.realised.value == 0.0
    assert scores.promised.value == pytest.approx((9.0 * 0.05 + 0.1) / 2.0)
