"""Runs in MLflow: copied once, whole; by a client that notes what it is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from calibrant.errors import CalibrantError
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.mlflow_export import TAG, export_to_mlflow
from calibrant.training.run_folder import Run
from calibrant.training.training_run import run_training

pytestmark = pytest.mark.usefixtures("undrawn")


class RefusedError(Exception):
    """What the client raises."""


class Client:
    """As much of MLflow's client as an export calls."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.experiments: dict[str, str] = {}
        self.models: list[dict[str, Any]] = []

    def get_experiment_by_name(self, name: str) -> Any:
        return SimpleNamespace(experiment_id=self.experiments[name]) if name in self.experiments else None

    def create_experiment(self, name: str) -> str:
        return self.experiments.setdefault(name, f"e{len(self.experiments)}")

    def search_runs(self, experiment_ids: list[str], filter_string: str) -> list[Any]:
        asked = filter_string.partition("= ")[2].strip("'")
        return [
            SimpleNamespace(info=SimpleNamespace(run_id=run_id, status=run["status"]))
            for run_id, run in self.runs.items()
            if run["experiment"] in experiment_ids and run["tags"][TAG] == asked
        ]

    def create_run(self, experiment_id: str, tags: dict[str, str], run_name: str) -> Any:
        run_id = f"r{len(self.runs)}"
        self.runs[run_id] = {
            "experiment": experiment_id,
            "tags": tags,
            "status": "RUNNING",
            "params": {},
            "metrics": {},
        }
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id))

    def log_param(self, run_id: str, name: str, value: Any) -> None:
        self.runs[run_id]["params"][name] = value

    def log_metric(self, run_id: str, name: str, value: float) -> None:
        assert type(value) is float
        self.runs[run_id]["metrics"][name] = value

    def log_artifacts(self, run_id: str, folder: str, path: str = "") -> None:
        if "artifacts" in self.experiments:
            raise RefusedError("the disk is full")
        self.runs[run_id].setdefault("files", {})[path] = folder

    def set_terminated(self, run_id: str) -> None:
        self.runs[run_id]["status"] = "FINISHED"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    for name, entries in {
        "mlflow": {},
        "mlflow.pyfunc": {"save_model": lambda _, **how: made.models.append(how)},
        "mlflow.tracking": {"MlflowClient": lambda **_: made},
        "mlflow.exceptions": {"MlflowException": RefusedError},
    }.items():
        module = ModuleType(name)
        vars(module).update(entries)
        monkeypatch.setitem(sys.modules, name, module)
    return made


@pytest.fixture(scope="module")
def run(make_bars: Callable[..., Bars], tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = TrainConfig(model="logistic", horizon=8)
    return run_training(config, bars=make_bars(700), root=tmp_path_factory.mktemp("runs"))


def test_a_run_is_copied_whole_and_once(run: Run, client: Client) -> None:
    assert export_to_mlflow(run, tracking_uri="x") == export_to_mlflow(run, tracking_uri="x") == "r0"
    (copy,) = client.runs.values()
    assert copy["status"] == "FINISHED"
    assert Path(copy["files"][""]) == run.path
    assert Path(copy["files"]["bundle"]).name == "bundle"
    (model,) = client.models
    assert (model["loader_module"], Path(model["data_path"])) == (export_to_mlflow.__module__, run.path)
    assert copy["params"]["horizon"] == 8
    assert copy["params"]["data_sha256"] == run.found["data_sha256"]
    assert copy["metrics"]["brier_after"] == run.metrics["calibration"]["brier_after"]
    skill = run.metrics["test"]["forecasts"]["calibrated"]["brier"]["skill"]
    assert copy["metrics"]["test.calibrated.brier.skill"] == skill
    assert copy["metrics"]["gate.ece_within_noise_band"] in (0.0, 1.0)


@pytest.mark.slow
def test_a_copy_that_was_refused_is_made_again(run: Run, client: Client) -> None:
    client.create_experiment("artifacts")
    with pytest.raises(CalibrantError, match="MLflow at 'x' refused the run: the disk is full"):
        export_to_mlflow(run, tracking_uri="x")
    del client.experiments["artifacts"]
    assert export_to_mlflow(run, tracking_uri="x") == "r1"
    assert [one["status"] for one in client.runs.values()] == ["RUNNING", "FINISHED"]


@pytest.mark.slow
def test_without_mlflow_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlflow", "mlflow.tracking", "mlflow.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(CalibrantError, match=r"mlflow is not installed. Install calibrant\[mlflow\]"):
        export_to_mlflow(run)


def test_a_server_that_is_down_is_given_up_soon(run: Run, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow asks for minutes by itself; what the caller says of its tries goes first."""
    name = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
    asked = []
    monkeypatch.setattr(client, "get_experiment_by_name", lambda _: asked.append(os.environ[name]), raising=False)
    monkeypatch.delenv(name, raising=False)
    export_to_mlflow(run, tracking_uri="http://127.0.0.1:1")
    assert name not in os.environ
    monkeypatch.setenv(name, "9")
    export_to_mlflow(run, tracking_uri="http://127.0.0.1:1")
    assert (asked, os.environ[name]) == (["2", "9"], "9")
