"""Finished runs as runs of MLflow, for who keeps a tracking server."""

from __future__ import annotations

from typing import Any

from calibrant.errors import InvalidInputError
from calibrant.training.run_folder import Run

#: What an MLflow run is tagged with, so that a run is not exported twice.
TAG = "calibrant.run_id"


def export_to_mlflow(run: Run, *, tracking_uri: str | None = None, experiment: str = "calibrant") -> str:
    """Copy a finished run to MLflow: settings as parameters, figures as metrics, the folder as artifacts.

    Parameters
    ----------
    run : Run
    tracking_uri : str, optional
        Where MLflow keeps its runs; what its own settings say by default.
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
    """
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise InvalidInputError("the package mlflow is not installed. Install calibrant[mlflow].") from None
    run.check()
    try:
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
        client.set_terminated(run_id)
    except MlflowException as error:
        raise InvalidInputError(f"MLflow at {tracking_uri!r} refused the run: {error}") from None
    return run_id


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
