"""Spiegelhalter's test: whether the Brier score is what the probabilities themselves promise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant.metrics.gate import measured_rows
from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True)
class SpiegelhalterTest:
    """The outcome of Spiegelhalter's test.

    Attributes
    ----------
    z : float
        Standard normal if the probabilities are calibrated. Above zero where the Brier score is worse than the
        probabilities promise, as over-confident ones are; below zero where it is better.
    p_value : float
        Two-sided.
    """

    z: float
    p_value: float


def spiegelhalter_z(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> SpiegelhalterTest:
    """Test calibration by comparing the Brier score with its expectation under the probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the top label is judged.
    sample_weight : array-like of shape (n,), optional
        Each row is one observation whatever its weight, so the scale of the weights changes nothing; a weight of zero
        counts as no row.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    SpiegelhalterTest
        `z` and the two-sided `p_value`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    z = sum w (y - p)(1 - 2p) / sqrt(sum w^2 (1 - 2p)^2 p (1 - p)): the Brier score less its expectation, over its
    standard deviation. The p-value is two-sided, 2 (1 - Phi(|z|)), and holds for many rows. Rows at 1/2 say nothing.
    Errors of opposite direction cancel: predictions can be wrong with z near 0. Where nothing can vary (all
    probabilities 0, 1/2 or 1), z is 0 if all went as said and infinite if not.

    References
    ----------
    Spiegelhalter (1986), *Probabilistic prediction in patient management and clinical trials*, Statistics in
    Medicine 5, equation 10.

    Examples
    --------
    >>> from calibrant.metrics import spiegelhalter_z
    >>> test = spiegelhalter_z([0, 0, 1, 1], [0.9, 0.2, 0.3, 0.8])
    >>> round(test.z, 4), round(test.p_value, 4)
    (1.6729, 0.0944)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    column = rows.one_column()
    p, weight = column.scores, rows.weights
    bend = weight * (1.0 - 2.0 * p)
    excess = float(np.sum(bend * (column.positive - p)))
    variance = float(np.sum(bend**2 * p * (1.0 - p)))
    if variance > 0.0:
        z = excess / math.sqrt(variance)
    else:
        z = 0.0 if excess == 0.0 else math.copysign(math.inf, excess)
    return SpiegelhalterTest(z, math.erfc(abs(z) / math.sqrt(2.0)))
