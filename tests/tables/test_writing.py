"""Tables written in another format than they were read in: the same values, or a refusal."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables import NewColumns, append_columns, read_columns
from calibrant.validation import as_scores


def third(found: pa.Table) -> FloatArray:
    values = as_scores(found.column(0), name="p").values
    result: FloatArray = values / 3.0
    return result


@pytest.mark.parametrize("source", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("target", ["csv", "tsv", "jsonl", "parquet", "arrow"])
def test_any_format_becomes_any_other(tmp_path: Path, source: str, target: str) -> None:
    table = pa.table({"name": ['a,"b"\tc', "d\ne", None], "p": [0.75, 1.5, 3e-5], "n": [1, None, 3]})
    start, there, end = (tmp_path / name for name in ("a.parquet", f"b.{source}", f"c.{target}"))
    pq.write_table(table, start)
    append_columns(start, there, columns=NewColumns(["p"], ["q1"], third))
    append_columns(there, end, columns=NewColumns(["p"], ["q2"], third))
    thirds = [0.25, 0.5, 3e-5 / 3.0]
    assert read_columns(end).to_pydict() == {**table.to_pydict(), "q1": thirds, "q2": thirds}


def test_types_that_json_lacks_become_text_or_null(tmp_path: Path, rich_table: pa.Table) -> None:
    source, target = tmp_path / "in.parquet", tmp_path / "out.jsonl"
    pq.write_table(rich_table.drop(["raw"]), source)
    append_columns(source, target, columns=NewColumns(["p"], ["q"], third))
    first = json.loads(target.read_text("utf-8").splitlines()[0])
    assert first["at"] == "2020-01-01 13:00:00.000000000+0100"
    assert first["day"] == "2020-01-01"
    assert first["money"] == "1.10"
    assert first["nested"] == {"a": 1, "b": ["x"]}
    assert first["nan"] is None
    assert first["q"] == 0.25


def test_types_that_a_format_lacks_are_refused(tmp_path: Path, rich_table: pa.Table) -> None:
    source = tmp_path / "in.parquet"
    pq.write_table(rich_table, source)
    with pytest.raises(InvalidInputError, match=r"column 'list' of .* holds list<.*> values, which csv can't"):
        append_columns(source, tmp_path / "out.csv", columns=NewColumns(["p"], ["q"], third))
    with pytest.raises(InvalidInputError, match=r"column 'raw' of .* can't be written as JSON \(it holds bytes\)"):
        append_columns(source, tmp_path / "out.jsonl", columns=NewColumns(["p"], ["q"], third))
    pq.write_table(rich_table.select(["p", "raw"]), source)
    with pytest.raises(InvalidInputError, match=r"in\.parquet can't be written as csv \(Invalid UTF8 payload\)"):
        append_columns(source, tmp_path / "out.csv", columns=NewColumns(["p"], ["q"], third))
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_a_type_that_parquet_lacks_is_not_called_a_broken_file(tmp_path: Path) -> None:
    span = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    source = pa.table({"p": [0.75], "span": span})
    for suffix in ("parquet", "csv", "jsonl"):
        with pytest.raises(InvalidInputError, match=f"the table can't be written as {suffix}"):
            append_columns(source, tmp_path / f"out.{suffix}", columns=NewColumns(["p"], ["q"], third))


def test_a_dictionary_of_each_row_group_becomes_values_in_an_arrow_file(tmp_path: Path) -> None:
    kinds = pa.table({"p": [0.75, 1.5], "kind": pa.array(["a", "b"]).dictionary_encode()})
    pq.write_table(kinds, tmp_path / "t.parquet", row_group_size=1)
    append_columns(tmp_path / "t.parquet", tmp_path / "t.arrow", columns=NewColumns(["p"], ["q"], third))
    assert read_columns(tmp_path / "t.arrow").to_pydict() == {"p": [0.75, 1.5], "kind": ["a", "b"], "q": [0.25, 0.5]}
