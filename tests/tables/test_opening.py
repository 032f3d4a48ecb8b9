"""Columns read from files: the right ones, of every format, and errors that say where."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from three_rows import CSV, JSON_LINES, TABLE

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.tables import open_rows, read_columns
from calibrant.tables.opening import _is_whole
from table_bytes import parquet_bytes

Make = Callable[[str, bytes], str]


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


def test_names_that_repeat_matter_only_where_they_are_read(make: Make) -> None:
    frame = pd.DataFrame([[0.5, 1, 2]], columns=["p", "x", "x"], index=pd.Index([7], name="id"))
    for source in (frame, {"p": [0.5], 1: [1], "1": [2]}):
        rows = open_rows(source)
        assert rows.read(["p"]).to_pydict() == {"p": [0.5]}
        with pytest.raises(InvalidInputError, match=r"has two columns named '[x1]'\. Rename one of them"):
            rows.read([rows.names[1]])
    assert open_rows(frame).read(["id"]).to_pydict() == {"id": [7]}


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 5_000])
def test_folders_named_by_numbers_beyond_64_bits_are_text(number: str, tmp_path: Path) -> None:
    assert not _is_whole(number)
    (tmp_path / f"g={number[:30]}").mkdir()
    (tmp_path / f"g={number[:30]}" / "t.csv").write_bytes(CSV)
    assert set(open_rows(tmp_path).read(["g"]).to_pydict()["g"]) == {number[:30]}
    assert _is_whole("9223372036854775807")
    assert _is_whole("-9223372036854775808")


# --- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("t.csv", b"", r"t\.csv is empty"),
        ("t.csv", b"\n\r\n\n", r"t\.csv is empty"),
        ("t.jsonl", b"", r"t\.jsonl is empty: it has no row\."),
        ("t.feather", b"FEA1rest", r"is Feather of version 1\. Read it by"),
        ("t.arrow", b"\xff\xff\xff\xff\x78\x00\x00\x00", r"is a stream of Arrow\. Write a file"),
        ("t.csv", gzip.compress(CSV, mtime=0)[:-9], r"t\.csv can't be unpacked|t\.csv can't be read, or is broken"),
        ("t.csv.gz", CSV, r"is not packed as its suffix says\. Take \.gz off its name"),
        ("t.parquet.gz", gzip.compress(parquet_bytes(TABLE)), r"is Parquet packed by gzip.*Unpack it first"),
        ("t.csv", b"PK\x03\x04rest", "is a ZIP archive or an Excel workbook. Unpack it"),
        ("t.csv.bz2", bz2.compress(b"y,p\n0,0.5\n" * 99), "is packed by bzip2. Unpack it first"),
        ("t.csv.xz", lzma.compress(b"y,p\n0,0.5\n" * 99), "is packed by xz. Unpack it first"),
        ("t.pkl", pickle.dumps([1], protocol=4), "is a pickle"),
        ("t.pkl", pickle.dumps([1], protocol=5), "is a pickle"),
        ("t.npy", b"\x93NUMPY\x01\x00v\x00", "is a NumPy array"),
        ("t.db", b"SQLite format 3\x00rest", "is a SQLite database"),
        ("t.csv", "y,p\n".encode("utf-16-le"), r"holds zero bytes.*Name its encoding with --encoding, such as utf-16"),
        ("t.csv", b"\xff\xfey\x00\x00\xd8,\x00", r"is not UTF-16-LE text"),
        ("t.csv", parquet_bytes(TABLE), "is Parquet, not csv"),
        ("t.csv", b"y,caf\xe9\n1,2\n", r"is not UTF-8 text \(.* near byte 5\)\. Name its encoding with --encoding"),
        ("t.csv", b"y,p\ncaf\xe9,2\n", r"is not UTF-8 text \(some values are other bytes\)\. Name its encoding"),
        (
            "t.csv",
            b"y,p\n1,0.5\n1,0.5,7\n",
            r"record 3 \(the header is record 1\) is broken: Expected 2 columns, got 3",
        ),
        ("t.csv", b'y,p\n1,0.5\n0,"0.25\n1,0.5\n', r"record 3, which begins '0,\"0\.25.*never ends\. Close its quote"),
        ("t.parquet", CSV, r"is not Parquet: it doesn't start with b'PAR1'"),
        ("t.parquet", parquet_bytes(TABLE)[:-40], r"t\.parquet can't be read, or is broken"),
        ("t.json", b'[{"y": 1}]', r"holds one JSON array\. Write one object per line"),
        ("t.jsonl", b'{"p": 1}\n\n{"p": 1\n', r"t\.jsonl line 3: '\{\"p\": 1' can't be read:"),
        ("t.jsonl", b'{"p": 1}\n7\n', r"line 2: 7 is not a JSON object"),
        ("t.jsonl", b'{"p": 1}\n{"p": 1, "y": 0, "p": 2}\n', "line 2: the name 'p' is there twice. Write each"),
        ("t.jsonl", b'{"p": {"a": 1, "a": 2}}\n', "column 'p' of .* can't be read"),
        ("t.jsonl", b'{"p": 1, "\\ud800": 2}\n', "line 1: the name .* holds half a surrogate pair"),
        ("t.jsonl", b'{"p": "\\udfff"}\n', "column 'p' of .* can't be read"),
        ("t.jsonl", b'{"p": "\xff"}\n', "line 1: .* can't be read:"),
        ("t.jsonl", b'{"p": ' + b"[" * 200_000 + b"}\n", "line 1: .* can't be read:"),
        ("t.jsonl", b'{"p": 1}\n{"p": "x"}\n', "column 'p' of .* mixes kinds of values, such as 1 and 'x'"),
        ("t.jsonl", b'{"p": 123456789012345678901234567890}\n', "column 'p' of .* beyond the whole numbers of 64 bits"),
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


# --- folders ------------------------------------------------------------------------------------------------

N = 3_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of Parquet files, one of them empty, whose ids rise in the order of their paths."""
    table = pa.table({"id": np.arange(N)})
    root = tmp_path / "f"
    (root / "b").mkdir(parents=True)
    pq.write_table(table.slice(0, 1_000), root / "a.parquet", row_group_size=300)
    pq.write_table(table.slice(0, 0), root / "b" / "0.parquet")
    pq.write_table(table.slice(1_000), root / "b" / "c.parquet")
    (root / "_notes.txt").write_text("not a table")
    (root / ".hidden.parquet").write_bytes(b"junk")
    return root


