"""calibrant export: SQL and ONNX of a saved calibrator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from click.testing import Result

import calibrant as cb

Run = Callable[..., Result]


def test_sql_is_printed_and_gives_what_apply_gives(run: Run, binary: pa.Table) -> None:
    run("fit scores.csv --method isotonic -o c.json")
    run("apply c.json scores.csv -o out.csv")
    sql = run("export c.json --table", "read_csv('out.csv')", "--keep", "row, p_calibrated", "--column", "q").stdout
    with duckdb.connect(config={"threads": 1}) as connection:
        found = np.array(connection.execute(sql).fetchall())
    assert len(found) == 600
    assert np.abs(found[:, 1] - found[:, 2]).max() <= 1e-12


def test_sql_of_several_classes_names_them(run: Run, several: pa.Table) -> None:
    run("fit several.parquet --score", "p_*", "--method", "temperature", "-o", "c.json")
    result = run("export c.json --dialect snowflake -o apply.sql")
    assert result.stdout == "Wrote apply.sql\n"
    text = Path("apply.sql").read_text()
    assert text.endswith(";\n")
    for name in ("P_CALIBRATED_CAT", "P_CALIBRATED_DOG", "P_CALIBRATED_EEL", 'CAST("P_EEL" AS DOUBLE)'):
        assert name in text


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_onnx_gives_what_the_calibrator_gives(run: Run, binary: pa.Table, dtype: str) -> None:
    run("fit scores.csv --method beta -o c.json")
    assert run(f"export c.json --dtype {dtype} -o c.onnx").stdout == "Wrote c.onnx\n"
    scores = binary["p"].to_numpy().astype(dtype)
    (found,) = onnxruntime.InferenceSession("c.onnx", providers=["CPUExecutionProvider"]).run(None, {"scores": scores})
    assert np.abs(found - cb.load("c.json").predict_proba(scores.astype(np.float64))).max() <= 1e-7


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("export c.json --to onnx", "an ONNX model is no text to print. Name a file with -o."),
        ("export c.json --to onnx -o m.onnx --keep id", "--keep says nothing for --to onnx. Leave it out."),
        ("export c.json --to sql --dtype float32", "--dtype says nothing for --to sql. Leave it out."),
        ("export c.json --to sql --dialect oracle", "'oracle' is not one of"),
        ("export c.json --to sql --score a,b,c", "has 3 columns, but this calibrator was fitted for the 2"),
        ("export c.json -o c.txt", "c.txt ends in neither .sql nor .onnx. Say what to make by --to sql or --to onnx."),
        ("export c.json --to onnx -o c.json", "-o c.json is the file that is read"),
        ("export nowhere.json --to sql", "nowhere.json"),
    ],
)
def test_what_can_not_be_exported_is_one_line(run: Run, binary: pa.Table, command: str, text: str) -> None:
    run("fit scores.csv --method beta -o c.json")
    result = run(command)
    assert result.exit_code == 2
    assert text in result.stderr
