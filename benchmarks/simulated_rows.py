"""Rows drawn from known probabilities: calibrated ones, clusters of them, and eighteen ways of being off."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit, ndtr

from calibrant.rows import Rows, read_rows

Array: TypeAlias = npt.NDArray[np.float64]
#: Rows of a cluster, and the share of the latent chance that they have in common.
CLUSTER_SIZE = 10
_SHARED = 0.3
_SPREAD = 1.5


def probabilities(n: int, rate: float, n_classes: int, rng: np.random.Generator) -> Array:
    """Draw probabilities whose mean for the positive class, or the first of several, is about `rate`."""
    if n_classes == 2:
        away = 0.0 if rate == 0.5 else 0.5 * _SPREAD**2  # keeps the mean near the rate where it is small
        return np.asarray(expit(logit(rate) - away + _SPREAD * rng.standard_normal(n)))
    share = np.append(rate, np.full(n_classes - 1, (1.0 - rate) / (n_classes - 1)))
    return rng.dirichlet(n_classes * share, n)


def outcomes(truth: Array, cluster: npt.NDArray[np.int64] | None, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Draw labels of these true probabilities; rows of a cluster share a part of their chance."""
    n = len(truth)
    if cluster is None:
        u = rng.random(n)
    else:
        common = rng.standard_normal(int(cluster.max()) + 1)[cluster]
        u = ndtr(np.sqrt(_SHARED) * common + np.sqrt(1.0 - _SHARED) * rng.standard_normal(n))
    if truth.ndim == 1:
        return np.asarray(u < truth).astype(np.int64)
    return np.minimum((truth.cumsum(axis=1) < u[:, None]).sum(axis=1), truth.shape[1] - 1)


def draw_rows(
    n: int,
    rate: float,
    rng: np.random.Generator,
    *,
    n_classes: int = 2,
    clustered: bool = False,
    truth: Callable[[Array], Array] = lambda p: p,
    n_groups: int = 0,
) -> Rows:
    """Draw n rows whose outcomes have the probabilities `truth` of the predicted ones, and groups of clusters."""
    p = probabilities(n, rate, n_classes, rng)
    cluster = np.arange(n) // CLUSTER_SIZE if clustered else None
    groups = {} if not n_groups else {"groups": np.arange(n) // CLUSTER_SIZE % n_groups}
    y = outcomes(truth(p), cluster, rng)
    return read_rows(p, y, classes=np.arange(n_classes), cluster=cluster, groups=groups)


def _noise(p: Array) -> Array:
    """Return the standard deviation of outcomes, twice."""
    return np.asarray(2.0 * np.sqrt(p * (1.0 - p)))


def _standard(p: Array) -> Array:
    z = logit(p)
    return np.asarray((z - np.median(z)) / _SPREAD)


def _ranks(p: Array) -> Array:
    return np.asarray((np.argsort(np.argsort(p)) + 0.5) / p.size)


#: True probability for a predicted one, of strength s. The parts of the joint test were chosen on these kinds.
KINDS: dict[str, Callable[[Array, float], Array]] = {
    "too low": lambda p, s: expit(logit(p) + 0.3 * s),
    "over-confident": lambda p, s: expit(logit(p) * (1.0 - 0.25 * s)),
    "under-confident": lambda p, s: expit(logit(p) * (1.0 + 0.3 * s)),
    "bend": lambda p, s: expit(logit(p) + 0.25 * s * (_standard(p) ** 2 - 1.0)),
    "cubic": lambda p, s: expit(logit(p) + 0.12 * s * (_standard(p) ** 3 - 3.0 * _standard(p))),
    "wave": lambda p, s: np.clip(p + 0.11 * s * np.sin(4.0 * np.pi * ndtr(_standard(p))) * _noise(p), 0.0, 1.0),
    "floor and ceiling": lambda p, s: p * (1.0 - 0.08 * s) + 0.04 * s * (p.mean() / 0.5),
    "step": lambda p, s: np.clip(p + 0.05 * s * np.where(p > np.median(p), 1.0, -1.0) * _noise(p), 0.0, 1.0),
    "high end": lambda p, s: np.where(p > np.quantile(p, 0.85), expit(logit(p) - 0.9 * s), p),
    "low end": lambda p, s: np.where(p < np.quantile(p, 0.3), expit(logit(p) + 0.8 * s), p),
    "bump": lambda p, s: expit(logit(p) + 0.5 * s * np.exp(-0.5 * (_standard(p) / 0.25) ** 2)),
    "power": lambda p, s: p ** (1.0 + 0.15 * s),
}
#: Kinds that took no part in that choice.
NEW_KINDS: dict[str, Callable[[Array, float], Array]] = {
    "capped": lambda p, s: expit(
        _SPREAD * np.clip(_standard(p), -2.0 / (1.0 + s), 2.0 / (1.0 + s)) + np.median(logit(p))
    ),
    "over-confident above": lambda p, s: expit(logit(p) - 0.3 * s * _SPREAD * np.maximum(_standard(p), 0.0)),
    "saw": lambda p, s: np.clip(p + 0.15 * s * (5.0 * _ranks(p) % 1.0 - 0.5) * _noise(p), 0.0, 1.0),
    "window": lambda p, s: np.clip(p - 0.17 * s * (np.abs(_ranks(p) - 0.65) < 0.05) * _noise(p), 0.0, 1.0),
    "other link": lambda p, s: 1.0 - (1.0 - p) ** (1.0 + 0.25 * s),
    "few at the top": lambda p, s: np.where(_ranks(p) > 0.97, expit(logit(p) - 1.6 * s), p),
}
