"""Runs on a table of one's own: real data of scikit-learn, with a row a day in the order of its files."""

from __future__ import annotations

import json
import re
import signal
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from child_runs import in_child, killed_at
from click.testing import CliRunner
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.metrics import accuracy_score, log_loss

from calibrant.cli import main
from calibrant.errors import CalibrantError
from calibrant.tables import read_columns
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import make_dataset
from calibrant.training.feature_leaks import feature_warnings
from calibrant.training.labels import label_bars
from calibrant.training.run_folder import list_runs, load_run
from calibrant.training.sources import open_source
from calibrant.training.training_run import run_stack, run_training

NAMED: dict[str, Any] = {"table": "rows", "label": "y", "time": "t", "label_end": "known"}
DAYS = pd.Timestamp("2020-01-01")


def in_time(frame: pd.DataFrame, days: int = 3) -> pd.DataFrame:
    """Give each row a day, in order, and a label that is known some days later."""
    t = DAYS + pd.to_timedelta(np.arange(len(frame)), unit="D")
    return frame.assign(t=t, known=t + pd.Timedelta(days=days))


def cancer() -> pd.DataFrame:
    data = load_breast_cancer(as_frame=True).frame
    return in_time(data.assign(y=np.where(data.pop("target") == 1, "benign", "malignant")))


def digits() -> pd.DataFrame:
    X, y = load_digits(return_X_y=True)
    return in_time(pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)]).assign(y=y))


def call(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def columns_of(frame: pd.DataFrame, start: str, labels: list[Any]) -> np.ndarray:
    return frame[[f"{start}_{label}" for label in labels]].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        *("xgboost", "lightgbm", "catboost", "hist_gradient_boosting"),
        pytest.param("logistic", marks=pytest.mark.rendered),
    ],
)
@pytest.mark.parametrize("kind", [str, bool, int])
def test_every_library_learns_two_classes_of_any_kind(model: str, kind: type, tmp_path: Path) -> None:
    data = cancer()
    if kind is not str:
        data["y"] = (data.y == "malignant").astype(kind)
    labels = sorted(set(data.y.tolist()))
    run = run_training(TrainConfig(model=model, **NAMED), table=data, root=tmp_path)
    assert run.found["classes"] == labels
    test = pq.read_table(run.path / "predictions.parquet").to_pandas()
    assert "label_return" not in test
    p = columns_of(test, "p", labels)
    figures = run.metrics["test"]["forecasts"]["calibrated"]
    assert figures["log_loss"]["value"] == pytest.approx(log_loss(test.y, p, labels=labels), rel=1e-9)
    assert figures["accuracy"]["value"] == pytest.approx(accuracy_score(test.y, np.array(labels)[p.argmax(axis=1)]))
    assert figures["accuracy"]["value"] > 0.85
    rows = data.iloc[-len(test) :]
    assert load_run(run.path).predict_proba(rows[run.found["features"]]).tobytes() == p.tobytes()
    assert (run.path / "plots" / "classes.png").is_file()
    assert "p_malignant" in (run.path / "report.html").read_text() or kind is not str


@pytest.mark.rendered
@pytest.mark.slow
@pytest.mark.parametrize("model", ["lightgbm", "sklearn.ensemble:ExtraTreesClassifier"])
def test_many_classes_are_learnt_calibrated_and_drawn(model: str, tmp_path: Path) -> None:
    run = run_training(TrainConfig(model=model, **NAMED), table=digits(), root=tmp_path)
    test = pq.read_table(run.path / "predictions.parquet").to_pandas()
    raw, p = (log_loss(test.y, columns_of(test, start, list(range(10)))) for start in ("raw", "p"))
    assert run.metrics["test"]["forecasts"]["raw"]["log_loss"]["value"] == pytest.approx(raw, rel=1e-9)
    assert p < raw
    width, height = struct.unpack(">II", (run.path / "plots" / "classes.png").read_bytes()[16:24])
    assert width < 1_600, "panels are in rows"
    assert height > 1_200


