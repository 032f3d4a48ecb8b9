"""Names of columns: matched to classes by a prefix and suffix that they share, to each other by being the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import ColumnOrderError
from calibrant.validation import column_places, match_classes, match_columns

TRADES = ["buy", "hold", "sell"]


@pytest.mark.parametrize(
    ("columns", "classes", "places"),
    [
        (["buy", "hold", "sell"], TRADES, [0, 1, 2]),
        (["hold", "buy", "sell"], TRADES, [1, 0, 2]),
        (["p_sell", "p_buy", "p_hold"], TRADES, [1, 2, 0]),
        (["sell.score", "hold.score", "buy.score"], TRADES, [2, 1, 0]),
        (["p(sell)", "p(hold)", "p(buy)"], TRADES, [2, 1, 0]),
        (["p_2", "p_0", "p_1"], [0, 1, 2], [1, 2, 0]),
        (["class 10", "class 9", "class 11"], [9, 10, 11], [1, 0, 2]),
        (["p_1", "p_-1"], [-1, 1], [1, 0]),
        (["a_x", "aa_x"], ["a", "aa"], [0, 1]),
        (["p_True", "p_False"], [False, True], [1, 0]),
        (["yes_true", "yes_false"], [False, True], [1, 0]),
        (["p1", "p0"], [False, True], [1, 0]),
        (["prob_ab", "prob_a"], ["a", "ab"], [1, 0]),
        (["aa", "ab"], ["a", "b"], [0, 1]),  # "a" before the label, though the label is in it too
    ],
)
def test_columns_named_after_classes_are_found_in_any_order(
    columns: list[str], classes: list[Any], places: list[int]
) -> None:
    assert column_places(columns, classes) == places
    in_order = places == list(range(len(places)))
    assert match_classes(columns, classes, name="scores") == (None if in_order else places)


@pytest.mark.parametrize(
    ("columns", "classes"),
    [
        (["x", "y", "z"], TRADES),
        (["p1", "p2", "p3"], [0, 1, 2]),  # numbered from one: by position
        (["p1", "p2", "p3"], ["0", "1", "2"]),  # numbers written as text may count something else too
        (["p_buy", "p_hold"], TRADES),
        (["p1", "p1", "p0"], [0, 1, 2]),  # a name twice names nothing
        (["p_buy", "q_hold", "p_sell"], TRADES),
        (["score 2", "score 1"], [1, 3]),
    ],
)
def test_columns_not_all_named_after_classes_have_no_places(columns: list[str], classes: list[Any]) -> None:
    assert column_places(columns, classes) is None
    assert match_classes(columns, classes, name="scores") is None


@pytest.mark.parametrize(
    "columns",
    [
        ["sell", "hold", "other"],
        ["p_hold", "p_buy", "rest"],
        ["rest", "p_buy", "p_hold"],
        ["x", "y", "buy"],
        ["buy", "buy", "sell"],
    ],
)
def test_text_that_names_some_classes_elsewhere_is_refused_with_both_orders(columns: list[str]) -> None:
    with pytest.raises(ColumnOrderError) as caught:
        match_classes(columns, TRADES, name="y_prob")
    assert str(caught.value).startswith(f"y_prob has the columns {columns!r}, in an order that contradicts that of the")
    assert repr(TRADES) in str(caught.value)


@pytest.mark.parametrize("columns", [["buy", "x", "sell"], ["p_buy", "p_hold", "rest"], ["x", "y", "p_buy"]])
def test_text_that_names_some_classes_where_they_stand_or_by_chance_is_taken_by_position(columns: list[str]) -> None:
    assert match_classes(columns, TRADES, name="y_prob") is None


def test_short_labels_inside_other_words_match_nothing() -> None:
    assert match_classes(["alpha", "beta", "gamma"], ["a", "b", "g"], name="scores") is None
    assert match_classes(["model_b", "table_a"], ["a", "b"], name="scores") is None


@settings(max_examples=200, deadline=None)
@given(
    classes=st.lists(st.text("abcxyz_1", min_size=1, max_size=4), min_size=2, max_size=6, unique=True).map(sorted),
    prefix=st.text("pq_ ", max_size=3),
    suffix=st.text("st. ", max_size=3),
    seed=st.integers(0, 1000),
)
def test_any_affixes_and_any_order_are_matched(classes: list[str], prefix: str, suffix: str, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(classes))
    columns = [f"{prefix}{classes[k]}{suffix}" for k in order]
    places = column_places(columns, classes)
    assert places is not None
    assert [columns[place] for place in places] == [f"{prefix}{label}{suffix}" for label in classes]


@pytest.mark.parametrize(
    ("columns", "known", "places"),
    [
        (["a", "b", "c"], ["a", "b", "c"], None),
        (["c", "a", "b"], ["a", "b", "c"], [1, 2, 0]),
        (["same", "same"], ["same", "same"], None),
    ],
)
def test_columns_of_the_same_names_are_matched_to_each_other(
    columns: list[str], known: list[str], places: list[int] | None
) -> None:
    assert match_columns(columns, known, name="scores", fitted="the fit") == places


@pytest.mark.parametrize(
    ("columns", "known"),
    [(["a", "b", "d"], ["a", "b", "c"]), (["a", "b"], ["a", "b", "c"]), (["a", "a", "b"], ["a", "b", "a"])],
)
def test_columns_of_other_names_are_refused_with_both(columns: list[str], known: list[str]) -> None:
    with pytest.raises(ColumnOrderError, match=r"scores has the columns .*, but the fit has .* Give columns of these"):
        match_columns(columns, known, name="scores", fitted="the fit")
