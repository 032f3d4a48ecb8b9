"""The training pipeline on market bars: what calibration costs, and what it gives before and after.

Bars are the folder market/ of the one that CALIBRANT_DATA names. Everything is measured on the last fifth of the rows,
which nothing was fitted to, and again by walk-forward (`training_windows`). Boosting is done twice: as the libraries
come, which is over-confident, and stopped early.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks import training_windows
from benchmarks._harness import RESULTS, Figure, Results, table
from calibrant.errors import CalibrantWarning
from calibrant.training.bars import as_bars
from calibrant.training.calibration import Calibration
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, hold_out
from calibrant.training.metrics_report import AFTER, BEFORE, NO_SKILL, figures, gates
from calibrant.training.money import HOLD, ensembles_compared, evaluate_money
from calibrant.training.out_of_fold import out_of_fold_predictions
from calibrant.training.stacking import fit_stack
from calibrant.training.trainer import Trained, overhead, train_model
from calibrant.training.training_run import run_dataset

#: Files of bars.
SETS = ("sp500_d1", "vix_d1", "wiki_us_stocks_d1", "eurusd_h4", "us500_h1")
LIBRARIES = ("xgboost", "lightgbm", "catboost")
AS_IT_COMES, STOPPED = "as it comes", "stopped early"
CALIBRATORS = ("temperature", "specified")
#: Of opening and of closing, in basis points of the capital moved.
COST_BP = 5.0
OVERHEAD_GOAL = 0.05
_FOLDS = 3
_N_FLIPPED = 20
_CATBOOST_ROUNDS = 300


@dataclass
class Measured:
    """Figures with goals, and tables."""

    results: Results
    tables: list[tuple[str, tuple[str, ...], list[list[str]], int]] = field(default_factory=list)

    def add(self, title: str, header: tuple[str, ...], rows: list[list[str]], n_left: int = 2) -> None:
        """Add a table; all but the first columns are aligned to the right."""
        self.tables.append((title, header, rows, n_left))

    def write(self, name: str) -> str:
        """Write `results/<name>.txt` and `.json`; return the text."""
        text = self.results.write(name)
        shown = [f"{title}\n\n{table(header, rows, right=range(n, 30))}" for title, header, rows, n in self.tables]
        text = "\n\n".join([text, *shown])
        (RESULTS / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        path = RESULTS / f"{name}.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        document["tables"] = [
            {"title": title, "columns": header, "rows": rows} for title, header, rows, _ in self.tables
        ]
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        return text


def run() -> Measured:
    """Train, calibrate, stack and size on five sets of bars."""
    title = (
        "Training on market bars, horizon 20: all figures on the last fifth of the rows, Brier as the sum over classes"
    )
    found = Measured(Results(title))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        before_and_after(found)
        influence(found)
        stacks(found)
        training_windows.windows(
            found, list(cases()), dataset, lambda how, library: estimator(library) if how == AS_IT_COMES else None
        )
        training_windows.noise(found)
    return found


@cache
def dataset(name: str) -> Dataset:
    """Return the rows of one set of bars."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        raise SystemExit("CALIBRANT_DATA must name the folder that holds market/. The benchmark of training needs it.")
    bars = pq.read_table(Path(folder) / "market" / f"{name}.parquet")
    return run_dataset(TrainConfig(), as_bars(bars, source=name))


def estimator(library: str) -> Any:
    """Return a library's own classifier with its own settings: no early stopping."""
    if library == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(n_jobs=1)
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_jobs=1, verbose=-1)
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=_CATBOOST_ROUNDS, thread_count=1, verbose=0, allow_writing_files=False, random_seed=0
    )


@cache
def trained(name: str, library: str, how: str, calibrator: str) -> Trained:
    """Return a model of one set, with the calibrator."""
    data = dataset(name)
    config = TrainConfig(model="sklearn" if how == AS_IT_COMES else library, calibrator=calibrator)
    return train_model(config, data, hold_out(data), model=estimator(library) if how == AS_IT_COMES else None)


def cases() -> Iterator[tuple[str, str, str]]:
    """Name each set, library and way to train."""
    for how in (AS_IT_COMES, STOPPED):
        for name in SETS:
            for library in LIBRARIES:
                yield how, name, library


