"""Thresholds: promised against realised hit rates, growth by hand, and doing nothing where nothing is to be won."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.errors import CalibrantError
from calibrant.training import StakeRule, trade
from calibrant.training.thresholds import choose_threshold, evaluate_returns, threshold_table


def forecasts(n: int, sharpness: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities of -1, 0 and 1, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    z = sharpness * rng.normal(size=(n, 3))
    prob = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return prob, (rng.random(n)[:, None] >= np.cumsum(prob, axis=1)[:, :2]).sum(axis=1) - 1


def paid(y: object, size: float = 0.1) -> np.ndarray:
    """Return the return of each row: of the size of a move, on the side of its label."""
    return size * np.sign(np.asarray(y, dtype=float))


def test_figures_are_those_of_a_table_by_hand() -> None:
    prob = np.array([[0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3], [0.05, 0.05, 0.9]])
    y, returned = [1, -1, 0, 1, -1], np.array([0.5, -0.3, 0.05, 0.4, -0.4])
    rule = StakeRule("flat", cap=0.1, up=0.5, down=0.4, cost_bp=100)
    all_rows, some = threshold_table(y, prob, label_return=returned, thresholds=[0.0, 0.6], rule=rule)
    # 0.3 * 0.5 against 0.3 * 0.4: the fourth row is a rise too; the third is paid what it really returned
    side = np.array([1.0, -1.0, 1.0, 1.0, 1.0])
    earned = 0.1 * (side * returned - 0.01 * (2.0 + returned))
    assert (all_rows.n_trades, some.n_trades) == (5, 2)
    assert all_rows.promised == pytest.approx(np.mean([0.7, 0.6, 0.6, 0.3, 0.9]))
    assert all_rows.realised == pytest.approx(3 / 5)
    moved = 0.1 + 0.1 * (1.0 + returned) / (1.0 + earned)
    assert all_rows.turnover == pytest.approx(moved.mean())
    assert all_rows.growth == pytest.approx(np.log1p(earned).mean())
    assert all_rows.final == pytest.approx(np.prod(1.0 + earned))
    assert (some.promised, some.realised, some.per) == (pytest.approx(0.8), 0.5, "bar")
    assert some.turnover == pytest.approx(moved[[0, 4]].sum() / 5)
    assert some.growth == pytest.approx(np.log1p(earned[[0, 4]]).sum() / 5)


def test_overlapping_trades_share_the_capital() -> None:
    prob, y = forecasts(200, 1.0, 8)
    time, rule = np.arange(200), StakeRule("flat", share=0.25, gross=0.6)
    about = {"label_return": paid(y), "time": time, "label_end": time + 10, "rule": rule}
    (found,) = threshold_table(y, prob, thresholds=[0.3], **about)
    stakes = np.where(rule.stakes(prob) > 0.0, prob[:, 2], prob[:, 0])
    wanted = np.where(stakes > 0.3, 0.25 * rule.stakes(prob), 0.0)
    path = trade(wanted, paid(y), time=time, label_end=time + 10, gross=0.6)
    assert path.exposure.max() == pytest.approx(0.6)
    assert (found.final, found.n_trades) == (path.final, path.n_trades)
    assert found.n_trades < (wanted != 0.0).sum()


@pytest.mark.slow
def test_calibrated_forecasts_keep_their_promises_and_sharpened_ones_don_t() -> None:
    prob, y = forecasts(8_000, 1.0, 0)
    for row in threshold_table(y, prob, label_return=paid(y), thresholds=[0.4, 0.5, 0.6, 0.7], level=0.999):
        assert row.low <= row.promised <= row.high
    sharp = prob**3 / (prob**3).sum(axis=1, keepdims=True)
    for row in threshold_table(y, sharp, label_return=paid(y), thresholds=[0.4, 0.5, 0.6, 0.7], level=0.999):
        assert row.promised > row.high + 0.05


def test_overlapping_labels_are_fewer_and_intervals_wider() -> None:
    prob, y = forecasts(600, 1.0, 1)
    time = np.arange(600)
    (apart,) = threshold_table(y, prob, label_return=paid(y), thresholds=[0.4], time=time)
    (overlapping,) = threshold_table(
        y, prob, label_return=paid(y), thresholds=[0.4], time=time, label_end=time + 20, rule=StakeRule(share=0.05)
    )
    assert apart.n_independent == apart.n_trades == overlapping.n_trades
    assert overlapping.n_independent < apart.n_independent / 5
    assert overlapping.high - overlapping.low > 2 * (apart.high - apart.low)


def test_rows_are_taken_in_the_order_of_time() -> None:
    prob, y = forecasts(300, 1.0, 2)
    time = np.arange(300)
    order = np.random.default_rng(3).permutation(300)
    assert threshold_table(y, prob, label_return=paid(y), time=time, label_end=time + 5) == threshold_table(
        y[order], prob[order], label_return=paid(y[order]), time=time[order], label_end=time[order] + 5
    )


def test_no_trade_has_no_rate_and_no_growth() -> None:
    (row,) = threshold_table([0, 1], [0.5, 0.6], label_return=[-0.1, 0.1], thresholds=[0.9])
    assert (row.n_trades, row.n_independent, row.turnover, row.growth) == (0, 0.0, 0.0, 0.0)
    assert np.isnan([row.promised, row.realised, row.low, row.high]).all()
    assert row.to_dict()["realised"] is None


def test_ruin_is_minus_infinity() -> None:
    (row,) = threshold_table(
        [0, 1], [1.0, 1.0], label_return=[-1.0, 1.0], thresholds=[0.5], rule=StakeRule(fraction=1.0)
    )
    assert row.growth == row.growth_low == -np.inf


def test_a_skilful_forecast_is_traded_and_the_choice_grows_on_other_rows() -> None:
    prob, y = forecasts(3_000, 1.0, 4)
    rule = StakeRule("linear", up=0.1, down=0.1, cost_bp=20)
    choice = choose_threshold(y[:1500], prob[:1500], label_return=paid(y[:1500]), rule=rule)
    assert choice.threshold is not None
    assert choice.reason.startswith("trade above")
    (judged,) = threshold_table(
        y[1500:], prob[1500:], label_return=paid(y[1500:]), thresholds=[choice.threshold], rule=rule
    )
    assert judged.growth_low > 0.0


@pytest.mark.slow
def test_noise_is_not_traded_however_many_thresholds_are_tried() -> None:
    traded = 0
    for seed in range(60):
        rng = np.random.default_rng(100 + seed)
        prob, y = forecasts(400, 0.8, seed)
        y = rng.permutation(y)
        choice = choose_threshold(
            y, prob, label_return=paid(y), thresholds=np.linspace(0.0, 0.6, 13), rule=StakeRule("flat", cap=0.1)
        )
        traded += choice.threshold is not None
        assert choice.threshold is not None or choice.reason.startswith("do not trade: none of")
    assert traded <= 8  # 3 are expected at the level 0.95


def test_few_independent_trades_decide_nothing() -> None:
    prob, y = np.full(200, 0.9), np.ones(200, dtype=int)
    time = np.arange(200)
    assert choose_threshold(y, prob, label_return=paid(y), time=time).threshold is not None
    choice = choose_threshold(y, prob, label_return=paid(y), time=time, label_end=time + 60)
    assert choice.threshold is None
    assert "10 independent trades" in choice.reason


def test_same_seed_same_choice() -> None:
    prob, y = forecasts(500, 1.0, 5)
    assert repr(choose_threshold(y, prob, label_return=paid(y), rng=1)) == repr(
        choose_threshold(y, prob, label_return=paid(y), rng=1)
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"thresholds": [0.5, 1.0]}, r"thresholds row 1: 1.0 is outside \[0, 1\)"),
        ({"thresholds": []}, "thresholds is empty"),
        ({"time": [1, 2, 3]}, "time has 3 rows and label_return has 2"),
        ({"label_return": [0.1]}, "label_return has 1 rows and y_prob has 2"),
        ({"label_return": [0.1, -2.0]}, "label_return row 1: -2.0 is below -1"),
        ({"label_end": [1, 2]}, "label_end comes without time"),
        ({"time": [1, 2], "label_end": [2, 1]}, "label_end row 1: 1 is before the row's time 2"),
        ({"level": 2}, r"level=2 is outside \(0, 1\)"),
        ({"y_true": [0, 1, 1]}, "y_true has 3 rows and y_prob has 2"),
        ({"rule": "linear"}, "rule='linear' is not a stake rule. Pass StakeRule"),
        ({"y_prob": [0.5, 2.0]}, r"y_prob row 1: 2.0 is outside \[0, 1\]"),
    ],
)
def test_refuses(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        choose_threshold(**{"y_true": [0, 1], "y_prob": [0.5, 0.6], "label_return": [0.1, 0.1], **arguments})  # type: ignore[arg-type]


def test_returns_are_those_of_the_positions_with_their_promise() -> None:
    prob, y = forecasts(400, 1.0, 3)
    rule, returned = StakeRule(cost_bp=100, up=0.08, down=0.1), paid(y) + 0.01
    found = evaluate_returns(y, prob, label_return=returned, threshold=0.45, rule=rule)
    stakes = rule.stakes(prob)
    confidence = np.where(stakes > 0.0, prob[:, 2], np.where(stakes < 0.0, prob[:, 0], 0.0))
    stakes = np.where(confidence > 0.45, stakes, 0.0)
    move = prob @ [-0.1, 0.0, 0.08]
    promised = stakes * move - np.abs(stakes) * 0.01 * (2.0 + move)
    realised = stakes * returned - np.abs(stakes) * 0.01 * (2.0 + returned)
    # 401 moments, 400 bars between them
    assert found.promised.value == pytest.approx(promised.sum() / 400)
    assert found.realised.value == pytest.approx(realised.sum() / 400)
    assert found.gap.value == pytest.approx(found.realised.value - found.promised.value)
    assert found.gap.low < found.gap.value < found.gap.high
    time = np.arange(400)
    about = {"label_return": returned, "rule": StakeRule("flat", up=0.08, down=0.1, share=1 / 40)}
    wide = evaluate_returns(y, prob, time=time, label_end=time + 40, **about).gap
    narrow = evaluate_returns(y, prob, **about).gap
    assert (wide.block, narrow.block) == (44, 4)
    assert found.to_dict()["gap"]["value"] == found.gap.value


def test_probabilities_that_are_right_keep_their_promise_and_sharpened_ones_don_t() -> None:
    prob, y = forecasts(8_000, 1.0, 4)
    rule = StakeRule("linear", up=0.1, down=0.1, cost_bp=5)
    right = evaluate_returns(y, prob, label_return=paid(y), rule=rule, level=0.999).gap
    assert right.low < 0.0 < right.high
    sharp = prob**3 / (prob**3).sum(axis=1, keepdims=True)
    assert evaluate_returns(y, sharp, label_return=paid(y), rule=rule, level=0.999).gap.high < 0.0
