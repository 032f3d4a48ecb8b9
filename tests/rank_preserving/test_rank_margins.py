"""Margins from data, and what `solve` takes of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import calibrant as cb
from calibrant.errors import CalibrantError, ColumnOrderError, InvalidTypeError, ShapeError
from calibrant.rank_preserving import margins_from_estimate, margins_from_labels, solve

RNG = np.random.default_rng(3)
P = RNG.dirichlet(np.ones(3), 120)


def test_margins_of_labels_are_their_shares_with_wilson_intervals() -> None:
    margins = margins_from_labels(["b"] * 10 + ["a"] * 90)
    rates = cb.prior.class_rates(["b"] * 10 + ["a"] * 90)
    assert margins.classes.tolist() == ["a", "b"]
    assert margins.rates.tolist() == [0.9, 0.1]
    np.testing.assert_array_equal((margins.low, margins.high), (rates.low, rates.high))
    np.testing.assert_allclose(margins.totals(500.0), [450.0, 50.0], rtol=1e-15)
    assert margins.to_dict()["method"] == "Wilson"
    assert str(margins).splitlines()[2].split() == ["a", "0.9000", "[0.8256,", "0.9448]"]


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
    by_prefix = solve(frame.set_axis(["p_c", "p_b", "p_a"], axis=1), margins_from_labels(y)).Q
    np.testing.assert_array_equal(by_prefix, by_name)
    by_order = solve(frame.set_axis(["x", "y", "z"], axis=1), margins_from_labels(y)).Q
    np.testing.assert_allclose(by_order.mean(axis=0), [0.3, 0.5, 0.2], atol=1e-8)
    text = r"P has the columns \['d', 'b', 'a'\], in an order that contradicts that of the classes, \['a', 'b', 'c'\]"
    with pytest.raises(ColumnOrderError, match=text):
        solve(frame.set_axis(["d", "b", "a"], axis=1), margins_from_labels(y))
    with pytest.raises(ShapeError, match=r"margins are for the 2 classes \['a', 'b'\], and P has 3 columns"):
        solve(P, margins_from_labels(["a", "b"]))


def test_what_is_no_estimate_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"estimate is a list. Pass what class_rates, estimate_prior or"):
        margins_from_estimate([0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(CalibrantError, match="y"):
        margins_from_labels([None, 1])
