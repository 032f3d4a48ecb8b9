"""A run of several models: calibrated out-of-fold predictions, a stack on top, judged on the untouched test part."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from calibrant import persistence
from calibrant.dependence import PurgedTimeSeriesSplit, block_length
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.prior import PriorShift
from calibrant.results import plain
from calibrant.training.acting import judge_actions
from calibrant.training.bars import Bars
from calibrant.training.calibration import apply_calibrator
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import (
    OVERHEAD_LIMIT,
    Forecasts,
    calibration_block,
    figures,
    gates,
    leak_warnings,
    overhead_verdict,
    targets,
)
from calibrant.training.models import Model, make_model
from calibrant.training.out_of_fold import OutOfFold, Variant, fit_stopped, out_of_fold_predictions
from calibrant.training.provenance import provenance
from calibrant.training.run_folder import DEFAULT_ROOT, Run, load_run, new_run, write_json, write_table
from calibrant.training.run_log import LOGGER, logged_to
from calibrant.training.run_pictures import draw_run, write_page
from calibrant.training.sizing import StakeRule
from calibrant.training.stacking import (
    NO_SKILL,
    MetaLearner,
    StackComparison,
    compare_stacks,
    fit_meta_learner,
    stack_predictions,
)
from calibrant.training.trainer import unweighted
from calibrant.training.training_run import read_run_bars, run_dataset
from calibrant.validation import Labels

_LOG = logging.getLogger(f"{LOGGER}.stack")


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One model of a stack.

    Attributes
    ----------
    out_of_fold : OutOfFold
        Of the rows before the test part.
    model : Model
        Fitted to all of these.
    shift : PriorShift or None
        Undoes the weights that classes had in its training.
    raw, calibrated : ndarray of shape (n_test, K)
        What it says of the test part.
    """

    out_of_fold: OutOfFold
    model: Model
    shift: PriorShift | None
    raw: FloatArray
    calibrated: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Models, and what ways of using them say of the test part.

    Attributes
    ----------
    members : dict of str to Member
    predictions : dict of str to ndarray
        As `calibrant.training.stacking.stack_predictions` gives them.
    meta_learner : MetaLearner
        Fitted to calibrated out-of-fold predictions.
    before, test : Dataset
        The rows of the fit, and those of the test part.
    """

    members: dict[str, Member]
    predictions: dict[str, FloatArray]
    meta_learner: MetaLearner
    before: Dataset
    test: Dataset

    def compare(self, *, seed: int = 0) -> StackComparison:
        """Compare the ways on the test part."""
        labels = Labels(self.test.codes, self.test.classes)
        return compare_stacks(
            self.predictions, labels, block=block_length(self.test.time, self.test.label_end), seed=seed
        )

    def forecasts(self) -> tuple[Forecasts, Forecasts]:
        """Return the plain averages of the models, raw and calibrated: out of fold, and of the test part."""
        found = [member.out_of_fold for member in self.members.values()]
        constant = np.tile(self.before.class_rates(), (self.before.n_rows, 1))
        earlier = Forecasts(
            np.mean([one.raw for one in found], axis=0), np.mean([one.calibrated for one in found], axis=0), constant
        )
        return earlier, Forecasts(
            self.predictions["average, raw"], self.predictions["average, calibrated"], self.predictions[NO_SKILL]
        )


def split_test(data: Dataset, share: float, embargo: np.timedelta64) -> tuple[Dataset, Dataset]:
    """Return the rows whose labels end before the test part starts, and the test part: the last rows in time."""
    split = PurgedTimeSeriesSplit(
        1, test_size=max(1, round(share * data.n_rows)), times=data.time, label_end=data.label_end, purge=embargo
    )
    before, test = next(split.split(data.X))
    return data.take(before), data.take(test)


def fit_stack(
    config: TrainConfig,
    models: Sequence[Any],
    before: Dataset,
    test: Dataset,
    *,
    variant: Variant = "nested",
    n_folds: int = 5,
) -> Stack:
    """Fit each model out of fold and to all rows before the test part, and stack them.

    Parameters
    ----------
    config : TrainConfig
        Its calibrator, class weights, seed, threads and `uniqueness` are used, and its `params`, which are those of
        one library, where there is one model.
    models : sequence of str or scikit-learn classifier
    before, test : Dataset
    variant, n_folds
        As for `calibrant.training.out_of_fold.out_of_fold_predictions`.

    Notes
    -----
    The labels of the test part are read by nothing here.
    """
    names = [model if isinstance(model, str) else type(model).__name__ for model in models]
    if not names or len(set(names)) < len(names):
        raise InvalidInputError(f"models={names!r} names none, or one twice. Pass different models.")
    if config.params and len(names) > 1:
        raise InvalidInputError(
            f"params={config.params!r:.80} are those of one library, and there are {len(names)} models. Leave them "
            "out, or pass one model."
        )
    params = config.params
    members = {}
    for name, model in zip(names, models, strict=True):
        found = out_of_fold_predictions(
            before,
            model,
            calibrator=config.calibrator,
            variant=variant,
            n_folds=n_folds,
            seed=config.seed,
            n_threads=config.n_threads,
            params=params,
            uniqueness=config.uniqueness,
            class_weight=config.class_weight,
            calibrate=config.calibrate,
            progress=lambda line, name=name: _LOG.info("%s, %s", name, line),  # type: ignore[misc]
        )
        fitted, shift = fit_stopped(
            make_model(model, before.classes.size, seed=config.seed, n_threads=config.n_threads, params=params),
            before,
            np.arange(before.n_rows),
            uniqueness=config.uniqueness,
            class_weight=config.class_weight,
        )
        raw = fitted.predict_proba(test.X)
        _LOG.info("%s: %s", name, found.calibration.describe())
        members[name] = Member(found, fitted, shift, raw, apply_calibrator(found.calibrator, unweighted(raw, shift)))
    calibrated = {name: member.out_of_fold.calibrated for name, member in members.items()}
    predictions = stack_predictions(
        {name: member.out_of_fold.raw for name, member in members.items()},
        calibrated,
        {name: member.raw for name, member in members.items()},
        {name: member.calibrated for name, member in members.items()},
        Labels(before.codes, before.classes),
        sample_weight=before.weight,
    )
    learner = fit_meta_learner(list(calibrated.values()), before.y, sample_weight=before.weight, classes=before.classes)
    return Stack(members, predictions, learner, before, test)


def run_stack(
    config: TrainConfig,
    models: Sequence[str],
    *,
    variant: Variant = "nested",
    n_folds: int = 5,
    rule: StakeRule | None = None,
    bars: Bars | None = None,
    root: str | os.PathLike[str] = DEFAULT_ROOT,
    echo: bool = False,
) -> Run:
    """Predict out of fold, calibrate, stack, judge, and write the folder of the run.

    Parameters
    ----------
    config : TrainConfig
        As for `calibrant.training.training_run.run_training`; its model is the first one.
    models : sequence of str
    variant, n_folds
        As for `calibrant.training.out_of_fold.out_of_fold_predictions`.
    rule : StakeRule, optional
        What bets win, lose and cost, for the part on acting.
    bars : Bars, optional
        Instead of those of ``config.data``.
    root : path-like
        The folder of all runs.
    echo : bool
        Whether to log to standard error too.

    Returns
    -------
    Run
        The finished run. A run that ends early leaves none.

    Raises
    ------
    CalibrantError
        If the bars or settings can't be used.
    """
    record: dict[str, Any] = {"started": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"}
    began = time.perf_counter()
    with new_run(root, f"oof_h{config.horizon}", record) as folder:
        with logged_to(folder / "log.jsonl", echo=echo):
            _LOG.info("Run %s: %s, variant %s, seed %d", record["run_id"], ", ".join(models), variant, config.seed)
            used = read_run_bars(config) if bars is None else bars
            data = run_dataset(config, used)
            before, test = split_test(data, config.test, used.step * config.embargo)
            stack = fit_stack(config, models, before, test, variant=variant, n_folds=n_folds)
            metrics = measure_stack(config, stack, variant=variant, n_folds=n_folds, rule=rule)
            found = {**provenance(used, data, config.model), "command": "oof", "models": list(models)}
            found |= {"variant": variant, "n_folds": n_folds}
            _write(folder, config, found, used.source, stack, metrics)
            record |= _costs(stack)
            block = metrics["calibration"]
            _LOG.info(
                "Calibration complete: Brier %.4f -> %.4f, ECE %.4f -> %.4f",
                *(block[key] for key in ("brier_before", "brier_after", "ece_before", "ece_after")),
            )
            for warning in metrics["warnings"]:
                _LOG.warning("%s", warning)
        record["wall_s"] = round(time.perf_counter() - began, 3)
    return load_run(Path(root) / record["run_id"])


def measure_stack(
    config: TrainConfig, stack: Stack, *, variant: str, n_folds: int, rule: StakeRule | None = None
) -> dict[str, Any]:
    """Return all that metrics.json says: the same for the same bars, settings and seed."""
    before, test = stack.before, stack.test
    earlier, later = stack.forecasts()
    on_earlier, on_test = figures(before, earlier, seed=config.seed), figures(test, later, seed=config.seed)
    document = {
        "calibration": calibration_block(
            on_test,
            calibrator=config.calibrator,
            fitted_on=f"out-of-fold predictions of {before.n_rows:,} rows, {on_earlier['from']} to {on_earlier['to']}",
            measured_on=f"untouched test part: {test.n_rows:,} rows, {on_test['from']} to {on_test['to']}",
            decided=_decisions(stack),
            overhead=overhead_verdict(_share(stack)),
        ),
        "gates": gates(on_test),
        "targets": targets(on_test),
        "test": on_test,
        "out_of_fold": {"variant": variant, "n_folds": n_folds, **on_earlier},
        "members": {name: _member_figures(config, stack, member) for name, member in stack.members.items()},
        "stacking": stack.compare(seed=config.seed).to_dict(),
        "acting": judge_actions(before, earlier, test, later, rule=rule, seed=config.seed),
        "warnings": leak_warnings(on_test, on_earlier),
        "forecast": "the plain average of the models",
    }
    found: dict[str, Any] = plain(document)
    return found


def _member_figures(config: TrainConfig, stack: Stack, member: Member) -> dict[str, Any]:
    constant = np.tile(stack.before.class_rates(), (stack.before.n_rows, 1))
    found = member.out_of_fold
    parts = {
        "out_of_fold": figures(stack.before, Forecasts(found.raw, found.calibrated, constant), seed=config.seed),
        "test": figures(
            stack.test, Forecasts(member.raw, member.calibrated, stack.predictions[NO_SKILL]), seed=config.seed
        ),
    }
    calibration = {"calibrator": config.calibrator, **found.calibration.as_dict()}
    return {"rounds": member.model.n_rounds_, "n_models": found.n_models, "calibration": calibration, **parts}


def _decisions(stack: Stack) -> dict[str, Any]:
    """Return whose calibrator was used, and why."""
    found = {name: member.out_of_fold.calibration for name, member in stack.members.items()}
    return {
        "used": {name: one.is_used for name, one in found.items()},
        "decision": "; ".join(f"{name}: {one.describe()}" for name, one in found.items()),
    }


def _share(stack: Stack) -> float:
    """Return the processor time of calibration as a share of that of all fits of models."""
    found = [member.out_of_fold for member in stack.members.values()]
    return sum(one.calibrate_s for one in found) / max(sum(one.train_s for one in found), 1e-9)


def _costs(stack: Stack) -> dict[str, Any]:
    """Return the processor time of each step, and calibration's as a share of that of all fits of models."""
    found = {name: member.out_of_fold for name, member in stack.members.items()}
    share = _share(stack)
    cpu_s = {f"{name}_train": round(one.train_s, 6) for name, one in found.items()}
    cpu_s |= {f"{name}_calibrate": round(one.calibrate_s, 6) for name, one in found.items()}
    overhead = {"share_of_model_fit": round(share, 6), "limit": OVERHEAD_LIMIT, "within_limit": share < OVERHEAD_LIMIT}
    return {"cpu_s": cpu_s, "overhead": overhead}


