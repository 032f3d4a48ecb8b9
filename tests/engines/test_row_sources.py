"""Any source of rows: the same summary from each, and refusals that say where and how many."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.engines import open_rows, summarise
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    MissingPackageError,
    ShapeError,
    UnknownNameError,
)

N = 3_000


def make_rows(n: int = N) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    p = np.round(rng.beta(1.0, 3.0, n), 3)
    return {"id": np.arange(n), "p": p, "y": (rng.random(n) < p).astype(np.int64)}


ROWS = make_rows()
TABLE = pa.table(ROWS)
EXPECTED = cb.ScoreSummary.from_arrays(ROWS["p"], ROWS["y"])


def parquet_folder(folder: Path) -> Path:
    (folder / "b").mkdir(parents=True)
    pq.write_table(TABLE.slice(0, 1_000), folder / "a.parquet", row_group_size=300)
    pq.write_table(TABLE.slice(0, 0), folder / "b" / "0.parquet")
    pq.write_table(TABLE.slice(1_000), folder / "b" / "c.parquet")
    (folder / "_notes.txt").write_text("not a table")
    (folder / ".hidden.parquet").write_bytes(b"junk")
    return folder


def csv_folder(folder: Path) -> Path:
    folder.mkdir()
    pc.write_csv(TABLE.slice(0, 10), folder / "1.csv")
    pc.write_csv(TABLE.slice(10), folder / "2.csv")
    return folder


def json_file(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "rows.jsonl"
    pl.from_arrow(TABLE).write_ndjson(path)
    return path


def database(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "scores.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", TABLE)
        connection.execute("CREATE TABLE scores AS SELECT * FROM given")
    return path


def relation(_: Path) -> Any:
    connection = duckdb.connect()
    connection.register("given", TABLE)
    return connection.sql("SELECT p, y, id FROM given")


def connection(_: Path) -> Any:
    found = duckdb.connect()
    found.register("given", TABLE)
    return found


SOURCES: dict[str, Callable[[Path], Any]] = {
    "folder of Parquet": parquet_folder,
    "folder of CSV": csv_folder,
    "JSON lines": json_file,
    "DuckDB database": database,
    "DuckDB relation": relation,
    "DuckDB connection": connection,
    "columns": lambda _: ROWS,
    "Arrow table": lambda _: TABLE,
    "Arrow reader": lambda _: TABLE.to_reader(700),
    "Arrow dataset": lambda folder: ds.dataset(parquet_folder(folder) / "a.parquet"),
    "pandas": lambda _: pd.DataFrame(ROWS),
    "polars": lambda _: pl.DataFrame(ROWS),
    "polars, lazy": lambda _: pl.DataFrame(ROWS).lazy(),
    "function": lambda _: lambda: TABLE.to_reader(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_summary_of_the_rows_in_memory_bit_for_bit(name: str, tmp_path: Path) -> None:
    found = summarise(SOURCES[name](tmp_path / "source"))
    expected = EXPECTED
    if name == "Arrow dataset":
        expected = cb.ScoreSummary.from_arrays(ROWS["p"][:1_000], ROWS["y"][:1_000])
    assert isinstance(found, cb.ScoreSummary)
    for got, wanted in zip(found.distinct, expected.distinct, strict=True):
        np.testing.assert_array_equal(got, wanted)


def write(folder: Path, **columns: Any) -> Path:
    """Write three files, the second of which holds the given columns in place of good ones."""
    folder.mkdir()
    good = {"p": [0.25, 0.5, 0.75], "y": [0, 1, 1]}
    for i, table in enumerate((good, {**good, **columns}, good)):
        pq.write_table(pa.table(table), folder / f"{i}.parquet")
    return folder


@pytest.mark.parametrize(
    ("columns", "kind", "text"),
    [
        (
            {"p": [0.5, None, 0.5]},
            InvalidScoreError,
            r"column 'p' of .*1\.parquet row 1: missing value \(1 of 3 rows\)",
        ),
        ({"p": [0.5, 0.5, np.nan]}, InvalidScoreError, r"column 'p' of .*1\.parquet row 2: missing value"),
        (
            {"p": [0.5, 1.5, 0.5]},
            InvalidProbabilityError,
            r"column 'p' of .*1\.parquet row 1: 1\.5 is outside \[0, 1\]",
        ),
        ({"p": ["a", "b", "c"]}, InvalidTypeError, r"column 'p' of .*1\.parquet"),
        ({"y": [0, None, 1]}, InvalidLabelError, r"column 'y' of .*1\.parquet row 1: missing label"),
        ({"y": [0, 2, 1]}, InvalidLabelError, r"column 'y' of .*1\.parquet row 1: unknown label 2"),
        ({"y": ["no", "yes", "no"]}, InvalidLabelError, r"column 'y' of .*1\.parquet row 0: unknown label 'no'"),
    ],
)
def test_what_one_file_of_many_holds_wrong_is_refused_with_its_place(
    columns: dict[str, Any], kind: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=text):
        summarise(write(tmp_path / "f", **columns))


def test_missing_values_are_counted_to_the_end_of_the_source(tmp_path: Path) -> None:
    folder = write(tmp_path / "f", p=[0.5, None, np.nan])
    pq.write_table(pa.table({"p": [None, 0.5], "y": [0, None]}), folder / "3.parquet")
    with pytest.raises(InvalidScoreError, match=r"to the end of .*f: 3 in column 'p', 1 in column 'y'\.\)"):
        summarise(folder)


def test_a_row_beyond_the_first_batch_says_where_rows_are_counted_from(tmp_path: Path) -> None:
    p = np.full(300_000, 0.5)
    p[250_000] = 2.0
    pq.write_table(pa.table({"p": p, "y": np.arange(p.size) % 2}), tmp_path / "t.parquet")
    with pytest.raises(InvalidProbabilityError) as error:
        summarise(tmp_path / "t.parquet")
    row, first = (
        int(re.search(text, str(error.value))[1].replace(",", "")) for text in (r"row (\d+)", r"row ([\d,]+) of")
    )  # type: ignore[index]
    assert row + first == 250_000


def test_a_file_without_the_column_or_broken_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "f")
    pq.write_table(pa.table({"q": [0.5], "y": [1]}), folder / "1.parquet")
    with pytest.raises(UnknownNameError, match=r"1\.parquet has no column 'p'"):
        summarise(folder)
    (folder / "1.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(InvalidInputError, match=r"1\.parquet can't be read, or is broken"):
        summarise(folder)


def test_sources_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="holds no table"):
        summarise(tmp_path / "empty")
    with pytest.raises(InvalidInputError, match="there is no file"):
        summarise(tmp_path / "nothing.csv")
    with pytest.raises(InvalidTypeError, match="source is a int, which holds no rows"):
        summarise(3)
    with pytest.raises(InvalidInputError, match="can't be made a table"):
        summarise({"p": [0.5], "y": [0, 1]})
    with pytest.raises(ShapeError, match="has no rows"):
        summarise(TABLE.slice(0, 0))
    with pytest.raises(InvalidInputError, match=r"table='t' is for a DuckDB database"):
        summarise(ROWS, table="t")
    mixed = csv_folder(tmp_path / "mixed")
    pq.write_table(TABLE, mixed / "3.parquet")
    with pytest.raises(InvalidInputError, match="mixes formats"):
        summarise(mixed)


def test_a_database_of_two_tables_asks_which(tmp_path: Path) -> None:
    path = database(tmp_path / "d")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE other AS SELECT 1 AS p")
    with pytest.raises(InvalidInputError, match="holds 2 tables: 'other', 'scores'"):
        summarise(path)
    with pytest.raises(UnknownNameError, match="Did you mean 'scores'"):
        summarise(path, table="score")
    assert summarise(path, table="scores").total_weight == N


def test_tables_of_any_schema_are_named_as_the_list_names_them(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE SCHEMA raw; CREATE TABLE raw.scores AS SELECT .1 AS p, 0 AS y UNION ALL SELECT .9, 1"
        )
    for table in (None, "raw.scores", "s.raw.scores", "RAW.Scores"):
        assert summarise(path, table=table).total_weight == 2
    with pytest.raises(UnknownNameError, match=r"'scores'\. Did you mean 'raw\.scores'"):
        summarise(path, table="scores")
    with duckdb.connect(str(path)) as connection:
        connection.execute("""CREATE TABLE scores AS SELECT 0.5 AS p, 1 AS y; CREATE SCHEMA "a.b";""")
        connection.execute("""CREATE TABLE "a.b"."of ""May""\" AS SELECT * FROM raw.scores""")
    listed = ['a.b.of "May"', "scores", "raw.scores"]
    with pytest.raises(InvalidInputError, match=re.escape(f"holds 3 tables: {', '.join(map(repr, listed))}.")):
        summarise(path)
    assert [summarise(path, table=name).total_weight for name in listed] == [2, 1, 2]


