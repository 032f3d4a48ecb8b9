"""Promised and true losses of threshold rules: triple loops, identities, and tables that are functions."""

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


def half_loss(decision, y):
    return y[: y.size // 2]


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


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: reliability_gap(FORECAST, Y, 0.5, FROST), InvalidTypeError, r"Pass ThresholdRule\(y0, alpha\)"),
        (lambda: reliability_gap(FORECAST, Y, (0.0, 1.5), FROST), InvalidInputError, "alpha=1.5 is outside"),
        (lambda: reliability_gap(FORECAST, Y, (0.0, 0.5), [1.0, 2.0]), ShapeError, r"table has shape \(2,\)"),
        (lambda: ThresholdLoss(0.0, ((1.0, np.inf), (0.0, 0.0))), InvalidInputError, "is not finite"),
        (lambda: ThresholdLoss(0.0, "cost"), InvalidTypeError, "table='cost' holds no numbers"),
        (lambda: decision_loss(FORECAST, Y, (0, 0.5), half_loss), ShapeError, r"losses gives shape \(15,\)"),
        (lambda: decision_loss(FORECAST, Y, (0, 9e-9), undefined), InvalidInputError, "row 0, action 'yes': nan"),
        (lambda: ThresholdPolicy([[1.0]]).fit(FORECAST), InvalidTypeError, r"loss is a list. Pass a ThresholdLoss"),
        (lambda: ThresholdPolicy(FROST).decide(FORECAST), NotFittedError, r"Call fit\(forecast\) first"),
        (lambda: CostPolicy([[1.0, 0.0]]), ShapeError, "Pass a row per decision, at least two"),
        (lambda: CostPolicy(np.eye(3)).decide([0.5]), ShapeError, "is of 2 classes, and the losses of 3"),
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
