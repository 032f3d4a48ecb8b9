"""Spark as it is in practice: workers that die, partitions that are empty or skewed, columns that can't be used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import calibrant as cb
from calibrant.engines import apply, evaluate, fit, open_rows, summarise
from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelError,
    InvalidProbabilityError,
    InvalidScoreError,
    InvalidTypeError,
    InvalidWeightError,
    ShapeError,
)

PATIENCE_S = 300.0


def rows(n: int = 4_000) -> pa.Table:
    rng = np.random.default_rng(3)
    p = rng.beta(1.0, 3.0, n)
    return pa.table({"p": p, "y": rng.random(n) < p**1.4})


# --- partitions --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_empty_and_skewed_partitions_change_nothing(spark: Any) -> None:
    table = rows()
    frame = spark.createDataFrame(table).repartitionByRange(3, "p")  # each part has scores of its own
    lone = spark.createDataFrame(table.slice(0, 1))
    skewed = frame.filter("p > 0.9").union(frame.filter("p <= 0.9").coalesce(1)).union(frame.filter("p > 2"))
    summary = cb.ScoreSummary.from_arrays(table["p"].to_numpy(), table["y"].to_numpy(zero_copy_only=False))
    for got, wanted in zip(summarise(skewed, exact=True).distinct, summary.distinct, strict=True):
        np.testing.assert_array_equal(got, wanted)
    found = fit(cb.IsotonicCalibrator(), skewed, max_distinct=500)
    wanted = cb.IsotonicCalibrator().fit_summary(summary)
    np.testing.assert_array_equal(found.map_.x, wanted.map_.x)
    np.testing.assert_array_equal(found.map_.y, wanted.map_.y)
    assert summarise(lone, classes=[False, True]).total_weight == 1.0


@pytest.mark.slow
def test_nothing_at_all_is_refused(spark: Any) -> None:
    frame = spark.createDataFrame(rows(10)).filter("p > 2")
    with pytest.raises(ShapeError, match="the Spark data frame has no rows"):
        summarise(frame)
    with pytest.raises(ShapeError, match="the Spark data frame has no rows"):
        summarise(frame, classes=[False, True])


@pytest.mark.slow
def test_large_results_come_from_the_workers_one_by_one(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import calibrant.tables.spark as engine

    monkeypatch.setattr(engine, "_MOST_BYTES", 0)
    table = rows()
    found = summarise(spark.createDataFrame(table).repartition(3))
    wanted = cb.ScoreSummary.from_arrays(table["p"].to_numpy(), table["y"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(found.positives, wanted.positives)


@pytest.mark.slow
def test_rows_come_to_the_driver_where_these_are_asked_for(spark: Any) -> None:
    table = rows(500)
    found = open_rows(spark.createDataFrame(table).repartition(3)).read(["y", "p"])
    assert found.select(["p", "y"]).sort_by("p").equals(table.sort_by("p"))


@pytest.mark.slow
def test_a_table_of_the_session_is_a_source(spark: Any) -> None:
    table = rows()
    spark.createDataFrame(table).createOrReplaceTempView("scores")
    wanted = cb.evaluate(table["y"].to_numpy(zero_copy_only=False), table["p"].to_numpy())
    assert evaluate(spark, table="scores")["log_loss"].value == wanted["log_loss"].value
    with pytest.raises(InvalidInputError, match="knows no table 'other'"):
        evaluate(spark, table="other")
    with pytest.raises(InvalidInputError, match="Name a table of it with table="):
        evaluate(spark)
    with pytest.raises(InvalidInputError, match="is an endless stream"):
        evaluate(spark.readStream.format("rate").load())
    with pytest.raises(InvalidInputError, match="Leave it out for a data frame"):
        evaluate(spark.table("scores"), table="scores")


# --- columns that can't be used ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "kind", "said"),
    [
        (
            {"p": [0.1, None, float("nan"), 0.4], "y": [0, 1, 1, None], "w": [1.0] * 4},
            InvalidScoreError,
            r"missing or NaN values in the Spark data frame, of 4 rows: 2 in column 'p', 1 in column 'y'\. Pass --",
        ),
        ({"p": [0.1, 0.2], "y": [0, None], "w": [1.0, 1.0]}, InvalidLabelError, r"of 2 rows: 1 in column 'y'"),
        ({"p": [0.1, 0.2], "y": [0, 1], "w": [None, 1.0]}, InvalidWeightError, r"of 2 rows: 1 in column 'w'"),
        ({"p": ["a", "b"], "y": [0, 1], "w": [1.0, 1.0]}, InvalidTypeError, r"column 'p' of .* is not a number"),
        ({"p": [0.1, 0.2], "y": [0.5, 1.5], "w": [1.0, 1.0]}, CalibrantError, r"column 'y' of the Spark data frame"),
        ({"p": [0.1, 0.2], "y": [0, 1], "w": ["x", "y"]}, CalibrantError, r"column 'w' of .* is not a number"),
        (
            {"p": [0.1, 7.0], "y": [0, 1], "w": [1.0, 1.0]},
            InvalidProbabilityError,
            r"column 'p' of partition \d of the Spark data frame row \d: 7.0 is outside \[0, 1\]",
        ),
    ],
)
def test_columns_that_can_not_be_used_are_refused_by_name_and_count(
    spark: Any, columns: dict[str, Any], kind: type[CalibrantError], said: str
) -> None:
    frame = spark.createDataFrame(pa.table(columns))
    with pytest.raises(kind, match=said):
        summarise(frame, weight="w")


# --- workers and drivers that die ----------------------------------------------------------------------------------


def waiting(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Hand rows on, but before the first ones say who does so, and wait until one has been killed."""
    mark = Path(folder)
    for batch in batches:
        if not (mark / "go").exists():
            daemon = os.getppid()
            executor = subprocess.run(["ps", "-o", "ppid=", "-p", str(daemon)], capture_output=True, text=True)
            (mark / "new").write_text(f"{os.getpid()} {executor.stdout.strip()}")
            (mark / "new").rename(mark / "running")
            while not (mark / "go").exists():
                time.sleep(0.05)
        yield batch


