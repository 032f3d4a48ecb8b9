"""Formats told by names, by first bytes, or by the caller, of files, pipes and standard input."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from three_rows import CSV, JSON_LINES, TABLE

from calibrant.errors import InvalidInputError, UnknownNameError
from calibrant.tables import read_columns
from table_bytes import parquet_bytes

Make = Callable[[str, bytes], str]


def feed_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("data", [CSV, b"\xef\xbb\xbf" + CSV, b"\n\n" + CSV, JSON_LINES, b" \n" + JSON_LINES])
def test_standard_input_is_known_by_its_first_bytes(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    feed_stdin(monkeypatch, data)
    assert read_columns("-").equals(TABLE)


def test_parquet_comes_through_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    feed_stdin(monkeypatch, parquet_bytes(TABLE))
    assert read_columns("-", ["p"]).equals(TABLE.select(["p"]))


def test_stated_format_wins_over_suffix(make: Make) -> None:
    assert read_columns(make("t.txt", CSV), format="csv").equals(TABLE)
    assert read_columns(make("t.csv", CSV.replace(b",", b"\t")), format="tsv").equals(TABLE)
    assert read_columns(make("t.dat", parquet_bytes(TABLE))).equals(TABLE)


def test_named_pipe_is_read_as_a_stream(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(CSV,))
    writer.start()
    assert read_columns(pipe, ["id", "p"]).equals(TABLE.select(["id", "p"]))
    writer.join()


def test_missing_file_names_the_near_one(make: Make, tmp_path: Path) -> None:
    make("scores.csv", CSV)
    with pytest.raises(InvalidInputError, match=r"there is no file .*scors\.csv\. Did you mean 'scores\.csv'\?"):
        read_columns(tmp_path / "scors.csv")
    with pytest.raises(InvalidInputError, match=r"there is no file nowhere/x\.csv\."):
        read_columns("nowhere/x.csv")


def test_unknown_format_is_refused(make: Make) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown format 'parket'\. Did you mean 'parquet'"):
        read_columns(make("t.csv", CSV), format="parket")


def test_empty_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    feed_stdin(monkeypatch, b"")
    with pytest.raises(InvalidInputError, match="standard input is empty"):
        read_columns("-")
