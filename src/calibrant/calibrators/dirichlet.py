"""Dirichlet calibration."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from calibrant.calibrators.base import as_one_score, named
from calibrant.calibrators.beta import BetaCalibrator
from calibrant.calibrators.softmax_family import Codes, Penalty, SoftmaxCalibrator, matrix_problem
from calibrant.maps import BetaMap, BinaryMap
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.softmax_fit import CorrelatedProblem, SoftmaxProblem
from calibrant.validation import InputKind


@named
class DirichletCalibrator(SoftmaxCalibrator):
    """Dirichlet calibration: softmax(W log p + b) of probabilities p, with a penalty on W and b.

    Parameters
    ----------
    penalty : float or "evidence"
        Strength of the penalty, which is that of `MatrixScalingCalibrator`. By default it is chosen by the evidence
        of the rows; with more than 25 classes it is 2.

    Attributes
    ----------
    penalty_ : float
        The strength that was used. Not there for two classes.

    Notes
    -----
    If the probabilities of each class follow a Dirichlet distribution, this is how calibrated ones depend on them.
    The penalty is off-diagonal and intercept regularisation (ODIR), with the diagonal drawn towards temperature
    scaling too: left free, it made held-out log loss worse. In contrast to matrix scaling, log p is not centred in
    each row: a row's logarithms sum to less where it is surer, which is one more thing to go by. For the penalty the
    mean of them all is taken off first, so that intercepts are those of a usual row; the map has it added again.

    For two classes this is beta calibration, as `BetaCalibrator` fits it, without a penalty.

    References
    ----------
    Kull, Perello-Nieto, Kängsepp, Silva Filho, Song and Flach (2019), *Beyond temperature scaling: obtaining
    well-calibrated multi-class probabilities with Dirichlet calibration*, NeurIPS, sections 3 and 4.

    Examples
    --------
    >>> import calibrant as cb
    >>> P = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]
    >>> calibrator = cb.DirichletCalibrator(penalty=2.0).fit(P, ["a", "b", "c", "b"])
    >>> calibrator.predict_proba([[0.6, 0.3, 0.1]]).round(3)
    array([[0.866, 0.133, 0.002]])
    """

    name: ClassVar[str] = "dirichlet"
    input: InputKind = "probability"

    def __init__(self, *, penalty: Penalty = "evidence") -> None:
        self.penalty: Penalty = penalty

    def problem(self, x: FloatArray, codes: Codes, weight: FloatArray) -> SoftmaxProblem:
        """Return the problem of temperature-scaled logits."""
        return matrix_problem(x, codes, weight, CorrelatedProblem)

    def linear(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and the intercepts of fitted parameters."""
        return theta[:, :-1], theta[:, -1].copy()

    def fit_logits(self, z: FloatArray, scale: float, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Fit to logarithms less the mean of them all, so that intercepts are those of a usual row."""
        middle = float(np.average(z.mean(axis=1), weights=rows.weight))
        matrix, bias = super().fit_logits(z - middle, scale, rows)
        return matrix, bias - scale * middle * matrix.sum(axis=1)

    def centred(self, rows: FloatArray) -> FloatArray:
        """Return the rows as they are: no shift leaves a matrix of logarithms alone."""
        return rows

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:  # noqa: ARG002
        """Return the kinds of map that a fit to one score can give."""
        return (BetaMap,)

    def fit_binary(self, rows: Rows) -> BinaryMap:
        """Fit beta calibration, which is Dirichlet calibration of two classes."""
        return BetaCalibrator().fit_map(as_one_score(rows, "probability"))
