"""How long a calibration of market bars lasts: the gate of the ECE, by which rows a calibrator was fitted to.

Perfect probabilities are beyond the gate's noise band 5 times in 100 (`training_gates`). Models of real bars are beyond
it far more often on the last fifth of the rows, after one fit that is left alone over it, which was first held against
the goal of no such run. Three things tell why. On the validation part, each block in time is calibrated by a fit to the
others: is the fit right while times are the same? On the test part too, which nobody can do who acts on it: could a
temperature calibrate these rows at all? And by walk-forward: are rows right that soon follow a fit? "refreshed" keeps
the model of the first window, and refits its temperature alone. Windows of class frequencies show how much classes
alone change.

Windows of one set are the same for all its models, and are off together: intervals of their share count them once.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from benchmarks._harness import Results
from benchmarks.training import AS_IT_COMES, Measured, cases, dataset, estimator, trained
from benchmarks.training_windows import N_WINDOWS, REFRESHED, TEST, measured, refreshed
from calibrant.errors import CalibrantWarning
from calibrant.training.calibration import cross_calibrated, new_calibrator
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, hold_out
from calibrant.training.metrics_report import AFTER, NO_SKILL, Forecasts, figures
from calibrant.training.walk_forward import walk_forward

NOMINAL = 0.05
UNSEEN, ALONE, OTHERS = "validation, by other blocks of it", "test, fit left alone", "test, by other blocks of it"
REFITTED = "refitted"
#: What has a goal: the others are what goes wrong, and what classes do.
_HELD = (UNSEEN, OTHERS, REFITTED, REFRESHED)
_PROCESSES = 2


def run() -> Measured:
    """Count how often the calibrated ECE is beyond its noise band, after each way to fit a temperature."""
    title = (
        "How long a calibration of market bars lasts: the calibrated ECE and its noise band, horizon 20, temperature"
    )
    found = Measured(Results(title))
    every = list(cases())
    with ProcessPoolExecutor(_PROCESSES) as pool:
        errors = list(pool.map(_errors, every))
    for name in (UNSEEN, ALONE, OTHERS):
        claim = f"share of {len(every)} runs beyond the band: {name}"
        _add(found, "one cut in time", claim, name, [_is_off(one[name]) for one in errors])
    for name in (REFITTED, REFRESHED, NO_SKILL):
        claim = f"share of {len(every)} runs, all windows together, beyond the band: {_said(name)}"
        _add(found, "walk-forward", claim, name, [_is_off(one[name]) for one in errors])
    for name in (REFITTED, REFRESHED, NO_SKILL):
        n, share, low, high = _of_windows(every, [one[f"{name} windows"] for one in errors])
        claim = f"share of {n} windows beyond the band: {_said(name)}"
        found.results.spread("walk-forward", f"{claim}, 95% interval", share, low, high)
    shown = (UNSEEN, ALONE, OTHERS, REFITTED, REFRESHED, NO_SKILL)
    rows = [
        [how, f"{name}, {library}", *(_cell(one[what]) for what in shown)]
        for (how, name, library), one in zip(every, errors, strict=True)
    ]
    header = ("trained", "bars, library", *shown[:3], *(f"windows, {_said(name)}" for name in shown[3:]))
    over = f"{N_WINDOWS} windows over the last {TEST:.0%} of the rows, together"
    found.add(f"ECE, and what right probabilities stay below 95 times in 100; * is beyond; {over}", header, rows)
    return found


def _errors(case: tuple[str, str, str]) -> dict[str, Any]:
    """Return the ECE of one model's rows with its noise band by each way, and which windows are beyond theirs."""
    how, name, library = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        data = dataset(name)
        parts, one = hold_out(data), trained(name, library, how, "temperature")
        test = data.take(parts.test)
        by_others = cross_calibrated(new_calibrator("temperature"), test.rows(one.test.raw), when="auto")
        found = {
            UNSEEN: _error(data.take(parts.validation), one.earlier),
            ALONE: _error(test, one.test),
            OTHERS: _error(test, replace(one.test, calibrated=by_others)),
        }
        model = estimator(library) if how == AS_IT_COMES else None
        config = TrainConfig(model=library if model is None else "sklearn", walk_forward=N_WINDOWS, test=TEST)
        walk = walk_forward(config, data, model=model)
        refitted = [window.test for _, window in walk.windows]
        rates = [replace(each, calibrated=each.class_frequencies) for each in refitted]
        of_all, of_windows = measured(walk, {REFITTED: refitted, REFRESHED: refreshed(walk), NO_SKILL: rates})
    for way, figures_of in of_all.items():
        found[way] = figures_of["ece"][AFTER]
        found[f"{way} windows"] = [window["is_off"] for window in of_windows[way]]
    return found


def _of_windows(every: list[tuple[str, str, str]], flags: list[list[bool | None]]) -> tuple[int, float, float, float]:
    """Return how many windows are judged, the share that is off, and an interval by the windows of the sets.

    What all models of a set say of a window counts as one: it is off for all of them, or for hardly any.
    """
    by_window: dict[tuple[str, int], list[bool]] = {}
    for (_, name, _), of_run in zip(every, flags, strict=True):
        for number, flag in enumerate(of_run):
            if flag is not None:
                by_window.setdefault((name, number), []).append(flag)
    shares = np.array([np.mean(each) for each in by_window.values()])
    reach = stdtrit(shares.size - 1, 0.975) * shares.std(ddof=1) / np.sqrt(shares.size)
    n, share = sum(map(len, by_window.values())), float(shares.mean())
    return n, share, max(share - reach, 0.0), share + reach


def _error(rows: Dataset, forecasts: Forecasts) -> dict[str, float]:
    error: dict[str, float] = figures(rows, forecasts)["forecasts"][AFTER]["ece"]
    return error


def _is_off(error: dict[str, float]) -> bool:
    return bool(error["value"] > error["noise_band"])


def _add(found: Measured, case: str, claim: str, name: str, flags: list[bool]) -> None:
    found.results.share(case, claim, sum(flags) / len(flags), at_most=NOMINAL if name in _HELD else None)


def _said(name: str) -> str:
    return name.replace("_", " ")


def _cell(error: dict[str, float]) -> str:
    return f"{error['value']:.4f}{'*' if _is_off(error) else ' '} {error['noise_band']:.4f}"
