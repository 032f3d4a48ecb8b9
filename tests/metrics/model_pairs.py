"""Pairs of models to compare: rows, their losses, and the differences that are measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

import calibrant as cb
from calibrant.results import Score

KEYS = ("log_loss", "brier", "ece_debiased", "auc")


def draw(n: int = 600, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return labels and the probabilities of two models that are noisy in ways of their own."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    y = (rng.random(n) < expit(z)).astype(int)
    return y, expit(1.4 * z + 0.3 * rng.normal(size=n)), expit(z + 0.4 * rng.normal(size=n))


def differences(y: Any, a: Any, b: Any, **options: Any) -> dict[str, Score]:
    found = cb.compare_models(y, {"a": a, "b": b}, **options).differences["b"]
    return {key: found[f"{key}_difference"] for key in KEYS}


def losses(y: Any, p: Any) -> dict[str, Any]:
    return {"log_loss": -np.where(y == 1, np.log(p), np.log1p(-p)), "brier": (p - y) ** 2}


def delong(y: Any, a: Any, b: Any) -> tuple[float, float]:
    """Return the difference of AUCs and its standard error, pair by pair (DeLong et al. 1988, equations 3 to 7)."""
    placements = []
    for p in (a, b):
        positive, negative = p[y == 1][:, None], p[y == 0][None, :]
        psi = (positive > negative) + 0.5 * (positive == negative)
        placements.append((psi.mean(axis=1), psi.mean(axis=0)))
    of_positive = placements[1][0] - placements[0][0]
    of_negative = placements[1][1] - placements[0][1]
    variance = of_positive.var(ddof=1) / of_positive.size + of_negative.var(ddof=1) / of_negative.size
    return float(of_positive.mean()), math.sqrt(variance)
