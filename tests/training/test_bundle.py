"""The bundle of a run: new bars and rows get the bits that the run's own test part has, and nobody's future."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import calibrant as cb
from calibrant.cli import main
from calibrant.errors import (
    CalibrantError,
    ColumnOrderError,
    DataWarning,
    DocumentError,
    InvalidInputError,
    InvalidTypeError,
    UnknownNameError,
)
from calibrant.training.bars import Bars, as_bars, default_bars
from calibrant.training.bundle import Prediction
from calibrant.training.config import TrainConfig
from calibrant.training.features import WARM_UP_BARS, bar_features
from calibrant.training.models import MODELS
from calibrant.training.refresh import refresh_run
from calibrant.training.run_folder import Run, load_run
from calibrant.training.training_run import run_dataset, run_predictions, run_stack, run_training

pytestmark = pytest.mark.usefixtures("undrawn")

CLASSES = (-1, 0, 1)
SYMBOLS = ("A", "B")
#: What a run may do to a model's output: undo class weights or not, calibrate or not.
WAYS: dict[str, dict[str, Any]] = {
    "calibrated": {"calibrate": "always"},
    "used if better": {"calibrate": "if_better", "seed": 1},
    "weights undone, calibrated": {"calibrate": "always", "class_weight": "balanced"},
    "weights undone, used if better": {"calibrate": "if_better", "class_weight": "balanced", "seed": 1},
    "specified": {"calibrator": "specified", "class_weight": "balanced"},
}
#: Each way with one model of trees and one of none, and each model with class weights and without.
RUNS = [
    (model, way)
    for model in MODELS
    for way in WAYS
    if model in ("lightgbm", "logistic") or way in ("calibrated", "weights undone, used if better")
]


@pytest.fixture(scope="module")
def table(make_table: Callable[..., pa.Table]) -> pa.Table:
    return make_table(700, SYMBOLS)


@pytest.fixture(scope="module")
def run(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = TrainConfig(model="lightgbm", horizon=8, class_weight="balanced", calibrate="always")
    return run_training(config, bars=as_bars(table), root=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def stack(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = TrainConfig(horizon=8, class_weight="balanced")
    bars, root = as_bars(table), tmp_path_factory.mktemp("runs")
    return run_stack(config, ["xgboost", "logistic"], bars=bars, variant="blocks", n_folds=3, root=root)


def probabilities(frame: pd.DataFrame, prefix: str = "p") -> bytes:
    return frame[[f"{prefix}_{label}" for label in CLASSES]].to_numpy().tobytes()


def check_test_part(run: Run, found: Prediction) -> None:
    """Check that the rows of the test part have the bits and the order that they have in the run's predictions."""
    expected = pq.read_table(run.path / "predictions.parquet").to_pandas()
    of_test = found.to_frame("pandas").merge(expected[["time", "symbol"]], on=["time", "symbol"])
    assert of_test[["time", "symbol"]].equals(expected[["time", "symbol"]])
    for prefix in ("raw", "p"):
        assert probabilities(of_test, prefix) == probabilities(expected, prefix)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "way"), RUNS)
