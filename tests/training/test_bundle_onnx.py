"""Bundles in ONNX, run by onnxruntime: the probabilities of the run for each kind of model, calibrator and stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.ensemble import RandomForestClassifier

from calibrant.cli import main
from calibrant.errors import CalibrantError
from calibrant.numerics import FloatArray
from calibrant.training.bars import as_bars
from calibrant.training.bundle import Bundle
from calibrant.training.config import TrainConfig
from calibrant.training.features import bar_features
from calibrant.training.models import MODELS
from calibrant.training.run_folder import Run
from calibrant.training.training_run import run_stack, run_training

ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]
#: What operators of trees round to: single precision.
_MOST = 1e-6


@pytest.fixture(scope="module")
def table(make_table: Callable[..., pa.Table]) -> pa.Table:
    return make_table(900, ("A", "B"), seed=3)


def rows_of(table: pa.Table) -> FloatArray:
    X, _ = bar_features(as_bars(table))
    return X[np.isfinite(X).all(axis=1)]


def applied(model: Any, X: FloatArray) -> FloatArray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(["probabilities"], {"X": X})
    assert found.dtype == np.float64
    made: FloatArray = found
    return made


def check(bundle: Bundle, X: FloatArray) -> None:
    expected, found = bundle.predict_proba(X), applied(bundle.to_onnx(), X)
    assert np.abs(found - expected).max() < _MOST
    assert expected.std(axis=0).min() > 0.0  # a constant would be easy to hit


@pytest.mark.parametrize("label", ["triple_barrier", "binary"])
@pytest.mark.parametrize("model", MODELS)
def test_each_model_gives_the_probabilities_of_its_run(model: str, label: str, table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(
        model=model, horizon=8, label=label, class_weight="balanced", calibrator="sigmoid", calibrate="always"
    )
    if label != "binary":
        config = TrainConfig(**{**config.to_dict(), "calibrator": "vector"})
    run = run_training(config, bars=as_bars(table), root=tmp_path)
    check(run.bundle, rows_of(table))


@pytest.mark.parametrize("calibrator", ["temperature", "beta", "spline", "dirichlet", "auto"])
def test_each_calibrator_is_in_the_model(calibrator: str, table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(model="lightgbm", horizon=8, calibrator=calibrator, calibrate="always")
    run = run_training(config, bars=as_bars(table), root=tmp_path)
    check(run.bundle, rows_of(table))


def test_a_stack_is_averaged_in_the_model(table: pa.Table, tmp_path: Path) -> None:
    config = TrainConfig(horizon=8, class_weight="balanced")
    models = ["xgboost", "logistic", "catboost"]
    run = run_stack(config, models, bars=as_bars(table), variant="blocks", n_folds=2, root=tmp_path)
    check(run.bundle, rows_of(table))
    facts = {each.key: json.loads(each.value) for each in run.bundle.to_onnx().metadata_props}
    assert facts == {"features": list(run.bundle.features), "classes": [-1, 0, 1], "run": run.run_id}


@pytest.mark.parametrize("missing_in_training", [True, False])
@pytest.mark.parametrize("model", [name for name in MODELS if name != "logistic"])
def test_missing_features_and_ties_go_the_same_way(model: str, missing_in_training: bool, tmp_path: Path) -> None:
    """Features on a grid lie on thresholds; integers above 2^24 are told apart in double precision alone."""
    rng = np.random.default_rng(0)
    n = 1_500
    frame = pd.DataFrame(
        {
            "a": rng.integers(-3, 4, n) / 4.0,
            "b": rng.normal(size=n),
            "c": 2.0**24 + rng.integers(0, 4, n),
            "when": np.datetime64("2020-01-01") + np.arange(n),
        }
    )
    score = frame["a"] - 0.5 * frame["b"] + 0.5 * (frame["c"] - 2.0**24) + rng.normal(size=n)
    frame["y"] = np.digitize(score, [0.0, 1.5])
    gone = rng.random(n) < 0.15
    if missing_in_training:
        frame.loc[gone, "a"] = np.nan
    config = TrainConfig(model=model, table="own", label="y", time="when")
    run = run_training(config, table=frame, root=tmp_path)
    if not missing_in_training:
        frame.loc[gone, "a"] = np.nan
    expected = run.predict(frame)
    found = applied(run.bundle.to_onnx(), frame[list(run.bundle.features)].to_numpy())
    assert np.abs(found - expected.prob).max() < _MOST


def test_what_has_no_form_is_told(table: pa.Table, tmp_path: Path) -> None:
    forest = RandomForestClassifier(5, random_state=0)
    of_forest = run_training(TrainConfig(model="sklearn", horizon=8), bars=as_bars(table), model=forest, root=tmp_path)
    with pytest.raises(CalibrantError, match="has no form in ONNX here: logistic, xgboost, lightgbm, catboost"):
        of_forest.bundle.to_onnx()
    dart = TrainConfig(horizon=8, params={"booster": "dart", "num_boost_round": 3})
    with pytest.raises(CalibrantError, match="a model with the booster 'dart' with the objective 'multi:softprob'"):
        run_training(dart, bars=as_bars(table), root=tmp_path).bundle.to_onnx()


def test_the_command_writes_a_model_and_never_into_the_run(table: pa.Table, tmp_path: Path) -> None:
    run: Run = run_training(TrainConfig(model="logistic", horizon=8), bars=as_bars(table), root=tmp_path / "runs")

    def call(*words: object) -> Any:
        return CliRunner().invoke(main, ["runs", "export", "last", "--runs", str(tmp_path / "runs"), *map(str, words)])

    out = tmp_path / "bundle.onnx"
    assert call("--onnx", out).stdout == f"Wrote {out}: {run.run_id}, 13 features to probabilities\n"
    session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
    X = rows_of(table)
    assert np.abs(session.run(None, {"X": X})[0] - run.predict_proba(X)).max() < 1e-12
    for words, said in (
        (("--onnx", run.path / "bundle.onnx"), "which stays as it is"),
        ((), "takes --mlflow or --onnx. Pass one of them."),
        (("--onnx", out, "--mlflow", "x"), "takes --mlflow or --onnx. Pass one of them."),
        (("--onnx", out, "--experiment", "x"), "--experiment says nothing for --onnx"),
    ):
        done = call(*words)
        assert done.exit_code == 2
        assert said in done.stderr
    run.check()
    assert pq.read_table(run.path / "predictions.parquet").num_rows > 0
