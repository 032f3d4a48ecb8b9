"""Maps applied on Spark: its own SQL or Python beside it, the same probabilities."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.engines import apply, fit
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    UnknownNameError,
)

N = 600


def rows(n: int = N) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    p = rng.beta(1.0, 3.0, n)
    columns = {"id": np.arange(n), "p": p, "y": rng.random(n) < p**1.4, "na{me}": ["`x`"] * n}
    z = rng.dirichlet([1.0, 2.0, 3.0], n)
    return columns | {f"c{k}": z[:, k] for k in range(3)} | {"label": (rng.random(n)[:, None] > z.cumsum(1)).sum(1)}


@cache
def calibrators() -> list[tuple[str, Any, list[str]]]:
    found = rows(20_000)
    binary = [cb.SigmoidCalibrator(), cb.BetaCalibrator(), cb.HistogramCalibrator(n_bins=20), cb.IsotonicCalibrator()]
    several = [cb.TemperatureCalibrator(), cb.OneVsRestCalibrator(coupling="likelihood")]
    scores = np.column_stack([found[f"c{k}"] for k in range(3)])
    return [
        *((type(c).__name__, c.fit(found["p"], found["y"]), ["p"]) for c in binary),
        ("large", cb.VennAbersCalibrator().fit(found["p"], found["y"]), ["p"]),
        *((type(c).__name__, c.fit(scores, found["label"]), ["c0", "c1", "c2"]) for c in several),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("at", range(7))
def test_a_data_frame_gets_the_probabilities_of_memory_and_keeps_what_it_has(spark: Any, at: int) -> None:
    """Maps of a few numbers become SQL; one with many, and one without a closed form, run in Python."""
    name, calibrator, inputs = calibrators()[at]
    table = pa.table(rows())
    found = apply(calibrator, spark.createDataFrame(table).repartition(3), score=inputs)
    is_python = "ArrowEvalPython" in found._jdf.queryExecution().toString()
    assert is_python == (name in ("large", "OneVsRestCalibrator"))
    got = found.toArrow().sort_by("id")
    assert got.column_names[: table.num_columns] == table.column_names
    assert got.select(table.column_names).equals(table)
    scores = np.column_stack([table[name] for name in inputs])
    wanted = calibrator.predict_proba(scores[:, 0] if len(inputs) == 1 else scores).reshape(N, -1)
    new = got.column_names[table.num_columns :]
    assert new == (["p_calibrated"] if len(inputs) == 1 else [f"p_calibrated_{k}" for k in range(3)])
    values = np.column_stack([got[name] for name in new])
    assert np.abs(values - wanted).max() <= (0.0 if is_python else 1e-12)


def test_python_is_sent_the_inputs_alone(spark: Any) -> None:
    """So columns of types that it can't be sent stay as they are."""
    table = pa.table(rows())
    p, y = table["p"].to_numpy(), table["y"].to_numpy()
    frame = spark.createDataFrame(table).selectExpr("*", "make_interval(0, 0, 0, 1) AS wait")
    got = apply(cb.VennAbersCalibrator().fit(p, y), frame, score="p")
    assert got.columns == [*frame.columns, "p_calibrated"]
    assert got.selectExpr("sum(extract(DAY FROM wait)) AS days", "count(p_calibrated) AS n").collect() == [(N, N)]


@pytest.mark.parametrize("groups", [["007", "\u00e9'", "${x}"], [0, 7, -3]], ids=["text", "numbers"])
def test_groups_are_no_scores(spark: Any, groups: list[Any], tmp_path: Path) -> None:
    """Text groups are never read as numbers, and numbers of groups don't hide scores that are refused."""
    table = pa.table(rows()).append_column("g", pa.array([groups[i % 3] for i in range(N)]))
    p, by_row = table["p"].to_numpy(), table["g"].to_pylist()
    calibrator = cb.GroupedCalibrator("sigmoid").fit(p, table["y"].to_numpy(), groups=by_row)
    calibrator.score_names_, calibrator.group_name_ = ("p",), "g"
    frame = spark.createDataFrame(table).repartition(2)
    got = apply(calibrator, frame).toArrow().sort_by("id")
    assert np.array_equal(got["p_calibrated"], calibrator.predict_proba(p, groups=by_row))
    assert apply(calibrator, frame, tmp_path / "out").n_rows == N
    with pytest.raises(InvalidProbabilityError, match=r"1\.5 is outside \[0, 1\].*That is one of 1 of 600 rows"):
        apply(calibrator, frame.selectExpr("*", "if(id = 7, 1.5, p) as q"), score="q")


