"""Promised and true losses of threshold rules: triple loops, brute force, and policies that keep their promise."""

from __future__ import annotations

import numpy as np
import pytest
from forecast_cases import forecasts, misjudged, right

from calibrant.errors import InvalidInputError, InvalidTypeError, NotFittedError, ShapeError
from calibrant.forecasts import (
    CostPolicy,
    GaussianForecast,
    SampleForecast,
    ThresholdLoss,
    ThresholdPolicy,
    ThresholdRule,
    decision_loss,
    reliability_gap,
    reliability_gaps,
)

FORECAST, Y = right(30)
FROST = ThresholdLoss(0.0, ((0.0, 10.0), (2.0, 2.0)))


def one_loss(decision, y):
    return float(y[decision].sum())


def undefined(decision, y):
    return np.where(decision, np.nan, y)


def table_of(c, scale=10.0):
    """Return the paper's loss of cost ratio c: rows no and yes, columns Y > y0 and Y <= y0."""
    return ((scale * c, 0.0), (0.0, scale * (1.0 - c)))


def test_family_of_gaps_equals_the_triple_loop():
    forecast, y = misjudged(150)
    weight = np.random.default_rng(1).random(150) + 0.1
    y0, alpha, cost = np.array([-0.7, 0.1, 0.9]), np.array([0.1, 0.45, 0.8]), np.array([0.05, 0.3, 0.95])
    table = reliability_gaps(forecast, y, y0=y0, alpha=alpha, cost=cost, sample_weight=weight)
    for k, threshold in enumerate(y0):
        for a, level in enumerate(alpha):
            for j, c in enumerate(cost):
                one = decision_loss(forecast, y, (threshold, level), table_of(c), sample_weight=weight)
                assert table.predicted[k, a, j] == pytest.approx(one.predicted, abs=1e-12)
                assert table.true[k, a, j] == pytest.approx(one.true, abs=1e-12)
                gap = reliability_gap(forecast, y, (threshold, level), table_of(c), sample_weight=weight)
                assert table.values[k, a, j] == pytest.approx(gap, abs=1e-12)
    assert table.max == table.values.max()
    worst_y0, worst_alpha, worst_cost = table.worst
    assert reliability_gap(
        forecast, y, (worst_y0, worst_alpha), table_of(worst_cost), sample_weight=weight
    ) == pytest.approx(table.max)


def test_family_of_gaps_equals_the_identity():
    forecast, y = misjudged(300)
    table = reliability_gaps(forecast, y)
    for k in (3, 20, 41):
        levels = forecast.cdf(table.y0[k])
        excess = levels - (y <= table.y0[k])
        partial = np.array([np.mean(excess * (levels <= a)) for a in table.alpha])
        expected = 10.0 * np.abs(partial[:, None] - table.cost * excess.mean())
        np.testing.assert_allclose(table.values[k], expected, atol=1e-12)


def test_loss_as_a_function_equals_its_table():
    forecast, y = misjudged(300)
    rule = ThresholdRule(0.2, 0.6)
    loss = ThresholdLoss(-0.4, ((1.0, 7.0), (3.0, -2.0)))
    exact = decision_loss(forecast, y, rule, loss)
    function = decision_loss(forecast, y, rule, lambda d, t: loss(d, t))
    assert function.true == pytest.approx(exact.true, abs=1e-12)
    assert function.predicted == pytest.approx(exact.predicted, abs=0.05)
    expected = np.where(
        forecast.cdf(0.2) <= 0.6,
        3.0 - 5.0 * forecast.cdf(-0.4),
        1.0 + 6.0 * forecast.cdf(-0.4),
    )
    assert exact.predicted == pytest.approx(expected.mean(), abs=1e-12)


def test_table_is_of_the_event_at_the_rules_own_threshold():
    forecast, y = misjudged(100)
    table = ((0.0, 4.0), (1.0, 0.5))
    assert decision_loss(forecast, y, (0.3, 0.5), table) == decision_loss(
        forecast, y, ThresholdRule(0.3, 0.5), ThresholdLoss(0.3, table)
    )


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
    assert policy.promised_ == pytest.approx(best, abs=1e-12)
    yes = policy.decide(forecast)
    assert np.where(yes, costs[:, 1], costs[:, 0]).mean() == pytest.approx(best, abs=1e-12)


def test_policy_on_the_losss_own_threshold_decides_each_row_as_is_best_for_it():
    forecast, _ = misjudged(200)
    policy = ThresholdPolicy(FROST).fit(forecast)
    costs = FROST.expected(forecast)
    np.testing.assert_array_equal(policy.decide(forecast), costs[:, 1] < costs[:, 0])
    assert policy.promised_ == pytest.approx(costs.min(axis=1).mean(), abs=1e-12)
    assert policy.rule_.is_above
    assert policy.rule_.alpha == pytest.approx(FROST.level, abs=0.05)


