"""Folders of parts: all rows of the source come out once, whatever its files and folders are called."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables import Applied, NewColumns, append_columns, read_columns


def negative(found: pa.Table) -> FloatArray:
    values: FloatArray = -found.column(0).to_numpy().astype(np.float64)
    return values


def append(source: Path, target: Path, part_rows: int = 1) -> Applied:
    columns = NewColumns(["id"], ["q"], negative)
    return append_columns(source, target, columns=columns, fingerprint="minus", part_rows=part_rows)


#: Names that parts might get, of files and of folders in the place of one.
STEMS = st.sampled_from(["a", "a-", "a-00000", "a-00001", "a--00000", "b"])
PATHS = st.lists(st.sampled_from(["a-00000.parquet", "a.parquet", "d"]), max_size=2)


@settings(max_examples=40, deadline=None)
@given(
    files=st.lists(st.tuples(PATHS, STEMS, st.integers(0, 3)), min_size=1, max_size=6),
    part_rows=st.integers(1, 3),
)
def test_rows_in_are_rows_out_whatever_files_are_called(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[list[str], str, int]], part_rows: int
) -> None:
    root = tmp_path_factory.mktemp("law")
    source, target, n_rows = root / "in", root / "out", 0
    for folders, stem, size in files:
        path = source.joinpath(*folders) / f"{stem}.parquet"
        if path.exists() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": np.arange(n_rows, n_rows + size)}), path, row_group_size=1)
        n_rows += size
    done = append(source, target, part_rows)
    found = read_columns(target)
    assert (done.n_rows, done.n_kept) == (n_rows, 0)
    assert sorted(found["id"].to_pylist()) == list(range(n_rows))
    assert found["q"].to_pylist() == [-i for i in found["id"].to_pylist()]
    again = append(source, target, part_rows)
    assert (again.n_rows, again.n_kept) == (0, done.n_parts)


def test_a_file_that_is_called_as_a_part_of_its_neighbour_would_be_keeps_its_rows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": range(4)}), tmp_path / "in" / "a.parquet", row_group_size=2)
    pq.write_table(pa.table({"id": [4]}), tmp_path / "in" / "a-00000.parquet")
    assert append(tmp_path / "in", tmp_path / "out") == Applied(5, 3, 0)
    names = sorted(path.name for path in (tmp_path / "out").glob("*.parquet"))
    assert names == ["a--00000.parquet", "a--00001.parquet", "a-00000.parquet"]
    manifest = json.loads((tmp_path / "out" / "_calibrant.json").read_text())
    assert [(part["file"], part["row_groups"]) for part in manifest["parts"]] == [
        ("a.parquet", [0, 1]),
        ("a.parquet", [1, 2]),
        ("a-00000.parquet", None),
    ]


def test_one_file_becomes_a_folder_where_the_target_is_called_like_one(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id\n1\n2\n")
    columns = NewColumns(["id"], ["q"], negative)
    done = append_columns(tmp_path / "t.csv", f"{tmp_path}/out/", columns=columns, fingerprint="minus")
    assert done == Applied(2, 1, 0)
    assert (tmp_path / "out" / "t.csv").read_text() == "id,q\n1,-1.0\n2,-2.0\n"


def test_what_can_not_be_written_in_parts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_calibrant.json").write_text('{"id": 1}\n')
    (tmp_path / "out").mkdir()
    with pytest.raises(InvalidInputError, match=r"_calibrant\.json has the name of the list of parts"):
        append(tmp_path / "_calibrant.json", tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"out is a folder\. Pass the name of a file to write"):
        append_columns(
            tmp_path / "_calibrant.json", tmp_path / "out", columns=NewColumns(["id"], ["q"], negative), format="jsonl"
        )


def test_a_run_with_another_fingerprint_is_told_whose_parts_are_missing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t.csv").write_text("id\n1\n")
    append(tmp_path / "in", tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"holds parts made by something else than plus\. Remove it"):
        append_columns(
            tmp_path / "in", tmp_path / "out", columns=NewColumns(["id"], ["q"], negative), fingerprint="plus"
        )
