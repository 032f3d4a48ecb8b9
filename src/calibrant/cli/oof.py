"""calibrant oof: calibrated out-of-fold predictions of several models, and a stack on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from calibrant.cli.common import echo, new_command, table
from calibrant.cli.money_text import money_text, thresholds_text
from calibrant.cli.option_texts import split_list, split_names
from calibrant.cli.train import (
    TABLE_SETTINGS,
    gate_lines,
    gates_code,
    last_lines,
    measured_part,
    no_gate_option,
    scores_table,
    settings,
    settings_of,
)
from calibrant.errors import InvalidInputError
from calibrant.phrases import bracketed, figure
from calibrant.training import CLASS_FREQUENCIES, MODELS, VARIANTS, Run, TrainConfig
from calibrant.validation import check_choice


@new_command(
    "oof",
    "calibrant oof --models xgboost,lightgbm,catboost --horizon 20",
    "calibrant oof --models xgboost,logistic --horizon 20 --data bars.parquet --folds 4",
    "calibrant oof --models xgboost --variant specified --calibrator specified",
    "calibrant oof --predictions oof.parquet --label y --time t --label-end known --score p_a,p_b",
    "calibrant oof --models xgboost,catboost --config experiments/runs/RUN/config.toml --seed 1",
)
@click.option(
    "--models", default="xgboost,lightgbm,catboost", metavar="NAMES", help=f"Of {', '.join(MODELS)}, or module:Class."
)
@settings(
    *("horizon", "data", "config", "label", *TABLE_SETTINGS, "calibrator", "calibrate", "class-weight"),
    data="Bars, as for calibrant train.  [default: five stocks]",
    calibrate="always, if_better or auto, as for calibrant train.",
)
@click.option("--predictions", metavar="FILE", help="Calibrate these, which exist, in place of training models.")
@click.option(
    "--score",
    multiple=True,
    metavar="COLUMNS",
    help="Of --predictions: a model's column per class, p_a,p_b, or that of the larger of two labels. May be "
    "repeated.  [default: raw_CLASS, raw_MODEL_CLASS as in a run's oof.parquet, or p]",
)
@click.option("--members", metavar="NAMES", help="Of --predictions: names of the models.")
@click.option(
    "--variant",
    default="nested",
    metavar="NAME",
    help="nested: no row's label reaches its own prediction; blocks: faster, labels reach it through the models; "
    "specified: a random 30% calibrates itself too, which is optimistic.",
)
@click.option("--folds", "n_folds", type=int, default=5, metavar="N", help="Folds in time.")
@settings("test", "embargo", embargo="Before test.")
@settings("stakes", "cost-bp", "seed", "threads", "runs", threads="Threads of each model's library.")
@no_gate_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    models: str,
    config_file: str | None,
    predictions: str | None,
    score: tuple[str, ...],
    members: str | None,
    variant: str,
    n_folds: int,
    root: str,
    no_gate: bool,
    **given: Any,
) -> None:
    """Predict every row by models that have not seen it, calibrate the predictions, and stack them.

    The last part in time is left for measuring. Each row before it is predicted by models that were trained without
    it and without labels that overlap its own, and calibrated by a calibrator that knows nothing of its label. A
    plain average and a meta-learner are then compared on the last part, with raw and with calibrated inputs; stakes
    and thresholds are chosen before it and judged on it. All goes into a new folder of --runs.

    With --predictions no model is trained: each row before the last part is calibrated by fits to other blocks in
    time, purged, and all else is the same. That they are out of fold is for who made them to see to.

    Options win over the settings of --config, whose model is not used: --models names all of them.

    Exit codes: 0 all gates passed, 1 a gate failed (the run is there all the same), 2 wrong usage or bad input.
    """
    from calibrant.training import is_estimator_name, run_predictions, run_stack

    settings = settings_of(ctx, config_file, given)
    if predictions is not None or settings.get("score"):
        if predictions is not None and ctx.get_parameter_source("table") is ParameterSource.COMMANDLINE:
            raise InvalidInputError("--predictions and --table both name a file. Leave one out.")
        chosen = with_scores(_without_models(ctx, settings), predictions, score, split_list(members or ""))
        run = run_predictions(chosen, root=root, echo=True)
        echo(closing_text(run))
        ctx.exit(0 if no_gate else gates_code(run))
    if score or members:
        raise InvalidInputError("--score and --members are of --predictions. Name the file.")
    names = [name.strip() for name in models.split(",") if name.strip()]
    check_choice("--variant", variant, VARIANTS)
    for name in names:
        if not is_estimator_name(name):
            check_choice("--models", name, list(MODELS))
    config = TrainConfig(**{**settings, "model": names[0] if names else ""})
    run = run_stack(config, names, variant=variant, n_folds=n_folds, root=root, echo=True)  # type: ignore[arg-type]
    echo(closing_text(run))
    ctx.exit(0 if no_gate else gates_code(run))


def with_scores(
    settings: dict[str, Any], file: str | None, score: Sequence[str], members: Sequence[str]
) -> TrainConfig:
    """Return settings that name the file of predictions, and the columns of each model in it."""
    from calibrant.tables import open_rows
    from calibrant.training import find_scores

    if file is None:
        config = TrainConfig(**settings)
        source = open_rows(config.table)
    else:  # a file that isn't there is told before settings that are missing
        source = open_rows(file)
        config = TrainConfig(**(settings | {"table": file, "score": {}}))
    if file is None and not score and not members:
        return config
    columns = [split_names([text], source.names) for text in score]
    return replace(config, score=find_scores(source, config.label, score=columns, members=members))


def _without_models(ctx: click.Context, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those of models; refuse options of models that were given."""
    for option in ("models", "variant", "n_folds", "class_weight", "features", "n_threads"):
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            name = {"n_folds": "folds", "n_threads": "threads"}.get(option, option.replace("_", "-"))
            raise InvalidInputError(f"--{name} is for models that are trained, and --predictions exist. Leave it out.")
    return {name: value for name, value in settings.items() if name not in ("class_weight", "features", "n_threads")}