@pytest.mark.parametrize("table", [((0.0, 1.0), (5.0, 5.0)), ((5.0, 5.0), (0.0, 1.0))])
def test_policy_may_decide_the_same_for_all_rows(table):
    forecast, y = misjudged(50)
    policy = ThresholdPolicy(ThresholdLoss(0.0, table)).fit(forecast)
    assert set(policy.decide(forecast).tolist()) == {table[0][0] > table[1][0]}
    scores = policy.evaluate(forecast, y)
    assert scores.realised.value == scores.baseline.value


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
    assert policy.promised_ == pytest.approx(min(tried), abs=1e-12)


def test_promise_is_kept_by_the_truth_and_broken_by_narrow_forecasts():
    inside = 0
    for seed in range(60):
        truth, y = right(300, seed)
        gap = ThresholdPolicy(FROST).fit(truth).evaluate(truth, y).gap
        inside += gap.low <= 0.0 <= gap.high
    assert inside >= 51
    forecast, y = misjudged(4000)
    scores = ThresholdPolicy(FROST).fit(forecast).evaluate(forecast, y)
    assert scores.gap.high < 0.0
    assert scores.gap.value == pytest.approx(scores.promised.value - scores.realised.value, abs=1e-12)
    assert scores.realised.evaluated_on == "held-out"
    assert str(scores).startswith("promised ")


def test_policy_of_a_function_of_the_outcome():
    """Stock of one unit sells at 3 if demand is above zero, and spoils for 1 if not: order where it pays."""
    forecast, y = right(500)
    policy = ThresholdPolicy(lambda d, t: np.where(d, np.where(t > 0.0, -3.0, 1.0), 0.0)).fit(forecast)
    exact = ThresholdPolicy(ThresholdLoss(0.0, ((0.0, 0.0), (-3.0, 1.0)))).fit(forecast)
    assert policy.promised_ == pytest.approx(exact.promised_, abs=0.02)
    assert policy.evaluate(forecast, y).realised.value == pytest.approx(
        exact.evaluate(forecast, y).realised.value, abs=0.1
    )


def test_weights_of_a_policy_are_rows():
    forecast, y = misjudged(80)
    weight = np.random.default_rng(1).integers(0, 3, 80)
    numbers = np.repeat(np.arange(80), weight)
    weighted = ThresholdPolicy(FROST).fit(forecast, sample_weight=weight)
    repeated = ThresholdPolicy(FROST).fit(forecast[numbers])
    assert weighted.promised_ == pytest.approx(repeated.promised_, abs=1e-12)
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


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: reliability_gap(FORECAST, Y, 0.5, FROST), InvalidTypeError, r"Pass ThresholdRule\(y0, alpha\)"),
        (lambda: reliability_gap(FORECAST, Y, (0.0, 1.5), FROST), InvalidInputError, "alpha=1.5 is outside"),
        (lambda: reliability_gap(FORECAST, Y, (0.0, 0.5), [1.0, 2.0]), ShapeError, r"table has shape \(2,\)"),
        (lambda: ThresholdLoss(0.0, ((1.0, np.inf), (0.0, 0.0))), InvalidInputError, "is not finite"),
        (lambda: ThresholdLoss(0.0, "cost"), InvalidTypeError, "table='cost' holds no numbers"),
        (lambda: decision_loss(FORECAST, Y, (0, 0.5), one_loss), ShapeError, r"loss gives shape \(\)"),
        (lambda: decision_loss(FORECAST, Y, (0, 9e-9), undefined), InvalidInputError, "loss row 0: nan"),
        (lambda: ThresholdPolicy([[1.0]]).fit(FORECAST), InvalidTypeError, r"loss is a list. Pass a ThresholdLoss"),
        (lambda: ThresholdPolicy(FROST).decide(FORECAST), NotFittedError, r"Call fit\(forecast\) first"),
        (lambda: CostPolicy([[1.0, 0.0]]), ShapeError, "Pass a row per decision, at least two"),
        (lambda: CostPolicy(np.eye(3)).decide([0.5]), ShapeError, "y_prob is of 2 classes and costs of 3"),
    ],
)  # fmt: skip
def test_refusals_name_what_is_wrong(make, error, text):
    with np.errstate(all="ignore"), pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("kind", ["quantile, ties", "sample", "poisson", "t"])
def test_decisions_take_every_kind_of_forecast(kind):
    forecast = forecasts(40)[kind]
    drawn = forecast.sample(1, 1)[:, 0]
    many = SampleForecast(forecast.sample(20_000, 2))
    loss = ThresholdLoss(0.0, ((1.0, 7.0), (3.0, -2.0)))
    a, b = decision_loss(forecast, drawn, (0.0, 0.47), loss), decision_loss(many, drawn, (0.0, 0.47), loss)
    assert a.predicted == pytest.approx(b.predicted, abs=0.2)


def test_rule_is_a_strict_cut():
    forecast = GaussianForecast([0.0, 1.0], 1.0)
    np.testing.assert_array_equal(ThresholdRule(0.0, 0.5).decide(forecast), [True, True])
    np.testing.assert_array_equal(ThresholdRule(0.0, 0.5, is_above=True).decide(forecast), [False, False])