def test_a_folder_is_read_in_the_order_of_its_paths_without_hidden_files(folder: Path) -> None:
    source = open_rows(folder)
    ids = np.concatenate([batch.table["id"].to_numpy() for batch in source.scan(["id"])])
    np.testing.assert_array_equal(ids, np.arange(N))
    assert read_columns(folder)["id"].to_pylist() == list(range(N))


def test_a_folder_knows_its_rows_and_bytes_where_its_files_say_them(folder: Path, tmp_path: Path) -> None:
    source = open_rows(folder)
    assert source.n_rows == N
    assert source.n_bytes == sum(path.stat().st_size for path in folder.rglob("[!.]*.parquet"))
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "t.csv").write_text("id\n1\n")
    assert (open_rows(tmp_path / "text").n_rows, open_rows(tmp_path / "text").n_bytes) == (None, 5)


def test_batches_say_which_row_of_which_file_they_begin_with(folder: Path) -> None:
    pq.write_table(pa.table({"id": [0] * 200_000}), folder / "long.parquet")
    places = [(Path(batch.where).name, batch.first_row) for batch in open_rows(folder).scan(["id"])]
    assert places == [("a.parquet", 0), ("c.parquet", 0), ("long.parquet", 0), ("long.parquet", 1 << 17)]


def test_a_folder_is_read_whole_with_integers_beside_floats(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "1.csv").write_text("p,y\n0,0\n1,1\n")
    (folder / "2.csv").write_text("p,y\n0.5,1\n")
    assert open_rows(folder).read(["p"])["p"].to_pylist() == [0.0, 1.0, 0.5]
    (folder / "3.csv").write_text("p,y\nhalf,1\n")
    with pytest.raises(InvalidInputError, match="hold columns of different kinds"):
        open_rows(folder).read(["p"])