def before_and_after(found: Measured) -> None:
    """Measure every library on every set, raw and calibrated, with what stakes make of it."""
    rows, skills, failures, sizing, thresholds, money = [], [], [], [], [], []
    shares: dict[str, list[float]] = {calibrator: [] for calibrator in CALIBRATORS}
    passed: dict[tuple[str, str], list[bool]] = {}
    for how, name, library in cases():
        data = dataset(name)
        parts = hold_out(data)
        test = data.take(parts.test)
        measured = {c: figures(test, trained(name, library, how, c).test) for c in CALIBRATORS}
        for calibrator, one in measured.items():
            shares[calibrator].append(overhead(trained(name, library, how, calibrator).cpu_s))
            for gate, outcome in gates(one).items():
                passed.setdefault((calibrator, gate), []).append(outcome["passed"])
        failures += [[how, f"{name}, {library}", *cells] for cells in _failures_of(measured["temperature"])]
        decision = trained(name, library, how, "temperature").calibration
        skills.append([how, f"{name}, {library}", *_skills_of(measured), *_decision_of(decision)])
        rows.append([how, f"{name}, {library}", *_figures_of(measured), f"{100 * shares['temperature'][-1]:.2f}%"])
        validation = data.take(parts.validation)
        traded = {
            c: evaluate_money(
                validation,
                trained(name, library, how, c).earlier,
                test,
                trained(name, library, how, c).test,
                cost_bp=COST_BP,
            ).figures
            for c in CALIBRATORS
        }
        sizing.append([how, f"{name}, {library}", *_sizing_of(traded)])
        money.append([how, f"{name}, {library}", *_growth_of(traded)])
        if how == AS_IT_COMES:
            thresholds.append([name, library, *_threshold_of(traded["temperature"], 0.6)])
    for calibrator, values in shares.items():
        claim = f"largest share of training time, {calibrator}"
        found.results.difference("all sets and libraries", claim, max(values), at_most=OVERHEAD_GOAL)
    for (calibrator, gate), outcomes in passed.items():
        claim = f"share of {len(outcomes)} runs that fail: {gate.replace('_', ' ')}, {calibrator}"
        share = 1.0 - float(np.mean(outcomes))
        if calibrator == TrainConfig().calibrator and gate.startswith("log_loss"):
            found.results.difference("all sets and libraries", claim, share, at_most=0.0)
        else:  # another calibrator than the default; skill, which is the model's; and the ECE of one fit that is left
            # alone for years, whose reasons and remedy are measured by `training_lasting`
            found.results.figures.append(Figure("all sets and libraries", claim, share, unit=""))
    header = (
        "trained",
        "bars, library",
        "log loss raw",
        "temp.",
        "spec.",
        "no skill",
        "Brier raw",
        "temp.  ",
        "spec.  ",
    )
    header += ("no skill ", "ECE raw", "temp. ", "spec. ", "by chance", "overhead")
    found.add("Before and after", header, rows)
    header = ("trained", "bars, library", "log loss: raw", "temp.", "spec.", "Brier: raw", "temp. ", "spec. ")
    header += ("ECE, no skill", "by chance: raw", "temp.  ", "spec.  ", "temperature", "used", "change, unseen blocks")
    found.add("Skill over class frequencies, the ECE beside these, and the temperature", header, skills)
    header = ("trained", "bars, library", "gate", "value", "allowed", "raw less class frequencies")
    found.add("Gates that fail with temperature, and whether the model was any good before it", header, failures, 3)
    header = (
        "trained",
        "bars, library",
        "raw",
        "temperature",
        "specified",
        "by chance",
        "less by temperature, specified 30 to 50%",
        "by specified",
        "raw: threshold",
        "temperature: ",
    )
    title = f"Sizing error |stake from p - stake from the realised rate|, linear stakes, {COST_BP:g} basis points"
    found.add(f"{title}; and the threshold that validation chooses", header, sizing)
    header = ("trained", "bars, library", "raw", "temperature", "specified", "buy and hold", "raw: promise kept by")
    header += ("temperature: kept by",)
    title = (
        f"Growth a year of all stakes, {COST_BP:g} basis points of what is moved; returns a year less those promised"
    )
    found.add(title, header, money)
    header = ("bars", "library", "raw: trades", "promised", "realised", "interval", "growth")
    header += ("temperature: trades", "promised ", "realised ", "interval ", "growth ")
    title = "Trading above a confidence of 0.6, as the libraries come (growth a year)"
    found.add(title, header, thresholds)


