"""calibrant runs: the folders of training runs, listed, shown and compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calibrant.cli import choices
from calibrant.cli.common import Group, echo, json_option, loss_text, table, write_json
from calibrant.errors import CalibrantError, DocumentError, InvalidInputError
from calibrant.phrases import count

if TYPE_CHECKING:
    from calibrant.training import Run

_COLUMNS = ("brier", "ece", "log_loss")


@click.group(
    "runs",
    cls=Group,
    examples=[
        "calibrant runs list",
        "calibrant runs show last",
        "calibrant runs compare xgboost_h20_20260101 lightgbm_h20_20260101",
    ],
)
def command() -> None:
    """Read the folders of training runs back.

    A run is named by its id, by a part of it that no other id holds, by its folder, or as last.
    """


_root = click.option("--runs", "root", default=choices.RUNS_ROOT, metavar="FOLDER", help="The folder of all runs.")


@command.command("list", examples=["calibrant runs list"])
@_root
@json_option
def list_command(root: str, as_json: bool) -> None:
    """List the finished runs, the oldest first."""
    from calibrant.training import list_runs

    runs, n_partial = list_runs(root)
    read, broken = [], []
    for run in runs:
        try:
            with _reading(run):
                read.append((_line(run), _summary(run)))
        except (CalibrantError, OSError) as error:
            broken.append(f"{run.run_id} can't be read: {error}")
    if as_json:
        write_json({"runs": [summary for _, summary in read], "broken": broken, "unfinished": n_partial})
        return
    if read:
        echo(_table([line for line, _ in read]))
    for line in broken:
        echo(line)
    if not runs:
        echo(f"No finished run in {root}. Next:  calibrant train --model xgboost --horizon 20")
    if n_partial:
        echo(f"{count(n_partial, 'run')} running, or ended before the finish")


@command.command("show", examples=["calibrant runs show last"])
@click.argument("run")
@_root
@json_option
def show_command(run: str, root: str, as_json: bool) -> None:
    """Show what RUN found; its files are compared with the hashes that were noted when it finished."""
    from calibrant.cli import refresh
    from calibrant.cli.run_text import stack_text, train_text
    from calibrant.training import find_run

    found = find_run(run, root)
    with _reading(found):
        found.check()
        if as_json:
            write_json({"run": found.run_id, "config": found.config.to_dict(), "found": found.found, **found.metrics})
            return
        config = _settings(found).items()
        settings = ", ".join(f"{name} {_shown(value)}" for name, value in config if value not in ("", {}, ()))
        echo(f"{found.run_id}: {settings}\n")
        share = found.record.get("overhead", {}).get("share_of_model_fit")
        if found.found.get("command") == "refresh":
            echo(refresh.origin_text(found))
        elif share is not None:
            echo(f"Calibration took {100 * share:.2f} % of the model's training time\n")
        echo((stack_text if found.found.get("command") == "oof" else train_text)(found))


@command.command("compare", examples=["calibrant runs compare xgboost lightgbm"])
@click.argument("runs", nargs=-1, required=True)
@_root
@json_option
def compare_command(runs: tuple[str, ...], root: str, as_json: bool) -> None:
    """Compare RUNS on their test parts, and say where their settings or data differ."""
    from calibrant.training import find_run

    if len(runs) < 2:
        raise InvalidInputError(f"one run, {runs[0]!r}, is named. Name two or more.")
    found = [find_run(name, root) for name in runs]
    lines, summaries, tests = [], [], []
    for run in found:
        with _reading(run):
            lines.append(_line(run))
            summaries.append(_summary(run))
            tests.append(run.test_labels())
    is_same = all(labels.equals(tests[0]) for labels in tests)
    if as_json:
        write_json({"runs": summaries, "differences": _differences(found), "same_test_labels": is_same})
        return
    echo(_table(lines))
    for name, values in _differences(found).items():
        echo(f"{name}: {' | '.join(map(str, values))}")
    if not is_same:
        echo("These runs were not measured on the same rows and labels: their figures can't be compared.")


@command.command(
    "export",
    examples=[
        "calibrant runs export last --mlflow http://localhost:5000",
        "calibrant runs export last --mlflow sqlite:///mlflow.db",
        "calibrant runs export last --onnx bundle.onnx",
    ],
)
@click.argument("run")
@_root
@click.option(
    "--mlflow", "tracking_uri", metavar="URI", help="Where MLflow keeps its runs: a server, SQLite, a folder."
)
@click.option("--experiment", metavar="NAME", help="Experiment in MLflow.  [default: calibrant]")
@click.option("--onnx", metavar="OUT", help="Where to write the bundle as one ONNX model.")
def export_command(run: str, root: str, tracking_uri: str | None, experiment: str | None, onnx: str | None) -> None:
    """Copy RUN to MLflow, with all of its files and its bundle, or write its bundle as an ONNX model.

    The bundle goes from features to the probabilities that the run is judged by. --mlflow needs calibrant[mlflow], and
    --onnx calibrant[onnx].
    """
    from calibrant.training import export_to_mlflow, find_run

    if (tracking_uri is None) == (onnx is None):
        raise InvalidInputError("runs export takes --mlflow or --onnx. Pass one of them.")
    found = find_run(run, root)
    if onnx is not None:
        if experiment is not None:
            raise InvalidInputError("--experiment says nothing for --onnx. Leave it out.")
        if found.path.resolve() in Path(onnx).resolve().parents:
            raise InvalidInputError(f"--onnx {onnx} is inside of {found.run_id}, which stays as it is.")
        found.to_onnx(onnx)
        echo(f"Wrote {onnx}: {found.run_id}, {count(len(found.bundle.features), 'feature')} to probabilities")
        return
    experiment = experiment or "calibrant"
    run_id = export_to_mlflow(found, tracking_uri=tracking_uri, experiment=experiment)
    echo(f"{found.run_id} is MLflow run {run_id} of experiment {experiment!r}")


def _shown(value: object) -> str:
    """Return a setting in words: of several columns or models, their names."""
    if isinstance(value, dict) and all(isinstance(entry, tuple) for entry in value.values()):
        value = tuple(value)
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _settings(run: Run) -> dict[str, object]:
    """Return the settings of a run; one of several models has all of them in the place of the first."""
    config, models = run.config.used(), run.found.get("models")
    return config if models is None else {"models": ", ".join(models), **config, "model": ""}


@contextmanager
def _reading(run: Run) -> Iterator[None]:
    """Say of a run whose files hold something else than a run writes that it is broken."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, CalibrantError):
            raise
        what = f"{type(error).__name__}: {error!s:.80}"
        raise DocumentError(f"{run.path}: its files are no record of a run ({what}). Train the model again.") from None


