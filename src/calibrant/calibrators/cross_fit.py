"""Out-of-fold calibration: each row calibrated by a fit that has not seen it."""

from __future__ import annotations

import warnings
from typing import Protocol, Self

import numpy as np

from calibrant.errors import CalibrantWarning
from calibrant.numerics import FloatArray, IntArray
from calibrant.rows import Rows


class Fittable(Protocol):
    """What can be fitted to rows anew and applied to others."""

    def fresh(self) -> Self:
        """Return an unfitted one with the same settings."""

    def fit_rows(self, rows: Rows) -> Self:
        """Fit to checked rows."""

    def apply(self, rows: Rows) -> FloatArray:
        """Return the probabilities of checked rows."""


def out_of_fold(calibrator: Fittable, rows: Rows, folds: IntArray) -> FloatArray:
    """Calibrate each fold by a fit to the others; where those show one class only, leave it as it is.

    Raw scores, which can't be left as they are, get the shares of the classes in the others, each class counted once
    more than it was seen.

    Parameters
    ----------
    calibrator : Fittable
        Left as it is: each fold fits a new one of its kind.
    rows : Rows
    folds : ndarray of shape (n,)
        As `Rows.folds` gives them.
    """
    as_they_are = rows.probabilities()
    out = np.empty(rows.scores.shape)
    for fold in np.unique(folds):
        held_out = folds == fold
        rest, held = rows.split(folds, fold)
        counts = np.bincount(rest.codes, minlength=rest.n_classes)
        if np.count_nonzero(counts) < 2:
            shares = (counts + 1.0) / (counts.sum() + counts.size)
            out[held_out] = (
                as_they_are[held_out] if as_they_are is not None else shares[1:] if rows.is_binary else shares
            )
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
            out[held_out] = calibrator.fresh().fit_rows(rest).apply(held)
    return out