def test_bars_get_the_bits_of_the_test_part(model: str, way: str, table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(model=model, horizon=8, params={"C": 1e-4} if model == "logistic" else {}, **WAYS[way])
    run = load_run(run_training(config, bars=as_bars(table), root=tmp_path).path)
    check_test_part(run, run.predict(table, raw=True))
    check_test_part(run, run.predict(as_bars(table), raw=True))
    (said,) = (line for line in run.bundle.describe() if line.startswith(model))
    assert ("class weights undone" in said) == (config.class_weight == "balanced")
    assert run.metrics["calibration"]["decision"] in said


@pytest.mark.slow
def test_some_of_these_runs_leave_their_calibrator_out(table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(model="xgboost", horizon=8, **WAYS["weights undone, used if better"])
    run = run_training(config, bars=as_bars(table), root=tmp_path)
    assert run.metrics["calibration"]["used"] is False
    assert "class weights undone, calibrator left out" in str(run.bundle)
    undone, none = run.calibrator.steps
    assert (none.n_rows_, none.metadata_) == (0, {})
    assert run.calibrator.metadata_["decision"].startswith("calibrator left out")
    raw = run.predict(table, raw=True).raw
    assert run.predict(table).prob.tobytes() == run.calibrator.predict_proba(raw).tobytes()
    np.testing.assert_allclose(run.predict(table).prob, undone.predict_proba(raw), rtol=1e-14)


@pytest.mark.slow
def test_a_stack_is_predicted_by_the_average_that_it_is_judged_by(stack: Run, table: pa.Table) -> None:
    check_test_part(stack, stack.predict(table, raw=True))
    said = str(stack.bundle)
    assert "xgboost" in said
    assert "logistic" in said
    assert "plain average of the 2 models" in said


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["json", "pkl"])
def test_saved_calibrators_are_the_deployed_maps(suffix: str, stack: Run) -> None:
    table = pq.read_table(stack.path / "predictions.parquet").to_pandas()
    parts = []
    for name in ("xgboost", "logistic"):
        saved = cb.load(stack.path / "checkpoints" / name / f"calibrator.{suffix}")
        raw, p = (table[[f"{prefix}_{name}_{label}" for label in CLASSES]].to_numpy() for prefix in ("raw", "p"))
        parts.append(saved.predict_proba(raw))
        assert parts[-1].tobytes() == p.tobytes()
    assert np.mean(parts, axis=0).tobytes() == probabilities(table)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_live_predictions_are_those_of_the_backtest(model: str, tmp_path: Path) -> None:
    """100 days of real bars of five stocks, each as it was known on that day, and from as few bars as are needed.

    Features are the same for all models, so those but one are looked at on some of these days.
    """
    bars = default_bars()
    run = run_training(replace(TrainConfig(), model=model, calibrate="always"), bars=bars, root=tmp_path)
    whole = run.predict(bars).to_frame("pandas").set_index(["time", "symbol"])
    names = np.repeat(bars.symbols, np.diff(bars.starts))
    columns = {name: getattr(bars, name) for name in ("time", "open", "high", "low", "close", "volume")}
    frame = pa.table({"symbol": names.tolist(), **columns, "adj_close": bars.close})
    days = np.random.default_rng(0).choice(np.unique(bars.time)[WARM_UP_BARS:], 100, replace=False)
    for day in days if model == "lightgbm" else days[:10]:
        known = frame.filter(pa.array(bars.time <= day))
        starts = np.concatenate(([0], np.cumsum(np.unique(known["symbol"].to_numpy(), return_counts=True)[1])))
        enough = [s for s in range(len(starts) - 1) if starts[s + 1] - starts[s] >= WARM_UP_BARS]
        rows = np.concatenate([np.arange(starts[s], starts[s + 1]) for s in enough])
        least = np.concatenate([np.arange(starts[s + 1] - WARM_UP_BARS, starts[s + 1]) for s in enough])
        for some in (rows, least):
            last = run.predict(known.take(some), last=True).to_frame("pandas").set_index(["time", "symbol"])
            assert len(last) == len(enough)
            assert probabilities(last) == probabilities(whole.loc[last.index])


def test_rows_without_a_finished_label_are_predicted_too(run: Run, table: pa.Table) -> None:
    bars = as_bars(table)
    found, data = run.predict(bars), run_dataset(run.config, bars)
    assert found.n_rows == bars.n_rows - len(SYMBOLS) * (WARM_UP_BARS - 1)
    assert found.time.max() == bars.time.max() > data.time.max()
    last = run.predict(bars, last=True)
    assert last.symbol.tolist() == list(SYMBOLS)
    assert (last.time == bars.time.max()).all()
    assert last.prob.tobytes() == found.prob[-len(SYMBOLS) :].tobytes()
    assert last.raw is None
    assert (found.run_id, found.n_left_out) == (run.run_id, 0)


def test_features_are_taken_by_name_with_times_and_symbols_beside_them(run: Run, table: pa.Table) -> None:
    bars = as_bars(table)
    X, names = bar_features(bars)
    kept = np.isfinite(X).all(axis=1)
    symbol = np.repeat(SYMBOLS, np.diff(bars.starts))[kept]
    frame = pd.DataFrame(X[kept], columns=names)[list(names[::-1])].assign(time=bars.time[kept], symbol=symbol)
    expected = run.predict(bars)
    for container in (frame, pl.DataFrame(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        found = run.predict(container)
        assert found.prob.tobytes() == expected.prob.tobytes()
        assert found.symbol.tolist() == expected.symbol.tolist()
        assert (found.time == expected.time).all()
    bare = run.predict(frame.drop(columns=["time", "symbol"]), last=True)
    assert (bare.time, bare.symbol, bare.n_rows) == (None, None, 1)
    assert list(bare.to_frame("pandas")) == ["p_-1", "p_0", "p_1"]
    for wrong, said in (
        (frame.drop(columns="range"), "X lacks 'range'"),
        (frame.assign(spread=0.0), "X has 'spread' besides"),
        (frame.rename(columns={"gap": "jump"}), "X lacks 'gap' and has 'jump' besides"),
    ):
        with pytest.raises(ColumnOrderError, match=re.escape(said)):
            run.predict(wrong)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_times_of_any_unit_are_datetimes_in_frames(unit: str) -> None:
    times = np.array(["2026-01-01", "2026-01-02"], dtype=f"datetime64[{unit}]")
    found = Prediction("run", np.array([0, 1]), np.full((2, 2), 0.5), time=times)
    expected = [pd.Timestamp("2026-01-01"), pd.Timestamp("2026-01-02")]
    assert found.to_frame("pandas")["time"].tolist() == expected
    assert "2026-01-02" in str(found)


def test_bars_that_say_too_little_are_refused(run: Run, table: pa.Table, tmp_path: Path) -> None:
    short = pa.concat_tables([table.slice(0, 700), table.slice(700, WARM_UP_BARS - 1)])
    with pytest.raises(CalibrantError, match=r"too few bars of 'B' \(60\): features look back over 61 bars"):
        run.predict(short)
    assert run.predict(pa.concat_tables([table.slice(0, 700), table.slice(700, WARM_UP_BARS)]), last=True).n_rows == 2
    lacking = f"{run.run_id} was trained on 'volume', which these bars don't give. Pass bars with a column 'volume'"
    with pytest.raises(ColumnOrderError, match=re.escape(lacking)):
        run.predict(table.drop_columns("volume"))
    with pytest.raises(UnknownNameError, match="has no column 'time'"):
        run.predict(table.drop_columns("time"))
    without = run_training(
        replace(run.config, calibrate="auto"), bars=as_bars(table.drop_columns("volume")), root=tmp_path
    )
    one, other = (without.predict(bars).prob for bars in (table, table.drop_columns("volume")))
    assert one.tobytes() == other.tobytes()


def every(table: pa.Table, hours: int) -> pa.Table:
    """Return the same bars of one symbol so many hours apart."""
    one = table.slice(0, 700)
    time = np.datetime64("2020-01-01T00", "us") + np.arange(700) * np.timedelta64(hours, "h")
    return one.set_column(one.schema.get_field_index("time"), "time", pa.array(time))


def test_bars_of_another_length_than_those_of_the_training_are_refused(run: Run, table: pa.Table) -> None:
    for hours, said in ((1, "hour"), (7 * 24, "7 days")):
        refused = f"bars has a bar every {said}, and {run.run_id} was trained on one every day"
        with pytest.raises(InvalidInputError, match=refused):
            run.predict(every(table, hours))
        with pytest.raises(InvalidInputError, match=refused):
            refresh_run(run, every(table, hours))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CalibrantError, match=r"Pass|Wait"):  # one bar has no length, and is too little all the same
            refresh_run(run, table.slice(0, 1))
    assert run.predict(every(table, 23)).n_rows == run.predict(table.slice(0, 700)).n_rows


def test_prices_that_are_adjusted_in_training_alone_or_since_are_told(
    run: Run, table: pa.Table, tmp_path: Path
) -> None:
    adjusted = table.append_column("adj_close", table["close"])
    with pytest.warns(
        DataWarning, match="bars: these are adjusted for splits and dividends .*, and those of training weren't"
    ):
        found = run.predict(adjusted)
    assert found.prob.tobytes() == run.predict(table).prob.tobytes()
    other = run_training(replace(run.config, calibrate="auto"), bars=as_bars(adjusted), root=tmp_path)
    with pytest.warns(DataWarning, match="bars: those of training are adjusted .*, and these aren't: in what isn't"):
        other.predict(table)
    assert other.predict(adjusted).n_rows == found.n_rows


def test_times_are_of_the_kind_of_those_of_the_training(run: Run, table: pa.Table, tmp_path: Path) -> None:
    features = pa.table({name: [0.01] for name in run.bundle.features})
    with pytest.raises(InvalidTypeError, match="column 'time' holds int64 values, not times of bars"):
        run.predict(features.append_column("time", pa.array([3])))
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=600), "y": rng.random(600) < 0.5, "day": np.arange(600)})
    dated = frame.assign(day=np.datetime64("2020-01-01") + np.arange(600))
    config = TrainConfig(model="logistic", table="own", label="y", time="day")
    for own, other, said in ((frame, dated, ("dates", "numbers")), (dated, frame, ("numbers", "dates"))):
        trained = run_training(config, table=own, root=tmp_path)
        refused = f"column 'day' of .* has times that are {said[0]}, and those of {trained.run_id} are {said[1]}"
        with pytest.raises(InvalidTypeError, match=refused):
            trained.predict(other)
        with pytest.raises(InvalidTypeError, match=refused):
            refresh_run(trained, other)


