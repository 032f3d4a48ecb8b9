"""Predictions that the tests of the metrics share."""

from __future__ import annotations

import numpy as np


def draw_binary(n=500, seed=0, power=1.5, decimals=None):
    """Return labels and probabilities; the labels happen at the rate p^power."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    if decimals is not None:
        p = p.round(decimals)
    return (rng.random(n) < p**power).astype(int), p


def draw_classes(n=400, n_classes=3, seed=0, temperature=1.0):
    """Return labels and probabilities of several classes; over-confident where the temperature is below 1."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(n_classes, 0.7), n)
    Q = P**temperature
    Q /= Q.sum(axis=1, keepdims=True)
    y = np.minimum((rng.random(n)[:, None] > Q.cumsum(axis=1)).sum(axis=1), n_classes - 1)
    return y, P


def draw_weights(n, seed=1):
    return np.random.default_rng(seed).gamma(2.0, 0.5, n)
