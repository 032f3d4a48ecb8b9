"""Calibrators of calibrant in the form that CalArena runs: put this file's dictionary into its custom_calibrators.py.

from calarena_calibrators import CUSTOM_CALIBRATORS
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibrators import BINARY_CALIBRATORS, CALIBRATORS, make_calibrator

#: What needs another one, or margins, to be made.
_NOT_ALONE = ("one_vs_rest", "top_label", "rank_preserving")


class CalibrantCalibrator:
    """A method of calibrant by name: `fit` and `predict_proba` take positive probabilities or a row per class."""

    def __init__(self, method: str) -> None:
        self.method = method

    def fit(self, p_cal: np.ndarray, y_cal: np.ndarray) -> None:
        """Fit to probabilities of shape (n,), (n, 1) or (n, K) and labels 0 to K - 1."""
        p, y = as_probabilities(p_cal), np.asarray(y_cal).astype(np.int64).reshape(-1)
        self.fitted_ = make_calibrator(self.method).fit(p, y, classes=np.arange(2 if p.ndim == 1 else p.shape[1]))

    def predict_proba(self, p_test: np.ndarray) -> np.ndarray:
        """Return probabilities of all classes, shape (n, K)."""
        return in_columns(self.fitted_.predict_proba(as_probabilities(p_test)))


def as_probabilities(p: np.ndarray) -> np.ndarray:
    """Return float64 probabilities: of the positive one of two classes, shape (n,), or of all, in rows of sum one."""
    p = np.clip(np.asarray(p, dtype=np.float64), 0.0, 1.0)
    if p.ndim == 2 and p.shape[1] <= 2:
        return np.ascontiguousarray(p[:, -1])
    return p if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)


def in_columns(q: np.ndarray) -> np.ndarray:
    """Return probabilities of the positive class as those of both classes."""
    return np.column_stack((1.0 - q, q)) if q.ndim == 1 else q


def names(n_classes: int) -> list[str]:
    """Return the methods that take so many classes."""
    known = BINARY_CALIBRATORS if n_classes == 2 else CALIBRATORS
    more = ("temperature", "ensemble_temperature") if n_classes == 2 else ()
    return [name for name in (*known, *more) if name not in _NOT_ALONE]


CUSTOM_CALIBRATORS: dict[str, Callable[[], CalibrantCalibrator]] = {
    f"calibrant-{name}": lambda name=name: CalibrantCalibrator(name)  # type: ignore[misc]
    for name in dict.fromkeys([*names(2), *names(3)])
}