def test_tables_of_attached_databases_are_not_those_of_a_connection(tmp_path: Path) -> None:
    path = database(tmp_path / "d")
    connection = duckdb.connect()
    connection.execute(f"ATTACH '{path}' AS other (READ_ONLY)")
    assert summarise(connection).total_weight == N, "the only one"
    connection.execute("CREATE TABLE scores AS SELECT 0.5 AS p, 1 AS y")
    assert summarise(connection).total_weight == summarise(connection, table="SCORES").total_weight == 1
    assert summarise(connection, table="other.main.scores").total_weight == N
    connection.execute("CREATE TEMPORARY TABLE scores AS SELECT 0.5 AS p, 1 AS y UNION ALL SELECT .6, 0")
    with pytest.raises(InvalidInputError, match=r"holds 2 tables: 'scores', 'memory\.main\.scores'"):
        summarise(connection)
    assert summarise(connection, table="scores").total_weight == 2, "as in DuckDB"
    assert summarise(connection, table="memory.main.scores").total_weight == 1


def test_a_broken_database_and_a_missing_package_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(b"junk" * 2_000)
    with pytest.raises(InvalidInputError, match=r"x\.duckdb can't be opened by DuckDB"):
        summarise(path)
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'calibrant\[duckdb\]'"):
        summarise(path)


