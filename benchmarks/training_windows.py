"""Walk-forward on market bars: calibrators refitted with the model before each window, or alone, and random walks.

Of the last part of the rows each window is predicted by a model, and calibrated by a calibrator, that know only what
was known when it started. "kept": the model of the first window is used in all of them; "refreshed": that model, with a
temperature refitted to the newest rows before each window.

The goal of no window that is worse beyond noise was first held against each window's own 95% interval, which lies above
zero one time in 40 where there is no effect; those of 1.7% of 234 windows did. Since then, on the same data, it is held
against intervals of all windows at once, and each window's own interval against that one time in 40.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.dependent_rows import units_of
from calibrant.metrics import row_log_loss
from calibrant.rows import Rows
from calibrant.training.bars import Bars, as_bars
from calibrant.training.block_bootstrap import mean_over_blocks
from calibrant.training.calibration import Calibration, calibrate_rows, new_calibrator
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset
from calibrant.training.metrics_report import AFTER, BEFORE, NO_SKILL, Forecasts
from calibrant.training.trainer import overhead
from calibrant.training.training_run import run_dataset
from calibrant.training.walk_forward import WalkForward, walk_forward, window_figures

CALIBRATORS = ("temperature", "specified", "auto")
REFRESHED = "refreshed"
N_WINDOWS, TEST = 8, 0.4
#: Random walks, their bars, and the windows of each.
N_WALKS, N_BARS, N_OF_WALK = 40, 2_000, 5
NOMINAL = 0.025
OVERHEAD_GOAL = 0.05
#: What a run takes where nothing else is asked for, and what was specified. auto has to be asked for by name. It was
#: held to the goal too; it tries several maps on folds, and takes as long as a small model.
HELD_TO_OVERHEAD = ("temperature", "specified")


def windows(
    found: Any,
    cases: list[tuple[str, str, str]],
    dataset: Callable[[str], Dataset],
    estimator: Callable[[str, str], Any],
) -> None:
    """Walk forward over each case, and add what was found; cases name how a model is trained, the set, the library."""
    losses, briers, changes, worse = [], [], [], []
    judged: dict[str, list[bool]] = {name: [] for name in (*CALIBRATORS, REFRESHED)}
    n_in_all = N_WINDOWS * len(cases)
    together: dict[str, list[bool]] = {name: [] for name in judged}
    shares: dict[str, list[float]] = {name: [] for name in CALIBRATORS}
    for how, name, library in cases:
        data, model = dataset(name), estimator(how, library)
        config = TrainConfig(model=library if model is None else "sklearn", walk_forward=N_WINDOWS, test=TEST)
        first = walk_forward(config, data, model=model)
        by_window = {CALIBRATORS[0]: [trained.test for _, trained in first.windows]}
        shares[CALIBRATORS[0]].append(overhead(first.cpu_s))
        for calibrator in CALIBRATORS[1:]:
            by_window[calibrator], share = calibrated_by(calibrator, first)
            shares[calibrator].append(share)
        by_window[REFRESHED] = refreshed(first)
        case = [how, f"{name}, {library}"]
        of_all, of_windows = measured(first, by_window)
        for rows, score in ((losses, "log_loss"), (briers, "brier")):
            rows.append([*case, *_scores(of_all, score)])
        changes.append([*case, *(_change(one) for one in of_all.values())])
        worse.append([*case, *(_worse(every) for every in of_windows.values())])
        for calibrator, every in of_windows.items():
            judged[calibrator] += [one["is_worse"] for one in every if one["is_worse"] is not None]
            parts = [data.take(parts.test) for parts, _ in first.windows]
            together[calibrator] += [
                _is_worse(rows, forecasts, 1.0 - 2.0 * NOMINAL / n_in_all)
                for rows, forecasts, one in zip(parts, by_window[calibrator], every, strict=True)
                if one["is_worse"] is not None
            ]
    _add_goals(found, judged, together, shares)
    names = ("raw", *CALIBRATORS, "kept raw", REFRESHED, "no skill")
    over = f"walk-forward, {N_WINDOWS} windows over the last {TEST:.0%} of the rows"
    found.add(f"Log loss, {over}", ("trained", "bars, library", *names), losses)
    found.add(f"Brier score, {over}", ("trained", "bars, library", *names), briers)
    header = ("trained", "bars, library", *CALIBRATORS, REFRESHED)
    title = (
        "Log loss less that of the same model's raw output, paired, 95% intervals by Student's t over blocks, "
        "all windows"
    )
    found.add(title, header, changes)
    found.add(
        "Windows where the calibrated model is worse than raw beyond noise, of those that can tell", header, worse
    )


def calibrated_by(calibrator: str, walk: WalkForward) -> tuple[list[Forecasts], float]:
    """Return what another calibrator makes of the same models, and its share of the time that their fits took."""
    found, seconds, trained = [], 0.0, [one for _, one in walk.windows]
    for (parts, _), one in zip(walk.windows, trained, strict=True):
        rows = walk.data.take(parts.validation).rows(one.earlier.raw)
        if not found:
            _calibrate(calibrator, rows)  # its first fit also loads compiled loops
        began = time.process_time()
        calibrated = _calibrate(calibrator, rows).calibrator.apply(Rows(one.test.raw))
        seconds += time.process_time() - began
        found.append(replace(one.test, calibrated=calibrated))
    return found, seconds / sum(one.cpu_s["model_fit"] for one in trained)


def _calibrate(calibrator: str, rows: Rows) -> Calibration:
    return calibrate_rows(new_calibrator(calibrator), rows, when="auto")


def refreshed(walk: WalkForward) -> list[Forecasts]:
    """Return what the model of the first window says of all, with a temperature of the newest rows before each."""
    model, found = walk.windows[0][1].model, []
    for parts, trained in walk.windows:
        newest, window = walk.data.take(parts.validation), walk.data.take(parts.test)
        raw = model.predict_proba(window.X)
        rows = newest.rows(model.predict_proba(newest.X))
        calibrator = _calibrate("temperature", rows).calibrator
        found.append(replace(trained.test, raw=raw, calibrated=calibrator.apply(Rows(raw))))
    return found


def measured(
    walk: WalkForward, by_window: Mapping[str, list[Forecasts]]
) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return the figures of all windows together, and of each, by calibrator."""
    parts = [walk.data.take(parts.test) for parts, _ in walk.windows]
    each = {
        name: [window_figures(rows, one) for rows, one in zip(parts, several, strict=True)]
        for name, several in by_window.items()
    }
    return {name: window_figures(walk.test, Forecasts.joined(several)) for name, several in by_window.items()}, each


