"""Held-out figures of one method in one run."""

from __future__ import annotations

import numpy as np

import calibrant as cb
from benchmarks.quality_methods import log_losses

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


def difference_error(q: np.ndarray, other: np.ndarray, y: np.ndarray) -> float:
    """Return the standard error, over held-out rows, of the difference of two methods' log losses."""
    difference = log_losses(q, y) - log_losses(other, y)
    return float(difference.std(ddof=1) / np.sqrt(y.size))
