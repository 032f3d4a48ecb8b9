"""Rows that lack a value: left out of any source alike, counted, and told by the messages about the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import ShapeError
from calibrant.tables import complete_rows, missing_rows, open_rows

NAN = float("nan")
P = [0.1, None, NAN, 0.4, 0.5, 0.6]
Y = [0, 1, 1, None, 0, 1]
KEPT = [0, 4, 5]


def csv_file(folder: Path) -> Any:
    fields = [("" if p is None else str(p), "NA" if y is None else str(y)) for p, y in zip(P, Y, strict=True)]
    path = folder / "t.csv"
    path.write_text("p,y,row\n" + "".join(f"{p},{y},{row}\n" for row, (p, y) in enumerate(fields)))
    return path


def json_file(folder: Path) -> Any:
    rows = [{"p": p, "y": y, "row": row} for row, (p, y) in enumerate(zip(P, Y, strict=True))]
    del rows[1]["p"]  # a name that a line lacks
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


TABLE = pa.table({"p": P, "y": Y, "row": range(6)})


def parquet_folder(folder: Path) -> Any:
    for start in (0, 2, 4):
        pq.write_table(TABLE.slice(start, 2), folder / f"{start}.parquet")
    return folder


def database(folder: Path) -> Any:
    pq.write_table(TABLE, folder / "t.parquet")
    path = folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM '{folder / 't.parquet'}'")
    return path


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": csv_file,
    "json lines": json_file,
    "a folder of Parquet": parquet_folder,
    "DuckDB": database,
    "columns": lambda _: {"p": P, "y": Y, "row": np.arange(6)},
    "pandas": lambda _: pd.DataFrame({"p": P, "y": Y, "row": range(6)}),
    "polars": lambda _: pl.DataFrame({"p": P, "y": Y, "row": range(6)}, strict=False),
    "a dictionary and half precision": lambda _: pa.table(
        {
            "p": pa.array(np.array([0.1, NAN, NAN, 0.4, 0.5, 0.6], np.float16)),
            "y": pa.array(Y).dictionary_encode(),
            "row": range(6),
        }
    ),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_every_source_leaves_out_the_same_rows_and_counts_them(make: Callable[[Path], Any], tmp_path: Path) -> None:
    source = complete_rows(open_rows(make(tmp_path)), ["p", "y"])
    assert source.read(["row"]).column("row").to_pylist() == KEPT
    assert source.n_skipped == 3
    scanned = [row for batch in source.scan(["row"]) for row in batch.table.column("row").to_pylist()]
    assert scanned == KEPT
    assert source.skipped == "3 rows left out for missing values: 2 in column 'p', 1 in column 'y'"


def test_a_pass_that_stops_early_does_not_change_the_count(tmp_path: Path) -> None:
    source = complete_rows(open_rows(parquet_folder(tmp_path)), ["p", "y"])
    list(source.scan(["p"]))
    next(iter(source.scan(["p"])))
    assert source.n_skipped == 3


@given(st.lists(st.tuples(*(st.sampled_from([None, NAN, np.inf, 0.5]),) * 2), min_size=1, max_size=30))
@settings(max_examples=60)
def test_complete_rows_are_those_that_pandas_keeps(values: list[tuple[float | None, float | None]]) -> None:
    columns = {
        name: pa.array(column, pa.float64()) for name, column in zip("ab", zip(*values, strict=True), strict=True)
    }
    kept = pd.DataFrame({name: column.to_pandas() for name, column in columns.items()}).dropna().index.tolist()
    table = pa.table({**columns, "row": range(len(values))})
    assert np.flatnonzero(~missing_rows(table.select(["a", "b"]))).tolist() == kept
    source = complete_rows(open_rows(table), ["a", "b"])
    if kept:
        assert source.read(["row"]).column("row").to_pylist() == kept
    else:
        with pytest.raises(ShapeError, match=rf"each of the {len(values)} rows of the table lacks a value"):
            source.read(["row"])


def test_text_is_never_missing_but_where_the_format_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('city,p\nNA,0.1\n"NA",0.2\nnan,0.3\n"",0.4\nRome,0.5\n')
    found = complete_rows(open_rows(tmp_path / "t.csv"), ["city"]).read()
    assert found.column("city").to_pylist() == ["NA", "", "Rome"]
    pc.write_csv(pa.table({"x": [1]}), tmp_path / "u.csv")
    assert complete_rows(open_rows(pa.table({"city": ["NA", None, "nan"]})), ["city"]).read().num_rows == 2