def noise(found: Any) -> None:
    """Walk forward over random walks, where nothing can be learnt, and count the windows that pass as skilled."""
    config = TrainConfig(model="lightgbm", walk_forward=N_OF_WALK, test=0.5)
    flags: dict[str, list[bool]] = {"is_skilled": [], "is_worse": []}
    of_all = []
    for seed in range(N_WALKS):
        walk = walk_forward(config, run_dataset(config, random_walk(N_BARS, seed)))
        _, each = measured(walk, {"temperature": [trained.test for _, trained in walk.windows]})
        for one in each["temperature"]:
            for flag, every in flags.items():
                if one[flag] is not None:
                    every.append(one[flag])
        of_all.append(window_figures(walk.test, walk.test_forecasts)["is_skilled"])
    case = f"{N_WALKS} random walks of {N_BARS:,} bars, lightgbm"
    n = len(flags["is_skilled"])
    found.results.share(
        case, f"share of {n} windows that pass as skilled", float(np.mean(flags["is_skilled"])), at_most=NOMINAL
    )
    found.results.share(
        case, "share of walks that pass as skilled, all windows", float(np.mean(of_all)), at_most=NOMINAL
    )
    claim = f"share of {n} windows where calibrated is worse than raw beyond noise"
    found.results.share(case, claim, float(np.mean(flags["is_worse"])), at_most=NOMINAL)


def random_walk(n: int, seed: int) -> Bars:
    """Return daily bars of a random walk with a constant volatility."""
    rng = np.random.default_rng(seed)
    step = 0.01 * rng.normal(size=n)
    close = 100.0 * np.exp(np.cumsum(step))
    opened = np.append(100.0, close[:-1])
    spread = 1.0 + 0.005 * rng.random(n)
    prices = {"open": opened, "high": np.maximum(opened, close) * spread, "low": np.minimum(opened, close) / spread}
    import pyarrow as pa

    return as_bars(pa.table({"time": np.datetime64("2000-01-01") + np.arange(n), **prices, "close": close}))


def _is_worse(rows: Dataset, forecasts: Forecasts, level: float) -> bool:
    """Say whether the calibrated log loss is above the raw one with its whole interval of this level."""
    calibrated, raw = (row_log_loss(rows.rows(prob)) for prob in (forecasts.calibrated, forecasts.raw))
    if not np.isfinite(calibrated).all():
        return bool(np.isfinite(raw).all())
    if not np.isfinite(raw).all():
        return False
    change = calibrated - raw
    (units,) = units_of(rows.rows(forecasts.raw))
    return mean_over_blocks(change, units=units, level=level).low > 1e-12


def _add_goals(
    found: Any, judged: dict[str, list[bool]], together: dict[str, list[bool]], shares: dict[str, list[float]]
) -> None:
    case = "walk-forward, all sets and libraries"
    for name, values in judged.items():
        claim = f"share of {len(values)} windows, calibrated worse than raw by its own 95% interval, {name}"
        found.results.share(case, claim, float(np.mean(values)), at_most=NOMINAL)
    for name, values in together.items():
        claim = (
            f"share of {len(values)} windows where calibrated is worse than raw, 95% intervals of all at once, {name}"
        )
        found.results.share(case, claim, float(np.mean(values)), at_most=0.0)
    for name, each in shares.items():
        claim = f"largest share of training time, {name}"
        found.results.share(case, claim, max(each), at_most=OVERHEAD_GOAL if name in HELD_TO_OVERHEAD else None)


def _scores(of_all: dict[str, dict[str, Any]], score: str) -> list[str]:
    first, last = of_all[CALIBRATORS[0]][score], of_all[REFRESHED][score]
    values = [first[BEFORE], *(of_all[name][score][AFTER] for name in CALIBRATORS), last[BEFORE], last[AFTER]]
    return [f"{value:.4f}" if np.isfinite(value) else "infinite" for value in (*values, first[NO_SKILL])]


def _change(one: dict[str, Any]) -> str:
    change = one["calibrated_minus_raw"]["log_loss"]
    if change["low"] is None:
        return "infinite" if np.isinf(change["value"]) else f"{change['value']:+.4f}"
    return f"{change['value']:+.4f} [{change['low']:+.4f}, {change['high']:+.4f}]"


def _worse(every: list[dict[str, Any]]) -> str:
    known = [one["is_worse"] for one in every if one["is_worse"] is not None]
    return f"{sum(known)} of {len(known)}"
