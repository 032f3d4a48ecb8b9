"""The gates of a run where the truth is known: true probabilities of labels that overlap, and markets without skill.

No real data are needed: prices are simulated.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
from scipy.signal import lfilter
from scipy.special import ndtr

from benchmarks._harness import Results
from calibrant.errors import CalibrantWarning
from calibrant.numerics import FloatArray
from calibrant.training.bars import as_bars
from calibrant.training.config import TrainConfig
from calibrant.training.dataset import Dataset, hold_out
from calibrant.training.metrics_report import Forecasts, figures, gates
from calibrant.training.trainer import train_model
from calibrant.training.training_run import run_dataset

_HORIZON = 20
_N_WALKS, _N_BARS = 200, 2000
_N_MARKETS = 400


def run() -> Results:
    """Count how often each gate is wrong."""
    results = Results("Gates of a run where the truth is known: labels of 20 bars, simulated prices")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        for n_classes in (2, 3):
            for n in (500, 1500, 4000):
                share = float(np.mean([_fails_with_the_truth(n, n_classes, seed) for seed in range(_N_MARKETS)]))
                claim = f"true probabilities fail the gate of the ECE, {n:,} rows"
                results.difference(f"{n_classes} classes", claim, share, at_most=0.06)
        for model in ("logistic", "lightgbm"):
            passed = np.array([_gates_of_a_walk(model, seed) for seed in range(_N_WALKS)])
            case = f"{_N_WALKS} random walks of {_N_BARS:,} bars, {model}"
            results.difference(
                case, "share that passes all three gates", float(passed.all(axis=1).mean()), at_most=0.05
            )
            results.difference(
                case, "share that passes the gate of the skill", float(passed[:, 1].mean()), at_most=0.05
            )
    return results


def _fails_with_the_truth(n: int, n_classes: int, seed: int) -> bool:
    """Say whether the true probabilities of a market whose drift wanders are called miscalibrated.

    Given the drift m now, the sum of the next returns a m_k + noise is normal: m_k is an AR(1) process of variance 1.
    """
    rng, steps = np.random.default_rng(seed), np.arange(_HORIZON)
    phi, a = (0.9, 0.98, 0.995)[seed % 3], (0.05, 0.1, 0.15)[seed // 3 % 3]
    drift = lfilter([np.sqrt(1.0 - phi**2)], [1.0, -phi], rng.normal(size=n + _HORIZON + 300))[300:]
    price = np.concatenate(([0.0], np.cumsum(a * drift + rng.normal(size=n + _HORIZON))))
    moved = price[_HORIZON : _HORIZON + n] - price[:n]
    between = phi ** np.abs(steps[:, None] - steps) - phi ** (steps[:, None] + steps)
    mean, spread = a * drift[:n] * (phi**steps).sum(), np.sqrt(_HORIZON + a**2 * between.sum())
    edges = np.zeros(1) if n_classes == 2 else 0.43 * np.sqrt(_HORIZON) * np.array([-1.0, 1.0])
    below = ndtr((edges - mean[:, None]) / spread)
    truth = np.diff(np.column_stack((np.zeros(n), below, np.ones(n))), axis=1)
    data = _rows(np.searchsorted(edges, moved), n_classes)
    found = figures(data, Forecasts(truth, truth, np.full((n, n_classes), 1.0 / n_classes)), rng=seed)
    return not gates(found)["ece_within_noise_band"]["passed"]


def _rows(y: FloatArray, n_classes: int) -> Dataset:
    """Return rows with these labels, each of which takes 20 bars of a day to be known."""
    start = (np.datetime64("2020-01-01") + np.arange(y.size)).astype("datetime64[us]")
    one = run_dataset(TrainConfig(horizon=_HORIZON, band=1.0), as_bars(_walk(400, 0)))
    return replace(
        one,
        X=np.zeros((y.size, 1)),
        names=("nothing",),
        y=y.astype(np.int64),
        classes=np.arange(n_classes),
        time=start,
        label_end=start + np.timedelta64(_HORIZON, "D"),
        symbol=np.full(y.size, "A", dtype=object),
        weight=np.full(y.size, 1.0 / _HORIZON),
        label_return=np.zeros(y.size),
    )


def _gates_of_a_walk(model: str, seed: int) -> list[bool]:
    """Return which gates a model of a random walk passes."""
    config = TrainConfig(model=model, horizon=_HORIZON)
    data = run_dataset(config, as_bars(_walk(_N_BARS, seed)))
    parts = hold_out(data)
    found = figures(data.take(parts.test), train_model(config, data, parts).test)
    return [gate["passed"] for gate in gates(found).values()]


def _walk(n: int, seed: int) -> pa.Table:
    """Return daily bars of a price whose logarithm is a random walk."""
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(np.cumsum(0.01 * rng.normal(size=n)))
    opened, spread = np.append(100.0, close[:-1]), 1.0 + 0.003 * np.abs(rng.normal(size=n))
    return pa.table(
        {
            "time": np.datetime64("2015-01-01") + np.arange(n),
            "open": opened,
            "high": np.maximum(opened, close) * spread,
            "low": np.minimum(opened, close) / spread,
            "close": close,
        }
    )
