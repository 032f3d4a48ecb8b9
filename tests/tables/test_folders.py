"""Folders of files as one table: in order, without what writers hide in them, every row with its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant.errors import InvalidInputError
from calibrant.tables import open_rows, read_columns

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
