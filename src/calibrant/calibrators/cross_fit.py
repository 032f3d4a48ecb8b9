"""Out-of-fold calibration: each row calibrated by a fit that has not seen it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Protocol, Self, TypeVar

import numpy as np

from calibrant.errors import CalibrantWarning
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.rows import Rows

_Result = TypeVar("_Result")


class _Fittable(Protocol):
    def fresh(self) -> Self: ...
    def fit_rows(self, rows: Rows) -> Self: ...
    def apply(self, rows: Rows) -> FloatArray: ...


def fits_by_fold(
    rows: Rows, folds: IntArray, fit: Callable[[Rows], _Result]
) -> Iterator[tuple[BoolArray, Rows, _Result | None]]:
    """Yield of each fold which rows are held out, the rows to fit to, and the fit; None where these show one class.

    Warnings of the fits are dropped: the fit to all rows gives them where they matter.
    """
    for fold in np.unique(folds).tolist():
        rest = rows.take(rows.fitted_without(folds, fold))
        fitted = None
        if (rest.codes != rest.codes[:1]).any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CalibrantWarning)
                fitted = fit(rest)
        yield folds == fold, rest, fitted


def smoothed_shares(rows: Rows) -> FloatArray:
    """Return the share of each class among the rows, each class counted once more than it was seen, shape (K,)."""
    counts = np.bincount(rows.codes, minlength=rows.n_classes)
    shares: FloatArray = (counts + 1.0) / (counts.sum() + counts.size)
    return shares


def out_of_fold(calibrator: _Fittable, rows: Rows, folds: IntArray) -> FloatArray:
    """Return the probabilities of each fold by a fit to the others.

    Where the others show one class only, scores of the fold stay as they are; raw scores, which are no probabilities,
    become the smoothed shares of the classes. The calibrator is not changed: each fold fits a new one of its kind.
    """
    unchanged = rows.probabilities()
    out = np.empty(rows.scores.shape)
    for held_out, rest, fitted in fits_by_fold(rows, folds, lambda rest: calibrator.fresh().fit_rows(rest)):
        if fitted is not None:
            out[held_out] = fitted.apply(rows.take(held_out))
        elif unchanged is not None:
            out[held_out] = unchanged[held_out]
        else:
            shares = smoothed_shares(rest)
            out[held_out] = shares[1:] if rows.is_binary else shares
    return out
