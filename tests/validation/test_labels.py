"""The gate for labels: any kind, sorted classes, refusals that name the row."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from calibrant.errors import InvalidLabelError, ShapeError
from calibrant.validation import as_groups, as_labels, check_both_classes

KINDS = {
    "ints": ([0, 1, 1, 0], [0, 1]),
    "bools": ([False, True, True, False], [False, True]),
    "minus one": (np.array([-1, 1, 1, -1]), [-1, 1]),
    "one and two": ([1, 2, 2, 1], [1, 2]),
    "floats": ([0.0, 1.0, 1.0, 0.0], [0, 1]),
    "uint8": (np.array([0, 1, 1, 0], np.uint8), [0, 1]),
    "strings": (["ham", "spam", "spam", "ham"], ["ham", "spam"]),
    "numpy strings": (np.array(["ham", "spam", "spam", "ham"]), ["ham", "spam"]),
    "objects": (np.array(["ham", "spam", "spam", "ham"], object), ["ham", "spam"]),
    "object ints": (np.array([0, 1, 1, 0], object), [0, 1]),
    "object bools": (np.array([False, True, True, False], object), [False, True]),
    "pandas strings": (pd.Series(["ham", "spam", "spam", "ham"]), ["ham", "spam"]),
    "pandas categorical": (
        pd.Series(pd.Categorical(["ham", "spam", "spam", "ham"], categories=["spam", "unused", "ham"])),
        ["ham", "spam"],
    ),
    "pandas integer categorical": (pd.Series(pd.Categorical([3, 10, 10, 3], categories=[10, 3])), [3, 10]),
    "pandas Int64": (pd.Series([0, 1, 1, 0], dtype="Int64"), [0, 1]),
    "pandas boolean": (pd.Series([False, True, True, False], dtype="boolean"), [False, True]),
    "polars": (pl.Series(["ham", "spam", "spam", "ham"]), ["ham", "spam"]),
    "polars categorical": (pl.Series(["ham", "spam", "spam", "ham"], dtype=pl.Categorical), ["ham", "spam"]),
    "decimals": ([Decimal(0), Decimal("1.00"), Decimal("1E0"), Decimal(-0)], [0, 1]),
    "arrow decimals": (pa.array([Decimal(1), Decimal(2), Decimal(2), Decimal(1)], pa.decimal128(38, 0)), [1, 2]),
    "arrow": (pa.array(["ham", "spam", "spam", "ham"]), ["ham", "spam"]),
    "arrow bools": (pa.array([False, True, True, False]), [False, True]),
    "arrow dictionary": (pa.array(["ham", "spam", "spam", "ham"]).dictionary_encode(), ["ham", "spam"]),
    "arrow chunked": (pa.chunked_array([["ham", "spam"], ["spam", "ham"]]), ["ham", "spam"]),
}


@pytest.mark.parametrize(("y", "classes"), KINDS.values(), ids=KINDS)
def test_labels_of_any_kind_are_encoded_against_sorted_classes(y, classes):
    labels = as_labels(y)
    assert labels.classes.tolist() == classes
    assert labels.codes.tolist() == [0, 1, 1, 0]
    assert labels.positive.tolist() == [False, True, True, False]
    assert labels.counts().tolist() == [2, 2]


def test_three_classes_keep_their_order():
    labels = as_labels(np.array([1, -1, 0, 1]))
    assert labels.classes.tolist() == [-1, 0, 1]
    assert labels.codes.tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize("column", [pl.Enum(["b", "a"])])
def test_enum_order_does_not_matter(column):
    assert as_labels(pl.Series(["a", "b"], dtype=column)).classes.tolist() == ["a", "b"]


def test_one_class_of_a_conventional_pair_is_known():
    assert as_labels([1, 1]).positive.tolist() == [True, True]
    assert as_labels([0, 0]).positive.tolist() == [False, False]
    assert as_labels([-1, -1]).classes.tolist() == [-1, 1]
    assert as_labels([False]).classes.tolist() == [False, True]


def test_integer_labels_may_lack_a_column():
    labels = as_labels([0, 2, 2], n_columns=3)
    assert labels.classes.tolist() == [0, 1, 2]
    assert labels.counts().tolist() == [1, 0, 2]
    assert as_labels([0, 0], n_columns=2).classes.tolist() == [0, 1]


def test_labels_on_both_sides_of_what_int64_holds():
    labels = as_labels([3, 2**63 + 5, 3], classes=[3, 2**63 + 5])
    assert labels.codes.tolist() == [0, 1, 0]
    assert labels.classes.tolist() == [3, 2**63 + 5]
    with pytest.raises(InvalidLabelError, match="no 64 bits can hold"):
        as_labels([-1, 2**63 + 5])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_are_whole_numbers_as_far_as_int64_goes(kind):
    ends = np.array([-(2.0**15), 2.0**15] if kind is np.float16 else [-(2.0**63), 2.0**62], kind)
    assert as_labels(ends).classes.tolist() == [int(x) for x in ends]


@pytest.mark.parametrize("values", [[1.0, 2.0**63, 1e20], pa.array([1.0, 2.0**63, -1e20])], ids=["list", "arrow"])
@pytest.mark.parametrize("read", [as_labels, as_groups])
def test_floats_beyond_int64_are_refused_and_not_made_one_label(read, values):
    with pytest.raises(InvalidLabelError, match=r"row 1: 9\.22.*e\+18 is beyond .* 64 bits \(2 of 3 rows\)\. .* Pass"):
        read(values)


@pytest.mark.parametrize("read", [as_labels, as_groups])
def test_decimals_are_whole_numbers_or_refused(read):
    assert read([Decimal(2**62 + 1), Decimal(2**62)]).classes.tolist() == [2**62, 2**62 + 1]
    for odd in ("0.5", "Infinity", "sNaN", "NaN", "1e20"):
        with pytest.raises(InvalidLabelError):
            read([Decimal(1), Decimal(2), Decimal(odd)])


def test_named_classes_may_lack_rows():
    labels = as_labels(["b", "b"], classes=["a", "b", "c"], n_columns=3)
    assert labels.codes.tolist() == [1, 1]


def test_pos_label_turns_the_pair_round():
    labels = as_labels(["bad", "good"], pos_label="bad")
    assert labels.positive.tolist() == [True, False]
    assert labels.classes.tolist() == ["good", "bad"]
    assert as_labels(["bad", "good"], pos_label="good").positive.tolist() == [False, True]


REFUSALS = {
    "missing": (lambda: as_labels(["a", None, "b"]), r"y_true row 1: missing label \(1 of 3 rows\)"),
    "nan": (lambda: as_labels([0.0, np.nan]), "row 1: missing label"),
    "null": (lambda: as_labels(pl.Series([None, 1])), "row 0: missing label"),
    "NA": (lambda: as_labels(pd.Series([0, pd.NA], dtype="Int64")), "row 1: missing label"),
    "scores": (lambda: as_labels([0.2, 1.0]), r"row 0: 0\.2 is not a class label .*Are labels and scores swapped"),
    "mixed": (lambda: as_labels(["a", 1]), "mixes kinds of labels: row 0 is 'a' and row 1 is 1"),
    "mixed bool": (lambda: as_labels(np.array([True, 2], object)), "mixes kinds"),
    "bytes": (
        lambda: as_labels(np.array([b"a", b"b"])),
        "holds bytes such as b'a'. Pass booleans, integers or strings",
    ),
    "dates": (lambda: as_labels(np.array(["2020-01-01"], "M8[D]")), "datetime64"),
    "lists": (lambda: as_labels([[0], [0, 1]]), r"row 0: \[0\] of type list is not a label"),
    "tuples": (lambda: as_labels([(1, 2), (3, 4)]), r"row 0: \(1, 2\) of type tuple is not a label"),
    "one class": (lambda: as_labels(["a", "a"]), r"one class only: 'a' in all 2 rows.*classes=\["),
    "unknown": (
        lambda: as_labels(["a", "x", "x"], classes=["a", "b"]),
        r"row 1: unknown label 'x' \(2 of 3 rows\)\. The classes are 'a', 'b'",
    ),
    "unknown int": (lambda: as_labels([0, 5], classes=[0, 1]), "row 1: unknown label 5"),
    "unsorted classes": (lambda: as_labels(["a"], classes=["b", "a"]), r"not sorted and distinct\. Pass \['a', 'b'\]"),
    "one known class": (lambda: as_labels(["a"], classes=["a"]), "names one class"),
    "columns": (lambda: as_labels([-1, 1], n_columns=3), r"2 classes, \[-1, 1\], for 3 columns"),
    "pos_label": (lambda: as_labels([0, 1], pos_label=2), r"pos_label=2 is none of the labels \[0, 1\]"),
    "pos_label of three": (lambda: as_labels([0, 1, 2], pos_label=2), "needs two classes, but y_true has 3"),
}


@pytest.mark.parametrize(("call", "text"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_name_place_value_count_and_fix(call, text):
    with pytest.raises((InvalidLabelError, ShapeError), match=text):
        call()


@pytest.mark.parametrize(
    ("y", "text"),
    [([], "is empty"), (np.array([[0, 1]]), r"shape \(1, 2\)"), (pd.DataFrame({"y": [0, 1]}), "is a frame")],
)
def test_labels_have_one_dimension(y, text):
    with pytest.raises(ShapeError, match=text):
        as_labels(y)


def test_both_classes_must_have_weight():
    labels = as_labels([0, 1, 1])
    check_both_classes(labels, "y")
    with pytest.raises(InvalidLabelError, match="y holds one class only: 1 in all 2 rows"):
        check_both_classes(labels, "y", np.array([0.0, 1.0, 1.0]))


@given(st.lists(st.sampled_from("abcde"), min_size=2).filter(lambda v: len(set(v)) > 1))
def test_codes_decode_to_the_labels(y):
    labels = as_labels(y)
    assert labels.classes[labels.codes].tolist() == y
    assert labels.classes.tolist() == sorted(set(y))


@given(st.lists(st.integers(-(2**62), 2**62), min_size=2).filter(lambda v: len(set(v)) > 1))
def test_integer_codes_decode_to_the_labels(y):
    labels = as_labels(y)
    assert labels.classes[labels.codes].tolist() == y
