"""Scores of two classes that are off by a power, for tests of automatic calibration."""

from __future__ import annotations

import numpy as np


def draw(n=1500, power=3.0, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(size=n)
    return truth**power, rng.uniform(size=n) < truth


def log_loss(q, y):
    return -np.where(y, np.log(q), np.log1p(-q)).mean()
