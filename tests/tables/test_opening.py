"""Columns read from files: the right ones, of every format, and errors that say where."""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant.errors import CalibrantError, InvalidInputError, UnknownNameError
from calibrant.tables import NewColumns, append_columns, formats, open_rows, read_columns

Make = Callable[[str, bytes], str]
TABLE = pa.table({"id": ["a", "b", "c"], "y": [0, 1, 1], "p": [0.25, 0.5, 0.125]})
CSV = b"id,y,p\na,0,0.25\nb,1,0.5\nc,1,0.125\n"
JSON_LINES = b'{"id": "a", "y": 0, "p": 0.25}\n{"id": "b", "y": 1, "p": 0.5}\n{"id": "c", "y": 1, "p": 0.125}\n'


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def write(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def feed_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", CSV),
        ("t.CSV", CSV),
        ("t.tsv", CSV.replace(b",", b"\t")),
        ("t.jsonl", JSON_LINES),
        ("t.ndjson", JSON_LINES),
        ("t.json", JSON_LINES),
        ("t.parquet", parquet_bytes(TABLE)),
        ("t.pq", parquet_bytes(TABLE)),
    ],
)
def test_every_format_gives_the_same_table(make: Make, name: str, data: bytes) -> None:
    assert read_columns(make(name, data)).equals(TABLE)
    assert read_columns(make(name, data), ["p", "y"]).equals(TABLE.select(["p", "y"]))


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


def test_only_the_columns_asked_for_are_parsed(make: Make) -> None:
    path = make("t.csv", b"p,junk,y\n0.5,\xff\xfe,1\n0.25,x,0\n")
    assert read_columns(path, ["y", "p"]).to_pydict() == {"y": [1, 0], "p": [0.5, 0.25]}


def test_patterns_give_columns_in_the_order_of_the_file(make: Make) -> None:
    opened = open_rows(make("t.csv", b"p10,y,p2,q,p1\n1,2,3,4,5\n"))
    assert opened.select(["p*"]) == ["p10", "p2", "p1"]
    assert opened.select(["p?", "p*", "y"]) == ["p2", "p1", "p10", "y"]


def test_name_that_looks_like_a_pattern_is_a_name_first(make: Make) -> None:
    assert open_rows(make("t.csv", b"p[0],p0,p*\n1,2,3\n")).select(["p[0]", "p*"]) == ["p[0]", "p*"]


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


def test_dictionary_and_view_columns_come_as_plain_ones(make: Make) -> None:
    kinds = pa.table({"y": pa.array(["b", "a", "b"]).dictionary_encode(), "n": pa.array([3, 1, 3]).dictionary_encode()})
    assert read_columns(make("t.parquet", parquet_bytes(kinds))).to_pydict() == {"y": ["b", "a", "b"], "n": [3, 1, 3]}
    sink = io.BytesIO()
    pl.DataFrame({"y": pl.Series(["b", "a"], dtype=pl.Categorical), "z": ["u", "v"]}).write_parquet(sink)
    assert read_columns(make("p.parquet", sink.getvalue())).to_pydict() == {"y": ["b", "a"], "z": ["u", "v"]}


def test_column_with_a_dot_is_not_a_nested_field(make: Make) -> None:
    both = pa.table({"p": [1.0], "p.raw": [2.0]})
    assert read_columns(make("t.parquet", parquet_bytes(both)), ["p"]).to_pydict() == {"p": [1.0]}
    assert read_columns(make("t.parquet", parquet_bytes(both)), ["p.raw"]).to_pydict() == {"p.raw": [2.0]}


def test_json_lines_may_lack_names_and_hold_blank_lines(make: Make) -> None:
    path = make("t.jsonl", b'{"p": 1}\r\n\r\n{"y": "a", "p": 0.5}\n \n{"y": null, "p": NaN}')
    read = read_columns(path, ["y"])
    assert read.to_pydict() == {"y": [None, "a", None]}


def test_other_columns_of_json_lines_may_mix_kinds(make: Make) -> None:
    path = make("t.jsonl", b'{"p": 1, "x": 1}\n{"p": 2, "x": {"a": []}}\n')
    assert read_columns(path, ["p"]).to_pydict() == {"p": [1, 2]}


