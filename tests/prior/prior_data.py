"""Rows whose probabilities are known exactly, under one set of class rates and drawn under another."""

from __future__ import annotations

import numpy as np


def draw(rng: np.random.Generator, n: int, rates: list[float], distance: float) -> tuple[np.ndarray, np.ndarray]:
    """Return labels drawn by `rates`, and each row's probabilities under equal rates."""
    k = len(rates)
    y = rng.choice(k, n, p=rates)
    x = rng.normal(size=(n, k))
    x[np.arange(n), y] += distance
    p = np.exp(distance * (x - x.max(axis=1, keepdims=True)))
    return y, p / p.sum(axis=1, keepdims=True)


def even(k: int) -> np.ndarray:
    return np.full(k, 1.0 / k)
