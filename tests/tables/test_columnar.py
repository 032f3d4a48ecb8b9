"""Arrow files, and Parquet files of which some row groups are read."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables import NewColumns, append_columns, open_rows, read_columns
from calibrant.tables.columnar import ArrowFile, ParquetFile
from calibrant.tables.formats import open_bytes
from table_bytes import parquet_bytes

Make = Callable[[str, bytes], str]
TABLE = pa.table({"p": [0.75, 1.5, 3.0], "kind": pa.array(["b", None, "b"]).dictionary_encode(), "n": [1, None, 3]})


def third(found: pa.Table) -> FloatArray:
    values: FloatArray = found.column(0).to_numpy() / 3.0
    return values


@pytest.mark.parametrize("name", ["t.arrow", "t.feather", "t.dat"])
def test_an_arrow_file_is_a_source_like_any_other(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    feather.write_feather(TABLE, str(path))
    source = open_rows(path)
    assert source.names == ("p", "kind", "n")
    assert source.read(["n", "kind"]).to_pydict() == {"n": [1, None, 3], "kind": ["b", None, "b"]}
    (batch,) = source.scan(["kind"])
    assert (batch.table["kind"].type, batch.first_row) == (pa.string(), 0)


def test_an_arrow_file_says_how_many_rows_it_has_and_is_read_by_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    text = pa.array(["x" * 1000] * 4096)
    table = pa.table({"text": text, "p": np.linspace(0.0, 1.0, 4096), "y": pa.array(np.zeros(4096, np.int8))})
    feather.write_feather(table, str(path), compression="uncompressed", chunksize=1000)
    source = ArrowFile(open_bytes(path))
    assert source.n_rows == 4096
    assert [each.column_names for each in source.scan_tables(["y", "p"])] == [["p", "y"]] * 6
    assert source.read(["y", "p"]).equals(table.select(["y", "p"]))
    (tmp_path / "t2.arrow").write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(InvalidInputError, match=r"t2\.arrow can't be read, or is broken"):
        _ = ArrowFile(open_bytes(tmp_path / "t2.arrow")).n_rows


def test_new_columns_leave_the_types_of_an_arrow_file(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    frame = pd.DataFrame({"p": [0.75, 1.5], "c": pd.Categorical(["a", "b"])})
    frame.to_feather(path)
    assert append_columns(path, path, columns=NewColumns(["p"], ["q"], third)).n_rows == 2
    pd.testing.assert_frame_equal(pd.read_feather(path), frame.assign(q=[0.25, 0.5]))


def test_a_broken_arrow_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    path.write_bytes(b"ARROW1\0\0 and no more")
    with pytest.raises(InvalidInputError, match=r"t\.arrow can't be read, or is broken"):
        read_columns(path)
    path.write_text("p\n1\n")
    with pytest.raises(InvalidInputError, match=r"t\.arrow is not Arrow: it doesn't start with b'ARROW1'"):
        read_columns(path)
    feather.write_feather(TABLE, str(tmp_path / "t.csv"))
    with pytest.raises(InvalidInputError, match=r"t\.csv is Arrow, not csv\. Give it the suffix \.arrow"):
        read_columns(tmp_path / "t.csv")


@pytest.mark.parametrize(("part_rows", "sizes"), [(1, [2, 2, 1]), (3, [4, 1]), (5, [5]), (99, [5])])
def test_parts_of_a_parquet_file_are_whole_row_groups_and_together_all_its_rows(
    tmp_path: Path, part_rows: int, sizes: list[int]
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(5)}), path, row_group_size=2)
    parts = ParquetFile(open_bytes(path)).split(part_rows)
    assert [part.n_rows for part in parts] == sizes
    assert [i for part in parts for i in part.read()["id"].to_pylist()] == list(range(5))
    assert [i for part in parts for b in part.scan(["id"]) for i in b.table["id"].to_pylist()] == list(range(5))
    assert [i for part in parts for table in part.tables() for i in table["id"].to_pylist()] == list(range(5))


def test_a_parquet_file_larger_than_memory_is_not_held(tmp_path: Path) -> None:
    """Asked for all row groups at once, Arrow reads ahead of the batches that are taken, to the end of the file."""
    path = tmp_path / "t.parquet"
    scores = pa.table({"p": np.random.default_rng(0).random(1 << 22)})
    pq.write_table(scores, path, row_group_size=1 << 17)
    code = f"""
import pyarrow as pa
from calibrant.tables import open_rows
rows = sum(batch.table.num_rows for batch in open_rows({str(path)!r}).scan(["p"]))
print(rows, pa.default_memory_pool().max_memory())
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    rows, most = map(int, done.stdout.split())
    assert rows == 1 << 22
    assert most < scores.nbytes / 4


def test_a_parquet_file_without_rows_has_no_batches(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE.slice(0, 0), path)
    source = open_rows(path)
    assert (source.n_rows, list(source.scan(["p"])), source.read(["p"]).num_rows) == (0, [], 0)


def test_dictionary_and_view_columns_come_as_plain_ones(make: Make) -> None:
    kinds = pa.table({"y": pa.array(["b", "a", "b"]).dictionary_encode(), "n": pa.array([3, 1, 3]).dictionary_encode()})
    assert read_columns(make("t.parquet", parquet_bytes(kinds))).to_pydict() == {"y": ["b", "a", "b"], "n": [3, 1, 3]}
    sink = io.BytesIO()
    pl.DataFrame({"y": pl.Series(["b", "a"], dtype=pl.Categorical), "z": ["u", "v"]}).write_parquet(sink)
    assert read_columns(make("p.parquet", sink.getvalue())).to_pydict() == {"y": ["b", "a"], "z": ["u", "v"]}


@pytest.mark.parametrize("dtype", [pl.Categorical(), pl.Enum(["b", "a", "c"])], ids=["categorical", "enum"])
def test_categories_of_a_polars_frame_come_as_text(dtype: pl.DataType) -> None:
    parts = [pl.DataFrame({"y": pl.Series(each, dtype=dtype)}) for each in (["b", None], ["a", "b"], [])]
    for frame in (pl.concat(parts, rechunk=False), pl.concat(parts)):
        for source in (frame, frame.lazy()):
            assert read_columns(source).to_pydict() == {"y": ["b", None, "a", "b"]}


def test_column_with_a_dot_is_not_a_nested_field(make: Make) -> None:
    both = pa.table({"p": [1.0], "p.raw": [2.0]})
    assert read_columns(make("t.parquet", parquet_bytes(both)), ["p"]).to_pydict() == {"p": [1.0]}
    assert read_columns(make("t.parquet", parquet_bytes(both)), ["p.raw"]).to_pydict() == {"p.raw": [2.0]}
