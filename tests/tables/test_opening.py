"""Columns read from files: the right ones, of every format, and errors that say where."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.tables import read_columns

Make = Callable[[str, bytes], str]
TABLE = pa.table({"id": ["a", "b", "c"], "y": [0, 1, 1], "p": [0.25, 0.5, 0.125]})
CSV = b"id,y,p\na,0,0.25\nb,1,0.5\nc,1,0.125\n"
JSON_LINES = b'{"id": "a", "y": 0, "p": 0.25}\n{"id": "b", "y": 1, "p": 0.5}\n{"id": "c", "y": 1, "p": 0.125}\n'


def parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


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


# --- refusals ------------------------------------------------------------------------------------------------


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