def test_tables_and_folders_come_and_go(spark: Any, tmp_path: Path) -> None:
    table = pa.table(rows())
    calibrator = fit(cb.IsotonicCalibrator(), table)
    spark.createDataFrame(table).repartition(3).createOrReplaceTempView("scored")
    done = apply(calibrator, spark, tmp_path / "out", table="scored", column="q")
    assert (done.n_rows, done.n_parts) == (N, len(list((tmp_path / "out").glob("part-*.parquet"))))
    got = pq.read_table(tmp_path / "out").sort_by("id")
    np.testing.assert_allclose(got["q"], calibrator.predict_proba(table["p"].to_numpy()), rtol=0, atol=1e-12)
    with pytest.raises(InvalidInputError, match=r"out is not empty: it holds .*Pass a new folder"):
        apply(calibrator, spark, tmp_path / "out", table="scored")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="file is a file"):
        apply(calibrator, spark, tmp_path / "file", table="scored")
    with pytest.raises(InvalidInputError, match="Name a table of it with table="):
        apply(calibrator, spark)
    with pytest.raises(InvalidInputError, match="knows no table 'scord'"):
        apply(calibrator, spark, table="scord")
    with pytest.raises(InvalidInputError, match="Name a target to write"):
        apply(calibrator, table)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [
        ({"p": [0.1, None, float("nan"), 0.5]}, InvalidScoreError, r"of 4 rows: 2 in column 'p'"),
        ({"p": [0.1, 1.5, -0.5, 0.5]}, InvalidProbabilityError, r"1.5 is outside \[0, 1\].*one of 2 of 4 rows"),
        ({"p": ["0.1", "0.2", None, "x"]}, InvalidTypeError, r"column 'p' row 0: '0.1' is not a number"),
        ({"q": [0.1, 0.2]}, UnknownNameError, "the Spark data frame has no column 'p'"),
        ({"p": [0.1], "p_calibrated": [0.2]}, InvalidInputError, "already has a column 'p_calibrated'"),
    ],
)
def test_what_can_not_be_used_is_refused_before_anything_is_written(
    spark: Any, tmp_path: Path, columns: dict[str, Any], kind: type[CalibrantError], said: str
) -> None:
    calibrator = fit(cb.SigmoidCalibrator(), rows())
    with pytest.raises(kind, match=said):
        apply(calibrator, spark.createDataFrame(pa.table(columns)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_rows_of_probabilities_that_do_not_sum_to_one_are_counted(spark: Any) -> None:
    _, calibrator, inputs = calibrators()[5]
    frame = spark.createDataFrame(pa.table({"c0": [0.5, 0.5, 0.2], "c1": [0.2, 0.9, 0.2], "c2": [0.3, 0.0, 0.2]}))
    with pytest.raises(CalibrantError, match=r"sum.*one of 2 of 3 rows of the Spark data frame"):
        apply(calibrator, frame, score=inputs)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 4, 6])
def test_rows_without_a_score_have_no_probability_or_are_left_out(spark: Any, tmp_path: Path, at: int) -> None:
    """In SQL and in Python, for nulls and for NaN, which Spark takes for the largest number."""
    _, calibrator, inputs = calibrators()[at]
    columns = rows()
    lacks = np.arange(N) % 7 == 3
    scores = pa.array(columns[inputs[0]], mask=lacks & (np.arange(N) % 2 == 0))
    table = pa.table({**columns, inputs[0]: scores})
    values = np.where(lacks & (np.arange(N) % 2 == 1), np.nan, scores.to_numpy(zero_copy_only=False))
    table = table.set_column(
        table.column_names.index(inputs[0]), inputs[0], pa.array(values, mask=np.asarray(scores.is_null()))
    )
    frame = spark.createDataFrame(table).repartition(3)
    with pytest.raises(InvalidScoreError, match=rf"{lacks.sum()} in column .*Pass --missing keep \(missing='keep'"):
        apply(calibrator, frame, score=inputs)
    new = [name for name in apply(calibrator, frame, score=inputs, missing="keep").columns if "p_calibrated" in name]
    got = apply(calibrator, frame, score=inputs, missing="keep").toArrow().sort_by("id")
    wanted = calibrator.predict_proba(np.column_stack([columns[name][~lacks] for name in inputs]).squeeze())
    assert np.array_equal(np.asarray(got[new[0]].is_null()), lacks)
    kept = np.column_stack([np.asarray(got[name])[~lacks] for name in new])
    np.testing.assert_allclose(kept, wanted.reshape(len(kept), -1), rtol=0, atol=1e-12)
    skipped = apply(calibrator, frame, score=inputs, missing="skip").toArrow().sort_by("id")
    assert skipped["id"].to_pylist() == np.flatnonzero(~lacks).tolist()
    done = apply(calibrator, frame, tmp_path / "out", score=inputs, missing="skip")
    assert (done.n_rows, done.n_missing) == (N - lacks.sum(), lacks.sum())
