"""Stakes: Kelly's against brute force and exact fractions, and the linear rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from calibrant.errors import CalibrantError
from calibrant.training import StakeRule, kelly_stakes, linear_stakes, trade
from calibrant.training.directions import Directions

probabilities = st.lists(st.floats(0.02, 1.0), min_size=3, max_size=3).map(lambda v: [x / sum(v) for x in v])


def growth(f: float, prob: list[float], up: float, down: float, cost_bp: float) -> float:
    """Expected log growth of a signed stake, by the definition: costs of what is opened, and of what it becomes."""
    cost, moves = 1e-4 * cost_bp, (-down, 0.0, up)
    return float(
        sum(p * np.log1p(f * move - abs(f) * cost * (2.0 + move)) for p, move in zip(prob, moves, strict=True))
    )


@settings(max_examples=150, deadline=None)
@given(probabilities, st.floats(0.01, 2.0), st.floats(0.01, 1.0), st.floats(0.0, 0.25))
def test_full_kelly_maximises_expected_log_growth(prob: list[float], up: float, down: float, share: float) -> None:
    cost = 1e4 * share * min(up, down)
    (stake,) = kelly_stakes([prob], up=up, down=down, cost_bp=cost, fraction=1.0, cap=1e9)
    loss = (down + 1e-4 * cost * (2.0 - down), up + 1e-4 * cost * (2.0 + up))
    ends = {"rise": (0.0, (1 - 1e-9) / loss[0]), "fall": (-(1 - 1e-9) / loss[1], 0.0)}
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
        expected = stakes(p, up=1.5, down=0.5, cost_bp=500)
        np.testing.assert_allclose(stakes(two, up=1.5, down=0.5, cost_bp=500), expected, rtol=0, atol=1e-15)
        np.testing.assert_allclose(stakes(three, up=1.5, down=0.5, cost_bp=500), expected, rtol=0, atol=1e-15)


def test_columns_named_after_directions_are_matched() -> None:
    prob = np.random.default_rng(5).dirichlet([1, 1, 1], 40)
    frame = pd.DataFrame(prob, columns=["p_-1", "p_0", "p_1"])[["p_0", "p_1", "p_-1"]]
    np.testing.assert_array_equal(kelly_stakes(frame), kelly_stakes(prob))
    two = pd.DataFrame({"p_1": prob[:, 0], "p_-1": 1.0 - prob[:, 0]})
    np.testing.assert_array_equal(kelly_stakes(two), kelly_stakes(prob[:, 0]))


def test_swapping_rise_and_fall_turns_the_stake_round() -> None:
    prob = np.random.default_rng(0).dirichlet([1, 1, 1], 200)
    for stakes in (kelly_stakes, linear_stakes):
        there = stakes(prob, up=0.8, down=1.2, cost_bp=0)
        back = stakes(prob[:, ::-1], up=1.2, down=0.8, cost_bp=0)
        np.testing.assert_allclose(there, -back, rtol=0, atol=1e-15)


def test_nothing_is_staked_where_no_side_is_worth_its_cost() -> None:
    assert kelly_stakes([0.5, 0.54, 0.46], cost_bp=500).tolist() == [0.0, 0.0, 0.0]
    assert kelly_stakes([[0.3, 0.4, 0.3]], cost_bp=0).tolist() == [0.0]
    assert linear_stakes([0.55], cost_bp=10_000).tolist() == [0.0]


def test_cap_fraction_and_long_only() -> None:
    assert kelly_stakes([1.0, 0.0], cap=0.3).tolist() == [0.3, -0.3]
    assert kelly_stakes([1.0, 0.0], cap=0.3, short=False).tolist() == [0.3, 0.0]
    assert kelly_stakes([1.0, 0.0], up=0.1, down=0.1, fraction=1.0, cap=50.0).tolist() == pytest.approx([10.0, -10.0])
    full = kelly_stakes([0.7, 0.2], fraction=1.0)
    np.testing.assert_array_equal(kelly_stakes([0.7, 0.2], fraction=0.25), 0.25 * full)


def test_moves_per_row_are_the_same_as_row_by_row() -> None:
    rng = np.random.default_rng(1)
    prob, up, down = rng.dirichlet([1, 1, 1], 50), rng.uniform(0.1, 2, 50), rng.uniform(0.1, 2, 50)
    cost = rng.uniform(0, 250, 50)
    for stakes in (kelly_stakes, linear_stakes):
        batch = stakes(prob, up=up, down=down, cost_bp=cost)
        single = [float(stakes(prob[i : i + 1], up=up[i], down=down[i], cost_bp=cost[i])[0]) for i in range(50)]
        assert batch.tolist() == single


def test_linear_stake_is_zero_at_break_even_and_the_cap_at_certainty() -> None:
    up, down, cost = 2.0, 1.0, 0.1
    # p (up - cost (2 + up)) = (1 - p) (down + cost (2 - down))
    gain, loss = up - cost * (2.0 + up), down + cost * (2.0 - down)
    break_even = loss / (gain + loss)
    p = np.array([break_even - 0.01, break_even, 0.5 * (break_even + 1.0), 1.0])
    got = linear_stakes(p, up=up, down=down, cost_bp=1e4 * cost, cap=0.4, short=False)
    np.testing.assert_allclose(got, [0.0, 0.0, 0.2, 0.4], atol=1e-15)


def test_half_kelly_keeps_three_quarters_of_small_growth() -> None:
    p, edge = 0.51, []
    for fraction in (1.0, 0.5):
        (stake,) = kelly_stakes([p], fraction=fraction)
        edge.append(growth(stake, [1 - p, 0.0, p], 1.0, 1.0, 0.0))
    assert edge[1] / edge[0] == pytest.approx(0.75, abs=1e-3)


def test_rule_agrees_with_the_functions_and_says_what_stakes_promise() -> None:
    prob = np.random.default_rng(2).dirichlet([1, 1, 1], 30)
    terms = {"up": 0.8, "down": 0.9, "cost_bp": 150.0}
    np.testing.assert_array_equal(
        StakeRule("kelly", **terms, fraction=0.3, cap=0.2).stakes(prob),
        kelly_stakes(prob, **terms, fraction=0.3, cap=0.2),
    )
    rule = StakeRule("linear", **terms)
    np.testing.assert_array_equal(rule.stakes(prob), linear_stakes(prob, **terms))
    assert StakeRule("flat", cap=0.1).stakes([0.7, 0.5, 0.2]).tolist() == [0.1, 0.0, -0.1]
    side = np.sign(rule.stakes(prob))
    # what each outcome pays a position, as `trade` pays it, each with its probability
    paid = [
        [trade([one], [move], cost_bp=150).final - 1.0 for move in (-0.9, 0.0, 0.8)] if one else [0.0] * 3
        for one in side
    ]
    np.testing.assert_allclose(rule.promised(side, Directions(*prob.T)), (prob * paid).sum(axis=1), atol=1e-15)


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
        ({"cost_bp": -0.1}, r"cost_bp=-0.1 is outside \[0, inf\)"),
        ({"cost_bp": [0.1, -0.1]}, r"cost_bp row 1: -0.1 can't be used \(1 of 2 rows\)"),
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


def test_rule_refuses_what_it_can_t_use() -> None:
    with pytest.raises(CalibrantError, match="Did you mean 'kelly'"):
        StakeRule("kely")  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match=r"up=-1 is outside \(0, inf\)"):
        StakeRule(up=-1)
    with pytest.raises(CalibrantError, match=r"cap=\[1.0\] is not a number"):
        StakeRule(cap=[1.0])  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match=r"cost_bp=-5 is outside \[0, 10000\]"):
        StakeRule(cost_bp=-5)
    with pytest.raises(CalibrantError, match=r"share=0 is outside \(0, inf\)"):
        StakeRule(share=0)
