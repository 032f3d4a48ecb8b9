"""calibrant train: a calibrated model of market bars, judged on rows that nothing was fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibrant.cli import choices
from calibrant.cli.common import echo, new_command, with_options
from calibrant.cli.option_texts import split_list
from calibrant.cli.walk_forward import WindowsType

if TYPE_CHECKING:
    from calibrant.training import Run

_BARS = (
    "Bars: Parquet, CSV or DuckDB with time, open, high, low, close; volume and symbol if there.  [default: daily bars "
    "of five stocks, from the package bokeh-sampledata]"
)
_WHEN = (
    "always; if_better: where it lowers the log loss of validation blocks that it was not fitted to; auto: that for a "
    "temperature that makes probabilities surer, and always for others."
)
#: Options of settings that `calibrant train` and `calibrant oof` share: what stands for the value, and the help.
_SETTINGS = {
    "model": ("NAME", f"{', '.join(choices.MODELS)}, or module:Class of any classifier with scikit-learn's interface."),
    "horizon": ("BARS", "Bars of a label."),
    "data": ("FILE", _BARS),
    "config": ("FILE", "Settings as TOML, such as a run's config.toml."),
    "label": ("KIND|COLUMN", f"{', '.join(choices.LABEL_KINDS)}; of a --table, its column of labels."),
    "table": ("FILE", "Your own rows in place of bars: Parquet, CSV, a folder or pattern of such, or DuckDB."),
    "time": ("COLUMN", "Of --table: when a row is predicted."),
    "label-end": ("COLUMN", "Of --table: when its label is known; without it, at once."),
    "features": ("COLUMNS", "Of --table: what the model is told; names or patterns.  [default: all other columns]"),
    "symbol": ("COLUMN", "Of --table, if there: what a row is of."),
    "price-return": ("COLUMN", "Of --table, if there: the return from its time to its label's end, for stakes."),
    "profit": ("X", "Upper barrier, in volatilities."),
    "stop": ("X", "Lower barrier, in volatilities."),
    "calibrator": ("NAME", f"Any that calibrant fit knows, or {choices.SPECIFIED} for ProbabilityCalibrator."),
    "calibrate": ("WHEN", _WHEN),
    "class-weight": ("KIND", "none or balanced."),
    "validation": ("SHARE", "To calibrate on."),
    "test": ("SHARE", "To measure on."),
    "embargo": ("BARS", "Between parts, in bars of the same symbol."),
    "walk-forward": ("N|PERIOD", "Refit before each of N windows of --test, or before each month, quarter or year."),
    "history": ("KIND", "What a refit sees: expanding, all earlier rows; rolling, as many as the first."),
    "stakes": ("KIND", "linear, kelly or flat: how the stakes of the part on money follow from the probabilities."),
    "cost-bp": ("BP", "Of opening and of closing a position, in basis points of the capital moved."),
    "seed": ("N", "Seed."),
    "threads": ("N", "Threads of the model's library."),
    "runs": ("FOLDER", "The folder of all runs."),
}
_ARGUMENTS = {"config": "config_file", "threads": "n_threads", "runs": "root"}
_DEFAULTS = {**choices.TRAINING, "features": "", "config_file": None, "root": choices.RUNS_ROOT}
#: Options of a table, in the order of the help.
TABLE_SETTINGS = ("table", "time", "label-end", "features", "symbol", "price-return")
_TYPES: dict[str, Any] = {
    "horizon": int,
    "embargo": int,
    "walk-forward": WindowsType(),
    "seed": click.IntRange(min=0),
    "threads": click.IntRange(min=1),
}


def settings(*names: str, **texts: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds options of settings, with the defaults of `TrainConfig`; texts replace help."""

    def option(name: str) -> Callable[..., Any]:
        metavar, usual = _SETTINGS[name]
        argument = _ARGUMENTS.get(name, name.replace("-", "_"))
        default = _DEFAULTS[argument]
        shown: dict[str, Any] = {"metavar": metavar, "help": texts.get(name, usual), "show_default": default != ""}
        return click.option(f"--{name}", argument, type=_TYPES.get(name), default=default, **shown)

    return with_options([option(name) for name in names])


no_gate_option = click.option("--no-gate", is_flag=True, help="Exit 0 where a gate fails too: to look only.")


@new_command(
    "train",
    "calibrant train --model xgboost --horizon 20",
    "calibrant train --model lightgbm --horizon 20 --data bars.parquet --calibrator isotonic",
    "calibrant train --table rows.parquet --label y --time t --label-end known",
    "calibrant train --config experiments/runs/RUN/config.toml --seed 1",
    "calibrant train --data bars.parquet --test 0.5 --walk-forward year --history rolling",
)
@settings(*_SETTINGS)
@no_gate_option
@click.pass_context
def command(ctx: click.Context, /, config_file: str | None, root: str, *, no_gate: bool, **given: Any) -> None:
    """Train a model of market bars or your own table, calibrate it, and measure both on the last part in time.

    The rows are cut in time: to fit the model, to stop boosting, to fit the calibrator, to measure. Rows whose label
    reaches into a later part are in none. All goes into a new folder of --runs, which is there when the run has
    finished, or not at all.

    A --table has a row for each prediction, with the time of it; its labels are of any kind. A column of the future is
    a leak that no split can mend: name the --features.

    With --walk-forward the last part is cut into windows, and the model and its calibrator are refitted before each, to
    what was known then. The deployed model is refitted once more, to all rows, or with a rolling history to the latest.

    Options win over the settings of --config. Without --data or --table it uses the bars that come with
    calibrant[training].

    Exit codes: 0 all gates passed, 1 a gate failed (the run is there all the same), 2 wrong usage or bad input.
    """
    from calibrant.cli.run_text import train_text
    from calibrant.training import TrainConfig, run_training

    run = run_training(TrainConfig(**settings_of(ctx, config_file, given)), root=root, echo=True)
    echo(train_text(run))
    ctx.exit(0 if no_gate else gates_code(run))


def gates_code(run: Run) -> int:
    """Return the exit code that the gates of a run ask for."""
    return int(not all(gate["passed"] for gate in run.metrics["gates"].values()))


def settings_of(ctx: click.Context, config_file: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, and over them the options that were given; all options without a file."""
    from calibrant.training import read_config

    settings = {} if config_file is None else read_config(config_file)
    named = {name for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    settings.update({name: value for name, value in given.items() if name in named or config_file is None})
    if isinstance(settings.get("features"), str):
        settings["features"] = split_list(settings["features"])
    return settings
