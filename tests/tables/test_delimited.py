"""Delimited text read by columns: every value of the right type, wherever the file is cut."""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from calibrant.errors import InvalidInputError
from calibrant.tables import formats, open_rows, read_columns

Make = Callable[[str, bytes], str]


def test_only_the_columns_asked_for_are_parsed(make: Make) -> None:
    path = make("t.csv", b"p,junk,y\n0.5,\xff\xfe,1\n0.25,x,0\n")
    assert read_columns(path, ["y", "p"]).to_pydict() == {"y": [1, 0], "p": [0.5, 0.25]}


def test_columns_are_read_as_text_where_that_is_asked_for(make: Make, tmp_path: Path) -> None:
    path = make("t.csv", b"p,code,when\n1,007,2026-01-01\n2,,true\n3,1.50,NA\n")
    code, when = ["007", None, "1.50"], ["2026-01-01", "true", None]
    rows = open_rows(path).with_text(["code", "when", "other"])
    assert rows.read().to_pydict() == {"p": [1, 2, 3], "code": code, "when": when}
    (batch,) = rows.scan(["when", "code"])
    assert batch.table.to_pydict() == {"when": when, "code": code}
    for city in ("1", "2"):
        (tmp_path / "d" / f"city={city}").mkdir(parents=True)
        (tmp_path / "d" / f"city={city}" / "t.csv").write_bytes(b"code\n07\n")
    folder = open_rows(tmp_path / "d")
    assert folder.read().to_pydict() == {"code": [7, 7], "city": [1, 2]}
    assert folder.with_text(["city", "code"]).read().to_pydict() == {"code": ["07", "07"], "city": ["1", "2"]}


def test_text_of_another_encoding_is_told_where_a_column_is_read_as_text(make: Make) -> None:
    rows = open_rows(make("t.csv", b"p,code\n1,\xff\xfe\n")).with_text(["code"])
    with pytest.raises(InvalidInputError, match="is not UTF-8 text"):
        rows.read()
    with pytest.raises(InvalidInputError, match="is not UTF-8 text"):
        list(rows.scan(["code"]))


def test_integers_that_become_fractions_late_are_read_exactly(make: Make) -> None:
    rows = ["1"] * 400_000 + ["0.3"]
    data = "p\n" + "\n".join(rows)
    for block in (1 << 24, 1 << 12):
        formats.CHUNK_BYTES, kept = block, formats.CHUNK_BYTES
        try:
            column = read_columns(make("t.csv", data.encode())).column("p").to_pylist()
        finally:
            formats.CHUNK_BYTES = kept
        assert column[-1] == 0.3
        assert len(column) == 400_001


def test_quoted_newlines_may_lie_anywhere(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.tables.delimited._READ_BYTES", 64)
    rows = [(f"a\n{'b' * (i % 20)}\n", i / 8) for i in range(40)]
    data = "x,p\n" + "".join(f'"{text}",{p}\n' for text, p in rows)
    assert read_columns(make("t.csv", data.encode())).to_pydict() == {
        "x": [text for text, _ in rows],
        "p": [p for _, p in rows],
    }


def test_missing_fields_are_missing_and_quoted_ones_are_text(make: Make) -> None:
    read = read_columns(make("t.csv", b'y,p\nNA,0.5\n"NA",\n"",1\n'))
    assert read.to_pydict() == {"y": [None, "NA", ""], "p": [0.5, None, 1.0]}


def test_quoted_empty_fields_among_numbers_are_missing(tmp_path: Path) -> None:
    """`pandas` writes them so with `quoting=csv.QUOTE_NONNUMERIC`."""
    frame = pd.DataFrame(
        {"city": ["Rome", "", "Bonn"], "p": [0.5, None, 1.0], "day": ["2026-01-01", None, "2026-01-03"]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    assert '"",""' in (tmp_path / "t.csv").read_text()
    read = read_columns(tmp_path / "t.csv")
    assert read.to_pydict() == {
        "city": ["Rome", "", "Bonn"],
        "p": [0.5, None, 1.0],
        "day": [datetime.date(2026, 1, 1), None, datetime.date(2026, 1, 3)],
    }
