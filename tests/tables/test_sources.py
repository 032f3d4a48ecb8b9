"""Columns chosen by name or pattern, and errors that say which columns there are."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from calibrant.errors import InvalidInputError, UnknownNameError
from calibrant.tables import open_rows, read_columns

Make = Callable[[str, bytes], str]


def test_patterns_give_columns_in_the_order_of_the_file(make: Make) -> None:
    opened = open_rows(make("t.csv", b"p10,y,p2,q,p1\n1,2,3,4,5\n"))
    assert opened.select(["p*"]) == ["p10", "p2", "p1"]
    assert opened.select(["p?", "p*", "y"]) == ["p2", "p1", "p10", "y"]


def test_name_that_looks_like_a_pattern_is_a_name_first(make: Make) -> None:
    assert open_rows(make("t.csv", b"p[0],p0,p*\n1,2,3\n")).select(["p[0]", "p*"]) == ["p[0]", "p*"]


def test_missing_column_names_the_near_one_and_all_there_are(make: Make) -> None:
    path = make("t.csv", b"label,prob,weight\n1,0.5,1\n")
    message = re.escape(
        f"{path} has no column 'probs'. Did you mean 'prob'? Its columns are: 'label', 'prob', 'weight'."
    )
    with pytest.raises(UnknownNameError, match=message):
        read_columns(path, ["probs"])
    with pytest.raises(UnknownNameError, match=r"no column of .* matches 'q\*'\. Its columns are: 'label'"):
        read_columns(path, ["q*"])


def test_many_columns_are_not_all_listed(make: Make) -> None:
    path = make("t.csv", ",".join(f"c{i}" for i in range(100)).encode() + b"\n")
    with pytest.raises(UnknownNameError, match="'c29', and 70 more"):
        read_columns(path, ["zz"])


def test_other_delimiter_is_named(make: Make) -> None:
    with pytest.raises(UnknownNameError, match=r"one column is 'y;p'\. If ';' is the delimiter: --delimiter ';' \(Tab"):
        read_columns(make("t.csv", b"y;p\n1;0,5\n0;0,5;7\n"), ["p"])  # records of two widths leave doubt


def test_two_columns_of_one_name_are_refused_only_when_asked_for(make: Make) -> None:
    path = make("t.csv", b"p,x,x\n1,2,3\n")
    assert read_columns(path, ["p"]).to_pydict() == {"p": [1]}
    with pytest.raises(InvalidInputError, match=r"has two columns named 'x'\. Rename one of them"):
        read_columns(path, ["x"])