def _table(lines: list[list[str]]) -> str:
    header = ["run", "calibrator", "Brier", "", "ECE", "", "log loss", "", "no skill", "skill", "gates"]
    return table(header, lines, left=2)


def _line(run: Run) -> list[str]:
    """Return the row of a run: each figure before and after, the log loss of class frequencies, and skill over it."""
    from calibrant.training import AFTER, BEFORE, NO_SKILL

    forecasts = run.metrics["test"]["forecasts"]
    row = [run.run_id, run.metrics["calibration"]["calibrator"]]
    for name in _COLUMNS:
        for which in (BEFORE, AFTER):
            value = forecasts[which][name]["value"]
            row.append(f"{'-> ' if which == AFTER else ''}{loss_text(value)}")
    passed = [gate["passed"] for gate in run.metrics["gates"].values()]
    row.append(loss_text(forecasts[NO_SKILL]["log_loss"]["value"]))
    skill = forecasts[AFTER]["log_loss"]["skill"]
    row.append("" if skill is None else f"{skill:+.4f}")
    return [*row, f"{sum(passed)}/{len(passed)}"]


def _summary(run: Run) -> dict[str, object]:
    return {
        "run": run.run_id,
        "started": run.record["started"],
        "calibration": run.metrics["calibration"],
        "gates": run.metrics["gates"],
    }


def _differences(runs: list[Run]) -> dict[str, list[object]]:
    settings = [{**run.config.to_dict(), **run.found} for run in runs]
    names = dict.fromkeys(name for one in settings for name in one)
    values = {name: [one.get(name) for one in settings] for name in names}
    return {name: several for name, several in values.items() if any(value != several[0] for value in several)}
