"""calibrant train: a calibrated model of market bars, judged on rows that nothing was fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from calibrant.cli.common import echo, new_command, prose, table, with_options
from calibrant.cli.money_text import money_text
from calibrant.cli.option_texts import split_list
from calibrant.cli.walk_forward import WindowsType, windows_lines
from calibrant.phrases import bracketed, count, figure
from calibrant.training import (
    AFTER,
    BEFORE,
    DEFAULT_ROOT,
    LABEL_KINDS,
    MODELS,
    NO_SKILL,
    SPECIFIED,
    Run,
    TrainConfig,
    has_skill,
    read_config,
)

_MEASURES = ("log_loss", "brier", "ece", "accuracy")
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
    "model": ("NAME", f"{', '.join(MODELS)}, or module:Class of any classifier with scikit-learn's interface."),
    "horizon": ("BARS", "Bars of a label."),
    "data": ("FILE", _BARS),
    "config": ("FILE", "Settings as TOML, such as a run's config.toml."),
    "label": ("KIND|COLUMN", f"{', '.join(LABEL_KINDS)}; of a --table, its column of labels."),
    "table": ("FILE", "Your own rows in place of bars: Parquet, CSV, a folder or pattern of such, or DuckDB."),
    "time": ("COLUMN", "Of --table: when a row is predicted."),
    "label-end": ("COLUMN", "Of --table: when its label is known; without it, at once."),
    "features": ("COLUMNS", "Of --table: what the model is told; names or patterns.  [default: all other columns]"),
    "symbol": ("COLUMN", "Of --table, if there: what a row is of."),
    "price-return": ("COLUMN", "Of --table, if there: the return from its time to its label's end, for stakes."),
    "profit": ("X", "Upper barrier, in volatilities."),
    "stop": ("X", "Lower barrier, in volatilities."),
    "calibrator": ("NAME", f"Any that calibrant fit knows, or {SPECIFIED} for ProbabilityCalibrator."),
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
_DEFAULTS = {**TrainConfig().to_dict(), "features": "", "config_file": None, "root": DEFAULT_ROOT}
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
    from calibrant.training import run_training

    run = run_training(TrainConfig(**settings_of(ctx, config_file, given)), root=root, echo=True)
    echo(closing_text(run))
    ctx.exit(0 if no_gate else gates_code(run))


def gates_code(run: Run) -> int:
    """Return the exit code that the gates of a run ask for."""
    return int(not all(gate["passed"] for gate in run.metrics["gates"].values()))


def settings_of(ctx: click.Context, config_file: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, and over them the options that were given; all options without a file."""
    settings = {} if config_file is None else read_config(config_file)
    named = {name for name in given if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT}
    settings.update({name: value for name, value in given.items() if name in named or config_file is None})
    if isinstance(settings.get("features"), str):
        settings["features"] = split_list(settings["features"])
    return settings


def closing_text(run: Run) -> str:
    """Return what a run found, beside the forecast that knows nothing but class frequencies."""
    metrics = run.metrics
    decision = metrics["calibration"]["decision"]
    lines = [measured_part(metrics["test"]), scores_table(metrics), *windows_lines(run)]
    lines.append(prose(decision[:1].upper() + decision[1:]))
    lines += gate_lines(metrics)
    for name, target in metrics["targets"].items():
        reached = "met" if target["met"] else "not met"
        least = target.get("least_at_this_accuracy")
        why = "" if least is None or target["met"] else f": at this accuracy it can't be below {least:.4f}"
        lines.append(f"{name} target {target['target']}: {reached}{why}")
    if "money" in metrics:
        lines += ["", money_text(metrics)]
    return "\n".join([*lines, *last_lines(run)])


def measured_part(test: dict[str, Any]) -> str:
    """Return which rows were measured, and what they are worth."""
    worth = f"worth about {test['n_independent']:,.0f} independent labels"
    return prose(f"Test part: {count(test['n_rows'], 'row')} from {test['from'][:16]} to {test['to'][:16]}, {worth}")


