"""Names of columns are never ignored: matched where both sides have them, refused where they contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calibrant.errors import CalibrantError, ColumnOrderError, InvalidInputError
from calibrant.rank_preserving import compare, diagnose, margins_from_labels, rake, solve

P = np.random.default_rng(1).dirichlet(np.ones(3), 100)
TOTALS = np.array([50.0, 20.0, 30.0])
FRAME = pd.DataFrame(P, columns=["cat", "dog", "eel"])
LABELS = pd.Series(["cat"] * 50 + ["dog"] * 20 + ["eel"] * 30)
CODES = pd.Series([0] * 50 + [1] * 20 + [2] * 30)
#: All that gives a matrix its margins, as a function that returns it.
WAYS: list[Callable[..., Any]] = [
    lambda P, margins: solve(P, margins, gap_tol=1e-2).Q,
    lambda P, margins: rake(P, margins).Q,
    lambda P, margins: compare(P, margins, methods=["straight"])["straight"].Q,
]


def sums(q: Any) -> list[float]:
    return np.asarray(q).sum(axis=0).round(6).tolist()


@pytest.mark.parametrize("way", WAYS)
def test_counts_of_labels_sorted_by_frequency_give_the_right_totals(way: Callable[..., Any]) -> None:
    by_frequency = LABELS.value_counts()
    assert list(by_frequency.index) == ["cat", "eel", "dog"]
    assert sums(way(FRAME, by_frequency)) == TOTALS.tolist()
    assert sums(way(pl.DataFrame(dict(FRAME)), by_frequency)) == TOTALS.tolist()
    assert sums(way(P, CODES.value_counts())) == TOTALS.tolist()
    assert sums(way(FRAME, Counter(reversed(LABELS.tolist())))) == TOTALS.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_the_answer_has_the_columns_of_the_matrix(way: Callable[..., Any]) -> None:
    turned = FRAME[["eel", "cat", "dog"]]
    for margins in (LABELS.value_counts(), LABELS.value_counts(sort=False), {"dog": 20, "eel": 30, "cat": 50}):
        q = way(turned, margins)
        assert sums(q) == [30.0, 50.0, 20.0]
        np.testing.assert_allclose(np.asarray(q)[:, [1, 2, 0]], way(P, TOTALS), atol=1e-6)


def test_a_prefix_or_suffix_that_all_columns_share_is_no_part_of_the_name() -> None:
    for names in (["p_eel", "p_cat", "p_dog"], ["eel (%)", "cat (%)", "dog (%)"]):
        turned = FRAME[["eel", "cat", "dog"]].set_axis(names, axis=1)
        assert sums(solve(turned, LABELS.value_counts(), gap_tol=1e-2).Q) == [30.0, 50.0, 20.0]


@pytest.mark.parametrize(
    "margins",
    [
        TOTALS.tolist(),
        pd.Series(TOTALS),
        pd.Series(TOTALS, index=pd.RangeIndex(3)),
        pl.Series(TOTALS),
        pd.Series(TOTALS, index=["cat", "dog", "eel"]),
        {"cat": 50, "dog": 20, "eel": 30},
        {0: 50, 1: 20, 2: 30},
        pd.Series({2: 30.0, 0: 50.0, 1: 20.0}),
    ],
)
def test_columns_without_names_take_entries_by_number_or_in_sorted_order(margins: Any) -> None:
    for matrix in (P, pd.DataFrame(P), pl.DataFrame(P, schema=["0", "1", "2"])):
        assert sums(solve(matrix, margins, gap_tol=1e-2).Q) == TOTALS.tolist()


def test_entries_without_names_go_to_named_columns_by_position() -> None:
    for margins in (TOTALS, pd.Series(TOTALS), pl.Series(TOTALS)):
        assert sums(solve(FRAME, margins, gap_tol=1e-2).Q) == TOTALS.tolist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("matrix", "margins", "text"),
    [
        (
            P,
            LABELS.value_counts(),
            r"margins has the names \['cat', 'eel', 'dog'\], whose sorted order is \['cat', 'dog', 'eel'\]",
        ),
        (
            P,
            LABELS.value_counts(),
            r"P has no names to go by. Give it these names, such as columns of a frame, or pass an array in",
        ),
        (P, {3: 50, 1: 20, 2: 30}, r"margins has the names \[3, 1, 2\], whose sorted order is \[1, 2, 3\]"),
        (P, pd.Series([1.0, 2.0], index=["a", "b"]), r"margins has shape \(2,\) for the 3 columns of P"),
        (
            FRAME,
            {"cat": 1, "dog": 2, "eels": 3},
            r"names \['cat', 'dog', 'eels'\], and P \['cat', 'dog', 'eel'",
        ),
        (FRAME, {"cat": 1, "dog": 2, "eels": 3}, r"Did you mean 'eel'\? Give both the same names"),
        (
            FRAME,
            {"cat": 50, "dog": 20, "eel": 30, "fox": 1},
            r"names \['cat', 'dog', 'eel', 'fox'\], and P \['cat', 'dog', 'eel'\]. Give both the same",
        ),
        (FRAME, CODES.value_counts(), r"margins has the names \[0, 2, 1\], and P \['cat', 'dog', 'eel'\]"),
    ],
)
def test_names_that_contradict_are_refused_with_both_lists(
    way: Callable[..., Any], matrix: Any, margins: Any, text: str
) -> None:
    with pytest.raises(InvalidInputError, match=text):
        way(matrix, margins)


def test_a_table_of_groups_goes_by_its_names_in_both_directions() -> None:
    region = np.array(["south", "north"])[np.arange(100) % 2]
    table = pd.crosstab(pd.Series(region, name="region"), LABELS)
    expected = {group: table.loc[group].tolist() for group in ("north", "south")}
    turned = table.loc[["south", "north"], ["eel", "dog", "cat"]]
    for matrix in (FRAME, FRAME[["dog", "eel", "cat"]]):
        result = solve(matrix, turned, groups=region, gap_tol=1e-2)
        for group, totals in expected.items():
            assert sums(result.Q[["cat", "dog", "eel"]][region == group]) == totals
    by_group = dict(turned.iterrows())
    assert sums(solve(FRAME, by_group, groups=region, gap_tol=1e-2).Q[region == "north"]) == expected["north"]
    with pytest.raises(CalibrantError, match=r"group 'north': margins has the names .*, and P has no names to go by"):
        solve(P, turned, groups=region)
    text = r"margins has the names \['north', 'west'\], and groups \['north', 'south'\]"
    with pytest.raises(InvalidInputError, match=text):
        solve(FRAME, table.set_axis(["north", "west"]), groups=region)
    with pytest.raises(CalibrantError, match="margins is a DataFrame without names of groups"):
        solve(FRAME, pl.DataFrame(dict(table)), groups=region)


def test_numbered_groups_and_numbered_columns_of_a_table_are_names_too() -> None:
    number = np.arange(100) % 2
    table = pd.crosstab(number, CODES)
    result = solve(P, table.loc[[1, 0], [2, 0, 1]], groups=number, gap_tol=1e-2)
    for group in (0, 1):
        assert sums(result.Q[number == group]) == table.loc[group].tolist()


def test_matrices_before_and_after_are_compared_column_by_column_of_the_same_name() -> None:
    result = solve(FRAME, LABELS.value_counts(), gap_tol=1e-2)
    weight = np.where(np.arange(100) < 90, 1.0, 0.0)
    after = result.Q.where(pd.Series(weight > 0.0), np.nan)
    for q, w in ((result.Q, None), (after, weight)):
        expected = diagnose(FRAME, q, sample_weight=w)
        found = diagnose(FRAME, q[["eel", "cat", "dog"]], sample_weight=w)
        assert astuple(found) == astuple(expected)  # of which undefined figures are equal
    with pytest.raises(InvalidInputError, match=r"Q has the names \['cat', 'dog', 'c'\], and P \['cat'"):
        diagnose(FRAME, result.Q.set_axis(["cat", "dog", "c"], axis=1))


def test_labels_follow_columns_that_are_named_after_them() -> None:
    plain = diagnose(P, P[::-1], y=LABELS)
    turned = FRAME[["eel", "cat", "dog"]].set_axis(["p_eel", "p_cat", "p_dog"], axis=1)
    found = diagnose(turned, turned[::-1].to_numpy(), y=LABELS)
    assert [c.auc_before for c in found.columns] == [plain.columns[j].auc_before for j in (2, 0, 1)]
    with pytest.raises(ColumnOrderError, match=r"P has the columns \['eel', 'x', 'cat'\], in an order"):
        diagnose(FRAME.set_axis(["eel", "x", "cat"], axis=1), P, y=LABELS)
    in_order = diagnose(FRAME.set_axis(["cat", "x", "eel"], axis=1), P[::-1], y=LABELS)  # names that don't contradict
    assert [c.auc_before for c in in_order.columns] == [c.auc_before for c in plain.columns]


def test_names_of_estimates_follow_the_same_law() -> None:
    margins = margins_from_labels(LABELS)
    assert sums(solve(FRAME[["eel", "cat", "dog"]], margins, gap_tol=1e-2).Q) == [30.0, 50.0, 20.0]
    assert sums(solve(P, margins, gap_tol=1e-2).Q) == TOTALS.tolist()


def test_a_column_names_the_groups_of_a_frame_that_has_no_index() -> None:
    rng = np.random.default_rng(0)
    P = pd.DataFrame(rng.dirichlet([1.0, 2.0, 3.0], 40), columns=["a", "b", "c"])
    for labels in (np.array(["n", "s"]), np.array([2019, 2020])):
        groups = labels[rng.integers(0, 2, 40)]
        totals = P.groupby(groups).sum()[["c", "a", "b"]] * [0.9, 1.0, 1.0]
        totals["b"] += totals["c"] / 9.0
        expected = solve(P, totals, groups=groups).Q
        named = totals.reset_index(names="when")
        for margins in (named, pl.from_pandas(named), named.iloc[::-1]):
            pd.testing.assert_frame_equal(solve(P, margins, groups=groups).Q, expected)


def test_sets_of_groups_may_be_columns_that_are_numbered() -> None:
    P = np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], 40)
    groups = pd.DataFrame({0: [0, 1] * 20, 1: [0, 0, 1, 1] * 10})
    margins = {k: {g: P[groups[k] == g].sum(axis=0) for g in (0, 1)} for k in (0, 1)}
    assert solve(P, margins, groups=groups).converged


def test_a_name_that_is_there_twice_is_refused() -> None:
    P = pd.DataFrame(np.random.default_rng(0).dirichlet([1.0, 2.0, 3.0], 4), columns=["a", "b", "c"])
    twice = pd.DataFrame([[1.0, 1.0, 2.0], [1.0, 1.0, 2.0]], columns=["a", "a", "b"])
    for margins, groups, name in (
        (twice[:1], None, "margins"),
        (twice, [0, 0, 1, 1], "margins"),
        ({"a": {}, "b": {}}, pd.DataFrame(np.zeros((4, 2), int), columns=["a", "a"]), "groups"),
    ):
        with pytest.raises(InvalidInputError, match=f"{name} has 2 columns 'a'"):
            solve(P, margins, groups=groups)


def test_the_near_name_is_the_one_that_was_meant() -> None:
    P = pd.DataFrame(np.random.default_rng(0).dirichlet([1.0, 2.0], 4), columns=["north", "south"])
    with pytest.raises(ColumnOrderError, match="Did you mean 'south'"):
        solve(P, {"north": 2.0, "souht": 2.0})
