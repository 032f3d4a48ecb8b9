"""Runs in MLflow's own stores: a folder, SQLite and a server; the bundle that is kept there predicts the same bits."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError

import pandas as pd
import pyarrow as pa
import pytest

from calibrant.training.bars import as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.mlflow_export import TAG, export_to_mlflow
from calibrant.training.run_folder import Run
from calibrant.training.training_run import run_stack

pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
#: MLflow's own libraries warn of what MLflow does.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def _tell_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)


@pytest.fixture(scope="module")
def table(make_table: Callable[..., pa.Table]) -> pa.Table:
    return make_table(500, ("A", "B"))


@pytest.fixture(scope="module")
def run(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = TrainConfig(horizon=8, class_weight="balanced")
    root = tmp_path_factory.mktemp("runs")
    models = ["logistic", "hist_gradient_boosting"]
    return run_stack(config, models, bars=as_bars(table), variant="blocks", n_folds=2, root=root)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """Start MLflow's server on this machine, and return its address."""
    python = os.environ.get("CALIBRANT_MLFLOW") or sys.executable
    found = subprocess.run([python, "-c", "import importlib.metadata as m; m.version('mlflow')"], capture_output=True)
    if found.returncode:
        assert "CALIBRANT_MLFLOW" not in os.environ, found.stderr
        pytest.skip("MLflow's server is in the package mlflow: name a Python that has it by CALIBRANT_MLFLOW")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stores = ["--backend-store-uri", f"sqlite:///{tmp_path}/s.db", "--artifacts-destination", str(tmp_path / "kept")]
    command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    started = subprocess.Popen(
        [*command, *stores], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1.0).close()
                break
            except (URLError, OSError):
                assert started.poll() is None, "the server ended"
                time.sleep(0.5)
        else:
            pytest.fail("the server doesn't answer")
        yield address
    finally:
        os.killpg(started.pid, 15)
        started.wait(30.0)


def check_store(uri: str, run: Run, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Export a run twice, and check what the store then holds: figures, the page, and a model that predicts."""
    import mlflow
    from mlflow.tracking import MlflowClient

    run_id = export_to_mlflow(run, tracking_uri=uri, experiment="bars")
    assert export_to_mlflow(run, tracking_uri=uri, experiment="bars") == run_id
    assert "MLFLOW_ALLOW_FILE_STORE" not in os.environ
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = MlflowClient(tracking_uri=uri)
    kept = client.get_run(run_id)
    assert (kept.info.status, kept.data.tags[TAG]) == ("FINISHED", run.run_id)
    assert kept.data.metrics["brier_after"] == pytest.approx(run.metrics["calibration"]["brier_after"], rel=1e-15)
    names = {entry.path for entry in client.list_artifacts(run_id)}
    assert {"report.html", "metrics.json", "checkpoints", "bundle"} <= names
    page = Path(client.download_artifacts(run_id, "report.html"))
    assert page.read_bytes() == (run.path / "report.html").read_bytes()
    try:
        mlflow.set_tracking_uri(uri)
        loaded = mlflow.pyfunc.load_model(f"runs:/{run_id}/bundle")
        found = loaded.predict(table.to_pandas())
    finally:
        mlflow.set_tracking_uri(None)
    pd.testing.assert_frame_equal(found, run.predict(table).to_frame("pandas"), check_exact=True)
    assert list(found) == ["time", "symbol", "p_-1", "p_0", "p_1"]


@pytest.mark.parametrize("form", ["{}", "file:{}", "sqlite:///{}/mlflow.db"])
def test_a_folder_or_a_database_keeps_a_run_and_a_bundle_that_predicts(
    form: str, run: Run, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps the artifacts of runs in a database
    check_store(form.format(tmp_path), run, table, monkeypatch)


def test_a_server_keeps_a_run_and_a_bundle_that_predicts(
    server: str, run: Run, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_store(server, run, table, monkeypatch)