def slow(frame: Any, folder: Path) -> Any:
    """Return a frame whose rows come once there is a file `go`."""
    from pyspark import cloudpickle

    from calibrant.tables.spark import mapped

    cloudpickle.register_pickle_by_value(sys.modules[waiting.__module__])  # which workers can't import
    return mapped(frame, partial(waiting, str(folder)), frame.schema)


def wait_for(path: Path, is_running: Callable[[], bool]) -> str:
    until = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert is_running(), f"it ended without {path.name}"
        assert time.monotonic() < until, f"no {path.name}"
        time.sleep(0.05)
    return path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["python worker", "executor"])
def test_a_worker_killed_in_the_middle_of_a_job_changes_nothing(spark: Any, tmp_path: Path, victim: str) -> None:
    table = rows()
    frame = slow(spark.createDataFrame(table).repartition(3), tmp_path)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(fit, cb.IsotonicCalibrator(), frame, max_distinct=500, classes=[False, True])
        worker, executor = map(int, wait_for(tmp_path / "running", job.running).split())
        os.kill(worker if victim == "python worker" else executor, signal.SIGKILL)
        (tmp_path / "go").touch()
        found = job.result(PATIENCE_S)
    wanted = cb.IsotonicCalibrator().fit(table["p"].to_numpy(), table["y"].to_numpy(zero_copy_only=False))
    np.testing.assert_array_equal(found.map_.x, wanted.map_.x)
    np.testing.assert_array_equal(found.map_.y, wanted.map_.y)


DRIVER = """\
import sys
from pathlib import Path
import pyarrow.parquet as pq
sys.path[:0] = sys.argv[1:3]
from spark_session import start
from test_spark_faults import slow
import calibrant as cb
folder = Path(sys.argv[3])
spark = start(folder / "spark", "local[1]")
calibrator = cb.load(folder / "map.json")
frame = spark.createDataFrame(pq.read_table(folder / "rows.parquet")).repartition(2)
from calibrant.engines import spark_columns
quick = spark_columns.with_probabilities
spark_columns.with_probabilities = lambda *args: slow(quick(*args), folder)
cb.engines.apply(calibrator, frame, folder / "out")
"""


@pytest.mark.slow
def test_what_a_killed_driver_left_is_written_anew(spark: Any, tmp_path: Path) -> None:
    table = rows()
    calibrator = fit(cb.SigmoidCalibrator(), table)
    cb.save(calibrator, tmp_path / "map.json")
    pq.write_table(table, tmp_path / "rows.parquet")
    here = Path(__file__).parent
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(here), str(here.parent), str(tmp_path)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(tmp_path / "running", lambda: driver.poll() is None)
    os.killpg(driver.pid, signal.SIGKILL)  # with its Java
    driver.wait()
    left = [path.name for path in (tmp_path / "out").iterdir()]
    assert left == ["_temporary"]
    apply(calibrator, spark.createDataFrame(table), tmp_path / "out")
    got = pq.read_table(tmp_path / "out").sort_by("p")
    assert got.select(["p", "y"]).equals(table.sort_by("p"))
    assert (tmp_path / "out" / "_SUCCESS").exists()