def test_a_market_that_stands_still_is_left_out_and_named(run: Run, table: pa.Table) -> None:
    still = table.slice(700).to_pandas()
    still.loc[still.index[-30:], ["open", "high", "low", "close"]] = 50.0
    bars = as_bars(pa.concat_tables([table.slice(0, 700), pa.Table.from_pandas(still, table.schema)]))
    found = run.predict(bars)
    assert found.n_left_out == 20  # from where ten bars had no move, and so no volatility
    assert "20 bars left out: nothing moved before" in str(found)
    with pytest.warns(DataWarning, match="the last bar of B has no features, as nothing moved before it"):
        last = run.predict(bars, last=True)
    assert (last.symbol.tolist(), last.n_left_out) == (["A"], 1)
    with (
        pytest.warns(DataWarning, match="the last bar of B"),
        pytest.raises(CalibrantError, match="has no row to predict: nothing moved"),
    ):
        run.predict(pa.Table.from_pandas(still, table.schema), last=True)


@pytest.mark.parametrize(
    "name", ["checkpoints/model.txt", "checkpoints/calibrator.json", "config.toml", "metrics.json"]
)
def test_a_run_that_was_changed_predicts_nothing(
    name: str, make_bars: Callable[..., Bars], table: pa.Table, tmp_path: Path
) -> None:
    run = run_training(TrainConfig(model="lightgbm", horizon=8), bars=make_bars(500), root=tmp_path)
    file = run.path / name
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(DocumentError, match=r"is missing or was changed after the run\. Train the model again"):
        load_run(run.path).predict(table)


