"""Dirichlet calibration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.calibrators.base import named
from calibrant.calibrators.beta import BetaCalibrator
from calibrant.calibrators.softmax_family import Penalty, SoftmaxCalibrator
from calibrant.calibrators.temperature import StreamedLogits
from calibrant.maps import BetaMap, Map
from calibrant.numerics import FloatArray, dot
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.softmax_fit import SoftmaxFit
from calibrant.validation import InputKind


@named("dirichlet")
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
    The penalty is off-diagonal and intercept regularisation (ODIR), with a penalty on the diagonal too: without it
    held-out log loss was worse. In contrast to matrix scaling, log p is not centred in each row, since the sum of a
    row's logarithms tells how sure it is. The penalty sees them less their overall mean, so that intercepts are those
    of a usual row; the map contains the mean again.

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

    map_kinds = (BetaMap,)
    input: InputKind = "probability"

    def __init__(self, *, penalty: Penalty = "evidence") -> None:
        self.penalty: Penalty = penalty

    def fit_logits(
        self, z: FloatArray, scale: float, rows: Rows, near: SoftmaxFit | None
    ) -> tuple[FloatArray, FloatArray, SoftmaxFit]:
        """Fit to logarithms less the mean of them all, so that intercepts are those of a usual row."""
        middle = float(np.average(z.mean(axis=1), weights=rows.weight))
        matrix, bias, found = super().fit_logits(z - middle, scale, rows, near)
        return matrix, bias - scale * middle * matrix.sum(axis=1), found

    def stream_middle(self, logits: StreamedLogits) -> float:
        """Return the mean of all logarithms, which is taken off as in memory."""
        return logits.sum(lambda z, _, share: dot(share, z.mean(axis=1)))

    def centred(self, rows: FloatArray) -> FloatArray:
        """Return the rows as they are: no shift leaves a matrix of logarithms alone."""
        return rows

    def map_of(self, rows: Rows) -> Map:
        return self._of_two().map_of(rows) if rows.n_classes == 2 else super().map_of(rows)

    def map_and_refit(self, rows: Rows) -> tuple[Map, Callable[[Rows], Map]]:
        return self._of_two().map_and_refit(rows) if rows.n_classes == 2 else super().map_and_refit(rows)

    def map_of_stream(self, stream: RowStream) -> Map:
        return self._of_two().map_of_stream(stream) if len(stream.classes) == 2 else super().map_of_stream(stream)

    def _of_two(self) -> BetaCalibrator:
        """Return what fits two classes; the strength of an earlier fit to more of them goes."""
        vars(self).pop("penalty_", None)
        return BetaCalibrator()