def last_lines(run: Run) -> list[str]:
    """Return the warnings of a run, where it is, and how to look at it."""
    warnings = [prose(f"Warning: {text}") for text in run.metrics["warnings"]]
    return [*warnings, f"\nSaved {run.path}", f"Next:  calibrant runs show {run.run_id}"]


def gate_lines(metrics: dict[str, Any]) -> list[str]:
    """Return a line for each gate, whether there is skill, and where calibration that held before was lost."""
    gates = metrics["gates"]
    lines = [f"{'pass' if gate['passed'] else 'FAIL'}  {name.replace('_', ' ')}" for name, gate in gates.items()]
    return [*lines, *map(prose, [*skill_lines(metrics["test"]), *_drift_lines(metrics)])]


def _drift_lines(metrics: dict[str, Any]) -> list[str]:
    """Say where the calibrated ECE was within its noise band on unseen rows before the test part, and is not in it."""
    earlier = metrics.get("validation", metrics.get("out_of_fold"))
    if earlier is None:  # of a refresh, whose later rows follow at once
        return []
    before, now = (found["forecasts"][AFTER]["ece"] for found in (earlier, metrics["test"]))
    if before["value"] > before["noise_band"] or now["value"] <= now["noise_band"]:
        return []
    held = f"ECE {figure(before['value'])}, by chance up to {figure(before['noise_band'])}"
    refit = "Refit more often" if "walk_forward" in metrics else "--walk-forward shows what refits give"
    said = (
        f"Calibration held on earlier rows that it was not fitted to ({held}), and not on the test part: this is the "
        f"chance of 5 in 100, or times have changed. {refit}; in production, calibrant refresh does it as labels come."
    )
    return [said]


def skill_lines(test: dict[str, Any]) -> list[str]:
    """Say where no skill over class frequencies is shown: of the raw model, of the calibrated one, or of both."""
    raw, calibrated = (has_skill(test, name) for name in (BEFORE, AFTER))
    if raw and calibrated:
        return []
    if raw:
        skill = test["forecasts"][BEFORE]["log_loss"]["skill"]
        lost = "its log loss is infinite" if test["forecasts"][AFTER]["log_loss"]["value"] is None else "it is lost"
        what = f"On the test part the raw model has a skill of {figure(skill)} in log loss; calibrated, {lost}"
        return [f"{what}: this calibrator does harm. Choose another, or --calibrate if_better."]
    if calibrated:
        return ["On the test part the raw model shows no skill: act on its calibrated probabilities."]
    gap = test["differences"][f"log_loss_{AFTER}_minus_{NO_SKILL}"]
    found = "" if gap.get("low") is None else f" (log loss less theirs: {bracketed(gap['low'], gap['high'])})"
    return [f"No demonstrable skill over class frequencies on the test part{found}: nothing to act on."]


def scores_table(metrics: dict[str, Any]) -> str:
    """Return the figures of the test part: raw, calibrated, and of the class frequencies, and skill over these.

    The ECE has no skill: class frequencies have hardly any ECE. What calibrated probabilities would have by chance
    stands in its place.
    """
    forecasts = metrics["test"]["forecasts"]
    rows = []
    for measure in _MEASURES:
        row = [measure, *(_value(forecasts[name][measure]["value"]) for name in (BEFORE, AFTER))]
        low, high = forecasts[AFTER][measure]["low"], forecasts[AFTER][measure]["high"]
        row.append("" if low is None or high is None else bracketed(low, high))
        row.append(_value(forecasts[NO_SKILL][measure]["value"]))
        for name in (BEFORE, AFTER):
            skill = forecasts[name][measure].get("skill")
            band = forecasts[name][measure].get("noise_band")
            row.append(f"chance {figure(band)}" if band is not None else "" if skill is None else f"{skill:+z.4f}")
        rows.append(row)
    level = f"{100 * metrics['test']['interval']['level']:g}% interval"
    return table(["", "raw", "calibrated", level, "no skill", "skill raw", "skill calibrated"], rows)


def _value(value: float | None) -> str:
    return "infinite" if value is None else figure(value)
