"""The gate for numbers: every container in, the same kind out, every refusal exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import calibrant as cb
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)
from calibrant.validation import as_probabilities, as_scores, as_weight

VALUES = [0.1, 0.25, 0.9]

CONTAINERS = {
    "list": VALUES,
    "tuple": tuple(VALUES),
    "float64": np.array(VALUES),
    "strided": np.repeat(VALUES, 2)[::2],
    "big-endian": np.array(VALUES, dtype=">f8"),
    "object": np.array(VALUES, dtype=object),
    "pandas series": pd.Series(VALUES),
    "pandas Float64": pd.Series(VALUES, dtype="Float64"),
    "pandas pyarrow": pd.Series(VALUES, dtype="double[pyarrow]"),
    "polars series": pl.Series("p", VALUES),
    "arrow chunked": pa.chunked_array([VALUES[:1], VALUES[1:]]),
    "arrow array": pa.array(VALUES),
}


@pytest.mark.parametrize("values", CONTAINERS.values(), ids=CONTAINERS)
def test_any_container_becomes_the_same_float64_array(values):
    checked = as_scores(values).values
    assert checked.dtype == np.float64
    assert checked.flags.c_contiguous
    assert checked.tolist() == VALUES


@pytest.mark.parametrize(
    "values", [v for k, v in CONTAINERS.items() if "pandas" in k or "polars" in k or "arrow" in k], ids=str
)
def test_results_go_out_as_the_kind_that_came_in(values):
    wrapped = as_scores(values).container.wrap(np.array([0.5, 0.6, 0.7]))
    assert type(wrapped) is type(values)
    assert np.asarray(wrapped, dtype=float).tolist() == [0.5, 0.6, 0.7]


def test_pandas_index_and_names_are_kept():
    series = pd.Series(VALUES, index=["x", "y", "z"], name="p_fraud")
    out = as_scores(series).container.wrap(np.zeros(3))
    assert out.index.tolist() == ["x", "y", "z"]
    assert out.name == "p_fraud"
    frame = pd.DataFrame({"a": VALUES, "b": VALUES}, index=[7, 7, 9])
    out = as_scores(frame).container.wrap(np.zeros((3, 2)))
    assert out.index.tolist() == [7, 7, 9]
    assert out.columns.tolist() == ["a", "b"]


def test_frames_with_numbers_for_names_keep_them():
    frame = pd.DataFrame([[0.1, 0.9], [0.2, 0.8]])
    checked = as_scores(frame)
    assert checked.container.columns == ("0", "1")
    pd.testing.assert_frame_equal(checked.container.wrap(checked.values), frame)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_become_matrices_with_names(kind):
    checked = as_scores(kind({"a": [0.1, 0.2], "b": [0.9, 0.8]}))
    assert checked.values.tolist() == [[0.1, 0.9], [0.2, 0.8]]
    assert checked.container.columns == ("a", "b")
    assert type(checked.container.wrap(checked.values)) is type(kind({"a": [1.0], "b": [1.0]}))


def test_float32_is_widened_exactly():
    values = np.array([0.1, 1 / 3], dtype=np.float32)
    assert as_scores(values).values.tolist() == [float(v) for v in values]


REFUSALS = {
    "outside": (
        lambda: as_probabilities([0.5] * 17 + [1.2, 0.3, 2.0]),
        InvalidProbabilityError,
        r"y_prob row 17: 1\.2 is outside \[0, 1\] \(2 of 20 rows\)\. If these are logits, pass input=\"logit\"",
    ),
    "percentages": (
        lambda: as_probabilities([75.85, 0.4, 100.0]),
        InvalidProbabilityError,
        r"y_prob row 0: 75\.85 .* If these are logits, .* If they are percentages, divide them by 100\.",
    ),
    "rounding": (
        lambda: as_probabilities([0.5, 1.0000001, -1e-9]),
        InvalidProbabilityError,
        r"y_prob row 1: 1\.0000001 is outside \[0, 1\] \(2 of 3 rows\)\. If these are rounding errors, clip them",
    ),
    "outside column": (
        lambda: as_probabilities(pd.DataFrame({"p_ok": [0.1, 0.2], "p_fraud": [0.9, 1.2]})),
        InvalidProbabilityError,
        r"y_prob row 1, column 'p_fraud': 1\.2 is outside \[0, 1\] \(1 of 2 rows\)",
    ),
    "column number": (
        lambda: as_probabilities(np.array([[0.1, 0.9], [0.2, -0.8]])),
        InvalidProbabilityError,
        r"row 1, column 1: -0\.8 is outside",
    ),
    "nan": (lambda: as_probabilities([0.1, np.nan]), InvalidScoreError, r"row 1: nan is not finite \(1 of 2 rows\)"),
    "inf": (lambda: as_scores([np.inf, 0.1]), InvalidScoreError, r"scores row 0: inf is not finite"),
    "float128": (lambda: as_scores(np.array(["1e400"], np.longdouble)), InvalidScoreError, "inf is not finite"),
    "none": (lambda: as_scores([0.1, None, None]), InvalidScoreError, r"row 1: missing value \(2 of 3 rows\)"),
    "null polars": (lambda: as_scores(pl.Series([0.1, None])), InvalidScoreError, r"row 1: missing value \(1 of 2"),
    "null arrow": (lambda: as_scores(pa.array([None, 0.1])), InvalidScoreError, r"row 0: missing value"),
    "NA pandas": (lambda: as_scores(pd.Series([0.1, pd.NA], dtype="Float64")), InvalidScoreError, "missing value"),
    "null column": (
        lambda: as_scores(pl.DataFrame({"a": [0.1, 0.2], "b": [0.1, None]})),
        InvalidScoreError,
        r"row 1, column 'b': missing value",
    ),
    "masked": (lambda: as_scores(np.ma.masked_array([0.1, 0.2], [0, 1])), InvalidScoreError, "row 1: missing value"),
    "text": (lambda: as_scores(["0.1", "0.2"]), InvalidTypeError, r"holds text such as '0\.1', not real"),
    "wide text": (lambda: as_scores(["a", 1]), InvalidTypeError, "holds text such as 'a', not real"),
    "bytes": (lambda: as_scores([b"0.1"]), InvalidTypeError, r"holds bytes such as b'0\.1', not real"),
    "text object": (lambda: as_scores(np.array([0.1, "x"], object)), InvalidTypeError, r"row 1: 'x' is not a number"),
    "lists": (
        lambda: as_scores(pa.array([[0.1], [0.2]])),
        InvalidTypeError,
        r"row 0: array\(\[0\.1\]\) is not a number",
    ),
    "complex": (lambda: as_scores([1 + 2j]), InvalidTypeError, "complex128"),
    "dates": (lambda: as_scores(np.array(["2020-01-01"], "M8[D]")), InvalidTypeError, "datetime64"),
    "empty": (lambda: as_scores([]), ShapeError, "scores is empty"),
    "scalar": (lambda: as_scores(0.5), ShapeError, r"single float, 0\.5"),
    "ragged": (lambda: as_scores([[0.1, 0.2], [0.3]]), ShapeError, "not a rectangular array"),
    "three dimensions": (lambda: as_scores(np.zeros((2, 2, 2))), ShapeError, r"3 dimensions, shape \(2, 2, 2\)"),
    "one column": (lambda: as_scores(np.zeros((3, 1))), ShapeError, r"Pass the single column as shape \(3,\)"),
    "no columns of numbers": (lambda: as_scores(np.zeros((3, 0))), ShapeError, r"shape \(3, 0\), without columns"),
    "no columns": (lambda: as_scores(pd.DataFrame(index=[0, 1])), ShapeError, "frame without columns"),
    "lazy": (lambda: as_scores(pl.LazyFrame({"a": [0.1]})), InvalidTypeError, r"Call \.collect\(\)"),
    "row sums": (
        lambda: as_probabilities([[0.5, 0.5], [0.5, 0.1]]),
        InvalidProbabilityError,
        r"row 1: the 2 probabilities sum to 0\.6, not 1 \(1 of 2 rows\)\. Divide each row",
    ),
    "input": (lambda: as_scores([0.1], input="probabilities"), CalibrantError, "Did you mean 'probability'"),
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_name_place_value_count_and_fix(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[0.2, 0.3, 0.5]], columns=["a", "b", "a"]),
        pa.table([[0.2], [0.3], [0.5]], names=["a", "b", "a"]),
    ],
    ids=["pandas", "pyarrow"],
)
def test_names_that_stand_twice_are_named(frame):
    message = "has 2 columns 'a'. Rename them"
    with pytest.raises(InvalidInputError, match="scores " + message):
        as_scores(frame)
    with pytest.raises(InvalidInputError, match="Y " + message):
        cb.MultilabelCalibrator().fit([[0.2, 0.3, 0.5]], frame)
    fitted = cb.TemperatureCalibrator().fit([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.2, 0.6, 0.2]], [1, 0, 2])
    with pytest.raises(InvalidInputError, match="scores " + message):
        fitted.predict_proba(frame)


def test_sparse_matrices_are_named():
    from scipy.sparse import csr_array

    with pytest.raises(InvalidTypeError, match=r"sparse matrix.*toarray"):
        as_scores(csr_array(np.eye(3)))


def test_rows_stored_as_float16_still_sum_to_one():
    p = np.random.default_rng(0).dirichlet(np.ones(10), 500).astype(np.float16)
    assert as_probabilities(p).values.shape == (500, 10)


def test_weights_of_one_are_no_weights():
    assert as_weight(None, 3) is None
    assert as_weight([1, 1, 1], 3) is None
    assert as_weight([1, 2, 1], 3).tolist() == [1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("weight", "kind", "text"),
    [
        ([1, -0.5, 1], InvalidWeightError, r"sample_weight row 1: -0\.5 is negative \(1 of 3 rows\)"),
        (
            [1, 5e-324, 1],
            InvalidWeightError,
            r"sample_weight row 1: 5e-324 is neither 0 nor within \[1e-100, 1e\+100\]",
        ),
        (
            [1, 1, 1e101],
            InvalidWeightError,
            r"sample_weight row 2: 1e\+101 is neither .* Divide all weights by their mean",
        ),
        ([1, np.nan, 1], InvalidWeightError, "row 1: nan is not finite"),
        ([1, np.inf, 1], InvalidWeightError, "row 1: inf is not finite"),
        ([0, 0, 0], InvalidWeightError, "zero in all 3 rows"),
        ([1, 2], ShapeError, "the scores has 3 rows and sample_weight has 2"),
        ([[1, 2], [1, 2], [1, 2]], ShapeError, r"Pass one weight per row, shape \(3,\)"),
        (["a", "b", "c"], InvalidTypeError, "not real numbers"),
    ],
)
def test_bad_weights_are_named(weight, kind, text):
    with pytest.raises(kind, match=text):
        as_weight(weight, 3)


@given(st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_a_batch_of_floats_passes_or_is_refused_by_name(values):
    finite = all(np.isfinite(values))
    if finite:
        assert as_scores(values).values.tolist() == values
    else:
        with pytest.raises(InvalidScoreError, match="is not finite"):
            as_scores(values)


@pytest.mark.parametrize("kind", [np.asarray, lambda column: column.tolist(), lambda column: column.astype(object)])
def test_one_column_is_one_score_per_row_where_that_is_asked_for(kind):
    column = np.array([[0.25], [0.5], [0.75]])
    checked = as_scores(kind(column), takes_one_column=True)
    assert checked.values.tolist() == [0.25, 0.5, 0.75]
    assert checked.values.flags.c_contiguous
    assert checked.n_columns == 1


def test_a_frame_of_one_column_is_the_series_in_it():
    frame = pd.DataFrame({"p": [0.25, 0.5]}, index=["x", "y"])
    checked = as_scores(frame, takes_one_column=True)
    out = checked.container.wrap(checked.values * 2.0)
    pd.testing.assert_series_equal(out, pd.Series([0.5, 1.0], index=["x", "y"], name="p"))
    checked = as_scores(pl.DataFrame({"p": [0.25, 0.5]}), takes_one_column=True)
    assert checked.container.wrap(checked.values).to_list() == [0.25, 0.5]
    checked = as_scores(pa.table({"p": [0.25, 0.5]}), takes_one_column=True)
    assert checked.container.wrap(checked.values).to_pylist() == [0.25, 0.5]
    assert checked.container.columns == ("p",)
