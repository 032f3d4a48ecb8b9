"""Finished runs as runs of MLflow, for who keeps a tracking server; each with its bundle as a model that predicts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__
from calibrant.errors import InvalidInputError
from calibrant.files import remote_scheme
from calibrant.training.bundle import Bundle
from calibrant.training.run_folder import Run, load_run

if TYPE_CHECKING:
    import pandas as pd

#: What an MLflow run is tagged with, so that a run is not exported twice.
TAG = "calibrant.run_id"
#: The artifact that holds the bundle: load it as "runs:/ID/bundle".
BUNDLE = "bundle"
#: Without it newer versions of MLflow refuse to keep runs in files.
_IN_FILES = "MLFLOW_ALLOW_FILE_STORE"
#: MLflow asks a server that is down for minutes, at its own number of tries.
_TRIES = ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")


def export_to_mlflow(run: Run, *, tracking_uri: str | None = None, experiment: str = "calibrant") -> str:
    """Copy a finished run to MLflow: settings, figures, the folder with its page, and the bundle as a model.

    Parameters
    ----------
    run : Run
    tracking_uri : str, optional
        Where MLflow keeps its runs: a server (http://...), a database (sqlite:///mlflow.db) or a folder; what its own
        settings say by default.
    experiment : str
        Name of the experiment, which is made if need be.

    Returns
    -------
    str
        The id of the MLflow run. A run that is there already is left as it is.

    Raises
    ------
    InvalidInputError
        If MLflow isn't installed, or refuses the run.
    CalibrantError
        If a file of the run is missing or was changed.

    Notes
    -----
    ``mlflow.pyfunc.load_model(f"runs:/{run_id}/bundle")`` gives the bundle: its ``predict`` takes a data frame, as
    `Bundle.predict` does, and returns one. calibrant loads it from the files of the run, and no pickle is opened. A
    model that needs ``load_run(..., trusted=)`` can't be loaded from there.
    """
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise InvalidInputError("the package mlflow is not installed. Install calibrant[mlflow].") from None
    run.check()
    try:
        with _settings(tracking_uri):
            client = MlflowClient(tracking_uri=tracking_uri)
            known = client.get_experiment_by_name(experiment)
            experiment_id = client.create_experiment(experiment) if known is None else known.experiment_id
            there = client.search_runs([experiment_id], filter_string=f"tags.`{TAG}` = '{run.run_id}'")
            finished = [one for one in there if one.info.status == "FINISHED"]
            if finished:
                return str(finished[0].info.run_id)
            tags = {TAG: run.run_id, "mlflow.source.git.commit": str(run.found["git_commit"])}
            run_id = str(client.create_run(experiment_id, tags=tags, run_name=run.run_id).info.run_id)
            for name, value in {**run.config.to_dict(), "data_sha256": run.found["data_sha256"]}.items():
                client.log_param(run_id, name, value)
            for name, number in flat_metrics(run.metrics).items():
                client.log_metric(run_id, name, number)
            client.log_artifacts(run_id, str(run.path))
            with TemporaryDirectory() as folder:
                write_model(run, Path(folder) / BUNDLE)
                client.log_artifacts(run_id, str(Path(folder) / BUNDLE), BUNDLE)
            client.set_terminated(run_id)
    except MlflowException as error:
        raise InvalidInputError(f"MLflow at {tracking_uri!r} refused the run: {error}") from None
    return run_id


def write_model(run: Run, folder: Path) -> None:
    """Write the bundle of a run as a model of MLflow into a new folder: the files of the run, and what loads them."""
    from mlflow.pyfunc import save_model

    needed = [f"calibrant[training]=={__version__}", "pandas"]
    loader = {"loader_module": __name__, "data_path": str(run.path)}
    save_model(folder, **loader, pip_requirements=needed, metadata={TAG: run.run_id})


class PredictedFrames:
    """The bundle of a run as MLflow calls it."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:  # noqa: ARG002
        """Return the probabilities of bars or rows of a table, with times and symbols, as a frame of pandas."""
        frame: pd.DataFrame = self.bundle.predict(model_input).to_frame("pandas")
        return frame


def _load_pyfunc(path: str) -> PredictedFrames:
    """Load the bundle of a run's folder: what MLflow calls, by this name."""
    return PredictedFrames(load_run(path).bundle)


@contextmanager
def _settings(tracking_uri: str | None) -> Iterator[None]:
    """Let MLflow keep runs in a folder where that is asked for by name, and give a server up soon that is down.

    What the caller's environment says goes first.
    """
    in_files = tracking_uri is not None and remote_scheme(tracking_uri) in (None, "file")
    wanted = dict([_TRIES, (_IN_FILES, "true")] if in_files else [_TRIES])
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def flat_metrics(metrics: dict[str, Any]) -> dict[str, float]:
    """Return the figures of calibration and of the test part under one name each."""
    found = {name: value for name, value in metrics["calibration"].items() if isinstance(value, float)}
    for forecast, scores in metrics["test"]["forecasts"].items():
        for score, parts in scores.items():
            found |= {
                f"test.{forecast}.{score}.{part}": float(value) for part, value in parts.items() if value is not None
            }
    for name, gate in metrics["gates"].items():
        found[f"gate.{name}"] = float(gate["passed"])
    return found
