"""Features: the same values from any container, kinds as asked for, and what is no feature is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.validation import as_feature, read_features

TEXT = ["Rome", "Bonn", None, "Oslo", "Bonn"]
CODES = [2.0, 0.0, np.nan, 1.0, 0.0]


@pytest.mark.parametrize(
    "column",
    [
        TEXT,
        np.array(TEXT, dtype=object),
        pd.Series(TEXT),
        pd.Series(TEXT, dtype="string"),
        pd.Series(pd.Categorical(TEXT, categories=["Rome", "Oslo", "Bonn", "Lima"])),
        pl.Series(TEXT),
        pl.Series(TEXT).cast(pl.Categorical),
        pa.array(TEXT),
        pa.chunked_array([TEXT[:2], TEXT[2:]]),
        pa.array(TEXT).dictionary_encode(),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_text_is_the_same_category_from_any_container(column) -> None:
    found = as_feature(column, "city")
    assert found.levels is not None
    assert found.levels.tolist() == ["Bonn", "Oslo", "Rome"]
    np.testing.assert_array_equal(found.values, CODES)


@pytest.mark.parametrize(
    "column",
    [
        [1.5, None, 3.0],
        np.array([1.5, np.nan, 3.0]),
        np.ma.masked_array([1.5, 9.0, 3.0], mask=[False, True, False]),
        pd.Series([1.5, None, 3.0]),
        pd.Series([1.5, None, 3.0], dtype="Float64"),
        pl.Series([1.5, None, 3.0]),
        pa.array([1.5, None, 3.0]),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_numbers_are_the_same_from_any_container(column) -> None:
    found = as_feature(column, "age")
    assert found.kind == "number"
    np.testing.assert_array_equal(found.values, [1.5, np.nan, 3.0])


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30))
def test_levels_and_codes_give_the_values_back(values: list[str | None]) -> None:
    if all(value is None for value in values):
        return
    found = as_feature(np.array(values, dtype=object), "x")
    assert found.levels is not None
    back = [None if np.isnan(code) else found.levels[int(code)] for code in found.values]
    assert back == values
    assert found.levels.tolist() == sorted({value for value in values if value is not None})


@pytest.mark.parametrize("values", [["b", "a", "a", None], [7, 5, 5, None]])
def test_dictionaries_of_arrow_may_repeat_values_and_hold_null(values) -> None:
    indices = pa.array([0, 1, 2, 3, None])
    found = as_feature(pa.DictionaryArray.from_arrays(indices, pa.array(values)), "x")
    assert found.levels is not None
    assert found.levels.tolist() == values[1::-1]
    np.testing.assert_array_equal(found.values, [1.0, 0.0, 0.0, np.nan, np.nan])


def test_a_categorical_of_whole_floats_has_whole_numbers_as_levels() -> None:
    """So pandas has it where integers were missing before it became a categorical."""
    column = pd.Series([10, 2, None, 10]).astype("category")
    assert column.cat.categories.dtype == np.float64
    found, plain = as_feature(column, "x"), as_feature([10.0, 2.0, None, 10.0], "x", "category")
    assert found.levels is not None
    assert plain.levels is not None
    assert found.levels.tolist() == plain.levels.tolist() == [2, 10]
    np.testing.assert_array_equal(found.values, plain.values)
    for values, error in (([1.5, 2.0], InvalidTypeError), ([1.0, 1e20], InvalidInputError)):
        with pytest.raises(error, match="x h"):
            as_feature(pd.Series(values).astype("category"), "x")


def test_truth_values_are_a_category_or_zero_and_one() -> None:
    flags = [True, False, None]
    as_category, as_number = as_feature(flags, "x"), as_feature(flags, "x", "number")
    assert as_category.levels is not None
    assert as_category.levels.tolist() == [False, True]
    np.testing.assert_array_equal(as_number.values, [1.0, 0.0, np.nan])
    assert as_number.kind == "number"


def test_whole_numbers_are_a_category_where_that_is_asked_for() -> None:
    found = as_feature([30, 10, 30], "zip", "category")
    assert found.levels is not None
    assert found.levels.tolist() == [10, 30]
    np.testing.assert_array_equal(found.values, [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "column",
    [
        [2**53 + 1, None, 2**53],
        [2**53 + 1, float("nan"), 2**53],
        np.array([2**53 + 1, None, 2**53], dtype=object),
        np.ma.masked_array([2**53 + 1, 9, 2**53], mask=[False, True, False]),
        pd.Series([2**53 + 1, None, 2**53], dtype="Int64"),
        pl.Series([2**53 + 1, None, 2**53]),
        pa.array([2**53 + 1, None, 2**53]),
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_large_integers_are_levels_of_their_own(column) -> None:
    """Two of them may be one float64."""
    found = as_feature(column, "id", "category")
    assert found.levels is not None
    assert found.levels.tolist() == [2**53, 2**53 + 1]
    np.testing.assert_array_equal(found.values, [1.0, np.nan, 0.0])


@pytest.mark.parametrize("make", [list, np.uint64, lambda values: pa.array(values, pa.uint64())])
def test_levels_may_take_all_64_bits(make) -> None:
    found = as_feature(make([2**64 - 1, 2**64 - 2, 5]), "id", "category")
    assert found.levels is not None
    assert found.levels.tolist() == [5, 2**64 - 2, 2**64 - 1]
    with pytest.raises(InvalidInputError, match="id holds integers that no 64 bits can hold"):
        as_feature([2**64, 1], "id", "category")
    with pytest.raises(InvalidInputError, match="id holds integers that no 64 bits can hold"):
        as_feature([2**63, -1], "id", "category")


def test_numbers_beyond_64_bits_are_no_levels() -> None:
    with pytest.raises(InvalidInputError, match=r"id row 1: 1e\+20 is beyond the integers of 64 bits \(2 of 3 rows\)"):
        as_feature([1.0, 1e20, 2e20], "id", "category")


@pytest.mark.parametrize(
    "features",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pa.table([[1], [2]], names=["a", "a"]),
        {1: [1], "1": [2]},
    ],
    ids=["pandas", "pandas, as text", "arrow", "dict"],
)
def test_columns_of_one_name_are_refused(features) -> None:
    with pytest.raises(InvalidInputError, match=r"features has two columns named '[a1]'\. Rename one of them"):
        read_features(features, 1, "scores")


@pytest.mark.parametrize("value", [np.datetime64("2020"), np.timedelta64(1, "D"), b"1", 1j])
def test_lists_of_what_is_no_feature_are_refused(value) -> None:
    with pytest.raises(InvalidTypeError, match=r"x mixes kinds or holds what is no feature: row 1 is"):
        as_feature([None, value], "x")


@pytest.mark.parametrize("digits", [400, 5_000])
def test_numbers_larger_than_any_float_are_refused(digits: int) -> None:
    for column in ([1, 10**digits], np.array([1, 10**digits], dtype=object)):
        with pytest.raises(
            InvalidInputError, match=r"x row 1: a number \(of type int\) that is larger than any float64"
        ):
            as_feature(column, "x")


def test_only_the_named_columns_are_looked_at() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0], "when": pd.to_datetime(["2026-01-01", "2026-01-02"])})
    assert list(read_features(frame, 2, "scores", names=["age"])) == ["age"]
    with pytest.raises(InvalidTypeError, match="column 'when' of features holds values of type"):
        read_features(frame, 2, "scores")
    with pytest.raises(InvalidInputError, match=r"t.parquet has no column 'agee'.* Did you mean 'age'"):
        read_features(frame, 2, "scores", names=["agee"], where="t.parquet")
    with pytest.raises(InvalidInputError, match="3"):
        read_features(frame, 3, "scores", names=["age"])