def influence(found: Measured) -> None:
    """Flip the labels of some rows, and see how far their own calibrated out-of-fold rows move, by variant."""
    data = dataset("sp500_d1")
    rows = []
    for variant in ("nested", "blocks", "specified"):
        for calibrator in CALIBRATORS:
            first = out_of_fold_predictions(data, "xgboost", calibrator=calibrator, variant=variant, n_folds=_FOLDS)
            chosen = np.random.default_rng(0).choice(np.flatnonzero(first.fold == 1), _N_FLIPPED, replace=False)
            y = data.y.copy()
            y[chosen] = -y[chosen] + (y[chosen] == 0)
            again = out_of_fold_predictions(
                replace(data, y=y), "xgboost", calibrator=calibrator, variant=variant, n_folds=_FOLDS
            )
            moved = np.abs(again.calibrated[chosen] - first.calibrated[chosen]).max(axis=1)
            loss = -np.log(np.maximum(first.calibrated[np.arange(data.n_rows), data.codes], 1e-6)).mean()
            rows.append(
                [variant, calibrator, f"{moved.mean():.4f}", f"{moved.max():.4f}", f"{loss:.4f}", str(first.n_models)]
            )
            if variant == "nested":
                claim = f"largest move of rows by their own flipped labels, nested, {calibrator}"
                found.results.difference("sp500_d1, xgboost", claim, float(moved.max()), at_most=0.0)
    header = ("variant", "calibrator", "mean move", "largest", "out-of-fold log loss, p cut at 1e-6", "models")
    title = f"Out-of-fold variants on sp500_d1: how far {_N_FLIPPED} rows move by their own flipped labels"
    found.add(title, header, rows)


def stacks(found: Measured) -> None:
    """Stack the three libraries, on raw and on calibrated out-of-fold predictions."""
    methods: dict[str, dict[str, str]] = {}
    gains: dict[str, dict[str, str]] = {}
    changes: dict[str, dict[str, str]] = {}
    columns = []
    ways: dict[str, Callable[[], list[Any]]] = {
        AS_IT_COMES: lambda: [estimator(library) for library in LIBRARIES],
        STOPPED: lambda: list(LIBRARIES),
    }
    for how, models in ways.items():
        for name in SETS:
            before, test = dataset(name).last(0.2)
            comparison = fit_stack(TrainConfig(), models(), before, test, n_folds=_FOLDS).compare()
            column = f"{name}, {how}"
            columns.append(column)
            for method in comparison.methods:
                who = method.name.replace("Classifier", "").replace("XGB", "xgboost").replace("LGBM", "lightgbm")
                methods.setdefault(who.replace("CatBoost", "catboost"), {})[column] = f"{method.log_loss:.4f}"
            for way in ("average", "meta-learner"):
                change = comparison.differences[way]
                changes.setdefault(way, {})[column] = f"{change.value:+.4f} [{change.low:+.4f}, {change.high:+.4f}]"
            for one in ensembles_compared(comparison.gains):
                gains.setdefault(one["what"], {})[column] = _share(one)
    title = (
        f"Stacks of the three libraries, nested out-of-fold predictions in {_FOLDS} folds: log loss on the test part"
    )
    rows = [[c, *(cells[c] for cells in methods.values())] for c in columns]
    found.add(title, ("bars", *methods), rows, n_left=1)
    title = "Log loss with calibrated less that with raw inputs, paired block bootstrap, 95% intervals"
    found.add(title, ("bars", *changes), [[c, *(cells[c] for cells in changes.values())] for c in columns], n_left=1)
    title = "Log loss that calibrated inputs save, as a share of that of raw ones; specified were 5 to 10%"
    found.add(title, ("bars", *gains), [[c, *(cells[c] for cells in gains.values())] for c in columns], n_left=1)