def _write(
    folder: Path, config: TrainConfig, found: dict[str, Any], source: str, stack: Stack, metrics: dict[str, Any]
) -> None:
    (folder / "config.toml").write_text(config.to_toml(found), encoding="utf-8", newline="\n")
    write_json(folder / "metrics.json", metrics)
    metadata = {"models": list(stack.members), "horizon": config.horizon, "data_sha256": found["data_sha256"]}
    for name, member in stack.members.items():
        checkpoints = folder / "checkpoints" / name
        checkpoints.mkdir(parents=True)
        member.model.save(checkpoints)
        for suffix in ("json", "pkl"):
            persistence.save(member.out_of_fold.calibrator, checkpoints / f"calibrator.{suffix}", metadata=metadata)
        if member.shift is not None:
            persistence.save(member.shift, checkpoints / "prior_shift.json")
    learner = stack.meta_learner
    write_json(
        folder / "checkpoints" / "meta_learner.json",
        {
            "models": list(stack.members),
            "inputs": "calibrated probabilities",
            "classes": stack.before.classes.tolist(),
            "coef": learner.coef.tolist(),
            "intercept": [plain(value) for value in learner.intercept.tolist()],
            "clip": learner.clip,
        },
    )
    earlier, later = stack.forecasts()
    members = stack.members.items()
    write_table(
        folder / "oof.parquet",
        {
            **_columns(stack.before),
            "fold": next(iter(stack.members.values())).out_of_fold.fold,
            **_probabilities(stack.before, {"raw": earlier.raw, "p": earlier.calibrated}),
            **_probabilities(stack.before, {f"raw_{name}": member.out_of_fold.raw for name, member in members}),
            **_probabilities(stack.before, {f"p_{name}": member.out_of_fold.calibrated for name, member in members}),
        },
    )
    shown = {"raw": later.raw, "p": later.calibrated, "no_skill": later.class_frequencies}
    shown |= {f"raw_{name}": member.raw for name, member in members}
    shown |= {f"p_{name}": member.calibrated for name, member in members}
    shown["p_meta_learner"] = stack.predictions["meta-learner, calibrated"]
    write_table(folder / "predictions.parquet", {**_columns(stack.test), **_probabilities(stack.test, shown)})
    (folder / "plots").mkdir()
    draw_run(folder / "plots", stack.test, later)
    title = f"Average of {', '.join(stack.members)}, horizon {config.horizon}: calibrated by {config.calibrator}"
    write_page(folder / "report.html", stack.test, later, title=f"{title}, on the test part", source=source)


def _columns(data: Dataset) -> dict[str, Any]:
    return {
        "time": data.time,
        "label_end": data.label_end,
        "symbol": data.symbol,
        "y": data.y,
        "label_return": data.label_return,
        "uniqueness": data.weight,
    }


def _probabilities(data: Dataset, named: dict[str, FloatArray]) -> dict[str, FloatArray]:
    return {
        f"{name}_{label}": prob[:, k] for name, prob in named.items() for k, label in enumerate(data.classes.tolist())
    }
