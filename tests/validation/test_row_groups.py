"""Groups of rows: any labels, any number of them, and which of new ones are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calibrant.errors import InvalidLabelError
from calibrant.validation import as_groups, match_groups


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([3.0, 1.0, 3.0], [1, 3]),
        (np.array([True, False, True]), [False, True]),
        (pd.Series(["x", "x", "x"]), ["x"]),
        (pd.Categorical(["b", "a", "b"]), ["a", "b"]),
        (pl.Series(["b", "a", "b"]), ["a", "b"]),
        (pa.array([2, 1, 2]), [1, 2]),
        ([2**63, 1, 5], [1, 5, 2**63]),
    ],
)
def test_groups_of_any_container_are_sorted_and_encoded(groups: Any, found: list[Any]) -> None:
    labels = as_groups(groups)
    assert labels.classes.tolist() == found
    values = groups.to_pylist() if isinstance(groups, pa.Array) else list(groups)
    assert [found[code] for code in labels.codes] == values


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([0.5, 1.0], r"groups row 0: 0\.5 names no group \(1 of 2 rows\)\. Cut numbers into ranges first"),
        (["a", None], r"groups row 1: missing label \(1 of 2 rows\)"),
        ([1.0, np.nan], "groups row 1: missing label"),
        (["a", 1], "groups mixes kinds of labels"),
    ],
)
def test_what_names_no_group_is_refused(groups: Any, text: str) -> None:
    with pytest.raises(InvalidLabelError, match=text):
        as_groups(groups)


@pytest.mark.parametrize(
    ("groups", "known", "places", "others"),
    [
        (["b", "z", "a"], ["a", "b"], [1, -1, 0], ["z"]),
        (["5", "6"], [5, 7], [0, -1], ["6"]),  # text from a file, of numbers
        ([5, 6], ["5", "7"], [0, -1], [6]),
        (["05", "x"], [5, 7], [0, -1], ["x"]),  # a file of numbers alone would have 5
        ([True, False], [0, 1], [-1, -1], [False, True]),  # which Python takes for 1 and 0
        ([1, 0], [False, True], [-1, -1], [0, 1]),
        (["true", "1"], [False, True], [1, -1], ["1"]),
    ],
)
def test_known_groups_are_found_and_others_named(groups: Any, known: Any, places: Any, others: Any) -> None:
    dtype = object if isinstance(known[0], str) else None
    found, rest = match_groups(groups, np.array(known, dtype=dtype))
    assert found.tolist() == places
    assert rest == others