# --- refusals ------------------------------------------------------------------------------------------------


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
    with pytest.raises(UnknownNameError, match=r"Its one column is 'y;p': is ';' the delimiter"):
        read_columns(make("t.csv", b"y;p\n1;0,5\n"), ["p"])


def test_two_columns_of_one_name_are_refused_only_when_asked_for(make: Make) -> None:
    path = make("t.csv", b"p,x,x\n1,2,3\n")
    assert read_columns(path, ["p"]).to_pydict() == {"p": [1]}
    with pytest.raises(InvalidInputError, match=r"has two columns named 'x'\. Rename one of them"):
        read_columns(path, ["x"])


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"", r"t\.csv is empty"),
        ("t.csv", b"\n\r\n\n", r"t\.csv is empty"),
        ("t.csv", gzip.compress(CSV, mtime=0), r"is compressed by gzip\. Unpack it first"),
        ("t.csv", b"PK\x03\x04rest", "is a ZIP archive or an Excel workbook"),
        ("t.csv", "y,p\n".encode("utf-16"), r"is UTF-16 text\. Save it as UTF-8 first"),
        ("t.csv", parquet_bytes(TABLE), "is Parquet, not csv"),
        ("t.csv", b"y,caf\xe9\n1,2\n", "is not UTF-8 text"),
        (
            "t.csv",
            b"y,p\n1,0.5\n1,0.5,7\n",
            r"record 3 \(the header is record 1\) is broken: Expected 2 columns, got 3",
        ),
        ("t.csv", b'y,p\n1,0.5\n0,"0.25\n1,0.5\n', r"record 3, which begins '0,\"0\.25.*never ends\. Close its quote"),
        ("t.parquet", CSV, r"is not Parquet: it doesn't start with b'PAR1'"),
        ("t.parquet", parquet_bytes(TABLE)[:-40], r"t\.parquet can't be read, or is broken"),
        ("t.json", b'[{"y": 1}]', r"holds one JSON array\. Write one object per line"),
        ("t.jsonl", b'{"p": 1}\n\n{"p": 1\n', r"t\.jsonl line 3: '\{\"p\": 1' is not JSON"),
        ("t.jsonl", b'{"p": 1}\n7\n', r"line 2: 7 is not a JSON object"),
        ("t.jsonl", b'{"p": "\xff"}\n', "line 1: .* is not JSON"),
        ("t.jsonl", b'{"p": ' + b"[" * 200_000 + b"}\n", "line 1: .* is not JSON"),
        ("t.jsonl", b'{"p": 1}\n{"p": "x"}\n', "column 'p' of .* mixes kinds of values, such as 1 and 'x'"),
        ("t.jsonl", b'{"p": 123456789012345678901234567890}\n', "column 'p' of .* can't be read"),
        ("t.txt", CSV, r"doesn't say what it holds\. Name it .*\.csv.*--format"),
    ],
)
def test_what_can_not_be_read_is_said(make: Make, name: str, data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_columns(make(name, data), None)


def test_every_truncation_of_a_file_reads_or_is_refused(make: Make) -> None:
    whole = parquet_bytes(TABLE)
    for length in range(0, len(whole), 7):
        with pytest.raises(CalibrantError):
            read_columns(make("t.parquet", whole[:length]))


def test_missing_file_names_the_near_one(make: Make, tmp_path: Path) -> None:
    make("scores.csv", CSV)
    with pytest.raises(InvalidInputError, match=r"there is no file .*scors\.csv\. Did you mean 'scores\.csv'\?"):
        read_columns(tmp_path / "scors.csv")
    with pytest.raises(InvalidInputError, match=r"there is no file nowhere/x\.csv\."):
        read_columns("nowhere/x.csv")


def test_folder_is_refused_where_one_file_is_copied(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"is a folder\. Pass one file of it"):
        append_columns(tmp_path, tmp_path / "o.csv", columns=NewColumns(["p"], ["q"], lambda t: t["p"].to_numpy()))


def test_unknown_format_is_refused(make: Make) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown format 'parket'\. Did you mean 'parquet'"):
        read_columns(make("t.csv", CSV), format="parket")


def test_empty_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    feed_stdin(monkeypatch, b"")
    with pytest.raises(InvalidInputError, match="standard input is empty"):
        read_columns("-")
