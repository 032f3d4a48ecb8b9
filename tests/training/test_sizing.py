"""Stakes: Kelly's against brute force and exact fractions, the linear rule, and the sizing error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from calibrant.errors import CalibrantError
from calibrant.training.sizing import StakeRule, kelly_stakes, linear_stakes, sizing_error

probabilities = st.lists(st.floats(0.02, 1.0), min_size=3, max_size=3).map(lambda v: [x / sum(v) for x in v])


def growth(f: float, prob: list[float], up: float, down: float, cost: float) -> float:
    """Expected log growth of a signed stake, by the definition."""
    moves = (-down, 0.0, up)
    return float(sum(p * np.log1p(f * move - abs(f) * cost) for p, move in zip(prob, moves, strict=True)))


@settings(max_examples=150, deadline=None)
@given(probabilities, st.floats(0.01, 2.0), st.floats(0.01, 2.0), st.floats(0.0, 0.5))
def test_full_kelly_maximises_expected_log_growth(prob: list[float], up: float, down: float, share: float) -> None:
    cost = share * min(up, down)
    (stake,) = kelly_stakes([prob], up=up, down=down, cost=cost, fraction=1.0, cap=1e9)
    ends = {"rise": (0.0, (1 - 1e-9) / (down + cost)), "fall": (-(1 - 1e-9) / (up + cost), 0.0)}
    found = [
        minimize_scalar(
            lambda f: -growth(f, prob, up, down, cost), bounds=bounds, method="bounded", options={"xatol": 1e-12}
        )
        for bounds in ends.values()
    ]
    best = max(0.0, *(-r.fun for r in found))
    assert growth(stake, prob, up, down, cost) >= best - 1e-9


def test_two_outcomes_give_the_textbook_fraction_exactly() -> None:
    for numerator in range(1, 40):
        p = Fraction(numerator, 40)
        for b, a in ((Fraction(2), Fraction(1)), (Fraction(1, 2), Fraction(1, 4))):
            rise = p / a - (1 - p) / b
            fall = (1 - p) / b - p / a
            (got,) = kelly_stakes([float(p)], up=float(b), down=float(a), fraction=1.0, cap=100.0)
            assert got == pytest.approx(float(max(rise, 0) - max(fall, 0)), abs=1e-12)


def test_one_column_two_and_three_columns_agree() -> None:
    p = np.linspace(0.0, 1.0, 21)
    two, three = np.column_stack((1 - p, p)), np.column_stack((1 - p, 0 * p, p))
    for stakes in (kelly_stakes, linear_stakes):
        expected = stakes(p, up=1.5, down=0.5, cost=0.1)
        np.testing.assert_allclose(stakes(two, up=1.5, down=0.5, cost=0.1), expected, rtol=0, atol=1e-15)
        np.testing.assert_allclose(stakes(three, up=1.5, down=0.5, cost=0.1), expected, rtol=0, atol=1e-15)


def test_columns_named_after_directions_are_matched() -> None:
    prob = np.random.default_rng(5).dirichlet([1, 1, 1], 40)
    frame = pd.DataFrame(prob, columns=["p_-1", "p_0", "p_1"])[["p_0", "p_1", "p_-1"]]
    np.testing.assert_array_equal(kelly_stakes(frame), kelly_stakes(prob))
    y = np.random.default_rng(6).integers(-1, 2, 40)
    assert sizing_error(y, frame) == sizing_error(y, prob)
    two = pd.DataFrame({"p_1": prob[:, 0], "p_-1": 1.0 - prob[:, 0]})
    np.testing.assert_array_equal(kelly_stakes(two), kelly_stakes(prob[:, 0]))


def test_swapping_rise_and_fall_turns_the_stake_round() -> None:
    prob = np.random.default_rng(0).dirichlet([1, 1, 1], 200)
    for stakes in (kelly_stakes, linear_stakes):
        there = stakes(prob, up=0.8, down=1.2, cost=0.05)
        back = stakes(prob[:, ::-1], up=1.2, down=0.8, cost=0.05)
        np.testing.assert_allclose(there, -back, rtol=0, atol=1e-15)


def test_nothing_is_staked_where_no_side_is_worth_its_cost() -> None:
    assert kelly_stakes([0.5, 0.54, 0.46], cost=0.1).tolist() == [0.0, 0.0, 0.0]
    assert kelly_stakes([[0.3, 0.4, 0.3]], cost=0.0).tolist() == [0.0]
    assert linear_stakes([0.55], cost=2.0).tolist() == [0.0]


def test_cap_fraction_and_long_only() -> None:
    assert kelly_stakes([1.0, 0.0], cap=0.3).tolist() == [0.3, -0.3]
    assert kelly_stakes([1.0, 0.0], cap=0.3, short=False).tolist() == [0.3, 0.0]
    assert kelly_stakes([1.0, 0.0], up=0.1, down=0.1, fraction=1.0, cap=50.0).tolist() == pytest.approx([10.0, -10.0])
    full = kelly_stakes([0.7, 0.2], fraction=1.0)
    np.testing.assert_array_equal(kelly_stakes([0.7, 0.2], fraction=0.25), 0.25 * full)


def test_moves_per_row_are_the_same_as_row_by_row() -> None:
    rng = np.random.default_rng(1)
    prob, up, down = rng.dirichlet([1, 1, 1], 50), rng.uniform(0.1, 2, 50), rng.uniform(0.1, 2, 50)
    cost = rng.uniform(0, 0.05, 50)
    for stakes in (kelly_stakes, linear_stakes):
        batch = stakes(prob, up=up, down=down, cost=cost)
        single = [float(stakes(prob[i : i + 1], up=up[i], down=down[i], cost=cost[i])[0]) for i in range(50)]
        assert batch.tolist() == single


def test_linear_stake_is_zero_at_break_even_and_the_cap_at_certainty() -> None:
    up, down, cost = 2.0, 1.0, 0.2
    break_even = (down + cost) / (up + down)
    p = np.array([break_even - 0.01, break_even, 0.5 * (break_even + 1.0), 1.0])
    got = linear_stakes(p, up=up, down=down, cost=cost, cap=0.4, short=False)
    np.testing.assert_allclose(got, [0.0, 0.0, 0.2, 0.4], atol=1e-15)


def test_half_kelly_keeps_three_quarters_of_small_growth() -> None:
    p, edge = 0.51, []
    for fraction in (1.0, 0.5):
        (stake,) = kelly_stakes([p], fraction=fraction)
        edge.append(growth(stake, [1 - p, 0.0, p], 1.0, 1.0, 0.0))
    assert edge[1] / edge[0] == pytest.approx(0.75, abs=1e-3)


def test_rule_agrees_with_the_functions_and_says_what_stakes_earn() -> None:
    prob = np.random.default_rng(2).dirichlet([1, 1, 1], 30)
    terms = {"up": 1.2, "down": 0.9, "cost": 0.03}
    np.testing.assert_array_equal(
        StakeRule("kelly", **terms, fraction=0.3, cap=0.2).stakes(prob),
        kelly_stakes(prob, **terms, fraction=0.3, cap=0.2),
    )
    np.testing.assert_array_equal(StakeRule("linear", **terms).stakes(prob), linear_stakes(prob, **terms))
    assert StakeRule("flat", cap=0.1).stakes([0.7, 0.5, 0.2]).tolist() == [0.1, 0.0, -0.1]
    earned = StakeRule(**terms).returns(np.array([0.5, -0.5, 0.5, 0.0]), np.array([1, 1, 0, -1]))
    np.testing.assert_allclose(earned, [0.5 * 1.17, -0.5 * 1.23, -0.5 * 0.03, 0.0])


# --- the sizing error ----------------------------------------------------------------------------------------


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


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"y_prob": [0.5, 1.2]}, r"y_prob row 1: 1.2 is outside \[0, 1\]"),
        ({"y_prob": [0.5, float("nan")]}, "y_prob row 1: nan is not finite"),
        ({"y_prob": []}, "y_prob is empty"),
        ({"y_prob": [[0.2, 0.2, 0.2, 0.4]]}, "y_prob has 4 columns. Pass the probability of a rise"),
        ({"y_prob": [[0.5, 0.4, 0.5]]}, "probabilities sum to 1.4, not 1"),
        ({"up": 0.0}, r"up=0.0 is outside \(0, inf\). Pass a number in \(0, inf\)"),
        ({"down": float("inf")}, r"down=inf is outside \(0, inf\)"),
        ({"cost": -0.1}, r"cost=-0.1 is outside \[0, inf\)"),
        ({"cost": [0.1, -0.1]}, r"cost row 1: -0.1 can't be used \(1 of 2 rows\)"),
        ({"up": [1.0]}, "y_prob has 2 rows and up has 1"),
        ({"up": "1"}, "up='1' is not a number"),
        ({"up": [[1.0], [1.0]]}, r"up has shape \(2, 1\)"),
        ({"fraction": 0.0}, r"fraction=0.0 is outside \(0, 1\)"),
        ({"fraction": True}, "fraction=True is not a number"),
        ({"cap": 0}, r"cap=0 is outside \(0, inf\)"),
    ],
)
def test_kelly_refuses(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        kelly_stakes(**{"y_prob": [0.5, 0.6], **arguments})


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


def test_rule_refuses_what_it_can_t_use() -> None:
    with pytest.raises(CalibrantError, match="Did you mean 'kelly'"):
        StakeRule("kely")  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match=r"up=-1 is outside \(0, inf\)"):
        StakeRule(up=-1)
    with pytest.raises(CalibrantError, match=r"cap=\[1.0\] is not a number"):
        StakeRule(cap=[1.0])  # type: ignore[arg-type]
