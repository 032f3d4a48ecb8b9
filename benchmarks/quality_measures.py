"""Held-out figures of one method in one run."""

from __future__ import annotations

import numpy as np

import calibrant as cb
from benchmarks.quality_methods import log_losses
from benchmarks.score_sets import ScoreSet

#: The figures by name, of two classes and of more. Of more, calibration errors are those of the top label but one.
BINARY = ("log loss", "Brier", "debiased ECE", "smooth ECE")
MULTICLASS = (*BINARY, "class-wise ECE")


def measure(q: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the figures of probabilities `q`, shape (n,) or (n, K)."""
    log_loss = float(log_losses(q, y).mean())
    if q.ndim == 1:
        return [log_loss, float(((q - y) ** 2).mean()), *_errors(y, q)]
    own = q[np.arange(y.size), y]
    brier = float((np.einsum("ij,ij->i", q, q) - 2.0 * own + 1.0).mean())
    top = q.argmax(axis=1)
    errors = _errors((top == y).astype(np.int64), np.minimum(q[np.arange(y.size), top], 1.0))
    by_class = cb.metrics.classwise_ece(y, q, classes=np.arange(q.shape[1]))
    return [log_loss, brier, *errors, by_class]


def _errors(y: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    return cb.metrics.ece_debiased(y, p, pos_label=1, classes=[0, 1]), cb.metrics.smooth_ece(y, p, classes=[0, 1])


def difference_error(q: np.ndarray, other: np.ndarray, held_out: ScoreSet) -> float:
    """Return the standard error, over held-out rows or their groups, of the difference of two methods' log losses."""
    difference = log_losses(q, held_out.y) - log_losses(other, held_out.y)
    groups = np.arange(difference.size) if held_out.group is None else held_out.group
    return clustered_mean(difference, groups)[1]


def clustered_mean(values: np.ndarray, clusters: np.ndarray) -> tuple[float, float]:
    """Return the mean of what is no NaN, and its standard error where values of one cluster go together."""
    kept = np.isfinite(values)
    values, clusters = values[kept], clusters[kept]
    mean = float(values.mean())
    codes = np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(codes, weights=values - mean)
    factor = sums.size / max(sums.size - 1, 1)
    return mean, float(np.sqrt(factor * (sums**2).sum()) / values.size)
