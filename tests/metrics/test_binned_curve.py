"""The drop-in for scikit-learn's calibration curve: its answers to the bit, and what scikit-learn lacks."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.calibration import calibration_curve as reference

import calibrant as cb
from calibrant.errors import CalibrantError, InvalidInputError, InvalidLabelError, InvalidTypeError, ShapeError

#: Multiples of a power of two and of 1/20 (ties, and values on or beside edges), and any others.
PROBABILITIES = st.one_of(
    st.integers(0, 16).map(lambda i: i / 16),
    st.integers(0, 20).map(lambda i: i / 20),
    st.floats(0.0, 1.0),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-310, 1e-300, np.nextafter(1.0, 0.0), 1.0]),
)
LABELS = st.sampled_from([(0, 1), (-1, 1), (False, True), (0.0, 1.0), (3, 7), ("eggs", "spam"), ("b", "a")])


def assert_same(got: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.tolist() == theirs.tolist()


@pytest.mark.slow
@settings(max_examples=400)
@given(
    rows=st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=60),
    names=LABELS,
    n_bins=st.integers(1, 25),
    strategy=st.sampled_from(["uniform", "quantile"]),
    is_second=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_equals_scikit_learn_to_the_bit(
    rows: list[tuple[float, bool]], names: tuple[Any, Any], n_bins: int, strategy: str, is_second: bool, dtype: Any
) -> None:
    p = np.array([p for p, _ in rows], dtype=dtype)
    y = np.array([names[is_positive] for _, is_positive in rows])
    options = {"n_bins": n_bins, "strategy": strategy, "pos_label": names[is_second]}
    assert_same(cb.calibration_curve(y, p, **options), reference(y, p, **options))
    if names[1] == 1:
        options["pos_label"] = None
        assert_same(cb.calibration_curve(y, p, **options), reference(y, p, **options))


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("n_bins", [1, 5, 64, 3000])
@pytest.mark.parametrize("spread", ["even", "rare", "very rare", "ties", "constant", "zeros"])
def test_equals_scikit_learn_where_rows_are_not_sorted(spread: str, n_bins: int, strategy: Any) -> None:
    rng = np.random.default_rng(n_bins)
    n = 40_001
    p = {
        "even": rng.random(n),
        "rare": rng.beta(0.5, 200.0, n),
        "very rare": rng.beta(0.02, 20.0, n),
        "ties": rng.integers(0, 31, n) / 30.0,
        "constant": np.full(n, 0.3),
        "zeros": np.zeros(n),
    }[spread]
    y = rng.random(n) < p
    expected = reference(y, p, n_bins=n_bins, strategy=strategy)
    assert_same(cb.calibration_curve(y, p, n_bins=n_bins, strategy=strategy), expected)


@pytest.mark.parametrize(
    ("y_true", "y_prob"),
    [
        ([0, 1, 1], [0, 1, 1]),
        ([[0], [1], [1]], [0.2, 0.4, 0.9]),
        (np.array([[0], [1], [1]]), np.array([[0.2], [0.4], [0.9]])),
        (pd.Series([0, 1, 1], index=[7, 3, 9]), pd.DataFrame({"p": [0.2, 0.4, 0.9]}, index=[7, 3, 9])),
        (pl.Series([0, 1, 1]), pl.Series([0.2, 0.4, 0.9])),
        ([True], [0.5]),
        ([-1.0, 1.0], [0.5, 0.6]),
    ],
)
def test_containers_and_shapes_that_scikit_learn_takes(y_true: Any, y_prob: Any) -> None:
    assert_same(cb.calibration_curve(y_true, y_prob), reference(y_true, y_prob))


@pytest.mark.parametrize(
    ("only", "pos_label", "rate"),
    [(1, None, 1.0), (0, None, 0.0), (-1, None, 0.0), (5, 5, 1.0), ("no", "yes", 0.0), ("no", "no", 1.0), (5, 6, 0.0)],
)
def test_rows_of_one_label(only: Any, pos_label: Any, rate: float) -> None:
    y, p = np.array([only] * 3), np.array([0.1, 0.3, 0.9])
    assert_same(cb.calibration_curve(y, p, pos_label=pos_label), reference(y, p, pos_label=pos_label))
    assert set(cb.calibration_curve(y, p, pos_label=pos_label)[0]) == {rate}


def weighted_cases() -> st.SearchStrategy[list[tuple[float, bool, int]]]:
    return st.lists(st.tuples(PROBABILITIES, st.booleans(), st.integers(0, 4)), min_size=1, max_size=30).filter(
        lambda rows: any(w for *_, w in rows)
    )


@given(rows=weighted_cases(), strategy=st.sampled_from(["uniform", "quantile", "isotonic", "own"]))
def test_weight_two_is_two_rows_and_weight_zero_is_none(rows: list[tuple[float, bool, int]], strategy: str) -> None:
    p, y, weight = (np.array(column) for column in zip(*rows, strict=True))
    bins: Any = [0.0, 0.15, 0.5, 1.0] if strategy == "own" else strategy
    got = cb.calibration_curve(y, p, sample_weight=weight, strategy=bins, n_bins=4)
    expected = cb.calibration_curve(np.repeat(y, weight), np.repeat(p, weight), strategy=bins, n_bins=4)
    for ours, theirs in zip(got, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-15)


def test_weighted_quantiles_do_not_hang_on_the_scale_of_small_weights() -> None:
    rng = np.random.default_rng(3)
    p, y, weight = rng.random(500), rng.random(500) < 0.4, rng.integers(1, 5, 500)
    one = cb.calibration_curve(y, p, sample_weight=weight, strategy="quantile")
    small = cb.calibration_curve(y, p, sample_weight=weight / weight.sum(), strategy="quantile")
    for a, b in zip(one, small, strict=True):
        assert a == pytest.approx(b, abs=1e-12)


@given(
    rows=st.lists(st.tuples(PROBABILITIES, st.booleans()), min_size=1, max_size=40),
    inner=st.sets(PROBABILITIES.filter(lambda e: 0.0 < e < 1.0), max_size=8),
)
def test_own_edges_hold_the_rows_above_one_and_up_to_the_next(
    rows: list[tuple[float, bool]], inner: set[float]
) -> None:
    edges = [0.0, *sorted(inner), 1.0]
    held = [[row for row in rows if low < row[0] <= high] for low, high in pairwise(edges)]
    held[0] += [row for row in rows if row[0] == 0.0]
    held = [bin_ for bin_ in held if bin_]
    p, y = (np.array(column) for column in zip(*rows, strict=True))
    prob_true, prob_pred = cb.calibration_curve(y, p, strategy=edges)
    assert prob_true.tolist() == [float(Fraction(sum(y for _, y in b), len(b))) for b in held]
    means = [float(sum(Fraction(p) for p, _ in b) / len(b)) for b in held]
    assert prob_pred == pytest.approx(means, rel=1e-13, abs=1e-320)


def test_isotonic_bins_are_those_of_the_reliability_curve() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    prob_true, prob_pred = cb.calibration_curve(y, p, strategy="isotonic")
    curve = cb.reliability_curve(y, p, strategy="isotonic")
    assert (prob_true.tolist(), prob_pred.tolist()) == (curve.y.tolist(), curve.x.tolist())
    assert (np.diff(prob_true) > 0.0).all()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([0, 1], [0.2, np.nan]), {}, InvalidInputError, r"y_prob row 1: nan is not finite \(1 of 2 rows\)"),
        (([0, 1], [0.2, 1.5]), {}, InvalidInputError, r"y_prob row 1: 1.5 is outside \[0, 1\] \(1 of 2 rows\)"),
        (([0, np.nan], [0.2, 0.5]), {}, InvalidLabelError, r"y_true row 1: missing label \(1 of 2 rows\)"),
        (([0, np.inf], [0.2, 0.5]), {}, InvalidLabelError, "y_true row 1: inf is not a class label"),
        (([0, 0.5], [0.2, 0.5]), {}, InvalidLabelError, "Got continuous type of target. y_true row 1: 0.5 is not a"),
        (([0, 0.5], [0.2, 0.5]), {"pos_label": 0.5}, InvalidLabelError, "y_true row 1: 0.5 is not a class label"),
        (([0, 1, 2], [0.2, 0.5, 0.6]), {}, InvalidLabelError, r"Got multiclass type .* holds 3 classes, \[0, 1, 2\]"),
        ((["a", "b"], [0.2, 0.5]), {}, InvalidLabelError, "takes value in {'a', 'b'} and pos_label is not specified"),
        (([3, 4], [0.2, 0.5]), {}, InvalidLabelError, "takes value in {3, 4} and pos_label is not specified"),
        (([0, -1], [0.2, 0.5]), {}, InvalidLabelError, "takes value in {-1, 0} and pos_label is not specified"),
        (([2, 2], [0.2, 0.5]), {}, InvalidLabelError, r"takes value in \{2\} and pos_label is not specified"),
        ((["a", "b"], [0.2, 0.5]), {"pos_label": "c"}, InvalidLabelError, r"'c' is none of the labels \['a', 'b'\]"),
        (([1, 1], [0.2, 0.5]), {"pos_label": "1"}, InvalidLabelError, "pos_label='1' is of another kind than .* all 1"),
        (([0, 1], [0.2, 0.5]), {"pos_label": [1]}, InvalidLabelError, r"pos_label=\[1\] is not a single label"),
        (([0, 1], [0.2]), {}, ShapeError, "inconsistent numbers of samples: y_true has 2 rows and y_prob has 1"),
        (([0, 1], [[0.2, 0.8], [0.3, 0.7]]), {}, ShapeError, r"y_prob has 2 columns, shape \(2, 2\)"),
        (([], []), {}, ShapeError, "y_true is empty"),
        (
            ([0, 1], [0.2, 0.5]),
            {"strategy": "percentile"},
            InvalidInputError,
            "unknown value of strategy: 'percentile'",
        ),
        (([0, 1], [0.2, 0.5]), {"n_bins": 0}, InvalidInputError, "n_bins=0 is too small"),
        (([0, 1], [0.2, 0.5]), {"n_bins": 2.5}, InvalidTypeError, "n_bins=2.5 is not a whole number"),
        (([0, 1], [0.2, 0.5]), {"strategy": [0.0]}, ShapeError, r"strategy has shape \(1,\)"),
        (
            ([0, 1], [0.2, 0.5]),
            {"strategy": [0.0, 0.5, 0.5, 1.0]},
            InvalidInputError,
            "strategy row 2: 0.5 doesn't lie",
        ),
        (([0, 1], [0.2, 0.5]), {"strategy": [0.0, 0.4]}, InvalidInputError, "y_prob row 1: 0.5 lies outside the bins"),
        (([0, 1], [0.2, 0.5]), {"strategy": [0.0, np.nan]}, InvalidInputError, "strategy row 1: nan is not finite"),
        (([0, 1], [0.2, 0.5]), {"sample_weight": [1, -1]}, InvalidInputError, "sample_weight row 1: -1.0 is negative"),
        (([0, 1], [0.2, 0.5]), {"sample_weight": [1]}, InvalidInputError, "sample_weight"),
    ],
)
def test_refusals_say_where_and_why(
    arguments: tuple[Any, Any], options: dict[str, Any], error: type[CalibrantError], message: str
) -> None:
    with pytest.raises(error, match=message):
        cb.calibration_curve(*arguments, **options)


def test_rows_of_weight_zero_are_gone_before_edges_are_found() -> None:
    got = cb.calibration_curve([0, 1, 1], [0.2, 0.4, 0.9], sample_weight=[1, 1, 0], strategy=[0.0, 0.3, 0.5])
    assert [a.tolist() for a in got] == [[0.0, 1.0], [0.2, 0.4]]
