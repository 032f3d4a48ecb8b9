"""What vector, matrix and Dirichlet calibration share: temperature scaling, then a penalised deviation from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.temperature import StreamedLogits, TemperatureCalibrator, slope_of
from calibrant.errors import DataWarning, warn
from calibrant.fitted import as_one_score
from calibrant.maps import BetaMap, LogisticMap, Map, SoftmaxMap, line_map
from calibrant.numerics import LARGEST, FloatArray
from calibrant.phrases import quoted
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.softmax_fit import AnyProblem, MatrixProblem, SoftmaxFit, SoftmaxProblem, StreamedSoftmax, fit_softmax
from calibrant.validation import InputKind, check_number

Codes: TypeAlias = npt.NDArray[np.integer[Any]]
Penalty: TypeAlias = float | Literal["evidence"]

#: Calibrated logits beyond this give 0 or 1; the squares of smaller ones are finite.
_SURE = 1e8
_LARGE = 1e150


class _Near(NamedTuple):
    """A fit to all rows, where one to most of them starts: the inverse temperature, and the deviation from it."""

    slope: float
    fit: SoftmaxFit


class SoftmaxCalibrator(Calibrator):
    """A softmax of linear functions of the logits, with a penalty on the distance from temperature scaling."""

    map_kinds: ClassVar[tuple[type[Map], ...]] = (BetaMap, LogisticMap)
    softmax_ndim = 2
    penalty_: float

    def __init__(self, *, penalty: Penalty = "evidence", input: InputKind = "probability") -> None:
        self.penalty: Penalty = penalty
        self.input = input

    def problem(self, x: FloatArray, codes: Codes, weight: FloatArray) -> SoftmaxProblem:
        """Return the problem of temperature-scaled logits `x`, its penalty of strength 1 in rows: that of a matrix."""
        k = x.shape[1]
        intercept, diagonal, rest = penalties(k)
        penalty = np.full((k, k + 1), rest)
        penalty[np.arange(k), np.arange(k)] = diagonal
        penalty[:, k] = intercept
        return MatrixProblem(x, codes, weight, np.eye(k, k + 1), penalty)

    def linear(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix, shape (K, K), and the intercepts of fitted parameters."""
        return theta[:, :-1], theta[:, -1].copy()

    def check_params(self) -> None:
        super().check_params()
        if self.penalty != "evidence":
            check_number("penalty", self.penalty, minimum=0.0, is_open=True, example="2.0, or 'evidence'")

    def map_of(self, rows: Rows) -> Map:
        return self._fit(rows, None)[0]

    def map_and_refit(self, rows: Rows) -> tuple[Map, Callable[[Rows], Map]]:
        """Return the map of rows, and how to fit to most of them, with the penalty of all."""
        whole, near = self._fit(rows, None)
        return whole, lambda part: self._fit(part, near)[0]

    def _fit(self, rows: Rows, near: _Near | None) -> tuple[Map, _Near]:
        if rows.n_classes == 2:
            rows = as_one_score(rows, self.input)
        else:
            warn_of_absent_classes(rows)
        fitted, z = TemperatureCalibrator(input=self.input).map_and_logits(rows, None if near is None else near.slope)
        slope, clip = slope_of(fitted), fitted.clip
        matrix, bias, found = self.fit_logits(z, slope, rows, None if near is None else near.fit)
        return _map_of(matrix, bias, slope, clip, is_binary=rows.is_binary), _Near(slope, found)

    def fit_passes(self, stream: RowStream) -> SoftmaxMap | BetaMap | LogisticMap:
        """Fit in sums over the rows, from what a sample of them gives: the temperature first, then the deviation."""
        logits = StreamedLogits.read(stream)
        slope = logits.inverse_temperature()
        middle = self.stream_middle(logits)

        def scaled(z: FloatArray) -> FloatArray:
            x = np.clip(slope * (z - middle), -_SURE, _SURE)
            return np.clip(self.centred(x), -_SURE, _SURE)

        z, codes, share = logits.sample()
        sample = self.problem(scaled(z), codes, share)
        empty = replace(sample, x=z[:0], codes=codes[:0], weight=share[:0], penalty=np.zeros_like(sample.penalty))

        def total(find: Callable[[SoftmaxProblem], Any]) -> Any:
            return logits.sum(lambda z, codes, w: find(replace(empty, x=scaled(z), codes=codes, weight=w)))

        streamed = StreamedSoftmax(sample, total, sample.centre, sample.penalty)
        matrix, bias, _ = self.fit_problem(streamed, logits.total, None)
        if not stream.is_binary:
            bias = bias - slope * middle * matrix.sum(axis=1)
        return _map_of(matrix, bias, slope, logits.clip, is_binary=stream.is_binary)

    def stream_middle(self, logits: StreamedLogits) -> float:  # noqa: ARG002
        """Return what is taken off all logits of a stream: nothing."""
        return 0.0

    def fit_logits(
        self, z: FloatArray, scale: float, rows: Rows, near: SoftmaxFit | None
    ) -> tuple[FloatArray, FloatArray, SoftmaxFit]:
        """Return matrix and intercepts over `scale` times logits `z`, the inverse temperature times them; and the fit.

        It starts from `near`, and has its penalty, where that is given.
        """
        total = rows.total_weight
        with np.errstate(over="ignore"):  # clipped
            x = scale * z
        np.clip(x, -_LARGE, _LARGE, out=x)
        x = self.centred(x)
        np.clip(x, -_SURE, _SURE, out=x)
        return self.fit_problem(self.problem(x, rows.codes, rows.weights / total), total, near)

    def fit_problem(
        self, problem: AnyProblem, total: float, near: SoftmaxFit | None
    ) -> tuple[FloatArray, FloatArray, SoftmaxFit]:
        """Return the matrix and intercepts that solve a problem of rows that weigh `total`, and the fit."""
        given = None if self.penalty == "evidence" else float(self.penalty)
        penalty = given if near is None else near.penalty
        found = fit_softmax(problem, total, penalty, what=f"{self.name} fit", near=near)
        self.penalty_ = found.penalty
        matrix, bias = self.linear(found.theta)
        return self.centred(matrix), bias, found

    def centred(self, rows: FloatArray) -> FloatArray:
        """Take the mean off each row: a shift of all logits then changes nothing, by `x` as by the matrix."""
        return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def _map_of(
    matrix: FloatArray, bias: FloatArray, scale: float, clip: float | None, *, is_binary: bool
) -> SoftmaxMap | BetaMap | LogisticMap:
    """Return the map of a matrix over `scale` times the logits; those of one score are the columns -z / 2 and z / 2."""
    if not is_binary:
        return SoftmaxMap(scale * matrix, bias, clip)
    with np.errstate(over="ignore"):  # the slope of scores that lie very close together may overflow
        slope = scale * (0.5 * (matrix[1, 1] - matrix[1, 0] - matrix[0, 1] + matrix[0, 0]))
    return line_map(float(np.clip(slope, -LARGEST, LARGEST)), float(bias[1] - bias[0]), clip)


def warn_of_absent_classes(rows: Rows) -> None:
    """Warn of classes without rows, whose probabilities only the penalty keeps from falling to zero."""
    absent = rows.classes[rows.class_weight == 0.0].tolist()
    if absent:
        warn(
            f"no rows of class {quoted(absent, most=10)}: their probabilities only fall, as far as the "
            "penalty lets them",
            DataWarning,
        )


def penalties(n_classes: int) -> tuple[float, float, float]:
    """Return the penalties of strength 1, in rows, of intercepts, of the diagonal's deviations, and of the rest.

    Of those tried on 25 score sets of 3 to 100 classes these gave the lowest held-out log loss.
    """
    k = float(n_classes)
    return k, 3.0 * k, 3.0 * k * np.sqrt(k)
