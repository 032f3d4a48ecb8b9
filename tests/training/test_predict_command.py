"""calibrant predict: new rows of a file to probabilities in a file, whole; and what runs say of themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import calibrant as cb
from calibrant.cli import main
from calibrant.training.bars import as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.run_folder import Run, load_run
from calibrant.training.training_run import run_stack, run_training

pytestmark = pytest.mark.usefixtures("undrawn")

P = ["p_-1", "p_0", "p_1"]


@pytest.fixture(scope="module")
def folder(make_table: Callable[..., pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with bars, and a run of them whose calibrator was left out."""
    folder = tmp_path_factory.mktemp("predict")
    table = make_table(600, ("A", "B"), seed=5)
    pq.write_table(table, folder / "bars.parquet")
    pc.write_csv(table, folder / "bars.csv")
    config = TrainConfig(model="logistic", horizon=8, calibrate="if_better", params={"C": 1e-4})
    run_training(config, bars=as_bars(table), root=folder / "runs")
    return folder


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(folder)
    (path,) = Path("runs").iterdir()
    return load_run(path)


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["predict", *map(str, words), "--runs", "runs"], catch_exceptions=False)


def test_files_hold_what_python_gives(run: Run) -> None:
    expected = run.predict("bars.parquet", raw=True).to_frame("pandas")
    for source, output in (("bars.parquet", "o.parquet"), ("bars.csv", "o.csv"), ("bars.parquet", "o.csv.gz")):
        done = call("last", "--data", source, "-o", output, "--raw")
        assert done.output == f"Wrote {output}: 1,080 rows predicted by {run.run_id}\n"
        read = cb.tables.read_columns(output).to_pandas()
        assert list(read) == list(expected)
        assert read[["time", "symbol"]].astype(str).equals(expected[["time", "symbol"]].astype(str))
        assert read[P].to_numpy().tobytes() == expected[P].to_numpy().tobytes()
        raw = [name.replace("p_", "raw_") for name in P]
        assert read[raw].to_numpy().tobytes() == expected[raw].to_numpy().tobytes()


def test_the_last_rows_go_to_standard_output(run: Run) -> None:
    done = call(run.run_id, "--data", "bars.parquet", "-o", "-", "--last")
    read = pc.read_csv(pa.BufferReader(done.stdout.encode())).to_pandas()
    assert read["symbol"].tolist() == ["A", "B"]
    assert read[P].to_numpy().tobytes() == run.predict("bars.csv").prob[-2:].tobytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x", "--data", "bars.csv", "-o", "o.csv"), "no run in runs is called 'x'. See: calibrant runs list."),
        (("last", "--data", "bars.csv", "-o", "bars.csv"), "-o bars.csv is the file that is read. Write to another"),
        (("last", "--data", "bars.csv", "-o", "o.xlsx"), "the name of o.xlsx doesn't say what to write."),
        (("last", "--data", "bars.csv", "-o", "none/o.csv"), "there is no folder"),
        (("last", "--data", "short.csv", "-o", "o.csv"), "short.csv has too few bars of 'A' (40): features look back"),
        (("last", "--data", "unpriced.csv", "-o", "o.csv"), "unpriced.csv has no column 'close'."),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_the_old_file(words: tuple[str, ...], said: str, run: Run) -> None:
    table = pq.read_table("bars.parquet")
    pc.write_csv(table.slice(0, 40), "short.csv")
    pc.write_csv(table.drop_columns("close"), "unpriced.csv")
    Path("o.csv").write_text("old")
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    done = call(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    assert run.path.is_dir()


def test_times_with_a_zone_are_written_in_utc_and_stand_out_beside_others(run: Run) -> None:
    """Written without a word of the zone, they were off by hours for who joins them to his rows."""
    bars = pq.read_table("bars.parquet").to_pandas()
    bars["time"] = pd.to_datetime(bars["time"]).dt.tz_localize("Asia/Tokyo")
    bars.to_parquet("tokyo.parquet")
    before = call("last", "--data", "bars.parquet", "-o", "o.csv")
    assert "zone" not in before.stderr
    for output in ("o.parquet", "o.csv", "o.jsonl"):
        done = call("last", "--data", "tokyo.parquet", "-o", output)
        assert f"times have a time zone, and those of {run.run_id} have none: what has none is taken" in done.stderr
        read = pd.to_datetime(cb.tables.read_columns(output).to_pandas()["time"], utc=False)
        assert str(read.dt.tz) == "UTC"
        assert read.min() == bars["time"].sort_values().iloc[120]
    run_training(run.config, bars=as_bars(bars), root="zoned")
    (zoned,) = Path("zoned").iterdir()
    for name in ("predictions", "oof", "equity"):
        table = pq.read_table(zoned / f"{name}.parquet")
        zones = {
            column: str(table.schema.field(column).type)
            for column in ("time", "label_end")
            if column in table.column_names
        }
        assert set(zones.values()) == {"timestamp[us, tz=UTC]"}, name
    assert "zone" not in call(zoned, "--data", "tokyo.parquet", "-o", "o.parquet").stderr
    for library in ("pandas", "polars", "pyarrow"):
        found = load_run(zoned).predict("tokyo.parquet").to_frame(library)
        assert pa.table(found)["time"].cast(pa.timestamp("us", "UTC")).equals(pq.read_table("o.parquet")["time"])
        assert "UTC" in str(pa.table(found).schema.field("time").type)
    done = call(zoned, "--data", "bars.csv", "-o", "o.csv")
    assert f"bars.csv: times have no time zone, and those of {zoned.name} have one" in done.stderr


def test_nothing_is_written_into_the_run(run: Run) -> None:
    done = call("last", "--data", "bars.csv", "-o", run.path / "metrics.json")
    assert done.exit_code == 2
    assert f"is inside of {run.run_id}, which stays as it is" in done.stderr
    run.check()


def test_a_calibrator_that_is_left_out_says_so(run: Run) -> None:
    assert run.metrics["calibration"]["used"] is False
    for suffix in ("json", "pkl"):
        done = CliRunner().invoke(main, ["inspect", str(run.path / "checkpoints" / f"calibrator.{suffix}")])
        assert re.search(r"^decision +calibrator left out \(temperature [\d.]+\): on blocks in time", done.stdout, re.M)
        assert re.search(r"^fitted to +0 rows$", done.stdout, re.M)


@pytest.mark.slow
def test_all_models_of_a_stack_are_shown(folder: Path, tmp_path: Path) -> None:
    bars = as_bars(pq.read_table(folder / "bars.parquet"))
    models = ["logistic", "hist_gradient_boosting"]
    stack = run_stack(TrainConfig(horizon=8), models, bars=bars, variant="blocks", n_folds=2, root=tmp_path)
    done = CliRunner().invoke(main, ["runs", "show", "last", "--runs", str(tmp_path)])
    assert f"{stack.run_id}: models logistic, hist_gradient_boosting, horizon 8," in done.stdout
    assert "model xgboost" not in done.stdout
    found = stack.predict(bars)
    assert isinstance(found.to_frame("pandas"), pd.DataFrame)
    np.testing.assert_allclose(found.prob.sum(axis=1), 1.0, rtol=1e-12)