def test_a_class_that_later_parts_lack_is_no_obstacle(tmp_path: Path) -> None:
    data = cancer()
    y = data.y.to_numpy(dtype=object)
    y[:40] = "unknown"
    run = run_training(TrainConfig(model="logistic", **NAMED), table=data.assign(y=y), root=tmp_path)
    assert run.found["classes"] == ["benign", "malignant", "unknown"]
    assert np.isfinite(run.metrics["test"]["forecasts"]["calibrated"]["log_loss"]["value"])


def test_the_settings_in_the_folder_train_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = cancer()
    data.rename(columns={"mean radius": "a, b"}).to_csv("rows.csv.gz", index=False)
    words = ("--table", "rows.csv.gz", "--label", "y", "--time", "t", "--label-end", "known", "--embargo", "2")
    done = call("train", *words, "--model", "hist_gradient_boosting", "--features", 'mean *,"a, b"', "--no-gate")
    assert done.exit_code == 0, done.output
    assert "horizon" not in Path(next(Path("experiments/runs").iterdir()), "config.toml").read_text()
    (first,) = list_runs("experiments/runs")[0]
    assert first.run_id.startswith("hist_gradient_boosting_table_")
    assert len(first.found["features"]) == 10
    assert call("train", "--config", str(first.path / "config.toml"), "--no-gate").exit_code == 0
    runs = list_runs("experiments/runs")[0]
    assert runs[0].metrics["test"] == runs[1].metrics["test"]
    assert runs[0].found["data_sha256"] == runs[1].found["data_sha256"]
    before, after = (pq.read_table(first.path / f"{name}.parquet").to_pandas() for name in ("oof", "predictions"))
    assert after.time.min() - before.label_end.max() > pd.Timedelta(days=2), "an embargo is in steps of the table"
    listed = call("runs", "show", "last")
    assert "label y, table rows.csv.gz, time t, label_end known, features mean * a, b" in listed.stdout


@pytest.mark.parametrize("model", ["xgboost", "lightgbm", "catboost", "hist_gradient_boosting", "logistic"])
def test_missing_features_are_learnt_from_or_refused(model: str, tmp_path: Path) -> None:
    data = cancer()
    data.loc[data.index % 5 == 0, "mean area"] = np.nan
    config = TrainConfig(model=model, **NAMED)
    if model == "logistic":
        said = "feature 'mean area' is missing in 114 of 569 rows, first in that of 2020-01-01T00:00"
        with pytest.raises(CalibrantError, match=re.escape(said)):
            run_training(config, table=data, root=tmp_path)
        assert list_runs(tmp_path) == ([], 0)
    else:
        run = run_training(config, table=data, root=tmp_path)
        assert run.metrics["test"]["forecasts"]["calibrated"]["accuracy"]["value"] > 0.85
        test = pq.read_table(run.path / "predictions.parquet").to_pandas()
        expected = columns_of(test, "p", ["benign", "malignant"]).tobytes()
        rows = data.iloc[-len(test) :]
        assert rows["mean area"].isna().any()
        X = rows[run.found["features"]]
        for new in (X, X.iloc[:, ::-1], pa.Table.from_pandas(X, preserve_index=False), pl.from_pandas(X), X.to_numpy()):
            assert run.predict_proba(new).tobytes() == expected
        assert run.predict(rows).prob.tobytes() == expected
        with pytest.raises(CalibrantError, match="inf is not finite"):
            run.predict_proba(X.assign(**{"mean area": np.inf}))


