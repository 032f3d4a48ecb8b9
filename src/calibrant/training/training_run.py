"""One training run: from bars or a table to the folder of one model, or of several that are stacked.

A source gives rows with labels (`run_dataset`). Rows are cut in time; models and calibrators are fitted to the rows
before the test part (`trainer`, or `out_of_fold` and `stacking`), which gives an `Outcome`. Figures are measured on the
test part (`outcome`), and all of it goes into a folder that appears when it is whole (`run_folder`).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from calibrant.errors import InvalidInputError
from calibrant.persistence import write_whole
from calibrant.phrases import quoted
from calibrant.training import run_folder
from calibrant.training.bars import Bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, Holdout, hold_out, test_part
from calibrant.training.estimators import setting_of, short_name
from calibrant.training.feature_leaks import feature_warnings
from calibrant.training.given_predictions import N_FOLDS, stack_given
from calibrant.training.models import SklearnModel, check_features, make_model
from calibrant.training.money import Money
from calibrant.training.money_page import draw_money
from calibrant.training.out_of_fold import Variant, check_folds
from calibrant.training.outcome import (
    Outcome,
    measure,
    money_of,
    outcome_of_one,
    outcome_of_several,
    outcome_of_windows,
    part_sizes,
)
from calibrant.training.run_folder import DEFAULT_ROOT, Run
from calibrant.training.run_log import LOGGER, logged_to
from calibrant.training.run_pictures import draw_run, write_page
from calibrant.training.sources import Source, open_source
from calibrant.training.stacking import fit_stack, model_names
from calibrant.training.trainer import train_model
from calibrant.training.walk_forward import walk_forward
from calibrant.training.walk_forward_pictures import draw_walk_forward

_LOG = logging.getLogger(LOGGER)
#: Different times of a table, at least: the validation part alone is cut into five blocks in time.
_FEWEST_TIMES = 25

_Path: TypeAlias = str | os.PathLike[str]
#: Trains on these rows.
_Train: TypeAlias = Callable[[Dataset], Outcome]


def run_training(
    config: TrainConfig,
    *,
    bars: Bars | None = None,
    table: Any = None,
    model: Any = None,
    root: str | os.PathLike[str] = DEFAULT_ROOT,
    echo: bool = False,
) -> Run:
    """Train, calibrate and judge a model, and write the folder of the run.

    Parameters
    ----------
    config : TrainConfig
    bars : Bars, optional
        Instead of those of ``config.data``.
    table : frame, or whatever `calibrant.tables.open_rows` takes, optional
        Instead of the file ``config.table``, which then is a name only.
    model : scikit-learn classifier, optional
        Instead of the model that the settings name, which should then be "sklearn".
    root : path-like
        The folder of all runs.
    echo : bool
        Whether to log to standard error too.

    Returns
    -------
    Run
        The finished run. A run that ends early, for whatever reason, leaves none.

    Raises
    ------
    CalibrantError
        If the rows or settings can't be used.
    """
    _check_trains(config)
    if model is not None and config.model == SklearnModel.name:
        config = _with_class(config, model)

    def train(data: Dataset) -> Outcome:
        _check_model(config, config.model if model is None else model, data)
        if config.walk_forward:
            return outcome_of_windows(config, walk_forward(config, data, model=model))
        parts = run_parts(config, data)
        return outcome_of_one(config, data, parts, train_model(config, data, parts, model=model))

    return _run(config, short_name(config.model), "", train, _one_of(bars, table), root, echo)


def run_stack(
    config: TrainConfig,
    models: Sequence[str],
    *,
    variant: Variant = "nested",
    n_folds: int = 5,
    bars: Bars | None = None,
    table: Any = None,
    root: str | os.PathLike[str] = DEFAULT_ROOT,
    echo: bool = False,
) -> Run:
    """Predict out of fold by several models, calibrate, stack, judge, and write the folder of the run.

    Parameters
    ----------
    config : TrainConfig
        As for `run_training`; its model is the first one.
    models : sequence of str
    variant, n_folds
        As for `calibrant.training.out_of_fold.out_of_fold_predictions`.
    bars, table, root, echo
        As for `run_training`.

    Returns
    -------
    Run
        The finished run. A run that ends early leaves none.

    Raises
    ------
    CalibrantError
        If the rows or settings can't be used.
    """
    _check_one_part(config)
    _check_trains(config)
    check_folds(n_folds, variant)

    def train(data: Dataset) -> Outcome:
        for model in models:
            _check_model(config, model, data)
        before, test = test_part(data, test=config.test, embargo=config.embargo)
        stack = fit_stack(config, models, before, test, variant=variant, n_folds=n_folds)
        return outcome_of_several(config, stack, variant=variant, n_folds=n_folds)

    of = f": {', '.join(model_names(models))}, variant {variant}"
    return _run(config, "oof", of, train, _one_of(bars, table), root, echo)


def run_predictions(
    config: TrainConfig,
    *,
    table: Any = None,
    root: str | os.PathLike[str] = DEFAULT_ROOT,
    echo: bool = False,
) -> Run:
    """Calibrate predictions that exist, stack them, judge, and write the folder of the run.

    Parameters
    ----------
    config : TrainConfig
        ``table`` is the file, and ``score`` names the columns of each model's out-of-fold probabilities.
    table : frame, or whatever `calibrant.tables.open_rows` takes, optional
        Instead of the file, whose name is then a name only.
    root, echo
        As for `run_stack`.

    Returns
    -------
    Run
        The finished run. A run that ends early leaves none.

    Raises
    ------
    CalibrantError
        If the rows or settings can't be used.
    """
    if not config.score:
        raise InvalidInputError("score names no columns of predictions. Name those of each model.")
    _check_one_part(config)

    def train(data: Dataset) -> Outcome:
        before, test = test_part(data, test=config.test, embargo=config.embargo)
        return outcome_of_several(config, stack_given(config, before, test), variant="given", n_folds=N_FOLDS)

    of = f": predictions of {', '.join(config.score)}"
    return _run(config, "oof", of, train, table, root, echo)


def _check_trains(config: TrainConfig) -> None:
    """Refuse predictions that exist where a model is trained: their columns are no features."""
    if config.score:
        raise InvalidInputError(
            f"score names predictions that exist, of {quoted(list(config.score))}, and here models are trained. "
            "Calibrate them by calibrant oof --predictions, or leave score out."
        )


def _check_one_part(config: TrainConfig) -> None:
    """Refuse windows for several models, and for predictions that exist."""
    if config.walk_forward:
        raise InvalidInputError(
            f"walk_forward={config.walk_forward!r} is for one model that is trained: out-of-fold predictions have one "
            'test part. Pass walk_forward="", or call calibrant train for each model.'
        )


def _one_of(bars: Bars | None, table: Any) -> Any:
    """Return the rows that are given, of one kind, or None."""
    if bars is not None and table is not None:
        raise InvalidInputError("bars and table are both given, and a run is of one of them. Leave one out.")
    return table if bars is None else bars


def _check_model(config: TrainConfig, model: Any, data: Dataset) -> None:
    """Refuse rows and settings that a model doesn't take, before it is trained."""
    made = make_model(model, data.classes.size, **config.of_library())
    check_features(made, data.X, data.names, data.time)
    if config.class_weight == "balanced" and not made.takes_weight:
        raise InvalidInputError(
            f"class_weight='balanced', and fit of {made.called} takes no sample_weight. Leave class_weight out."
        )
    if config.uniqueness and not made.takes_weight and bool((data.weight != data.weight[0]).any()):
        _LOG.warning("Weights: fit of %s takes no sample_weight, so all rows count alike", made.called)


