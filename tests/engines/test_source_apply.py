"""Calibrated probabilities beside any source, and a long apply that is killed and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.engines import apply, summarise
from calibrant.errors import InvalidInputError, InvalidProbabilityError, NotFittedError, UnknownNameError
from calibrant.tables import write_table

ROWS = 4_000


def fitted() -> cb.IsotonicCalibrator:
    rng = np.random.default_rng(0)
    p = rng.random(500)
    calibrator = cb.IsotonicCalibrator().fit(p, rng.random(500) < p)
    calibrator.score_names_ = ("p",)
    return calibrator


def write_source(folder: Path, n_files: int = 3) -> Path:
    folder.mkdir()
    for i in range(n_files):
        rng = np.random.default_rng(i)
        table = pa.table({"id": np.arange(ROWS), "p": rng.random(ROWS), "text": ["x" * (i + 1)] * ROWS})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=500)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to_reader(300), lambda t: lambda: t.to_reader(300)])
@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_any_source_is_written_whole_with_the_new_column(make: Any, name: str, tmp_path: Path) -> None:
    table = pa.table({"p": np.linspace(0.0, 1.0, 1_000), "id": np.arange(1_000)})
    calibrator = fitted()
    done = apply(calibrator, make(table), tmp_path / name)
    found = cb.engines.read_columns(tmp_path / name)
    assert done.n_rows == 1_000
    assert found.column_names == ["p", "id", "p_calibrated"]
    wanted = calibrator.predict_proba(table["p"].to_numpy())
    np.testing.assert_allclose(found["p_calibrated"].to_numpy(), wanted, rtol=1e-15)


NO_ROWS = pa.table({"id": pa.array([], pa.int32()), "city": pa.array([], pa.string()), "p": pa.array([], pa.float32())})


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t,
        lambda t: t.to_reader(),
        lambda t: lambda: t.to_reader(),
        lambda t: lambda: t.to_pandas(),
        lambda t: {name: t[name].combine_chunks() for name in t.column_names},
        lambda t: duckdb.from_arrow(t),
        lambda t: pyarrow.dataset.dataset(t),
    ],
    ids=["table", "reader", "function", "function of a frame", "mapping", "relation", "dataset"],
)
@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_a_source_without_rows_keeps_its_columns_and_gets_the_new_one(make: Any, name: str, tmp_path: Path) -> None:
    done = apply(fitted(), make(NO_ROWS), tmp_path / name)
    assert (done.n_rows, done.n_missing) == (0, 0)
    if name == "out.parquet":
        found = pq.read_table(tmp_path / name).schema
        assert found.names == ["id", "city", "p", "p_calibrated"]
        wanted = [pa.int32(), pa.string(), pa.float32(), pa.float64()]
        assert [t if t != pa.large_string() else pa.string() for t in found.types] == wanted
    else:
        assert (tmp_path / name).read_text() == ('"id","city","p","p_calibrated"\n' if name == "out.csv" else "")


def test_a_source_without_rows_must_have_the_columns(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="the table has no column 'p'"):
        apply(fitted(), NO_ROWS.drop_columns(["p"]), tmp_path / "o.csv")


@pytest.mark.parametrize("data", ["", "\n"])
def test_json_lines_without_rows_stay_so_alone_and_among_others(data: str, tmp_path: Path) -> None:
    empty, target = tmp_path / "a" / "a.jsonl", tmp_path / "o.jsonl"
    empty.parent.mkdir()
    empty.write_text(data)
    assert apply(fitted(), empty, target).n_rows == 0
    assert target.read_text() == data
    with pytest.raises(InvalidInputError, match=r"a\.jsonl is empty: it has no row\."):
        apply(fitted(), empty, tmp_path / "o.csv")
    (empty.parent / "b.jsonl").write_text('{"p": 0.5, "y": 1}\n')
    assert apply(fitted(), empty.parent, tmp_path / "parts").n_rows == 1
    assert (tmp_path / "parts" / "a.jsonl").read_text() == data
    assert summarise(empty.parent, classes=[0, 1]).total_weight == 1.0


def test_a_folder_becomes_a_folder_of_the_same_files(tmp_path: Path) -> None:
    source = write_source(tmp_path / "in")
    done = apply(fitted(), source, tmp_path / "out")
    assert (done.n_rows, done.n_parts, done.n_kept) == (3 * ROWS, 3, 0)
    for i in range(3):
        before, after = (pq.read_table(tmp_path / side / f"{i}.parquet") for side in ("in", "out"))
        assert after.drop_columns("p_calibrated").equals(before)
        wanted = fitted().predict_proba(before["p"].to_numpy())
        np.testing.assert_array_equal(after["p_calibrated"].to_numpy(), wanted)


def test_a_second_run_redoes_only_what_is_missing(tmp_path: Path) -> None:
    source = write_source(tmp_path / "in")
    apply(fitted(), source, tmp_path / "out", part_rows=1_000)
    whole = contents(tmp_path / "out")
    assert len(whole) == 3 * 4 + 1
    (tmp_path / "out" / "1-00002.parquet").unlink()
    done = apply(fitted(), source, tmp_path / "out", part_rows=1_000)
    assert (done.n_rows, done.n_parts, done.n_kept) == (1_000, 12, 11)
    assert contents(tmp_path / "out") == whole


KILLED = """\
import os, signal, sys
import calibrant as cb
calibrator = cb.load(sys.argv[1])
calibrator.score_names_ = ("p",)
def progress(n_rows):
    if n_rows >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
