"""Commands on folders, on databases, and on files of more rows than memory is asked to hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import calibrant as cb
from calibrant.cli import large

Run = Callable[..., Result]


@pytest.fixture
def parts(folder: Path, binary: pa.Table) -> Path:
    (folder / "parts").mkdir()
    for i in range(3):
        pq.write_table(binary.slice(200 * i, 200), folder / "parts" / f"{i}.parquet")
    with duckdb.connect(str(folder / "scores.duckdb")) as connection:
        connection.register("given", binary)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return folder / "parts"


@pytest.mark.parametrize("source", ["parts", "scores.duckdb"])
def test_a_folder_and_a_database_are_measured_and_fitted_like_one_file(run: Run, parts: Path, source: str) -> None:
    one, many = (json.loads(run(f"evaluate {name} --weight w --json").output) for name in ("scores.parquet", source))
    assert many["scores"] == one["scores"]
    run(f"fit {source} --method isotonic -o many.json")
    run("fit scores.parquet --method isotonic -o one.json")
    assert (cb.load("many.json").map_.y == cb.load("one.json").map_.y).all()
    assert run(f"report {source} -o r.html").exit_code == 0


def test_apply_to_a_folder_writes_parts_and_keeps_those_that_are_there(run: Run, parts: Path) -> None:
    run("fit scores.parquet --method beta -o c.json")
    done = run("apply c.json parts -o out")
    assert done.output == "Wrote out: 600 rows with p_calibrated in 3 parts\n"
    run("apply c.json scores.parquet -o one.parquet")
    found = pa.concat_tables([pq.read_table(path) for path in sorted(Path("out").glob("*.parquet"))])
    assert found.equals(pq.read_table("one.parquet"))
    (Path("out") / "1.parquet").unlink()
    assert run("apply c.json parts -o out").output.endswith(
        "200 rows with p_calibrated in 3 parts; 2 were there already\n"
    )
    run("fit scores.parquet --method isotonic -o d.json")
    assert "holds an apply of another calibrator" in run("apply d.json parts -o out").output


def test_files_of_too_many_rows_are_fitted_and_measured_in_passes(
    run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = json.loads(run("evaluate scores.parquet --json").output)
    monkeypatch.setattr(large, "MANY", 500)
    many = json.loads(run("evaluate scores.parquet --json").output)
    assert many["scores"] == one["scores"]
    assert run("evaluate scores.parquet --max ece=0.0001").exit_code == 1
    done = run("fit scores.parquet --method isotonic -o many.json")
    assert "Fitted IsotonicCalibrator() to 600 rows in passes over scores.parquet" in done.output
    wanted = cb.IsotonicCalibrator().fit(binary["p"].to_numpy(), binary["y"].to_numpy())
    grid = np.linspace(0.0, 1.0, 101)
    np.testing.assert_array_equal(cb.load("many.json").predict_proba(grid), wanted.predict_proba(grid))
    assert run("apply many.json scores.csv -o out.csv").exit_code == 0
