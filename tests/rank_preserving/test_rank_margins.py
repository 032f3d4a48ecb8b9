"""Margins from data, and margins by group."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import calibrant as cb
from calibrant.errors import CalibrantError, ConvergenceWarning, InvalidInputError, InvalidTypeError, ShapeError
from calibrant.rank_preserving import margins_from_estimate, margins_from_labels, solve

RNG = np.random.default_rng(3)
P = RNG.dirichlet(np.ones(3), 120)
BY = np.array(["north", "south", "south"] * 40)
TARGETS = {"north": [16.0, 12.0, 12.0], "south": [0.2, 0.3, 0.5]}


def test_margins_of_labels_are_their_shares_with_wilson_intervals() -> None:
    margins = margins_from_labels(["b"] * 10 + ["a"] * 90)
    rates = cb.prior.class_rates(["b"] * 10 + ["a"] * 90)
    assert margins.classes.tolist() == ["a", "b"]
    assert margins.rates.tolist() == [0.9, 0.1]
    np.testing.assert_array_equal((margins.low, margins.high), (rates.low, rates.high))
    np.testing.assert_allclose(margins.totals(500.0), [450.0, 50.0], rtol=1e-15)
    assert margins.to_dict()["method"] == "Wilson"
    assert str(margins).startswith("a: 0.9000 [0.8256, 0.9448]\n")


def test_weight_two_equals_two_labels() -> None:
    once = margins_from_labels([0, 1, 1], sample_weight=[2.0, 1.0, 0.0])
    twice = margins_from_labels([0, 0, 1])
    assert once.rates.tolist() == twice.rates.tolist()


@pytest.mark.parametrize("kind", ["totals", "rates"])
def test_solve_takes_labels_and_estimates_as_rates_whatever_the_kind(kind: str) -> None:
    y = RNG.choice(3, 60, p=[0.5, 0.3, 0.2])
    rates = cb.prior.class_rates(y, classes=[0, 1, 2])
    expected = solve(P, rates.rates, margin_kind="rates").Q
    for margins in (margins_from_labels(y, classes=[0, 1, 2]), rates):
        np.testing.assert_array_equal(solve(P, margins, margin_kind=kind).Q, expected)


def test_solve_meets_the_rates_that_em_and_black_box_shift_estimate() -> None:
    old = [1 / 3] * 3
    by_likelihood = cb.prior.estimate_prior(P**2 / (P**2).sum(axis=1, keepdims=True), old=old)
    y, guess = RNG.integers(0, 3, 300), RNG.integers(0, 3, 300)
    guess = np.where(RNG.random(300) < 0.7, y, guess)
    by_confusion = cb.prior.estimate_prior_bbse(
        y, np.eye(3)[guess], new_predictions=np.eye(3)[RNG.choice(3, 200, p=[0.5, 0.3, 0.2])]
    )
    for estimate in (by_likelihood, by_confusion):
        margins = margins_from_estimate(estimate)
        np.testing.assert_array_equal((margins.low, margins.high), (estimate.low, estimate.high))
        np.testing.assert_allclose(solve(P, estimate).Q.mean(axis=0), estimate.new, atol=1e-8)


def test_estimates_follow_the_names_of_columns_and_else_their_order() -> None:
    y = ["b"] * 60 + ["a"] * 36 + ["c"] * 24
    frame = pd.DataFrame(P, columns=["c", "b", "a"])
    by_name = solve(frame, margins_from_labels(y)).Q
    np.testing.assert_allclose(by_name.mean(axis=0), [0.2, 0.5, 0.3], atol=1e-8)
    by_order = solve(frame.set_axis(["x", "y", "z"], axis=1), margins_from_labels(y)).Q
    np.testing.assert_allclose(by_order.mean(axis=0), [0.3, 0.5, 0.2], atol=1e-8)
    with pytest.raises(ShapeError, match=r"margins has none for column 'd'. Name each column of P once: \['d', 'b'"):
        solve(frame.set_axis(["d", "b", "a"], axis=1), margins_from_labels(y))
    with pytest.raises(ShapeError, match=r"margins are for the 2 classes \['a', 'b'\], and P has 3 columns"):
        solve(P, margins_from_labels(["a", "b"]))


def test_what_is_no_estimate_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"estimate is a list. Pass what class_rates, estimate_prior or"):
        margins_from_estimate([0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match="y"):
        margins_from_labels([None, 1])


# --- groups --------------------------------------------------------------------------------------------------


def test_groups_are_problems_of_their_own() -> None:
    targets = {"north": [16.0, 12.0, 12.0], "south": [16.0, 24.0, 40.0]}
    weight = RNG.integers(1, 3, 120).astype(float)
    targets = {g: np.array(t) / np.sum(t) for g, t in targets.items()}
    whole = solve(P, targets, groups=BY, margin_kind="rates", sample_weight=weight)
    assert whole.groups is not None
    assert list(whole.groups) == ["north", "south"]
    for group, target in targets.items():
        own = BY == group
        alone = solve(P[own], target, margin_kind="rates", sample_weight=weight[own])
        np.testing.assert_array_equal(whole.Q[own], alone.Q)
        assert whole.groups[group].objective == alone.objective
    parts = list(whole.groups.values())
    assert whole.converged
    assert whole.objective == pytest.approx(sum(part.objective for part in parts), rel=1e-14)
    assert whole.bound == pytest.approx(sum(part.bound for part in parts), rel=1e-14)
    assert whole.gap == pytest.approx((whole.objective - whole.bound) / whole.objective, rel=1e-12)
    assert whole.row_residual == max(part.row_residual for part in parts)
    assert whole.n_iter == sum(part.n_iter for part in parts)


def test_margins_of_groups_may_be_of_any_kind_and_keep_the_container() -> None:
    frame = pd.DataFrame(P, columns=["a", "b", "c"], index=np.arange(120) + 7)
    targets = {"north": margins_from_labels(["c"] * 5 + ["a"] * 3 + ["b"] * 2), "south": {"c": 40, "a": 16, "b": 24}}
    q = solve(frame, targets, groups=pd.Series(BY)).Q
    assert list(q.index) == list(frame.index)
    np.testing.assert_allclose(q[BY == "north"].mean(axis=0), [0.3, 0.2, 0.5], atol=1e-8)
    np.testing.assert_allclose(q[BY == "south"].sum(axis=0), [16.0, 24.0, 40.0], atol=1e-6)


def test_group_without_weight_is_left_out() -> None:
    weight = (BY == "south").astype(float)
    result = solve(P, {"north": [1, 0, 0], "south": [16, 24, 40]}, groups=BY, sample_weight=weight)
    assert result.groups is not None
    assert list(result.groups) == ["south"]
    assert np.isnan(result.Q[BY == "north"]).all()
    assert not np.isnan(result.Q[BY == "south"]).any()


def test_groups_that_do_not_converge_are_counted_and_named() -> None:
    with pytest.warns(ConvergenceWarning, match=r"2 of 2 groups did not converge, the first 'north' with a gap of"):
        result = solve(
            P, {"north": [16, 12, 12], "south": [16, 24, 40]}, groups=BY, method="dykstra", max_iter=1, gap_tol=1e-9
        )
    assert not result.converged
    assert result.row_residual <= 1e-8


@pytest.mark.parametrize(
    ("margins", "groups", "message"),
    [
        ([40, 40, 40], BY, r"margins is a list, and there are groups. Pass a dict of the margins of each group"),
        (
            {"north": [16, 12, 12]},
            BY,
            r"margins has none for group 'south'. Name each group once: \['north', 'south'\]",
        ),
        ({"north": [1], "south": [1], "x": [1]}, BY, r"margins names 'x', a group without rows"),
        ({"north": [16, 12, 12], "south": [1, 2, 3]}, BY, r"group 'south': margins \(totals\) sum to 6, and each"),
        ({"north": [16, 12, 12], "south": [1, 2, 3]}, BY[:-1], r"P has 120 rows and groups has 119"),
    ],
)
def test_wrong_groups_are_named(margins: object, groups: object, message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message):
        solve(P, margins, groups=groups)  # type: ignore[arg-type]