@pytest.mark.parametrize("label", [[1], {"a": 1}, []], ids=repr)
def test_labels_that_are_lists_or_records_are_refused(label: Any) -> None:
    with pytest.raises(InvalidLabelError, match=r"column 'y' of the table row 0: .* is not a label"):
        summarise(pa.table({"p": [0.5] * 4, "y": [label] * 4}), label="y", score="p")


def test_runs_of_equal_values_are_read_as_the_values() -> None:
    ends = pa.array([2, 3, 4], pa.int32())
    runs = {"p": [0.25, 0.5, 0.75], "y": ["a", "b", "a"]}
    table = pa.table({name: pa.RunEndEncodedArray.from_arrays(ends, pa.array(runs[name])) for name in runs})
    found = summarise(table, label="y", score="p").distinct
    assert found.weight.tolist() == [2.0, 1.0, 1.0]
    assert found.positives.tolist() == [0.0, 1.0, 0.0]


def test_a_stream_is_read_once_whatever_its_first_labels_are() -> None:
    p, y = np.linspace(0.0, 1.0, 1_000), np.repeat(["no", "yes"], 500)
    found = summarise(pa.table({"p": p, "y": y}).to_reader(100))
    np.testing.assert_array_equal(found.positives, np.repeat([0.0, 1.0], 500))


def test_groups_come_apart_and_so_do_classes() -> None:
    rng = np.random.default_rng(1)
    P = rng.dirichlet(np.ones(3), 500)
    y, g = rng.integers(0, 3, 500), rng.choice(["b", "a", "c"], 500)
    source = pa.table({"p0": P[:, 0], "p1": P[:, 1], "p2": P[:, 2], "y": y, "g": g}).to_reader(50)
    found = summarise(source, score="p*", group="g")
    assert list(found) == ["a", "b", "c"]
    for name, by_class in found.items():
        assert list(by_class) == [0, 1, 2]
        for k, summary in by_class.items():
            at = g == name
            wanted = cb.ScoreSummary.from_rows(np.ascontiguousarray(P[at, k]), y[at] == k, None)
            for got, expected in zip(summary.distinct, wanted.distinct, strict=True):
                np.testing.assert_array_equal(got, expected)


