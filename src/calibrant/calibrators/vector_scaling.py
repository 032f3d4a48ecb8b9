"""Vector scaling."""

from __future__ import annotations

import numpy as np

from calibrant.calibrators.base import named
from calibrant.calibrators.softmax_family import Codes, SoftmaxCalibrator, penalties
from calibrant.numerics import FloatArray
from calibrant.softmax_fit import SoftmaxProblem, VectorProblem


@named("vector")
class VectorScalingCalibrator(SoftmaxCalibrator):
    """Vector scaling: softmax of a_k z_k + b_k over the classes k, penalised for its distance from temperature scaling.

    Parameters
    ----------
    penalty : float or "evidence"
        Strength s of the penalty. The log-likelihood of all rows is lowered by s / 2 times
        K |b|^2 + 3 K |d|^2 for K classes and slopes a_k = (1 + d_k) / T, T being the temperature. By default it is
        chosen by the evidence of the rows.
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as logarithms, zeros clipped by `calibrant.numerics.clip_from_data`.

    Attributes
    ----------
    penalty_ : float
        The strength that was used.

    Notes
    -----
    As `MatrixScalingCalibrator`, with 2 K parameters: for many classes and few rows. Logits z are centred in each
    row first, so that a shift of all of them changes nothing; the map holds the centring in its matrix.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), *On calibration of modern neural networks*, ICML, section 4.2.
    Berta, Holzmüller, Jordan and Bach (2025), *Structured matrix scaling for multi-class calibration*.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    >>> calibrator = cb.VectorScalingCalibrator(penalty=2.0).fit(P, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba([[0.6, 0.3, 0.1]]).round(3)
    array([[0.898, 0.1  , 0.001]])
    """

    def problem(self, x: FloatArray, codes: Codes, weight: FloatArray) -> SoftmaxProblem:
        one = np.ones(x.shape[1])
        intercept, slope, _ = penalties(one.size)
        return VectorProblem(x, codes, weight, np.vstack((one, 0.0 * one)), np.vstack((slope * one, intercept * one)))

    def linear(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.diag(theta[0]), theta[1].copy()
