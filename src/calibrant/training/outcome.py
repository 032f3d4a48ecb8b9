"""Outcomes: what a run of one model, of windows, or of several models has trained, and what is measured of each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from calibrant.phrases import count
from calibrant.results import plain
from calibrant.training import metrics_report
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, Holdout
from calibrant.training.estimators import short_name
from calibrant.training.metrics_report import Forecasts
from calibrant.training.money import Money, ensembles_compared, evaluate_money
from calibrant.training.stacking import Stack
from calibrant.training.trainer import Trained, overhead
from calibrant.training.walk_forward import WalkForward, walk_forward_figures


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run has trained, and what its folder says of that beside what the folder of every run says."""

    #: The models, by the folder below checkpoints/ that keeps each; "" is checkpoints/ itself.
    checkpoints: dict[str, Trained]
    #: The rows before the test part that calibrators and thresholds may know of, and the test part.
    earlier: Dataset
    test: Dataset
    #: What the run is judged by, of both, and the `figures` of the earlier rows.
    forecasts: Forecasts
    test_forecasts: Forecasts
    on_earlier: dict[str, Any]
    #: What calibrators were fitted to, before the number of rows; whose calibrator is used, and why.
    fitted_on: str
    decision: dict[str, Any]
    #: Sections of metrics.json, and the columns of oof.parquet and of predictions.parquet.
    sections: dict[str, Any]
    tables: tuple[dict[str, Any], dict[str, Any]]
    #: The start of the title of the report.
    title: str
    #: Seconds of processor time by step, and those of calibration as a share of those of fitting models, if any.
    cpu_s: dict[str, float]
    overhead: float | None
    #: What calibrators are saved with.
    metadata: dict[str, Any]
    #: What config.toml says beside where the run comes from, and other documents below checkpoints/, by file name.
    found: dict[str, Any] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)
    #: The last entries of metrics.json.
    closing: dict[str, Any] = field(default_factory=dict)


def part_sizes(parts: Holdout) -> dict[str, int]:
    """Return the number of rows of each part."""
    return {name: int(getattr(parts, name).size) for name in ("fit", "stop", "validation", "test")}


def outcome_of_one(config: TrainConfig, data: Dataset, parts: Holdout, trained: Trained) -> Outcome:
    """Return what a run of one model, calibrated on the validation part, has trained."""
    validation, test = data.take(parts.validation), data.take(parts.test)
    on_validation = metrics_report.figures(validation, trained.earlier, rng=config.seed)
    calibrated_by = {"calibrated_by": "five blocks in time, each by a fit to the others, purged"}
    return Outcome(
        checkpoints={"": trained},
        earlier=validation,
        test=test,
        forecasts=trained.earlier,
        test_forecasts=trained.test,
        on_earlier=on_validation,
        fitted_on="validation part: ",
        decision=trained.calibration.as_dict(),
        sections={
            "validation": {**calibrated_by, **on_validation},
            "model": {"name": short_name(config.model), "rounds": trained.model.n_rounds_, "seed": config.seed},
            "split": {**part_sizes(parts), "purged": parts.n_purged},
        },
        tables=(validation.table(trained.earlier.columns()), test.table(trained.test.columns())),
        title=short_name(config.model),
        overhead=overhead(trained.cpu_s),
        cpu_s=trained.cpu_s,
        metadata={"model": short_name(config.model)},
    )


def outcome_of_windows(config: TrainConfig, found: WalkForward) -> Outcome:
    """Return what a walk-forward has trained: all windows are its test part, and the last refit is deployed."""
    earlier, test = found.earlier, found.test
    forecasts, test_forecasts = found.windows[0][1].earlier, found.test_forecasts
    last = found.deployed.calibration
    n_used = sum(trained.calibration.is_used for _, trained in found.windows)
    of_windows = f"calibrator used in {n_used} of {count(len(found.windows), 'window')}"
    on_earlier = metrics_report.figures(earlier, forecasts, rng=config.seed)
    return Outcome(
        checkpoints={"": found.deployed},
        earlier=earlier,
        test=test,
        forecasts=forecasts,
        test_forecasts=test_forecasts,
        on_earlier=on_earlier,
        fitted_on="rows before each window, anew; before the first one ",
        decision={
            **last.as_dict(),
            "decision": f"{of_windows}; in the last refit, deployed: {last.describe()}",
        },
        sections={
            "validation": {"calibrated_by": "five blocks in time, before the first window", **on_earlier},
            "model": {"name": short_name(config.model), "rounds": found.deployed.model.n_rounds_, "seed": config.seed},
            "walk_forward": walk_forward_figures(config, found),
        },
        tables=(
            earlier.table(forecasts.columns()),
            test.table(test_forecasts.columns(), window=found.number),
        ),
        title=f"{short_name(config.model)}, walk-forward over {count(len(found.windows), 'window')}",
        overhead=overhead(found.cpu_s),
        cpu_s=found.cpu_s,
        metadata={"model": short_name(config.model)},
        closing={"forecast": "each window by the model and calibrator of the rows before it"},
    )


