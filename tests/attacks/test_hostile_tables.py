"""Tables that are none, or whose rows no metric takes: refused with exit code 2, and nothing is written."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands import run

import calibrant as cb
from table_bytes import feather_bytes, parquet_bytes

GOOD = pa.table({"p": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 0, 1]})
CSV = b"p,y\n0.1,0\n0.4,1\n0.6,0\n0.9,1\n"
JSON = b'{"p": 0.1, "y": 0}\n{"p": 0.4, "y": 1}\n{"p": 0.6, "y": 0}\n{"p": 0.9, "y": 1}\n'


def scores(values: Any, kind: Any = None) -> pa.Table:
    return pa.table({"p": pa.array(values, kind), "y": pa.array([0, 1] * (len(values) // 2))})


def flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("t.csv", CSV)
    return out.getvalue()


PARQUET, FEATHER = parquet_bytes(GOOD), feather_bytes(GOOD)
#: Name of the file, and what is in it.
CASES: dict[str, tuple[str, bytes]] = {
    "empty CSV": ("t.csv", b""),
    "blank CSV": ("t.csv", b"\n\n  \n"),
    "byte order mark alone": ("t.csv", b"\xef\xbb\xbf"),
    "header alone": ("t.csv", b"p,y\n"),
    "header without line feed": ("t.csv", b"p,y"),
    "no header": ("t.csv", CSV[4:]),
    "other columns": ("t.csv", b"q,z\n0.1,0\n"),
    "column of the scores twice": ("t.csv", b"p,p,y\n0.1,0.2,0\n0.9,0.8,1\n"),
    "column of the labels twice": ("t.csv", b"p,y,y\n0.1,0,0\n0.9,1,1\n"),
    "more fields than names": ("t.csv", b"p,y\n0.1,0,7\n0.9,1\n"),
    "fewer fields than names": ("t.csv", b"p,y\n0.1\n0.9,1\n"),
    "quote without end": ("t.csv", b'p,y\n"0.1,0\n0.9,1\n'),
    "text after a quote": ("t.csv", b'p,y\n"0.1"x,0\n0.9,1\n'),
    "no UTF-8 in a needed column": ("t.csv", b"p,y\n0.1,\xff\n0.9,b\n"),
    "no UTF-8 in the header": ("t.csv", b"p,y,\xff\n0.1,0,1\n0.9,1,1\n"),
    "UTF-16 cut in a character": ("t.csv", CSV.decode().encode("utf-16")[:-1]),
    "null characters": ("t.csv", CSV.replace(b"0.4", b"0.\x004")),
    "null characters alone": ("t.csv", b"\0" * 5_000),
    "text for a score": ("t.csv", CSV.replace(b"0.4", b"low")),
    "decimal comma": ("t.csv", CSV.replace(b"0.4", b'"0,4"')),
    "percent": ("t.csv", CSV.replace(b"0.4", b"40%")),
    "date for a score": ("t.csv", CSV.replace(b"0.4", b"2026-11-23")),
    "score above one": ("t.csv", CSV.replace(b"0.4", b"1.4")),
    "negative score": ("t.csv", CSV.replace(b"0.4", b"-0.4")),
    "NaN for a score": ("t.csv", CSV.replace(b"0.4", b"nan")),
    "infinite score": ("t.csv", CSV.replace(b"0.4", b"inf")),
    "score beyond float64": ("t.csv", CSV.replace(b"0.4", b"1e999")),
    "no score": ("t.csv", CSV.replace(b"0.4", b"")),
    "no label": ("t.csv", CSV.replace(b",1", b",")),
    "a third class": ("t.csv", CSV + b"0.5,2\n"),
    "HTML": ("t.csv", b"<html><body>404</body></html>\n"),
    "Parquet named CSV": ("t.csv", PARQUET),
    "gzip named CSV, cut off": ("t.csv", gzip.compress(CSV)[:-9]),
    "CSV named gzip": ("t.csv.gz", CSV),
    "empty gzip": ("t.csv.gz", b""),
    "gzip of nothing": ("t.csv.gz", gzip.compress(b"")),
    "gzip cut short": ("t.csv.gz", gzip.compress(CSV)[:-9]),
    "gzip of another sum": ("t.csv.gz", flipped(gzip.compress(CSV), -6)),
    "gzip of gzip": ("t.csv.gz", gzip.compress(gzip.compress(CSV))),
    "gzip that grows": ("t.csv.gz", gzip.compress(b"\0" * 50_000_000)),
    "zip named gzip": ("t.csv.gz", zipped()),
    "bzip2": ("t.csv.bz2", bz2.compress(CSV)),
    "zip": ("t.zip", zipped()),
    "empty Parquet": ("t.parquet", b""),
    "Parquet's mark alone": ("t.parquet", b"PAR1"),
    "Parquet's marks alone": ("t.parquet", b"PAR1PAR1"),
    "CSV named Parquet": ("t.parquet", CSV),
    "Parquet without its end": ("t.parquet", PARQUET[:-8]),
    "Parquet without its middle": ("t.parquet", PARQUET[:20] + PARQUET[-20:]),
    "Parquet of a huge footer": ("t.parquet", PARQUET[:-8] + b"\xff\xff\xff\x7fPAR1"),
    "Parquet of a negative footer": ("t.parquet", PARQUET[:-8] + b"\xff\xff\xff\xffPAR1"),
    "Parquet of another page": ("t.parquet", flipped(PARQUET, 6)),
    "Parquet without rows": ("t.parquet", parquet_bytes(GOOD.slice(0, 0))),
    "Parquet without columns": ("t.parquet", parquet_bytes(pa.table({}))),
    "scores of nulls": ("t.parquet", parquet_bytes(scores([None] * 4))),
    "scores that are text": ("t.parquet", parquet_bytes(scores(["a"] * 4))),
    "scores that are bytes": ("t.parquet", parquet_bytes(scores([b"0.5"] * 4))),
    "scores that are lists": ("t.parquet", parquet_bytes(scores([[0.5]] * 4))),
    "scores that are structs": ("t.parquet", parquet_bytes(scores([{"a": 0.5}] * 4))),
    "scores that are times": ("t.parquet", parquet_bytes(scores([0, 1, 0, 1], pa.timestamp("s")))),
    "scores that are spans": ("t.parquet", parquet_bytes(scores([0, 1, 0, 1], pa.duration("s")))),
    "labels that are lists": ("t.parquet", parquet_bytes(pa.table({"p": [0.5] * 4, "y": [[0], [1], [0], [1]]}))),
    "labels that are structs": ("t.parquet", parquet_bytes(pa.table({"p": [0.5] * 4, "y": [{"a": 0}, {"a": 1}] * 2}))),
    "one NaN": ("t.parquet", parquet_bytes(scores([0.1, float("nan"), 0.2, 0.3]))),
    "empty Arrow": ("t.feather", b""),
    "Arrow's mark alone": ("t.feather", b"ARROW1"),
    "Arrow cut short": ("t.feather", FEATHER[:-20]),
    "Arrow without its head": ("t.feather", FEATHER[20:]),
    "Arrow of another length": ("t.feather", flipped(FEATHER, -9)),
    "empty JSON lines": ("t.jsonl", b""),
    "blank JSON lines": ("t.jsonl", b"\n\n"),
    "one JSON array": ("t.jsonl", b'[{"p": 0.1, "y": 0}]'),
    "JSON of numbers": ("t.jsonl", b"1\n2\n"),
    "JSON cut short": ("t.jsonl", JSON[:-4]),
    "JSON name twice": ("t.jsonl", JSON + b'{"p": 0.1, "y": 1, "p": 0.2}\n'),
    "JSON of kinds": ("t.jsonl", JSON + b'{"p": "x", "y": 1}\n'),
    "JSON of lists": ("t.jsonl", JSON + b'{"p": [0.1], "y": 1}\n'),
    "JSON null": ("t.jsonl", JSON + b'{"p": null, "y": 1}\n'),
    "JSON without a name": ("t.jsonl", JSON + b'{"y": 1}\n'),
    "JSON NaN": ("t.jsonl", JSON + b'{"p": NaN, "y": 1}\n'),
    "JSON beyond float64": ("t.jsonl", JSON + b'{"p": 1e999, "y": 1}\n'),
    "JSON of many digits": ("t.jsonl", JSON + b'{"p": ' + b"9" * 5_000 + b', "y": 1}\n'),
    "deep JSON": ("t.jsonl", JSON + b'{"p": ' + b"[" * 100_000 + b"\n"),
    "JSON that is no UTF-8": ("t.jsonl", JSON + b'{"p": 0.1, "y": "\xff"}\n'),
    "broken DuckDB": ("t.duckdb", b"\0" * 4_096),
    "empty DuckDB": ("t.duckdb", b""),
    "unknown ending": ("t.xlsx", zipped()),
    "no ending": ("t", CSV),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cb.save(cb.SigmoidCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]), "c.json")


def test_there_are_enough() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("name", CASES)
def test_hostile_tables_are_refused(name: str) -> None:
    file, data = CASES[name]
    Path(file).write_bytes(data)
    words = [
        ["evaluate", file, "--score", "p", "--label", "y"],
        ["fit", file, "--score", "p", "--label", "y", "--method", "sigmoid", "-o", "new.json"],
    ]
    for command in words:
        result = run(*command)
        assert result.exit_code == 2, (command, result.output)
        assert result.output.startswith("Error: ") or "\nError: " in result.output
        assert "\0" not in result.output
        assert len(result.output) < 2_000
    assert sorted(path.name for path in Path().iterdir()) == sorted(["c.json", file])
    assert Path(file).read_bytes() == data


#: What has no rows gets a table of none, and labels are nothing to `apply`.
TAKEN = ["header alone", "header without line feed", "Parquet without rows", "blank JSON lines", "empty JSON lines"]
TAKEN += ["no label", "no UTF-8 in a needed column", "column of the labels twice", "a third class"]
TAKEN += [name for name in CASES if name.startswith("labels that")]


@pytest.mark.parametrize("name", CASES)
def test_hostile_tables_get_no_probabilities(name: str) -> None:
    file, data = CASES[name]
    Path(file).write_bytes(data)
    result = run("apply", "c.json", file, "--score", "p", "-o", f"new-{file}")
    assert result.exit_code == 2 or name in TAKEN, result.output
    written = [f"new-{file}"] if result.exit_code == 0 else []
    assert sorted(path.name for path in Path().iterdir()) == sorted(["c.json", file, *written])
    assert Path(file).read_bytes() == data
