"""Out-of-fold calibration: each row calibrated by a fit that has not seen it."""

from __future__ import annotations

import warnings

import numpy as np

from calibrant.calibrators import Calibrator, make_calibrator
from calibrant.errors import CalibrantWarning
from calibrant.numerics import FloatArray, IntArray
from calibrant.validation import Labels


def out_of_fold(
    calibrator: Calibrator, values: FloatArray, labels: Labels, weight: FloatArray | None, folds: IntArray
) -> FloatArray:
    """Calibrate each fold by a fit to the others; where those show one class only, leave it as it is.

    Parameters
    ----------
    calibrator : Calibrator
        Left as it is: each fold fits a new one of its kind.
    values : ndarray of shape (n,) or (n, K)
        Checked scores.
    labels : Labels
    weight : ndarray of shape (n,) or None
        Positive, or None where all are one.
    folds : ndarray of shape (n,)
        As `calibrant.folds.stratified_folds` gives them.
    """
    out = values.copy()
    for fold in np.unique(folds):
        held_out = folds == fold
        rest = Labels(labels.codes[~held_out], labels.classes)
        if np.count_nonzero(rest.counts()) < 2:
            continue
        fitted = make_calibrator(calibrator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)  # said once, by the fit to all rows
            fitted.fit_checked(values[~held_out], rest, None if weight is None else weight[~held_out])
        out[held_out] = fitted.apply_checked(values[held_out])
    return out