def _figures_of(measured: dict[str, dict[str, Any]]) -> list[str]:
    cells = []
    for name in ("log_loss", "brier", "ece"):
        first = measured["temperature"]["forecasts"]
        cells.append(_number(first[BEFORE][name]["value"]))
        cells += [_number(measured[c]["forecasts"][AFTER][name]["value"]) for c in CALIBRATORS]
        cells.append(_number(first[NO_SKILL][name]["value"] if name != "ece" else first[AFTER][name]["noise_band"]))
    return cells


def _skills_of(measured: dict[str, dict[str, Any]]) -> list[str]:
    first = measured["temperature"]["forecasts"]
    cells = []
    for name in ("log_loss", "brier"):
        values = [first[BEFORE][name]["skill"], *(measured[c]["forecasts"][AFTER][name]["skill"] for c in CALIBRATORS)]
        cells += [f"{value:+.4f}" if np.isfinite(value) else "-infinite" for value in values]
    bands = [first[BEFORE], *(measured[c]["forecasts"][AFTER] for c in CALIBRATORS)]
    return [*cells, _number(first[NO_SKILL]["ece"]["value"]), *(_number(one["ece"]["noise_band"]) for one in bands)]


def _decision_of(found: Calibration) -> list[str]:
    change = "" if found.change is None else f"{found.change:+.4f}"
    return ["" if found.temperature is None else f"{found.temperature:.3f}", "yes" if found.is_used else "no", change]


def _failures_of(found: dict[str, Any]) -> list[list[str]]:
    forecasts = found["forecasts"]
    gap = forecasts[BEFORE]["log_loss"]["value"] - forecasts[NO_SKILL]["log_loss"]["value"]
    rows = []
    for name, gate in gates(found).items():
        if not gate["passed"]:
            allowed = gate["noise_band"] if "noise_band" in gate else gate["standard_error"]
            rows.append([name.replace("_", " "), f"{gate['value']:+.4f}", f"{allowed:.4f}", f"{gap:+.4f}"])
    return rows


def _sizing_of(traded: dict[str, dict[str, Any]]) -> list[str]:
    first = traded["temperature"]
    errors = [first[BEFORE], *(traded[c][AFTER] for c in CALIBRATORS)]
    cells = [_number(one["sizing_error"]["value"]) for one in errors]
    cells.append(_number(first[AFTER]["sizing_error"]["floor"]))
    cells += [_share(traded[c]["specified"][0]) for c in CALIBRATORS]
    return cells + ["don't trade" if first[k]["chosen"] is None else f"{first[k]['chosen']:g}" for k in (BEFORE, AFTER)]


def _share(found: dict[str, Any]) -> str:
    """Write a share that was specified, with its interval and the verdict."""
    if found["value"] is None:
        return found["verdict"]
    value, low, high = (f"{100.0 * found[key]:.0f}" for key in ("value", "low", "high"))
    return f"{value}% [{low}, {high}] {found['verdict']}"


def _growth_of(traded: dict[str, dict[str, Any]]) -> list[str]:
    first = traded["temperature"]["paths"]
    paths = [first[BEFORE], *(traded[c]["paths"][AFTER] for c in CALIBRATORS), first[HOLD]]
    gaps = [traded["temperature"][name]["returns"]["gap"] for name in (BEFORE, AFTER)]
    return [_with_ends(one) for one in (*(path["growth"] for path in paths), *gaps)]


def _with_ends(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "all lost"
    return f"{found['value']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _threshold_of(traded: dict[str, Any], threshold: float) -> list[str]:
    cells = []
    for name in (BEFORE, AFTER):
        (row,) = (one for one in traded[name]["test"] if one["threshold"] == threshold)
        growth = "all lost" if row["growth"] is None else f"{row['growth']:+.4f}"
        if row["promised"] is None:
            cells += ["0", "", "", "", growth]
        else:
            rates = (f"{row['promised']:.2f}", f"{row['realised']:.2f}", f"{row['low']:.2f} to {row['high']:.2f}")
            cells += [f"{row['n_trades']:,}", *rates, growth]
    return cells


def _number(value: float | None) -> str:
    return "infinite" if value is None or not np.isfinite(value) else f"{value:.4f}"
