"""Thresholds: promised against realised hit rates, growth by hand, and doing nothing where nothing is to be won."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.metrics_report import Forecasts
from calibrant.training.sizing import StakeRule, sizing_error
from calibrant.training.thresholds import choose_threshold, evaluate_returns, evaluate_trading, threshold_table
from calibrant.training.training_run import run_dataset


def forecasts(n: int, sharpness: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities of -1, 0 and 1, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    z = sharpness * rng.normal(size=(n, 3))
    prob = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return prob, (rng.random(n)[:, None] >= np.cumsum(prob, axis=1)[:, :2]).sum(axis=1) - 1


def test_figures_are_those_of_a_table_by_hand() -> None:
    prob = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3], [0.05, 0.05, 0.9]])
    y = [1, -1, 0, 1, -1]
    rule = StakeRule("flat", cap=0.1, up=0.5, down=0.4, cost=0.02)
    all_rows, some = threshold_table(y, prob, thresholds=[0.0, 0.6], rule=rule)
    # 0.3 * 0.5 against 0.3 * 0.4: the fourth row is a rise too
    moves = np.array([0.5, 0.4, 0.0, 0.5, -0.4])
    earned = 0.1 * moves - 0.1 * 0.02
    assert (all_rows.n_trades, some.n_trades) == (5, 2)
    assert all_rows.promised == pytest.approx(np.mean([0.7, 0.6, 0.6, 0.3, 0.9]))
    assert all_rows.realised == pytest.approx(3 / 5)
    assert all_rows.turnover == pytest.approx(2 * 0.1)
    assert all_rows.growth == pytest.approx(np.log1p(earned).mean())
    assert (some.promised, some.realised) == (pytest.approx(0.8), 0.5)
    assert some.turnover == pytest.approx(2 * 0.1 * 2 / 5)
    assert some.growth == pytest.approx(np.log1p(earned[[0, 4]]).sum() / 5)


@pytest.mark.slow
def test_calibrated_forecasts_keep_their_promises_and_sharpened_ones_don_t() -> None:
    prob, y = forecasts(8_000, 1.0, 0)
    for row in threshold_table(y, prob, thresholds=[0.4, 0.5, 0.6, 0.7], level=0.999):
        assert row.low <= row.promised <= row.high
    sharp = prob**3 / (prob**3).sum(axis=1, keepdims=True)
    for row in threshold_table(y, sharp, thresholds=[0.4, 0.5, 0.6, 0.7], level=0.999):
        assert row.promised > row.high + 0.05


def test_overlapping_labels_are_fewer_and_intervals_wider() -> None:
    prob, y = forecasts(600, 1.0, 1)
    time = np.arange(600)
    (apart,) = threshold_table(y, prob, thresholds=[0.4], time=time)
    (overlapping,) = threshold_table(y, prob, thresholds=[0.4], time=time, label_end=time + 20)
    assert apart.n_independent == apart.n_trades == overlapping.n_trades
    assert overlapping.n_independent < apart.n_independent / 5
    assert overlapping.high - overlapping.low > 2 * (apart.high - apart.low)


def test_rows_are_taken_in_the_order_of_time() -> None:
    prob, y = forecasts(300, 1.0, 2)
    time = np.arange(300)
    order = np.random.default_rng(3).permutation(300)
    assert threshold_table(y, prob, time=time, label_end=time + 5) == threshold_table(
        y[order], prob[order], time=time[order], label_end=time[order] + 5
    )


def test_no_trade_has_no_rate_and_no_growth() -> None:
    (row,) = threshold_table([0, 1], [0.5, 0.6], thresholds=[0.9])
    assert (row.n_trades, row.n_independent, row.turnover, row.growth) == (0, 0.0, 0.0, 0.0)
    assert np.isnan([row.promised, row.realised, row.low, row.high]).all()
    assert row.to_dict()["realised"] is None


def test_ruin_is_minus_infinity() -> None:
    (row,) = threshold_table([0, 1], [1.0, 1.0], thresholds=[0.5], rule=StakeRule(fraction=1.0))
    assert row.growth == row.growth_low == -np.inf


def test_a_skilful_forecast_is_traded_and_the_choice_grows_on_other_rows() -> None:
    prob, y = forecasts(3_000, 1.0, 4)
    choice = choose_threshold(y[:1500], prob[:1500], rule=StakeRule(cost=0.05))
    assert choice.threshold is not None
    assert choice.reason.startswith("trade above")
    (judged,) = threshold_table(y[1500:], prob[1500:], thresholds=[choice.threshold], rule=StakeRule(cost=0.05))
    assert judged.growth_low > 0.0


@pytest.mark.slow
def test_noise_is_not_traded_however_many_thresholds_are_tried() -> None:
    traded = 0
    for seed in range(60):
        rng = np.random.default_rng(100 + seed)
        prob, y = forecasts(400, 0.8, seed)
        y = rng.permutation(y)
        choice = choose_threshold(y, prob, thresholds=np.linspace(0.0, 0.6, 13), rule=StakeRule("flat", cap=0.01))
        traded += choice.threshold is not None
        assert choice.threshold is not None or choice.reason.startswith("do not trade: none of")
    assert traded <= 8  # 3 are expected at the level 0.95


def test_few_independent_trades_decide_nothing() -> None:
    prob, y = np.full(200, 0.9), np.ones(200, dtype=int)
    time = np.arange(200)
    assert choose_threshold(y, prob, time=time).threshold is not None
    choice = choose_threshold(y, prob, time=time, label_end=time + 60)
    assert choice.threshold is None
    assert "10 independent trades" in choice.reason


def test_same_seed_same_choice() -> None:
    prob, y = forecasts(500, 1.0, 5)
    assert repr(choose_threshold(y, prob, rng=1)) == repr(choose_threshold(y, prob, rng=1))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"thresholds": [0.5, 1.0]}, r"thresholds row 1: 1.0 is outside \[0, 1\)"),
        ({"thresholds": []}, "thresholds is empty"),
        ({"time": [1, 2, 3]}, "time has 3 rows and y_prob has 2"),
        ({"label_end": [1, 2]}, "label_end comes without time"),
        ({"time": [1, 2], "label_end": [2, 1]}, "label_end row 1: 1 is before the row's time 2"),
        ({"level": 2}, r"level=2 is outside \(0, 1\)"),
        ({"y_true": [0, 1, 1]}, "y_true has 3 rows and y_prob has 2"),
        ({"y_prob": [0.5, 2.0]}, r"y_prob row 1: 2.0 is outside \[0, 1\]"),
    ],
)
def test_refuses(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        choose_threshold(**{"y_true": [0, 1], "y_prob": [0.5, 0.6], **arguments})  # type: ignore[arg-type]


def test_returns_are_those_of_the_stakes_with_their_promise() -> None:
    prob, y = forecasts(400, 1.0, 3)
    rule = StakeRule(cost=0.02, up=0.8)
    found = evaluate_returns(y, prob, threshold=0.45, rule=rule)
    stakes = rule.stakes(prob)
    confidence = np.where(stakes > 0.0, prob[:, 2], np.where(stakes < 0.0, prob[:, 0], 0.0))
    returns = np.column_stack([rule.returns(stakes, np.full(400, move)) for move in (-1, 0, 1)])
    returns *= ((confidence > 0.45) & (stakes != 0.0))[:, None]
    assert found.promised.value == pytest.approx(-(prob * returns).sum(axis=1).mean())
    assert found.realised.value == pytest.approx(-returns[np.arange(400), y + 1].mean())
    assert found.gap.value == pytest.approx(found.realised.value - found.promised.value)
    up = prob[:, 2] / (prob[:, 0] + prob[:, 2])
    of_two = evaluate_returns((y > 0).astype(int), up, rule=rule)
    stakes = rule.stakes(up)
    expected = up * rule.returns(stakes, np.ones(400)) + (1.0 - up) * rule.returns(stakes, -np.ones(400))
    assert of_two.promised.value == pytest.approx(-expected.mean())
    time = np.arange(400)
    wide = evaluate_returns(y, prob, rule=rule, time=time, label_end=time + 40).gap
    assert "block" in wide.method


def test_thresholds_are_chosen_on_one_part_and_judged_on_the_other(make_bars: Callable[..., Bars]) -> None:
    data = run_dataset(TrainConfig(horizon=10), make_bars(900))
    before, test = data.last(0.2)
    rng = np.random.default_rng(1)
    forecasts = [
        Forecasts(*(rng.dirichlet([3, 3, 3], data.n_rows) for _ in range(2)), np.full((data.n_rows, 3), 1 / 3))
        for data in (before, test)
    ]
    rule = StakeRule(cost=0.01)
    found = evaluate_trading(before, forecasts[0], test, forecasts[1], rule=rule)
    expected = threshold_table(
        test.y, forecasts[1].calibrated, rule=rule, time=test.time, label_end=test.label_end, classes=test.classes
    )
    assert found["calibrated"]["test"] == [row.to_dict() for row in expected]
    error = sizing_error(test.y, forecasts[1].raw, rule=rule, classes=test.classes)
    assert found["raw"]["sizing_error"]["value"] == error.value
    assert found["rule"]["cost"] == 0.01
    about = {"rule": rule, "time": test.time, "label_end": test.label_end, "classes": test.classes.tolist()}
    cut = found["calibrated"]["chosen"] or 0.0
    returns = evaluate_returns(test.y, forecasts[1].calibrated, threshold=cut, evaluated_on="test part", **about)
    assert found["calibrated"]["returns"]["gap"] == returns.gap.to_dict()
