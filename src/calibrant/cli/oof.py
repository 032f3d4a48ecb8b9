"""calibrant oof: calibrated out-of-fold predictions of several models, and a stack on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from calibrant.cli import choices
from calibrant.cli.common import echo, new_command
from calibrant.cli.option_texts import split_list, split_names
from calibrant.cli.train import TABLE_SETTINGS, gates_code, no_gate_option, settings, settings_of
from calibrant.errors import InvalidInputError

if TYPE_CHECKING:
    from calibrant.training import TrainConfig


@new_command(
    "oof",
    "calibrant oof --models xgboost,lightgbm,catboost --horizon 20",
    "calibrant oof --models xgboost,logistic --horizon 20 --data bars.parquet --folds 4",
    "calibrant oof --models xgboost --variant specified --calibrator specified",
    "calibrant oof --predictions oof.parquet --label y --time t --label-end known --score p_a,p_b",
    "calibrant oof --models xgboost,catboost --config experiments/runs/RUN/config.toml --seed 1",
)
@click.option(
    "--models",
    default="xgboost,lightgbm,catboost",
    metavar="NAMES",
    help=f"Of {', '.join(choices.MODELS)}, or module:Class.",
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
    from calibrant.cli.run_text import stack_text
    from calibrant.training import MODELS, VARIANTS, TrainConfig, is_estimator_name, run_predictions, run_stack
    from calibrant.validation import check_choice

    settings = settings_of(ctx, config_file, given)
    if predictions is not None or settings.get("score"):
        if predictions is not None and ctx.get_parameter_source("table") is ParameterSource.COMMANDLINE:
            raise InvalidInputError("--predictions and --table both name a file. Leave one out.")
        chosen = with_scores(_without_models(ctx, settings), predictions, score, split_list(members or ""))
        run = run_predictions(chosen, root=root, echo=True)
        echo(stack_text(run))
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
    echo(stack_text(run))
    ctx.exit(0 if no_gate else gates_code(run))


def with_scores(
    settings: dict[str, Any], file: str | None, score: Sequence[str], members: Sequence[str]
) -> TrainConfig:
    """Return settings that name the file of predictions, and the columns of each model in it."""
    from calibrant.tables import open_rows
    from calibrant.training import TrainConfig, find_scores

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