def outcome_of_several(config: TrainConfig, stack: Stack, *, variant: str, n_folds: int) -> Outcome:
    """Return what a run of several models, judged by their plain average, has trained."""
    before, test, members, names = stack.before, stack.test, stack.members, list(stack.members)
    earlier, later = stack.forecasts()
    on_earlier = metrics_report.figures(before, earlier, rng=config.seed)
    of_members = {
        name: {
            "rounds": one.model.n_rounds_,
            "n_models": stack.n_models,
            "calibration": {"calibrator": config.calibrator, **one.calibration.as_dict()},
            "out_of_fold": metrics_report.figures(before, one.earlier, rng=config.seed),
            "test": metrics_report.figures(test, one.test, rng=config.seed),
        }
        for name, one in members.items()
    }
    earlier_columns, later_columns = {"raw": earlier.raw, "p": earlier.calibrated}, later.columns()
    for prefix, (name, one) in product(("raw", "p"), members.items()):
        earlier_columns[f"{prefix}_{name}"] = one.earlier.columns()[prefix]
        later_columns[f"{prefix}_{name}"] = one.test.columns()[prefix]
    later_columns["p_meta_learner"] = stack.predictions["meta-learner, calibrated"]
    decisions = {name: one.calibration for name, one in members.items()}
    compared = stack.compare()
    seconds = {step: sum(one.cpu_s[step] for one in members.values()) for step in ("train", "calibrate")}
    return Outcome(
        checkpoints=members,
        earlier=before,
        test=test,
        forecasts=earlier,
        test_forecasts=later,
        on_earlier=on_earlier,
        fitted_on="out-of-fold predictions of ",
        decision={
            "used": {name: one.is_used for name, one in decisions.items()},
            "decision": "; ".join(f"{name}: {one.describe()}" for name, one in decisions.items()),
        },
        sections={
            "out_of_fold": {"variant": variant, "n_folds": n_folds, **on_earlier},
            "members": of_members,
            "stacking": {**asdict(compared), "specified": ensembles_compared(compared.gains)},
        },
        tables=(before.table(earlier_columns, fold=stack.fold), test.table(later_columns)),
        title=f"Average of {', '.join(names)}",
        overhead=seconds["calibrate"] / max(seconds["train"], 1e-9) if stack.n_models else None,
        cpu_s={f"{name}_{step}": one.cpu_s[step] for step in seconds for name, one in members.items()},
        metadata={"models": names},
        found={"command": "oof", "models": names, "variant": variant, "n_folds": n_folds},
        documents={"meta_learner.json": {"models": names, **stack.meta_learner.to_dict()}},
        closing={"forecast": "the plain average of the models"},
    )


def money_of(config: TrainConfig, outcome: Outcome) -> Money:
    """Return what the probabilities of a run are worth in money."""
    parts = (outcome.earlier, outcome.forecasts, outcome.test, outcome.test_forecasts)
    return evaluate_money(*parts, stakes=config.stakes, cost_bp=config.cost_bp, rng=config.seed)


def measure(config: TrainConfig, outcome: Outcome, money: Money) -> dict[str, Any]:
    """Return all that metrics.json says: the same for the same rows, settings and seed.

    Of the overhead it says only on which side of its limit it is, as seconds never repeat.
    """
    earlier, test, on_earlier = outcome.earlier, outcome.test, outcome.on_earlier
    on_test = metrics_report.figures(test, outcome.test_forecasts, rng=config.seed)
    warnings = metrics_report.leak_warnings(on_test, on_earlier, is_market=test.label_return is not None)
    document = {
        "calibration": {
            **metrics_report.calibration_figures(on_test),
            "calibrator": config.calibrator,
            **outcome.decision,
            "fitted_on": f"{outcome.fitted_on}{earlier.n_rows:,} rows, {on_earlier['from']} to {on_earlier['to']}",
            "measured_on": f"untouched test part: {test.n_rows:,} rows, {on_test['from']} to {on_test['to']}",
            "definitions": metrics_report.DEFINITIONS,
            "overhead": metrics_report.overhead_verdict(outcome.overhead),
        },
        "gates": metrics_report.gates(on_test),
        "targets": metrics_report.targets(on_test),
        "test": on_test,
        **outcome.sections,
        "money": money.figures,
        "warnings": warnings,
        **outcome.closing,
    }
    found: dict[str, Any] = plain(document)
    return found
