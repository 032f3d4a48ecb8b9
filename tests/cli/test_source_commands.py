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
from calibrant.cli import data

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


def test_a_table_of_a_database_is_named_and_is_that_file(run: Run, parts: Path) -> None:
    with duckdb.connect("scores.duckdb") as connection:
        connection.execute("CREATE TABLE other AS SELECT p, 1 - y AS y FROM t")
    refused = run("evaluate scores.duckdb")
    assert refused.exit_code == 2
    assert "scores.duckdb holds 2 tables: 'other', 't'. Name one with --table" in refused.output
    one, of_two = (run(f"evaluate {name} --json") for name in ("scores.parquet", "scores.duckdb --table t"))
    assert json.loads(of_two.output)["scores"] == json.loads(one.output)["scores"]
    run("fit scores.duckdb --table t --method isotonic -o c.json")
    assert (
        run("apply c.json scores.duckdb --table t -o out.csv").output == "Wrote out.csv: 600 rows with p_calibrated\n"
    )
    assert "--table 't' is for a DuckDB database, and scores.csv is none" in run("evaluate scores.csv --table t").output
    reference = run("monitor scores.csv --no-labels --reference scores.duckdb --rows 200")
    assert "Write the one that is meant to a file" in reference.output


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
    assert "holds parts made by something else than calibrator" in run("apply d.json parts -o out").output


def test_files_of_too_many_rows_are_fitted_and_measured_in_passes(
    run: Run, binary: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = json.loads(run("evaluate scores.parquet --json").output)
    monkeypatch.setattr(data, "MANY", 500)
    many = json.loads(run("evaluate scores.parquet --json").output)
    assert many["scores"] == one["scores"]
    assert run("evaluate scores.parquet --max ece=0.0001").exit_code == 1
    done = run("fit scores.parquet --method isotonic -o many.json")
    assert "Fitted IsotonicCalibrator() to 600 rows in passes over scores.parquet" in done.output
    wanted = cb.IsotonicCalibrator().fit(binary["p"].to_numpy(), binary["y"].to_numpy())
    grid = np.linspace(0.0, 1.0, 101)
    np.testing.assert_array_equal(cb.load("many.json").predict_proba(grid), wanted.predict_proba(grid))
    assert run("apply many.json scores.csv -o out.csv").exit_code == 0


@pytest.mark.slow
def test_all_options_of_evaluate_and_report_hold_for_too_many_rows(
    run: Run, binary: pa.Table, several: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = binary.append_column("city", pa.array(np.arange(binary.num_rows) % 3))
    pq.write_table(binary, "cities.parquet")
    pq.write_table(several.select(["p_eel", "p_cat", "p_dog", "y"]), "mixed.parquet")
    commands = (
        "evaluate cities.parquet --positive 0 --group city --json",
        "evaluate mixed.parquet --score p_* --json",
        "evaluate cities.parquet --group city --weight w --json",
    )
    wanted = [json.loads(run(command).output) for command in commands]
    reports = ("report cities.parquet --positive 0 --group city --weight w", "report mixed.parquet --score p_*")
    for i, command in enumerate(reports):
        run(f"{command} -o held{i}.json")
    monkeypatch.setattr(data, "MANY", 500)
    for command, document in zip(commands, wanted, strict=True):
        found = json.loads(run(command).output)
        assert found["columns"] == document["columns"]
        assert found["classes"] == document["classes"]
        assert found["positive"] == document["positive"]
        assert list(found["scores"]) == list(document["scores"])
        for name, score in document["scores"].items():
            assert found["scores"][name]["value"] == pytest.approx(score["value"], rel=1e-9), name
        if "groups" in document:
            assert [g["group"] for g in found["groups"]["groups"]] == [g["group"] for g in document["groups"]["groups"]]
    for i, command in enumerate(reports):
        run(f"{command} -o many{i}.json")
        found, document = (json.loads(Path(f"{name}{i}.json").read_text("utf-8")) for name in ("many", "held"))
        assert found["verdict"]["headline"] == document["verdict"]["headline"]
        assert found["data"]["classes"] == document["data"]["classes"]
        assert found["data"]["positive_class"] == document["data"]["positive_class"]
        assert len(found["curve"]["bins"]) == len(document["curve"]["bins"])
    assert "Too many rows for a table of the classes" in run("evaluate mixed.parquet --score p_*").output
    done = run("fit mixed.parquet --score p_* --method top_label -o c.json")
    assert "classes by name: p_cat = 'cat'" in done.output
