"""Faults in the middle of large sources: a full disk, a broken file among good ones, a column of the wrong type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.engines import apply, evaluate, fit, summarise
from calibrant.errors import InvalidInputError, InvalidLabelError, InvalidTypeError, UnknownNameError

SIZES = (1_000, 50_000, 1_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write three files, the second of which is large."""
    source = tmp_path / "in"
    source.mkdir()
    for i, n in enumerate(SIZES):
        rng = np.random.default_rng(i)
        p = rng.random(n)
        pq.write_table(pa.table({"p": p, "y": rng.random(n) < p}), source / f"{i}.parquet")
    return source


@pytest.fixture
def calibrator(folder: Path) -> cb.IsotonicCalibrator:
    return fit(cb.IsotonicCalibrator(), folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


FULL = """\
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.dont_write_bytecode = True
from calibrant.cli.app import main
sys.argv[:] = ["calibrant", *sys.argv[1:]]
sys.exit(main())
"""


def run_on_full_disk(*args: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where no file may grow beyond 200 kB, as on a disk that is then full."""
    pytest.importorskip("resource", reason="limits of files are those of POSIX")
    command = [sys.executable, "-c", FULL, *map(str, args)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_full_disk_leaves_whole_parts_only_and_the_next_run_ends_with_the_same_bytes(
    folder: Path, calibrator: cb.IsotonicCalibrator, tmp_path: Path
) -> None:
    cb.save(calibrator, tmp_path / "c.json", metadata={"score": ["p"]})
    command = ["apply", tmp_path / "c.json", folder, "-o"]
    done = run_on_full_disk(*command, tmp_path / "out")
    assert done.returncode == 2
    assert "1.parquet: File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(contents(tmp_path / "out")) == ["0.parquet", "_calibrant.json"]
    for target in ("out", "whole"):
        again = [sys.executable, "-m", "calibrant", *map(str, command), str(tmp_path / target)]
        last = subprocess.run(again, check=True, capture_output=True, text=True)
        assert ("1 was there already" in last.stdout) == (target == "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_full_disk_leaves_the_old_file_as_it_was(
    folder: Path, calibrator: cb.IsotonicCalibrator, tmp_path: Path, suffix: str
) -> None:
    cb.save(calibrator, tmp_path / "c.json", metadata={"score": ["p"]})
    target = tmp_path / f"o{suffix}"
    target.write_text("precious")
    done = run_on_full_disk("apply", tmp_path / "c.json", folder / "1.parquet", "-o", target)
    assert done.returncode == 2
    assert f"{target}: File too large" in done.stderr
    assert target.read_text() == "precious"
    assert not list(tmp_path.glob(".calibrant-*"))


def test_a_device_is_refused_by_name(folder: Path, calibrator: cb.IsotonicCalibrator) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with pytest.raises(InvalidInputError, match=r"/dev/full is a device\. Pass the name of a file to write"):
        apply(calibrator, folder / "1.parquet", "/dev/full", score="p")


PASSES: dict[str, Callable[[Any], Any]] = {
    "summarise": summarise,
    "evaluate": evaluate,
    "isotonic": lambda source: fit(cb.IsotonicCalibrator(), source, max_distinct=400),
    "sigmoid": lambda source: fit(cb.SigmoidCalibrator(), source, max_distinct=400),
    "temperature": lambda source: fit(cb.TemperatureCalibrator(), source, max_distinct=400),
    "report": cb.Report.from_source,
}


@pytest.mark.parametrize("name", PASSES)
def test_a_broken_file_among_good_ones_is_named_by_all_that_read(name: str, folder: Path) -> None:
    whole = (folder / "1.parquet").read_bytes()
    for at in (30_000, 120_000):  # pages of the first rows, and of later ones
        broken = bytearray(whole)
        broken[at : at + 4_000] = b"\xff" * 4_000
        (folder / "1.parquet").write_bytes(bytes(broken))
        with pytest.raises((InvalidInputError, cb.errors.CalibrantError), match=r"1\.parquet"):
            PASSES[name](folder)
    (folder / "1.parquet").write_bytes(whole[:-1_000])
    with pytest.raises(InvalidInputError, match=r"1\.parquet can't be read, or is broken"):
        PASSES[name](folder)


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize(
    ("column", "values", "kind", "text"),
    [
        ("p", ["high"] * 5, InvalidTypeError, r"column 'p' of .*2\.parquet"),
        ("p", [[0.5]] * 5, InvalidTypeError, r"column 'p' of .*2\.parquet"),
        ("y", ["yes"] * 5, InvalidLabelError, r"column 'y' of .*2\.parquet row 0: unknown label 'yes'"),
    ],
    ids=["text", "lists", "labels"],
)
def test_a_column_of_the_wrong_type_in_one_file_is_named_by_all_that_read(
    name: str, column: str, values: list[Any], kind: type[Exception], text: str, folder: Path
) -> None:
    good: dict[str, list[Any]] = {"p": [0.5] * 5, "y": [True] * 5}
    pq.write_table(pa.table({**good, column: values}), folder / "2.parquet")
    with pytest.raises(kind, match=text):
        PASSES[name](folder)


def test_apply_names_the_file_whose_column_is_of_the_wrong_type_and_keeps_the_parts_before(
    folder: Path, calibrator: cb.IsotonicCalibrator, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"p": ["high"] * 5, "y": [True] * 5}), folder / "2.parquet")
    with pytest.raises(InvalidTypeError, match=r"2\.parquet"):
        apply(calibrator, folder, tmp_path / "out", score="p")
    assert sorted(contents(tmp_path / "out")) == ["0.parquet", "1.parquet", "_calibrant.json"]


@pytest.mark.parametrize("name", PASSES)
def test_a_query_that_fails_on_the_way_is_our_error(name: str) -> None:
    with duckdb.connect() as connection:
        relation = connection.sql(
            "SELECT i / 1e6 AS p, CASE WHEN i > 400_000 THEN CAST('x' || i AS INTEGER) ELSE i % 2 END AS y "
            "FROM range(500_000) t(i)"
        )
        with pytest.raises(InvalidInputError, match=r"the relation can't be read"):
            PASSES[name](relation)


def test_a_connection_names_its_tables_and_says_when_it_is_closed() -> None:
    connection = duckdb.connect()
    with pytest.raises(InvalidInputError, match="the DuckDB connection holds 0 tables: none"):
        summarise(connection)
    connection.execute("CREATE TABLE one AS SELECT i / 10 AS p, i % 2 AS y FROM range(10) r(i)")
    connection.execute("CREATE TABLE two AS SELECT i / 20 AS p, i % 2 AS y FROM range(20) r(i)")
    assert [summarise(connection, table=name).total_weight for name in ("one", "two")] == [10.0, 20.0]
    with pytest.raises(InvalidInputError, match=r"holds 2 tables: 'one', 'two'\. Name one with table="):
        summarise(connection)
    with pytest.raises(UnknownNameError, match="Choose one of: 'one', 'two'"):
        summarise(connection, table="tow")
    connection.close()
    with pytest.raises(InvalidInputError, match="the DuckDB connection can't be read by DuckDB"):
        summarise(connection, table="one")


def test_a_database_column_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 'high' AS p, i % 2 AS y FROM range(10) r(i)")
    with pytest.raises(InvalidTypeError, match="column 'p' of"):
        summarise(path)
    cb_target = tmp_path / "out.parquet"
    plain = cb.IsotonicCalibrator().fit([0.1, 0.9], [0, 1])
    with pytest.raises(InvalidTypeError, match="column 'p'"):
        apply(plain, path, cb_target, score="p")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.duckdb"]
