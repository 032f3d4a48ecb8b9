"""A training run from bars to the finished folder."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import persistence
from calibrant.results import plain
from calibrant.training.acting import judge_actions
from calibrant.training.bars import Bars, read_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, make_dataset
from calibrant.training.default_data import default_bars
from calibrant.training.holdout import Holdout, hold_out
from calibrant.training.labels import label_bars
from calibrant.training.metrics_report import (
    AFTER,
    BEFORE,
    NO_SKILL,
    OVERHEAD_LIMIT,
    Forecasts,
    calibration_block,
    figures,
    gates,
    leak_warnings,
    overhead_verdict,
    targets,
)
from calibrant.training.provenance import provenance
from calibrant.training.run_folder import DEFAULT_ROOT, Run, load_run, new_run, write_json, write_table
from calibrant.training.run_log import LOGGER, logged_to
from calibrant.training.run_pictures import draw_run, write_page
from calibrant.training.sizing import StakeRule
from calibrant.training.trainer import Trained, overhead, train_model

_LOG = logging.getLogger(LOGGER)
_GAPS_SHOWN = 3


def run_training(
    config: TrainConfig,
    *,
    bars: Bars | None = None,
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
        If the bars or settings can't be used.
    """
    record: dict[str, Any] = {"started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
    began = time.perf_counter()
    with new_run(root, f"{config.model}_h{config.horizon}", record) as folder:
        with logged_to(folder / "log.jsonl", echo=echo):
            _LOG.info("Run %s, seed %d", record["run_id"], config.seed)
            used = read_run_bars(config) if bars is None else bars
            data = run_dataset(config, used)
            parts = run_parts(config, used, data)
            trained = train_model(config, data, parts, model=model)
            metrics = measure(config, data, parts, trained)
            _write(folder, config, used, data, parts, trained, metrics)
            record |= {
                "cpu_s": {name: round(value, 6) for name, value in trained.cpu_s.items()},
                "overhead": {
                    "share_of_model_fit": round(overhead(trained.cpu_s), 6),
                    "limit": OVERHEAD_LIMIT,
                    "within_limit": overhead(trained.cpu_s) < OVERHEAD_LIMIT,
                },
            }
            block = metrics["calibration"]
            _LOG.info(
                "Calibration complete: Brier %.4f -> %.4f, ECE %.4f -> %.4f",
                *(block[key] for key in ("brier_before", "brier_after", "ece_before", "ece_after")),
            )
            for warning in metrics["warnings"]:
                _LOG.warning("%s", warning)
            _LOG.info("Calibration took %.2f %% of the model's training time", 100.0 * overhead(trained.cpu_s))
        record["wall_s"] = round(time.perf_counter() - began, 3)
    return load_run(Path(root) / record["run_id"])


def read_run_bars(config: TrainConfig) -> Bars:
    """Read the bars that the settings name, or those that ship with a dependency."""
    bars = read_bars(config.data) if config.data else default_bars()
    _LOG.info(
        "Bars: %s, %s of %s, %s to %s",
        bars.source,
        f"{bars.n_rows:,}",
        ", ".join(bars.symbols[:10]),
        _minute(bars.time.min()),
        _minute(bars.time.max()),
    )
    for gap in bars.gaps[:_GAPS_SHOWN]:
        _LOG.info("Gap: %s", gap)
    if len(bars.gaps) > _GAPS_SHOWN:
        _LOG.info("Gaps: %s more", f"{len(bars.gaps) - _GAPS_SHOWN:,}")
    return bars


def run_dataset(config: TrainConfig, bars: Bars) -> Dataset:
    """Return the features and labels that the settings ask for."""
    labels = label_bars(
        bars, kind=config.label, horizon=config.horizon, profit=config.profit, stop=config.stop, band=config.band
    )
    data = make_dataset(bars, labels, horizon=config.horizon)
    shares = ", ".join(f"{label}: {rate:.3f}" for label, rate in zip(data.classes, data.class_rates(), strict=True))
    _LOG.info(
        "Rows: %s with %d features and a finished label (%s), worth %.0f independent ones",
        f"{data.n_rows:,}",
        len(data.names),
        shares,
        data.weight.sum(),
    )
    return data


def run_parts(config: TrainConfig, bars: Bars, data: Dataset) -> Holdout:
    """Return the parts of the rows in time."""
    parts = hold_out(
        data,
        validation=config.validation,
        test=config.test,
        stop=config.stop_share,
        embargo=bars.step * config.embargo,
    )
    _LOG.info(
        "Split in time: fit %d, stop %d, validation %d, test %d rows; %d purged",
        parts.fit.size,
        parts.stop.size,
        parts.validation.size,
        parts.test.size,
        parts.n_purged,
    )
    return parts


def measure(config: TrainConfig, data: Dataset, parts: Holdout, trained: Trained) -> dict[str, Any]:
    """Return all that metrics.json says: the same for the same bars, settings and seed.

    Of the overhead it says only on which side of its limit it is, as seconds never repeat.
    """
    validation, test = data.take(parts.validation), data.take(parts.test)
    on_validation = figures(validation, trained.validation, seed=config.seed)
    on_test = figures(test, trained.test, seed=config.seed)
    block = calibration_block(
        on_test,
        calibrator=config.calibrator,
        fitted_on=f"validation part: {validation.n_rows:,} rows, {on_validation['from']} to {on_validation['to']}",
        measured_on=f"untouched test part: {test.n_rows:,} rows, {on_test['from']} to {on_test['to']}",
        decided=trained.calibration.as_dict(),
        overhead=overhead_verdict(overhead(trained.cpu_s)),
    )
    document = {
        "calibration": block,
        "gates": gates(on_test),
        "targets": targets(on_test),
        "test": on_test,
        "validation": {"calibrated_by": "five blocks in time, each by a fit to the others, purged", **on_validation},
        "model": {"name": config.model, "rounds": trained.fitted.model.n_rounds_, "seed": config.seed},
        "split": {
            **{name: int(getattr(parts, name).size) for name in ("fit", "stop", "validation", "test")},
            "purged": parts.n_purged,
        },
        "acting": judge_actions(
            validation, trained.validation, test, trained.test, rule=_stakes(config), seed=config.seed
        ),
        "warnings": leak_warnings(on_test, on_validation),
    }
    found: dict[str, Any] = plain(document)
    return found


def _stakes(config: TrainConfig) -> StakeRule:
    """Return half Kelly, at the moves that end a label, where barriers end it."""
    return StakeRule(up=config.profit, down=config.stop) if config.label == "triple_barrier" else StakeRule()


def _minute(when: np.datetime64) -> str:
    return str(when.astype("datetime64[m]"))


def _write(
    folder: Path,
    config: TrainConfig,
    bars: Bars,
    data: Dataset,
    parts: Holdout,
    trained: Trained,
    metrics: dict[str, Any],
) -> None:
    """Write all files of the run but the log and the record."""
    found = provenance(bars, data, config.model)
    (folder / "config.toml").write_text(config.to_toml(found), encoding="utf-8", newline="\n")
    write_json(folder / "metrics.json", metrics)
    checkpoints = folder / "checkpoints"
    checkpoints.mkdir()
    trained.fitted.model.save(checkpoints)
    metadata = {"model": config.model, "horizon": config.horizon, "data_sha256": found["data_sha256"]}
    for suffix in ("json", "pkl"):
        persistence.save(trained.fitted.calibrator, checkpoints / f"calibrator.{suffix}", metadata=metadata)
    if trained.fitted.shift is not None:
        persistence.save(trained.fitted.shift, checkpoints / "prior_shift.json")
    validation, test = data.take(parts.validation), data.take(parts.test)
    write_table(folder / "oof.parquet", _predictions(validation, trained.validation))
    write_table(folder / "predictions.parquet", _predictions(test, trained.test))
    (folder / "plots").mkdir()
    draw_run(folder / "plots", test, trained.test)
    write_page(
        folder / "report.html",
        test,
        trained.test,
        title=f"{config.model}, horizon {config.horizon}: calibrated by {config.calibrator}, on the test part",
        source=bars.source,
    )


def _predictions(rows: Dataset, forecasts: Forecasts) -> dict[str, Any]:
    """Return the columns of predictions.parquet, and of oof.parquet, whose calibrated ones are cross-fitted."""
    columns: dict[str, Any] = {
        "time": rows.time,
        "label_end": rows.label_end,
        "symbol": rows.symbol,
        "y": rows.y,
        "label_return": rows.label_return,
        "uniqueness": rows.weight,
    }
    for name, prefix in ((BEFORE, "raw"), (AFTER, "p"), (NO_SKILL, "no_skill")):
        for k, label in enumerate(rows.classes.tolist()):
            columns[f"{prefix}_{label}"] = forecasts.named()[name][:, k]
    return columns