def _with_class(config: TrainConfig, model: Any) -> TrainConfig:
    """Return settings that name the class of a classifier and its parameters, as far as a file can hold them.

    So the run's config.toml trains it again. Other classifiers can only be passed from Python again.
    """
    found = setting_of(model)
    if found is None:
        _LOG.warning("Settings: %s can't be named in config.toml, so that trains no model again", type(model).__name__)
        return config
    name, params = found
    return replace(config, model=name, params={**params, **config.params})


def _run(config: TrainConfig, name: str, of: str, train: _Train, rows: Any, root: _Path, echo: bool) -> Run:
    """Read, train, measure and write; `of` is told of the run in the first line of its log."""
    record: dict[str, Any] = {"started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
    began = time.perf_counter()
    with run_folder.new_run(root, f"{name}_{config.rows_name()}", record) as folder:
        with logged_to(folder / "log.jsonl", echo=echo):
            _LOG.info("Run %s%s, seed %d", record["run_id"], of, config.seed)
            used = open_source(config, rows)
            data = run_dataset(config, used)
            outcome = train(data)
            money = money_of(config, outcome)
            metrics = measure(config, outcome, money)
            metrics["warnings"] += feature_warnings(data) if config.table and not config.score else []
            _write(folder, config, used, data, outcome, metrics, money)
            record["cpu_s"] = {step: round(seconds, 6) for step, seconds in outcome.cpu_s.items()}
            block = metrics["calibration"]
            verdict = {key: block["overhead"][key] for key in ("limit", "within_limit")}
            share = None if outcome.overhead is None else round(outcome.overhead, 6)
            record["overhead"] = {"share_of_model_fit": share, **verdict}
            shown = [block[key] for key in ("brier_before", "brier_after", "ece_before", "ece_after")]
            _LOG.info("Calibration complete: Brier %.4f -> %.4f, ECE %.4f -> %.4f", *shown)
            for warning in metrics["warnings"]:
                _LOG.warning("%s", warning)
            if outcome.overhead is not None:
                above = "" if verdict["within_limit"] else f", above the limit of {100.0 * verdict['limit']:g} %"
                _LOG.info("Calibration took %.2f %% of the model's training time%s", 100.0 * outcome.overhead, above)
        record["wall_s"] = round(time.perf_counter() - began, 3)
    return run_folder.load_run(Path(root) / record["run_id"])


def run_dataset(config: TrainConfig, rows: Any = None) -> Dataset:
    """Return the rows with labels that the settings ask for: of their own source, or of bars, a table or a source."""
    source = open_source(config, rows)
    data = source.dataset(config)
    n_times = len(set(data.time.tolist()))
    if config.table and n_times < _FEWEST_TIMES:
        raise InvalidInputError(
            f"column {config.time!r} of {source.source} holds {n_times:,} different times in {data.n_rows:,} rows, and "
            f"a run cuts rows in time. Pass when each row was predicted: at least {_FEWEST_TIMES} different times."
        )
    shares = ", ".join(f"{label}: {rate:.3f}" for label, rate in zip(data.classes, data.class_rates(), strict=True))
    described = f"{data.n_rows:,} with {len(data.names)} features and a finished label ({shares})"
    _LOG.info("Rows: %s, worth %.0f independent ones", described, data.weight.sum())
    return data


def run_parts(config: TrainConfig, data: Dataset) -> Holdout:
    """Return the parts in time of the rows."""
    shares: dict[str, Any] = {"validation": config.validation, "test": config.test, "stop": config.stop_share}
    parts = hold_out(data, **shares, embargo=config.embargo)
    sizes = ", ".join(f"{name} {n}" for name, n in part_sizes(parts).items())
    _LOG.info("Split in time: %s rows; %d purged", sizes, parts.n_purged)
    return parts


def _write(
    folder: Path,
    config: TrainConfig,
    source: Source,
    data: Dataset,
    outcome: Outcome,
    metrics: dict[str, Any],
    money: Money,
) -> None:
    """Write all files of the run but the log and the record."""
    found = run_folder.provenance(source.provenance(), data, None if config.score else config.model) | outcome.found
    write_whole(folder / "config.toml", config.to_toml(found).encode())
    run_folder.write_json(folder / "metrics.json", metrics)
    labels = {"label": config.label} if config.table else {"horizon": config.horizon}
    metadata = {**outcome.metadata, **labels, "data_sha256": found["data_sha256"]}
    for name, trained in outcome.checkpoints.items():
        trained.save(folder / "checkpoints" / name, metadata)
    for name, document in outcome.documents.items():
        run_folder.write_json(folder / "checkpoints" / name, document)
    for name, columns in zip(("oof.parquet", "predictions.parquet"), outcome.tables, strict=True):
        run_folder.write_table(folder / name, columns, has_zone=source.has_zone)
    if money.paths:
        run_folder.write_table(folder / "equity.parquet", money.columns(), has_zone=source.has_zone)
    (folder / "plots").mkdir()
    draw_run(folder / "plots", outcome.test, outcome.test_forecasts)
    draw_money(folder / "plots", money)
    title = f"{outcome.title}, {config.describe_rows()}: calibrated by {config.calibrator}, on the test part"
    windows = metrics.get("walk_forward")
    if windows is not None:
        draw_walk_forward(folder / "plots" / "windows.png", windows)
    page: dict[str, Any] = {"title": title, "source": source.source, "windows": windows, "money": money}
    write_page(folder / "report.html", outcome.test, outcome.test_forecasts, **page)