def test_groups_of_two_kinds_in_text_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "1.csv").write_text("p,y,g\n0.5,0,1\n0.5,1,2\n")
    (folder / "2.csv").write_text("p,y,g\n0.5,0,x\n")
    with pytest.raises(InvalidLabelError, match=r"column 'g' of .*2\.csv mixes kinds of groups: 'x' here, 1 before"):
        summarise(folder, group="g")


def test_weights_sum_to_rounding_and_zero_is_no_row() -> None:
    rng = np.random.default_rng(2)
    w = rng.exponential(size=N) * (rng.random(N) < 0.8)
    w[:600] = 0.0  # batches of nothing else
    found = summarise(pa.table({**ROWS, "w": w}).to_reader(200), weight="w")
    wanted = cb.ScoreSummary.from_arrays(ROWS["p"], ROWS["y"], sample_weight=w)
    np.testing.assert_array_equal(found.scores, wanted.scores)
    for got, expected in zip(found.distinct[1:], wanted.distinct[1:], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13)
    with pytest.raises(InvalidWeightError, match=r"column 'w' of the table row 0: -1\.0 is negative"):
        summarise(pa.table({**ROWS, "w": np.full(N, -1.0)}), weight="w")
    with pytest.raises(InvalidInputError, match="no row with weight"):
        summarise(pa.table({**ROWS, "w": np.zeros(N)}), weight="w")


def test_errors_are_ours() -> None:
    for source in (None, 1.5, object(), [1, 2]):
        with pytest.raises(CalibrantError):
            summarise(source)


def test_folders_named_like_a_value_are_a_column(tmp_path: Path) -> None:
    table = pa.table({**ROWS, "city": np.where(ROWS["id"] % 3 == 0, "New York/JFK", "Rome"), "year": ROWS["id"] % 2})
    pq.write_to_dataset(table, tmp_path / "h", partition_cols=["city", "year"])
    source = open_rows(tmp_path / "h")
    assert source.names[-2:] == ("city", "year")
    found = summarise(tmp_path / "h", group="city")
    assert list(found) == ["New York/JFK", "Rome"]
    at = ROWS["id"] % 3 == 0
    wanted = cb.ScoreSummary.from_arrays(ROWS["p"][at], ROWS["y"][at])
    for got, expected in zip(found["New York/JFK"].distinct, wanted.distinct, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert list(summarise(tmp_path / "h", group="year")) == [0, 1]
    years = [batch.table["year"] for batch in source.scan(["year"])]
    assert sum(len(column) for column in years) == N
    assert {str(column.type) for column in years} == {"int64"}
    calibrator = cb.engines.fit(cb.IsotonicCalibrator(), tmp_path / "h")
    cb.engines.apply(calibrator, tmp_path / "h", tmp_path / "out")
    assert cb.engines.summarise(tmp_path / "out", score="p_calibrated", group="year").keys() == {0, 1}


def test_a_missing_value_of_a_folder_is_refused_and_folders_must_agree(tmp_path: Path) -> None:
    for name in ("g=a", "g=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "h" / name).mkdir(parents=True)
        pq.write_table(TABLE.slice(0, 10), tmp_path / "h" / name / "0.parquet")
    with pytest.raises(CalibrantError, match=r"column 'g' of .*missing"):
        summarise(tmp_path / "h", group="g")
    (tmp_path / "h" / "k=1").mkdir()
    pq.write_table(TABLE.slice(0, 10), tmp_path / "h" / "k=1" / "0.parquet")
    with pytest.raises(InvalidInputError, match=r"name different columns: \['g'\] of .*, \['k'\] of"):
        summarise(tmp_path / "h")


def test_labels_groups_and_weights_of_a_relation_may_be_sums_which_are_hugeint() -> None:
    with duckdb.connect() as connection:
        connection.register("rows", TABLE)
        sums = connection.sql("SELECT p, sum(y) AS y, sum(1) AS w, sum(id % 3) AS g FROM rows GROUP BY p, id")
        assert set(map(str, sums.types[1:])) == {"HUGEINT"}
        found = cb.engines.evaluate(sums, weight="w", group="g")
    expected = cb.engines.evaluate(TABLE.append_column("g", pa.array(ROWS["id"] % 3)), group="g")
    assert set(found.groups) == {0, 1, 2}
    assert str(found) == str(expected)
