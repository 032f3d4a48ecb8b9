"""What can't be solved is named: which argument, which column, which bound."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from calibrant.errors import CalibrantError, DataWarning
from calibrant.rank_preserving import solve
from calibrant.rank_preserving.problem import (
    affine_columns,
    affine_feasible_point,
    check_problem,
    check_rows,
    unsorted,
)

P = np.array([[0.5, 0.3, 0.2], [0.25, 0.25, 0.5], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])


@pytest.mark.parametrize(
    ("margins", "options", "text"),
    [
        ([1.0, 1.0, 1.0], {}, r"margins \(totals\) sum to 3, and each of the rows to 1, 4 in all. Pass on_mismatch="),
        ([0.5, 0.4, 0.2], {"margin_kind": "rates"}, r"margins \(rates\) sum to 1.1, and each of the rows to 1, 1 in"),
        ([-1.0, 3.0, 2.0], {}, "margins of column 0: -1.0 is negative, and no entry of Q may be"),
        ([0.0, 4.5, 0.0], {}, "margins of column 1: 4.5 is above 4, the weight of all rows, and no entry of Q may be"),
        ([2.0, 1.0, 1.0], {"margin_kind": "rates"}, "margins of column 0: 2.0 is above 1, all rows"),
        ([0.0, 0.0, 0.0], {"on_mismatch": "rescale"}, "margins are all 0, and each row of Q sums to 1"),
        ([2.0, 2.0], {}, r"margins has shape \(2,\) for the 3 columns of P. Pass one per column"),
        ([2.0, np.nan, 2.0], {}, "margins row 1: nan is not finite"),
        ({0: 2.0, 1: 2.0}, {}, r"margins has shape \(2,\) for the 3 columns of P"),
        ({0: 2.0, 1: 1.0, 2: 1.0, "b": 0.0}, {}, "the index of margins mixes kinds of labels"),
        ([2.0, 1.0, 1.0], {"ties": "stable"}, "unknown value of ties: 'stable'"),
        ([2.0, 1.0, 1.0], {"method": "admmm"}, "unknown value of method: 'admmm'. Did you mean 'admm'?"),
        ([2.0, 1.0, 1.0], {"tol": 0.0}, "tol=0.0 is "),
        ([2.0, 1.0, 1.0], {"gap_tol": "x"}, "gap_tol='x' is not a number"),
        ([2.0, 1.0, 1.0], {"max_iter": 0}, "max_iter=0 is too small"),
        ([2.0, 1.0, 1.0], {"sample_weight": [1.0, -1.0, 1.0, 1.0]}, "sample_weight row 1: -1.0 is negative"),
    ],
)
def test_what_can_not_be_met_is_named(margins, options, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CalibrantError, match=text):
        solve(P, margins, **options)


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (P[:, 0], r"P has shape \(4,\). Pass one column per class"),
        (
            P * 1.000001,
            r"P row 0: the 3 probabilities sum to 1.000001, not 1 to rounding \(4 of 4 rows\). Pass normalise=True",
        ),
        (np.where(P == 0.6, np.nan, P), "P row 2, column 1: nan is not finite"),
        (P - 0.3, "P row 0, column 2: -0.09999999999999998 is outside"),
    ],
)
def test_a_matrix_that_is_none_of_probabilities_is_named(matrix: np.ndarray, text: str) -> None:
    with pytest.raises(CalibrantError, match=text):
        solve(matrix, [2.0, 1.0, 1.0])


def test_margins_are_rescaled_only_on_request() -> None:
    with pytest.warns(DataWarning, match="multiplied by 0.333333"):
        scaled = solve(P, [3.0, 4.0, 5.0], on_mismatch="rescale")
    exact = solve(P, [1.0, 4.0 / 3.0, 5.0 / 3.0])
    rates = solve(P, [0.25, 1.0 / 3.0, 5.0 / 12.0], margin_kind="rates")
    np.testing.assert_allclose(scaled.Q, exact.Q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(rates.Q, exact.Q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(exact.Q.sum(axis=0), [1.0, 4.0 / 3.0, 5.0 / 3.0], rtol=0, atol=1e-10)


def test_frame_and_named_margins_come_back_as_a_frame() -> None:
    frame = pd.DataFrame(P, columns=["low", "mid", "high"], index=[3, 1, 4, 5])
    result = solve(frame, {"high": 1.8, "low": 0.9, "mid": 1.3})
    assert list(result.Q.columns) == ["low", "mid", "high"]
    assert list(result.Q.index) == [3, 1, 4, 5]
    np.testing.assert_allclose(result.Q.sum().to_numpy(), [0.9, 1.3, 1.8], rtol=0, atol=1e-10)


def test_affine_point_is_feasible_and_keeps_strict_orders_strict() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, k = int(rng.integers(2, 40)), int(rng.integers(2, 6))
        matrix = rng.dirichlet(np.ones(k), n)
        margins = rng.dirichlet(np.ones(k)) * n
        columns = check_problem(check_rows(matrix, None), margins).columns()
        q = unsorted(affine_columns(columns, *affine_feasible_point(columns)), columns.order)
        assert q.min() >= 0.0
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=1e-13)
        np.testing.assert_allclose(q.sum(axis=0), margins, rtol=0, atol=1e-12 * n)
        for j in range(k):
            assert (np.diff(q[np.argsort(matrix[:, j]), j]) > 0.0).all()


def test_margins_of_one_class_only_are_met() -> None:
    result = solve(P, [0.0, 4.0, 0.0])
    np.testing.assert_array_equal(result.Q, np.tile([0.0, 1.0, 0.0], (4, 1)))
    assert result.converged


def test_a_single_row_is_its_margins() -> None:
    result = solve(P[:1], [0.2, 0.2, 0.6])
    np.testing.assert_allclose(result.Q, [[0.2, 0.2, 0.6]], rtol=0, atol=1e-15)


def test_free_ties_separate_and_equal_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    n_separated = 0
    for _ in range(20):
        matrix = rng.multinomial(4, np.full(3, 1.0 / 3.0), size=8) / 4.0
        margins = rng.dirichlet(np.full(3, 3.0)) * 8.0
        equal = solve(matrix, margins, gap_tol=1e-6, max_iter=50_000)
        free = solve(matrix, margins, gap_tol=1e-6, max_iter=50_000, ties="free")
        assert free.bound <= equal.objective
        spreads = []
        for j in range(3):
            levels = np.unique(matrix[:, j])
            groups = [matrix[:, j] == level for level in levels]
            assert all(np.ptp(equal.Q[group, j]) == 0.0 for group in groups)
            spreads += [np.ptp(free.Q[group, j]) for group in groups]
            for low, high in itertools.pairwise(groups):
                assert free.Q[low, j].max() <= free.Q[high, j].min()
        n_separated += free.objective < 0.99 * equal.objective and max(spreads) > 1e-3
    assert n_separated > 5


def test_ties_take_one_row_unless_some_entries_are_equal() -> None:
    matrix = np.random.default_rng(6).dirichlet(np.ones(3), 30)
    margins = np.full(3, 10.0)
    assert check_problem(check_rows(matrix, None), margins).columns().tie.shape == (1, 31)
    matrix[3] = matrix[4]
    columns = check_problem(check_rows(matrix, None), margins).columns()
    assert columns.tie.shape == (3, 31)
    assert [columns.edges(j)[-1] for j in range(3)] == [30, 30, 30]
    assert columns.n_ties.tolist() == [29, 29, 29]
    free = check_problem(check_rows(matrix, None), margins).columns("free")
    assert free.tie.shape == (1, 31)
    assert np.diff(free.free).tolist() == [[2], [2], [2]]
