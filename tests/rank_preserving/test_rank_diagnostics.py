"""What moved: figures against counts over all pairs, laws, and refusals."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from calibrant.errors import InvalidInputError, InvalidTypeError, ShapeError
from calibrant.rank_preserving import EpsilonSlack, diagnose, rake, solve

RNG = np.random.default_rng(5)
P = RNG.dirichlet(np.ones(3), 90)
Y = np.array([RNG.choice(3, p=row) for row in P])
MARGINS = [40.0, 30.0, 20.0]


def test_nothing_moves_from_a_matrix_to_itself() -> None:
    found = diagnose(P, P)
    assert (found.mean_moved, found.largest_moved, found.top_changed, found.flattened) == (0.0, 0.0, 0.0, 0.0)
    for column in found.columns:
        assert (column.overtaken, column.spread, column.steps_before, column.steps_after) == (0.0, 1.0, 90.0, 90.0)
        assert column.quantiles == (0.0,) * 5
        assert math.isnan(column.auc_before)


def test_figures_of_columns_are_those_counted_pair_by_pair() -> None:
    for Q in (solve(P, MARGINS).Q, rake(P, MARGINS).Q):
        found = diagnose(P, Q, y=Y)
        for j, column in enumerate(found.columns):
            p, q = P[:, j], Q[:, j]
            by_p = np.argsort(p)
            equal = [abs(q[a] - q[b]) <= 1e-3 * (p[b] - p[a]) for a, b in pairwise(by_p)]
            assert column.flattened == pytest.approx(np.mean(equal))
            below = [any(p[b] <= p[a] and q[b] > q[a] + 1e-9 for b in range(90)) for a in range(90)]
            assert column.overtaken == pytest.approx(np.mean(below))
            falls = [q[a] - q[b] for a in range(90) for b in range(90) if p[a] <= p[b]]
            assert column.worst_fall == pytest.approx(max(falls), abs=1e-12)
            assert column.mean_after == pytest.approx(q.mean())
            assert column.mean_move == pytest.approx(np.abs(q - p).mean())
            assert column.largest_move == np.abs(q - p).max()
            assert column.spread == pytest.approx(q.std() / p.std())
            assert column.auc_before == pytest.approx(roc_auc_score(Y == j, p), rel=1e-12)
            assert column.auc_after == pytest.approx(roc_auc_score(Y == j, q), abs=1e-3)
            median = np.sort(q - p)[44]
            assert column.quantiles[2] == pytest.approx(median)


def test_worst_fall_is_printed_where_an_order_is_broken() -> None:
    result = solve(P, MARGINS, nearly=EpsilonSlack(0.03))
    found = diagnose(P, result)
    assert max(column.worst_fall for column in found.columns) == pytest.approx(result.rank_residual, abs=1e-15)
    assert result.rank_residual == pytest.approx(0.03)
    lines = str(found).splitlines()
    (at,) = (i for i, line in enumerate(lines) if line.endswith("worst fall"))
    assert max(float(line.split()[-1]) for line in lines[at + 1 : at + 4]) == 0.03
    assert "worst fall" not in str(diagnose(P, solve(P, MARGINS)))


def test_auc_is_unchanged_where_the_order_is_strict() -> None:
    mean = P.mean(axis=0)
    Q = np.array([0.4, 0.35, 0.25]) - 0.5 * mean + 0.5 * P
    for column in diagnose(P, Q, y=Y).columns:
        assert column.auc_after == column.auc_before
        assert column.flattened == 0.0
        assert column.spread == pytest.approx(0.5)


def test_columns_that_are_the_classes_in_another_order_are_found_by_name() -> None:
    y = np.array(["a", "b", "c"])[Y]
    Q = pd.DataFrame(solve(P, MARGINS).Q, columns=["a", "b", "c"])
    frame = pd.DataFrame(P, columns=["a", "b", "c"])
    expected = {column.column: column.auc_before for column in diagnose(frame, Q, y=y).columns}
    for order in (["c", "a", "b"], ["b", "a", "c"]):
        found = diagnose(frame[order], Q[order], y=y).columns
        assert {column.column: column.auc_before for column in found} == expected
        assert [column.column for column in found] == order
    by_order = diagnose(frame.set_axis(["u", "v", "w"], axis=1), Q, y=y).columns
    assert [column.auc_before for column in by_order] == list(expected.values())


def test_levels_are_those_of_equal_shares() -> None:
    """Eight rows in levels of four, two, one and one: 64 / (16 + 4 + 1 + 1)."""
    p = np.linspace(0.1, 0.8, 8)
    q = np.repeat([0.2, 0.4, 0.6, 0.7], [4, 2, 1, 1])
    column = diagnose(np.column_stack((p, 1 - p)), np.column_stack((q, 1 - q))).columns[0]
    assert column.steps_before == 8.0
    assert column.steps_after == pytest.approx(64 / 22)
    assert column.flattened == pytest.approx(4 / 7)


def test_worst_rows_are_named_with_where_probability_came_from_and_went() -> None:
    Q = P.copy()
    Q[17] = np.roll(P[17], 1)
    Q[3] = 0.9 * P[3] + 0.1 * np.roll(P[3], 1)
    found = diagnose(pd.DataFrame(P, columns=["a", "b", "c"]), Q, n_worst=2)
    assert [row.row for row in found.worst] == [17, 3]
    move = Q[17] - P[17]
    assert (found.worst[0].source, found.worst[0].target) == ("abc"[move.argmin()], "abc"[move.argmax()])
    assert found.worst[0].moved == pytest.approx(0.5 * np.abs(move).sum())
    assert found.mean_moved == pytest.approx(0.5 * np.abs(Q - P).sum(axis=1).mean())


def test_curve_holds_the_range_after_of_every_place_before() -> None:
    Q = rake(P, MARGINS).Q
    x, low, high = np.array(diagnose(P, Q).columns[0].curve).T
    assert (np.diff(x) > 0.0).all()
    np.testing.assert_allclose(low, Q[np.argsort(P[:, 0]), 0])
    assert (high >= low).all()


def test_weight_two_equals_two_rows_and_zero_none() -> None:
    Q = rake(P, MARGINS).Q
    weight = np.where(np.arange(90) < 30, 2.0, np.where(np.arange(90) < 60, 1.0, 0.0))
    rows = np.repeat(np.arange(90), weight.astype(int))
    one, two = diagnose(P, Q, sample_weight=weight, y=Y), diagnose(P[rows], Q[rows], y=Y[rows])
    assert one.mean_moved == pytest.approx(two.mean_moved)
    for a, b in zip(one.columns, two.columns, strict=True):
        for name in ("mean_before", "mean_after", "mean_move", "spread", "overtaken", "steps_after", "auc_after"):
            assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-12)
        assert a.quantiles == b.quantiles
    result = solve(P, [20.0, 30.0, 40.0], sample_weight=weight)
    assert diagnose(P, result, sample_weight=weight).n_rows == 60


def test_constant_columns_have_no_spread_to_lose() -> None:
    equal = np.full((4, 2), 0.5)
    found = diagnose(equal, equal)
    assert math.isnan(found.columns[0].spread)
    assert found.to_dict()["spread"] is None
    assert "n/a" in str(found)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ShapeError, match=r"P has shape \(90, 3\) and Q \(90, 2\)"):
        diagnose(P, np.full((90, 2), 0.5))
    with pytest.raises(ShapeError, match=r"P has shape \(90,\). Pass one column per class"):
        diagnose(P[:, 0], P)
    with pytest.raises(InvalidInputError, match=r"Q row 0, column 0: nan is not finite"):
        diagnose(P, np.full((90, 3), np.nan))
    with pytest.raises(InvalidInputError, match="classes are those of y"):
        diagnose(P, P, classes=[0, 1, 2])
    with pytest.raises(ShapeError, match="P has 90 rows and y has 89"):
        diagnose(P, P, y=Y[1:])
    with pytest.raises((InvalidInputError, InvalidTypeError), match="n_worst"):
        diagnose(P, P, n_worst=0)