cb.engines.apply(calibrator, sys.argv[2], sys.argv[3], part_rows=1_000, progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_groups_that_folders_name_are_those_of_the_fit(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    p, groups = rng.random(900), np.repeat(["007", "é/ ", "b"], 300)
    source = tmp_path / "in"
    for name, folder in (("007", "g=007"), ("é/ ", "g=%C3%A9%2F%20"), ("b", "g=b")):
        (source / folder).mkdir(parents=True)
        write_table(pa.table({"p": p[groups == name]}), source / folder / f"0.{suffix}")
    calibrator = cb.GroupedCalibrator().fit(p, rng.random(900) < p ** np.repeat([1, 2, 3], 300), groups=groups)
    calibrator.score_names_, calibrator.group_name_ = ("p",), "g"
    apply(calibrator, source, tmp_path / "out")
    for name, folder in (("007", "g=007"), ("é/ ", "g=%C3%A9%2F%20"), ("b", "g=b")):
        found = cb.engines.read_columns(tmp_path / "out" / folder / f"0.{suffix}")
        assert found.column_names == ["p", "p_calibrated"]
        wanted = calibrator.predict_proba(p[groups == name], groups=[name] * 300)
        np.testing.assert_allclose(found["p_calibrated"].to_numpy(), wanted, rtol=1e-15)
    with pytest.raises(InvalidInputError, match="already has a column 'g'"):
        apply(calibrator, source, tmp_path / "other", column="g")


def test_rows_whose_folder_names_no_group_lack_one(tmp_path: Path) -> None:
    p = np.random.default_rng(3).random(900)
    calibrator = cb.GroupedCalibrator().fit(p, p > 0.5, groups=np.repeat([1, 2, 3], 300))
    calibrator.score_names_, calibrator.group_name_ = ("p",), "g"
    for folder in ("g=1", "g=__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"p": p[:10]}), tmp_path / "in" / folder / "0.parquet")
    with pytest.raises(InvalidInputError, match=r"HIVE_DEFAULT.*: column 'g' row 0: missing value"):
        apply(calibrator, tmp_path / "in", tmp_path / "out")
    assert apply(calibrator, tmp_path / "in", tmp_path / "kept", missing="keep").n_missing == 10


def test_killed_in_the_middle_of_parts_it_ends_with_the_same_bytes(tmp_path: Path) -> None:
    source = write_source(tmp_path / "in")
    calibrator = fitted()
    cb.save(calibrator, tmp_path / "c.json")
    again = cb.load(tmp_path / "c.json")
    again.score_names_ = ("p",)
    apply(again, source, tmp_path / "whole", part_rows=1_000)
    target = tmp_path / "out"
    for n_rows in (500, 2_500):  # in the first half of a part, and again in that of a later one
        args = [sys.executable, "-c", KILLED, str(tmp_path / "c.json"), str(source), str(target), str(n_rows)]
        done = subprocess.run(args, check=False, env=dict(os.environ), capture_output=True)
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()
        assert list(target.rglob(".calibrant-*.part")), "it was killed between parts"
    before = {name: (target / name).stat().st_mtime_ns for name in contents(target) if name.endswith(".parquet")}
    assert before.keys() >= {"0-00000.parquet", "0-00001.parquet"}
    last = apply(again, source, target, part_rows=1_000)
    assert last.n_kept == sum(not name.startswith(".") for name in before)
    assert contents(target) == contents(tmp_path / "whole")
    assert all((target / name).stat().st_mtime_ns == t for name, t in before.items() if not name.startswith("."))


def test_parts_of_something_else_are_not_mixed_in(tmp_path: Path) -> None:
    source = write_source(tmp_path / "in")
    apply(fitted(), source, tmp_path / "out")
    other = cb.IsotonicCalibrator().fit([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="holds parts made by something else than calibrator"):
        apply(other, source, tmp_path / "out", score="p")
    with pytest.raises(InvalidInputError, match="holds parts made with other new columns"):
        apply(fitted(), source, tmp_path / "out", column="q")
    with pytest.raises(InvalidInputError, match="holds parts made of another size"):
        apply(fitted(), source, tmp_path / "out", part_rows=1_000)
    os.utime(source / "2.parquet", ns=(1, 1))
    with pytest.raises(InvalidInputError, match="holds parts made of another source, or one that has changed since"):
        apply(fitted(), source, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("x")
    with pytest.raises(InvalidInputError, match=r"is not empty: it holds precious\.txt"):
        apply(fitted(), source, tmp_path / "mine")
    (tmp_path / "out" / "_calibrant.json").write_text("{")
    with pytest.raises(InvalidInputError, match="is broken"):
        apply(fitted(), source, tmp_path / "out")


def test_a_corrupt_file_among_good_ones_is_named_and_nothing_half_written(tmp_path: Path) -> None:
    source = write_source(tmp_path / "in")
    table = pq.read_table(source / "1.parquet")
    bad = table.set_column(1, "p", pa.array(np.where(np.arange(ROWS) == 3_333, 7.0, 0.5)))
    pq.write_table(bad, source / "1.parquet", row_group_size=500)
    with pytest.raises(InvalidProbabilityError, match=r"1\.parquet: column 'p' row 333: 7\.0 is outside.*row 3,000"):
        apply(fitted(), source, tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == ["0.parquet", "_calibrant.json"]
    (source / "1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InvalidInputError, match=r"1\.parquet can't be read, or is broken"):
        apply(fitted(), source, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_text_files_keep_their_bytes_and_the_manifest_says_what_was_done(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text('id,p\r\n007,"0.25"\r\n')
    done = apply(fitted(), source, tmp_path / "out", column="q")
    assert done.n_parts == 1
    text = (tmp_path / "out" / "a.csv").read_bytes()
    assert text.startswith(b'id,p,q\r\n007,"0.25",')
    manifest = json.loads((tmp_path / "out" / "_calibrant.json").read_text())
    assert manifest["outputs"] == ["q"]
    assert [part["part"] for part in manifest["parts"]] == ["a.csv"]


def test_what_apply_cannot_use_is_refused(tmp_path: Path) -> None:
    rows = {"p": [0.5], "q": [0.5]}
    with pytest.raises(NotFittedError):
        apply(cb.IsotonicCalibrator(), rows, tmp_path / "o.csv")
    plain = cb.IsotonicCalibrator().fit([0.1, 0.9], [0, 1])
    with pytest.raises(InvalidInputError, match="doesn't say which columns"):
        apply(plain, rows, tmp_path / "o.csv")
    with pytest.raises(InvalidInputError, match="doesn't say what to write"):
        apply(fitted(), rows, tmp_path / "o.xyz")
    with pytest.raises(InvalidInputError, match="already has a column 'q'"):
        apply(fitted(), rows, tmp_path / "o.csv", column="q")
    with pytest.raises(InvalidInputError, match="the new column has no name"):
        apply(fitted(), rows, tmp_path / "o.csv", column="")
    source = write_source(tmp_path / "in")
    with pytest.raises(InvalidInputError, match="lies in the source"):
        apply(fitted(), source, source / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="is a file"):
        apply(fitted(), source, tmp_path / "file")