def test_missing_features_are_refused_by_a_saved_model_that_takes_none(tmp_path: Path) -> None:
    data = cancer()
    for model in ("logistic", "sklearn.naive_bayes:GaussianNB"):
        run = load_run(run_training(TrainConfig(model=model, **NAMED), table=data, root=tmp_path).path)
        rows = data.assign(**{"mean area": np.where(data.index == 7, np.nan, 1.0)})
        with pytest.raises(
            CalibrantError, match=re.escape("feature 'mean area' is missing in 1 of 569 rows, first in")
        ):
            run.predict(rows)
        with pytest.raises(
            CalibrantError, match=re.escape("X row 7, column 'mean area': missing value (1 of 569 rows)")
        ):
            run.predict_proba(rows[run.found["features"]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["days", "zoned", "numbers"])
def test_a_table_without_rows_is_predicted_as_its_columns(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day on which nothing came in is no fault."""
    monkeypatch.chdir(tmp_path)
    data = cancer()[["mean area", "mean texture", "y", "t"]].assign(who=np.resize(["a", "b"], 569))
    if kind == "zoned":
        data["t"] = data["t"].dt.tz_localize("Europe/Rome")
    if kind == "numbers":
        data["t"] = np.arange(569) + 0.5
    config = TrainConfig(model="logistic", table="rows", label="y", time="t", symbol="who")
    run = run_training(config, table=data, root="runs")
    some, none = (run.predict(rows, raw=True) for rows in (data, data.iloc[:0]))
    assert (none.n_rows, none.has_zone, none.to_frame().shape[0]) == (0, some.has_zone, 0)
    data.iloc[:0].to_csv("none.csv", index=False)
    data.to_csv("some.csv", index=False)
    for output in ("o.parquet", "o.csv"):
        assert call("predict", "last", "--data", "some.csv", "-o", output, "--runs", "runs").exit_code == 0
        expected = read_columns(output)
        done = call("predict", "last", "--data", "none.csv", "-o", output, "--runs", "runs", "--last")
        assert done.output == f"Wrote {output}: 0 rows predicted by {run.run_id}\n"
        assert read_columns(output).num_rows == 0
        assert read_columns(output).column_names == expected.column_names
        if output == "o.parquet":
            assert read_columns(output).schema == expected.schema
    Path("lacks.csv").write_text("t,mean area,y,who\n")
    refused = call("predict", "last", "--data", "lacks.csv", "-o", "p.csv", "--runs", "runs")
    assert "lacks.csv has no column 'mean texture'" in refused.output


def test_a_stack_of_a_table_has_members_of_ones_own(tmp_path: Path) -> None:
    models = ["logistic", "sklearn.naive_bayes:GaussianNB"]
    run = run_stack(TrainConfig(model=models[0], **NAMED), models, n_folds=3, table=digits(), root=tmp_path)
    assert list(run.models) == ["logistic", "GaussianNB"]
    test = pq.read_table(run.path / "predictions.parquet").to_pandas()
    labels = list(range(10))
    rows = digits().iloc[-len(test) :][run.found["features"]]
    assert run.predict_proba(rows).tobytes() == columns_of(test, "p", labels).tobytes()
    naive = columns_of(test, "raw_GaussianNB", labels)
    assert naive[np.arange(len(test)), test.y].min() == 0.0
    method = next(one for one in run.metrics["stacking"]["methods"] if one["name"] == "GaussianNB, raw")
    assert method["log_loss"] is None, "it is infinite, and that is no obstacle"
    assert "GaussianNB" not in run.metrics["stacking"]["differences"]
    shown = call("runs", "show", str(run.path))
    assert shown.exit_code == 0, shown.output
    assert re.search(r"^GaussianNB, raw +infinite ", shown.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def market(make_bars: Callable[..., Bars]) -> pd.DataFrame:
    """The rows of a random market, of which nothing can be learnt, as a table of one's own."""
    bars = make_bars(1500)
    data = make_dataset(bars, label_bars(bars, horizon=8), horizon=8)
    beside = {"y": data.y, "t": data.time, "known": data.label_end, "gain": data.label_return}
    return pd.DataFrame({**dict(zip(data.names, data.X.T, strict=True)), **beside})


def warned(table: pd.DataFrame, root: Path, model: str = "xgboost", **settings: Any) -> list[str]:
    run = run_training(TrainConfig(model=model, **{**NAMED, **settings}), table=table, root=root)
    found: list[str] = run.metrics["warnings"]
    return found


@pytest.mark.slow
def test_leaks_in_the_columns_of_a_market_are_called_so(market: pd.DataFrame, tmp_path: Path) -> None:
    assert warned(market, tmp_path, price_return="gain") == []
    noise = np.random.default_rng(0).normal(size=len(market))
    day = market.t.dt.to_period("W")
    leaks = {
        "the return that the label is of": market.gain,
        "the future, dimly": market.gain + 0.3 * market.gain.std() * noise,
        "a copy of the label": market.y.astype(float),
        "the mean of the week that isn't over": market.gain.groupby(day).transform("mean"),
        "of tomorrow": market.gain.shift(-1).fillna(0.0),
    }
    for name, column in leaks.items():
        found = warned(market.assign(leak=column), tmp_path, price_return="gain")
        assert any(text.startswith("leak?") for text in found), name
    of_label = warned(market.assign(leak=market.y.astype(float)), tmp_path, price_return="gain")
    assert any("The column 'leak' alone tells the label -1 from all others" in text for text in of_label)


@pytest.mark.slow
def test_columns_that_say_the_label_are_named_in_any_table(tmp_path: Path) -> None:
    data = cancer()
    assert warned(data, tmp_path) == []
    is_bad = data.y == "malignant"
    noise = np.random.default_rng(0).normal(size=len(data))
    for column in (is_bad, np.where(is_bad, 7, 2), np.where(is_bad, noise, np.nan), np.where(is_bad, -5, 0) + noise):
        (text,) = warned(data.assign(stage=column), tmp_path)
        assert "The column 'stage' alone tells the label 'benign' from all others" in text


def test_warnings_of_columns_need_rows_of_a_class() -> None:
    source = open_source(TrainConfig(**NAMED), cancer().assign(stage=cancer().y == "malignant"))
    data = source.dataset(source.config)  # type: ignore[attr-defined]
    few = np.concatenate((np.flatnonzero(data.codes == 0)[:50], np.flatnonzero(data.codes == 1)[:9]))
    assert feature_warnings(data.take(np.sort(few))) == []
    assert len(feature_warnings(data)) == 1


@pytest.mark.parametrize("model", ["lightgbm", "logistic"])
def test_labels_shifted_in_a_circle_are_worth_no_more_than_their_entropy(model: str, tmp_path: Path) -> None:
    data = cancer()
    shifted = data.assign(y=np.roll(data.y, len(data) // 2))
    run = run_training(TrainConfig(model=model, **NAMED), table=shifted, root=tmp_path)
    test = pq.read_table(run.path / "predictions.parquet").to_pandas()
    rates = test.y.value_counts(normalize=True).to_numpy()
    entropy = -float(rates @ np.log(rates))
    assert run.metrics["test"]["forecasts"]["calibrated"]["log_loss"]["value"] > entropy - 0.03
    assert not run.metrics["gates"]["skill_over_class_frequencies"]["passed"]


def test_features_and_labels_of_the_test_part_change_nothing_before_it(tmp_path: Path) -> None:
    data, rng = cancer(), np.random.default_rng(0)
    other, last = data.copy(), data.index[-114:]
    other.loc[last, "mean area"] = rng.normal(size=114)
    other.loc[last, "y"] = rng.permutation(other.y[last])
    runs = [run_training(TrainConfig(model="logistic", **NAMED), table=one, root=tmp_path) for one in (data, other)]
    for name in ("oof.parquet", "checkpoints/calibrator.json"):
        ours, theirs = ((run.path / name).read_bytes() for run in runs)
        if name.endswith("json"):  # but for the hash of the table
            ours, theirs = (json.dumps(json.loads(text)["map"]).encode() for text in (ours, theirs))
        assert ours == theirs, name
    assert runs[0].metrics["test"] != runs[1].metrics["test"]


@pytest.mark.slow
def test_flipped_labels_stay_away_from_their_own_rows(tmp_path: Path) -> None:
    data = cancer()
    rows = np.arange(200, 230)
    y = data.y.to_numpy(dtype=object).copy()
    y[rows] = np.where(y[rows] == "benign", "malignant", "benign")
    found = []
    for one in (data, data.assign(y=y)):
        run = run_stack(TrainConfig(model="logistic", **NAMED), ["logistic"], n_folds=3, table=one, root=tmp_path)
        found.append(columns_of(pq.read_table(run.path / "oof.parquet").to_pandas(), "p", ["benign", "malignant"]))
    assert found[0][rows].tobytes() == found[1][rows].tobytes()
    assert found[0].tobytes() != found[1].tobytes()


@pytest.mark.parametrize("returns", [True, False])
def test_stakes_need_returns_and_directions(returns: bool, market: pd.DataFrame, tmp_path: Path) -> None:
    config = TrainConfig(model="logistic", **NAMED, price_return="gain" if returns else "")
    run = run_training(config, table=market.drop(columns=[] if returns else "gain"), root=tmp_path)
    table = pq.read_table(run.path / "predictions.parquet").to_pandas()
    assert ("label_return" in table) == returns
    assert ("left_out" in run.metrics["money"]) != returns
    if returns:
        assert table.label_return.tolist() == market.gain.tail(len(table)).tolist()
    else:
        assert run.metrics["money"]["left_out"].startswith("a table needs a column of returns (price_return)")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--label", "y"), "--table 'rows.csv' needs the names of two of its columns: label, and time"),
        (("--label", "z", "--time", "t"), "rows.csv has no column 'z'."),
        (("--label", "y", "--time", "t", "--horizon", "5"), "horizon=5 is of bars, and table='rows.csv' is named."),
        (("--label", "y", "--time", "t", "--features", "a,y"), "features name 'y', which is the label"),
        (("--label", "y", "--time", "t", "--model", "logistc"), "Did you mean 'logistic'?"),
        (("--label", "y", "--time", "t"), "column 't' of rows.csv holds 20 different times in 20 rows, and a run cuts"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_leaves_nothing(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"2024-01-{day:02d},{day % 3},{day % 2}\n" for day in range(1, 21))
    Path("rows.csv").write_text(f"t,a,y\n{rows}")
    done = call("train", "--table", "rows.csv", *words)
    assert done.exit_code == 2
    assert said in done.stderr.splitlines()[-1]
    assert not Path("experiments/runs").exists() or list(Path("experiments/runs").iterdir()) == []


@pytest.mark.parametrize("n_events", [2, 9, 20, 40])
def test_a_run_on_a_table_that_is_killed_leaves_nothing_that_loads(n_events: int, tmp_path: Path) -> None:
    config = TrainConfig(model="logistic", **NAMED)
    run_it = partial(run_training, config, table=cancer(), root=tmp_path)
    assert in_child(killed_at, n_events, str(tmp_path), run_it) == -signal.SIGKILL
    assert list_runs(tmp_path)[0] == []
    run = run_it()
    assert [entry.name for entry in tmp_path.iterdir()] == [run.run_id], "the next run clears up"


def test_bars_and_a_table_are_never_both_taken(
    market: pd.DataFrame, make_bars: Callable[..., Bars], tmp_path: Path
) -> None:
    bars = make_bars(300)
    of_table = TrainConfig(table="rows", label="y", time="t")
    with pytest.raises(CalibrantError, match="table='rows' is named, and bars are given: "):
        run_training(of_table, bars=bars, root=tmp_path)
    for run in (run_training, partial(run_stack, models=["logistic"])):
        with pytest.raises(CalibrantError, match="bars and table are both given, and a run is of one of them"):
            run(of_table, bars=bars, table=market, root=tmp_path)
