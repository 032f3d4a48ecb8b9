"""Sizing errors: by hand, at their floor where probabilities are right, and how much calibration lowers them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from calibrant.errors import CalibrantError
from calibrant.training import StakeRule, kelly_stakes, sizing_error, sizing_reduction


def test_sizing_error_is_the_mean_distance_of_stakes_over_bins() -> None:
    p = np.repeat([0.2, 0.6, 0.9], 10)
    y = np.concatenate([np.arange(10) < k for k in (3, 5, 7)]).astype(int)
    rule = StakeRule(fraction=1.0)
    expected = np.mean(
        np.abs(kelly_stakes([0.2, 0.6, 0.9], fraction=1.0) - kelly_stakes([0.3, 0.5, 0.7], fraction=1.0))
    )
    got = sizing_error(y, p, rule=rule, n_bins=3)
    assert (got.value, got.n_bins, got.n_rows) == (pytest.approx(expected), 3, 30)


def test_calibrated_probabilities_have_a_sizing_error_at_its_floor_and_sharpened_ones_far_above() -> None:
    rng = np.random.default_rng(3)
    prob = rng.dirichlet([2, 2, 2], 20_000)
    y = (rng.random(20_000)[:, None] >= np.cumsum(prob, axis=1)[:, :2]).sum(axis=1) - 1
    sharp = prob**3 / (prob**3).sum(axis=1, keepdims=True)
    right, wrong = sizing_error(y, prob), sizing_error(y, sharp)
    assert right.value < 2 * right.floor < 0.02
    assert wrong.value > 0.1 > 10 * wrong.floor


def test_weight_two_is_two_rows_and_weight_zero_none() -> None:
    rng = np.random.default_rng(4)
    p, y = rng.uniform(0.1, 0.9, 60), rng.integers(0, 2, 60)
    weight = rng.integers(0, 3, 60)
    rows = np.repeat(np.arange(60), weight)
    weighted = sizing_error(y, p, sample_weight=weight, n_bins=4).value
    assert weighted == pytest.approx(sizing_error(y[rows], p[rows], n_bins=4).value, abs=1e-12)


def test_labels_of_three_columns_are_falls_and_rises_even_where_none_fell() -> None:
    prob = np.tile([0.1, 0.2, 0.7], (10, 1))
    with_rises = sizing_error([0, 1] * 5, prob, n_bins=1, rule=StakeRule(fraction=1.0)).value
    assert with_rises == pytest.approx(abs(6 / 8 - 1.0))  # a fall never came: the full stake is 1 / down
    assert sizing_error(["a", "b"] * 5, prob, n_bins=1, classes=["a", "b", "c"]).value > 0


def test_columns_named_after_directions_are_matched() -> None:
    prob = np.random.default_rng(5).dirichlet([1, 1, 1], 40)
    frame = pd.DataFrame(prob, columns=["p_-1", "p_0", "p_1"])[["p_0", "p_1", "p_-1"]]
    y = np.random.default_rng(6).integers(-1, 2, 40)
    assert sizing_error(y, frame) == sizing_error(y, prob)


# --- how much calibration lowers it --------------------------------------------------------------------------


def drawn(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.3, 0.7, n)
    return (rng.random(n) < p).astype(int), p


def test_reduction_is_one_less_the_ratio_of_the_errors() -> None:
    y, p = drawn(0, 3_000)
    sharp = 2.0 * (p - 0.5) + 0.5
    for rule in (None, StakeRule("linear", up=0.02, down=0.02, cost_bp=10)):
        found = sizing_reduction(y, sharp, p, rule=rule)
        before, after = (sizing_error(y, prob, rule=rule).value for prob in (sharp, p))
        assert (found.before, found.after) == (pytest.approx(before), pytest.approx(after))
        assert found.value == pytest.approx(1.0 - after / before)
        assert found.low < found.value < found.high <= 1.0
    assert found.low > 0.5


def test_nothing_changed_is_nothing_gained_for_certain() -> None:
    y, p = drawn(1, 500)
    found = sizing_reduction(y, p, p)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)
    exact = sizing_reduction([0, 1] * 20, [0.5] * 40, [0.6] * 40)
    assert np.isnan(exact.value)


def test_overlapping_labels_widen_the_interval_and_order_changes_nothing() -> None:
    y, p = drawn(2, 60)
    y, p = y.repeat(10), p.repeat(10)
    sharp, time = 1.5 * (p - 0.5) + 0.5, np.arange(600)
    alone = sizing_reduction(y, sharp, p)
    found = sizing_reduction(y, sharp, p, time=time, label_end=time + 10)
    assert found.high - found.low > 1.5 * (alone.high - alone.low)
    order = np.random.default_rng(0).permutation(600)
    again = sizing_reduction(y[order], sharp[order], p[order], time=time[order], label_end=time[order] + 10)
    assert (again.value, again.low, again.high) == pytest.approx((found.value, found.low, found.high))


@pytest.mark.slow
def test_reduction_interval_covers_what_as_many_rows_show() -> None:
    rule = StakeRule("linear", up=0.02, down=0.02, cost_bp=2)
    found = []
    for seed in range(100):
        y, p = drawn(seed, 1_000)
        found.append(sizing_reduction(y, 1.7 * (p - 0.5) + 0.5, 1.2 * (p - 0.5) + 0.5, rule=rule, level=0.9))
    truth = np.mean([one.value for one in found])
    assert 0.85 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.99


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "prob", "text"),
    [
        ([0, 1, 1], [0.5, 0.5], "y_true has 3 rows and y_prob has 2"),
        ([-1, 0, 1], [0.5, 0.5, 0.5], "y_true holds 3 classes"),
        ([0, 1, 2], [[0.2, 0.3, 0.5]] * 3, "unknown label 2"),
    ],
)
def test_sizing_error_refuses(y: list[int], prob: list[object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        sizing_error(y, prob)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"label_end": [1, 2]}, "label_end comes without time"),
        ({"time": [1, 2, 3]}, "time has 3 rows and before has 2"),
        ({"after": [0.5]}, "y_true has 2 rows and after has 1"),
        ({"before": [0.5, 1.5]}, r"before row 1: 1.5 is outside \[0, 1\]"),
        ({"before": [[0.25] * 4] * 2, "classes": [0, 1, 2, 3]}, "before has 4 columns"),
        ({"rule": "kelly"}, "rule='kelly' is not a stake rule"),
        ({"level": 1.5}, r"level=1.5 is outside \(0, 1\)"),
    ],
)
def test_reduction_refuses(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        sizing_reduction(**{"y_true": [0, 1], "before": [0.5, 0.6], "after": [0.5, 0.6], **arguments})