def closing_text(run: Run) -> str:
    """Return what a run found: each way to use the models, what calibration changed, and what acting on it gives."""
    metrics = run.metrics
    parts = [
        measured_part(metrics["test"]),
        "Plain average of the models:",
        scores_table(metrics),
        "",
        stacking_table(metrics["stacking"]),
        differences_table(metrics["stacking"]),
        "",
        *metrics["calibration"]["decision"].split("; "),
        "",
        thresholds_text(metrics["money"]),
        money_text(metrics),
        "",
    ]
    return "\n".join([*parts, *gate_lines(metrics), *last_lines(run)])


def stacking_table(stacking: dict[str, Any]) -> str:
    """Return the figures of each way on the test part."""
    rows = []
    base = next(method for method in stacking["methods"] if method["name"] == CLASS_FREQUENCIES)
    for method in stacking["methods"]:
        gap, log_loss = method["skill"], method["log_loss"]
        row = [method["name"]]
        for name in ("log_loss", "brier"):
            skill = None if method[name] is None or not base[name] else 1.0 - method[name] / base[name]
            row += [
                "infinite" if method[name] is None else _value(method[name]),
                "" if skill is None else f"{skill:+z.4f}",
            ]
        is_infinite = log_loss is None or gap["value"] is None  # its own, or that of class frequencies
        ends = ["", ""] if is_infinite else [f"{gap['value']:+z.4f}", bracketed(gap["low"], gap["high"])]
        rows.append([*row, _value(method["ece"]), *ends])
    level = f"{100 * stacking['methods'][0]['skill']['level']:g}% interval"
    return table(["", "log loss", "skill", "Brier", "skill", "ECE", "log loss less no skill", level], rows)


def differences_table(stacking: dict[str, Any]) -> str:
    """Return by how much calibrated inputs change the log loss."""
    rows = [
        [name, f"{found['value']:+z.4f}", bracketed(found["low"], found["high"])]
        for name, found in stacking["differences"].items()
    ]
    level = f"{100 * stacking['methods'][0]['skill']['level']:g}% interval"
    return "\n" + table(["log loss, calibrated less raw", "", level], rows)


def _value(value: float | None) -> str:
    return "" if value is None else figure(value)