@pytest.mark.slow
def test_a_run_of_a_table_predicts_tables(table: pa.Table, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 1_200
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame.loc[::7, "b"] = np.nan
    frame["when"] = np.datetime64("2021-01-01") + np.arange(n)
    frame["known"] = frame["when"] + np.timedelta64(3, "D")
    frame["side"] = np.where(frame["a"] + rng.normal(size=n) > 0.5, "up", "down")
    config = TrainConfig(
        model="xgboost", table="own", label="side", time="when", label_end="known", class_weight="balanced"
    )
    run = load_run(run_training(config, table=frame, root=tmp_path).path)
    expected = pq.read_table(run.path / "predictions.parquet").to_pandas()
    new = frame.drop(columns=["side", "known"])[["c", "when", "b", "a"]].sample(frac=1.0, random_state=0)
    found = run.predict(new, raw=True)
    assert found.symbol is None
    of_test = found.to_frame("pandas").merge(expected[["time"]], on="time")
    for prefix in ("raw", "p"):
        names = [f"{prefix}_down", f"{prefix}_up"]
        assert of_test[names].to_numpy().tobytes() == expected[names].to_numpy().tobytes()
    assert run.predict(new, last=True).time.tolist() == [frame["when"].max()]
    with pytest.raises(UnknownNameError, match="has no column 'b'"):
        run.predict(new.drop(columns="b"))
    with pytest.warns(DataWarning, match=r"has 1 column that .* was not trained on, and that is not used: 'd'"):
        assert run.predict(new.assign(d=1.0)).prob.tobytes() == found.prob.tobytes()
    with pytest.raises(ColumnOrderError, match="which these bars don't give"):
        run.predict(as_bars(table))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_classifier_of_ones_own_predicts_as_in_the_test_part(table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(model="sklearn.neural_network:MLPClassifier", horizon=8, params={"max_iter": 5})
    path = run_training(config, bars=as_bars(table), root=tmp_path).path
    known = ["sklearn.neural_network._stochastic_optimizers.AdamOptimizer"]
    run = load_run(path, trusted=known)
    check_test_part(run, run.predict(table, raw=True))
    pq.write_table(table, tmp_path / "bars.parquet")
    words = ["predict", str(path), "--data", str(tmp_path / "bars.parquet"), "-o", str(tmp_path / "o.parquet")]
    assert f"If it is your own: --trust {known[0]}" in CliRunner().invoke(main, words).stderr
    assert CliRunner().invoke(main, [*words, "--trust", *known]).exit_code == 0
    written = pq.read_table(tmp_path / "o.parquet").to_pandas()
    assert probabilities(written) == probabilities(run.predict(table).to_frame("pandas"))
    one = run.predict(table, last=True)
    assert one.prob.tobytes() == run.predict(table).prob[-len(SYMBOLS) :].tobytes()


@pytest.mark.slow
def test_a_run_of_predictions_calibrates_new_ones(stack: Run, tmp_path: Path) -> None:
    given = pq.read_table(stack.path / "oof.parquet").to_pandas()
    columns = {name: tuple(f"raw_{name}_{label}" for label in CLASSES) for name in ("xgboost", "logistic")}
    config = TrainConfig(table="oof", label="y", time="time", label_end="label_end", symbol="symbol", score=columns)
    run = load_run(run_predictions(config, table=given, root=tmp_path).path)
    check_test_part(run, run.predict(given[["time", "symbol", *sum(columns.values(), ())][::-1]], raw=True))
    with pytest.raises(UnknownNameError, match="has no column 'raw_logistic_0'"):
        run.predict(given.drop(columns="raw_logistic_0"))


@pytest.mark.slow
def test_a_missing_feature_that_a_model_does_not_take_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"])
    frame["when"] = np.datetime64("2021-01-01") + np.arange(600)
    frame["y"] = (frame["a"] + rng.normal(size=600) > 0.0).astype(int)
    run = run_training(TrainConfig(model="logistic", table="t", label="y", time="when"), table=frame, root=tmp_path)
    frame.loc[7, "b"] = np.nan
    with pytest.raises(CalibrantError, match="feature 'b' is missing in 1 of 600 rows, first in that of 2021-01-08"):
        run.predict(frame)
