"""Threshold recalibration against a plain NumPy rendering of the paper's algorithm, its growth, and applying it."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks._harness import Results, Rounds
from calibrant.forecasts import GaussianForecast, ThresholdRecalibrator

Array = np.ndarray[Any, np.dtype[np.float64]]
ORACLE = Path(__file__).parents[1] / "tests" / "forecasts" / "recalibrators" / "paper_reference.py"
SIZES = (1_000, 3_000, 10_000)
GROWTH = (10_000, 100_000, 1_000_000)
N_POINTS = 200


def run() -> Results:
    """Time fits, rounds and applications."""
    results = Results("Threshold recalibration of forecasts; rows of which half are too sure of themselves")
    oracle = load_oracle()
    for n in SIZES:
        fits(results, oracle, n)
    growth(results)
    applications(results, oracle)
    scores(results)
    return results


def fits(results: Results, oracle: ModuleType, n: int) -> None:
    """Race 40 rounds of the paper's algorithm, and compare the levels after them."""
    forecast, y = rows(n, 0)
    thresholds = oracle.thresholds(y)
    u, h = forecast.cdf(y), forecast.cdf(thresholds[None, :])
    times = results.race(
        f"fit, n = {n:,}",
        {
            "ThresholdRecalibrator('paper').fit": lambda: ThresholdRecalibrator("paper").fit(forecast, y),
            "NumPy rendering": lambda: oracle.fit(u, h),
            "ThresholdRecalibrator().fit": lambda: ThresholdRecalibrator().fit(forecast, y),
        },
        rounds=3,
    )
    ours, theirs, default = times.values()
    results.ratio(f"fit, n = {n:,}", "NumPy rendering / ours, 40 rounds", theirs, ours, at_least=10.0)
    results.ratio(f"fit, n = {n:,}", "NumPy rendering / ours, default with folds", theirs, default)
    after = ThresholdRecalibrator("paper").fit(forecast, y).transform(forecast).cdf(y)
    difference = float(np.abs(after - oracle.fit(u, h)[1]).max())
    results.difference(f"fit, n = {n:,}", "max |level - level of the rendering|", difference, at_most=1e-9)


def growth(results: Results) -> None:
    """Time a round of the default by the number of rows, per row and threshold."""
    per_cell: dict[int, Rounds] = {}
    for n in GROWTH:
        forecast, y = rows(n, 1)
        cpu: dict[int, float] = {}
        for n_rounds in (1, 5):
            recalibrator = ThresholdRecalibrator(stopping="epsilon", max_rounds=n_rounds, n_cuts=64)
            start = time.process_time()
            recalibrator.fit(forecast, y)
            cpu[n_rounds] = time.process_time() - start
        seconds = (cpu[5] - cpu[1]) / 4.0
        per_cell[n] = Rounds([seconds / (n * 50)], [seconds / (n * 50)])
        results.note(f"one round, n = {n:,}, K = 50", {"search of 64 cuts, maps, merge": Rounds([seconds], [seconds])})
    for n in GROWTH[1:]:
        results.ratio(
            f"one round, n = {n:,}",
            f"time per row and threshold / that at n = {GROWTH[0]:,}",
            per_cell[n],
            per_cell[GROWTH[0]],
            at_most=2.5,
        )


def applications(results: Results, oracle: ModuleType) -> None:
    """Race the CDF of new rows at 200 points against the grid of 8,000 points per row."""
    forecast, y = rows(3_000, 0)
    new, _ = rows(100, 2)
    at = np.linspace(-4.0, 4.0, N_POINTS)
    paper = ThresholdRecalibrator("paper").fit(forecast, y)
    default = ThresholdRecalibrator(stopping="epsilon", max_rounds=40).fit(forecast, y)
    thresholds = oracle.thresholds(y)
    made, _ = oracle.fit(forecast.cdf(y), forecast.cdf(thresholds[None, :]))
    case = f"CDF of 100 new rows at {N_POINTS} points, 40 rounds"
    times = results.race(
        case,
        {
            "transform and cdf, default": lambda: default.transform(new).cdf(at[None, :]),
            "transform and cdf, paper": lambda: paper.transform(new).cdf(at[None, :]),
            "grid of 8,000 points, paper": lambda: oracle.apply_on_grid(made, thresholds, new.cdf, -8.0, 8.0, at),
        },
        rounds=7,
    )
    ours, own_paper, grid = times.values()
    results.ratio(case, "grid / ours, default maps", grid, ours, at_least=100.0)
    results.ratio(case, "grid / ours, the paper's maps", grid, own_paper)


def scores(results: Results) -> None:
    """Race the CRPS of normal forecasts and of samples against other packages, where they are installed."""
    from calibrant.forecasts import SampleForecast, crps

    forecast, y = rows(100_000, 3)
    mean, std = forecast.mean(), forecast.std()
    samples = forecast[:5_000].sample(100, 0)
    rivals: dict[str, tuple[Any, Any]] = {}
    if importlib.util.find_spec("scoringrules"):
        import scoringrules

        rivals["scoringrules"] = (
            lambda: scoringrules.crps_normal(y, mean, std),
            lambda: scoringrules.crps_ensemble(y[:5_000], samples),
        )
    if importlib.util.find_spec("properscoring"):
        import properscoring

        rivals["properscoring"] = (
            lambda: properscoring.crps_gaussian(y, mean, std),
            lambda: properscoring.crps_ensemble(y[:5_000], samples),
        )
    ours = (lambda: crps(forecast, y), lambda: crps(SampleForecast(samples), y[:5_000]))
    for i, case in enumerate(("CRPS of 100,000 normal forecasts", "CRPS of 5,000 forecasts of 100 samples")):
        times = results.race(case, {"crps": ours[i], **{name: pair[i] for name, pair in rivals.items()}}, rounds=5)
        for name, pair in rivals.items():
            results.ratio(case, f"{name} / crps", times[name], times["crps"])
            difference = abs(float(np.mean(pair[i]())) - ours[i]())
            results.difference(case, f"|mean of {name} - crps|", difference, at_most=1e-9)


def rows(n: int, seed: int) -> tuple[GaussianForecast, Array]:
    """Draw forecasts that are too narrow above zero and too wide below."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return GaussianForecast(mean, std), mean + std * rng.normal(size=n) * np.where(mean > 0.0, 1.7, 0.6)


def load_oracle() -> ModuleType:
    """Load the rendering that the tests keep."""
    spec = importlib.util.spec_from_file_location("paper_reference", ORACLE)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{ORACLE} is missing. Run the benchmark from the source tree.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
