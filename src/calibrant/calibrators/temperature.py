"""Temperature scaling."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.base import Calibrator, named
from calibrant.document_field import DocumentField
from calibrant.errors import ConvergenceWarning, DataWarning
from calibrant.maps import BetaMap, BinaryMap, LogisticMap, Map, SoftmaxMap
from calibrant.numerics import EPS, FloatArray, clip_from_data, clip_open, dot, logit
from calibrant.rows import Rows
from calibrant.validation import InputKind

_MAX_ITER = 200
#: Steeper slopes would make infinities of ordinary logits, of which a softmax has no differences.
_STEEPEST = 1e150
#: Relative Newton step that is the last one: convergence is quadratic there.
_TOL = 1e-8
#: Newton iterations before an upper bracket is looked for by steps of four.
_NEWTON_UNTIL = 10
_BLOCK_ENTRIES = 1 << 15
_WARM_START_FROM = 1 << 17


@named
class TemperatureCalibrator(Calibrator):
    """Temperature scaling: divide the logits by one number that maximises the likelihood.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Of probabilities the logarithms are taken, with zeros moved inward by a clip that the
        data set (`calibrant.numerics.clip_from_data`).

    Attributes
    ----------
    inverse_temperature_ : float
        What the logits are multiplied by: below one for an overconfident model. Zero, with a DataWarning, where
        the scores run against the labels.

    Notes
    -----
    The likelihood is log-concave in the inverse temperature, which a bracketed Newton iteration finds. Where every
    row is already classified correctly the optimum is infinite: labels are then smoothed by 1 / (n + K), with a
    DataWarning. Having no intercept, it can't mend a wrong base rate.

    References
    ----------
    Guo, Pleiss, Sun and Weinberger (2017), *On calibration of modern neural networks*, ICML, section 4.2.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.TemperatureCalibrator(input="logit").fit([-4.0, 3.0, 2.0, 5.0], [0, 0, 1, 1])
    >>> round(calibrator.inverse_temperature_, 3)
    0.347
    """

    name: ClassVar[str] = "temperature"

    def __init__(self, *, input: InputKind = "probability") -> None:
        self.input = input

    def map_kinds(self, input: InputKind) -> tuple[type[BinaryMap], ...]:
        """Return the kinds of map that a fit to one score of kind `input` can give."""
        return (BetaMap,) if input == "probability" else (LogisticMap,)

    @property
    def inverse_temperature_(self) -> float:
        """What the logits are multiplied by."""
        match self.fitted_map:
            case BetaMap(a=slope) | LogisticMap(slope=slope):
                return slope
            case SoftmaxMap(weight=weight):
                return float(weight)
            case other:
                raise AttributeError(f"a map of kind {type(other).__name__} has no temperature")

    @property
    def beta_(self) -> float:
        """The inverse temperature, by the name that scikit-learn gives it."""
        return self.inverse_temperature_

    def map_of(self, rows: Rows) -> Map:
        """Fit the inverse temperature of one score, or of the logits of all classes."""
        values = rows.scores
        if values.ndim == 1 or values.shape[1] == 2:
            return self._fit_binary(rows)
        if self.input == "probability":
            clip = clip_from_data(values, rows.total_weight)
            slope = _inverse_temperature(np.log(np.maximum(values, clip)), rows.codes, rows.weight)
            return SoftmaxMap(np.array(slope), np.zeros(values.shape[1]), clip)
        slope = min(_inverse_temperature(values, rows.codes, rows.weight), _STEEPEST)
        return SoftmaxMap(np.array(slope), np.zeros(values.shape[1]), None)

    def check_map(self, fitted: Map, n_classes: int, field: DocumentField) -> None:
        """Refuse a map that this calibrator can't have produced for so many classes."""
        if n_classes == 2 or not isinstance(fitted, SoftmaxMap):
            super().check_map(fitted, n_classes, field)
            return
        check_softmax(fitted, self.input, n_classes, field)
        if fitted.weight.ndim != 0:
            field.member("weight").refuse("is not one number, as an inverse temperature is")

    def _fit_binary(self, rows: Rows) -> BinaryMap:
        values = rows.scores
        if self.input == "probability":
            p = values if values.ndim == 1 else values[:, 1]
            clip = clip_from_data(p, rows.total_weight)
            slope = _binary_slope(logit(clip_open(p, clip)), rows)
            return BetaMap(slope, slope, 0.0, clip)
        return LogisticMap(_binary_slope(values if values.ndim == 1 else values[:, 1] - values[:, 0], rows), 0.0)


def check_softmax(fitted: SoftmaxMap, input: InputKind, n_classes: int, field: DocumentField) -> None:
    """Refuse a softmax map, held by a field of a document, of other classes or of scores of another kind."""
    if fitted.n_classes != n_classes:
        field.member("bias").refuse(f"does not go with {n_classes} classes: one number per class is needed")
    fitted.check_input(input, field)


def _binary_slope(z: FloatArray, rows: Rows) -> float:
    return _inverse_temperature(np.column_stack((np.zeros_like(z), z)), rows.codes, rows.weight)


def _inverse_temperature(z: FloatArray, codes: npt.NDArray[np.integer[Any]], weight: FloatArray | None) -> float:
    """Return the minimiser, at least 0, of the mean log loss of softmax(slope * z)."""
    n, n_classes = z.shape
    unit = float(2.0 ** np.frexp(np.abs(z).max())[1].clip(max=1023))  # exact, and sums of what is left don't overflow
    z = z / unit
    columns = np.ascontiguousarray(z.T)  # reductions over the short axis then vectorise
    columns = columns - columns.max(axis=0)
    w = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    target = columns[codes, np.arange(n)]
    mean = columns.mean(axis=0)
    if float(target.min()) == 0.0:
        warnings.warn(
            "every row is classified correctly: the best temperature is zero, so labels are smoothed by 1 / (n + K)",
            DataWarning,
            stacklevel=6,
        )
        smooth = n_classes / ((float(n) if weight is None else float(weight.sum())) + n_classes)
        target = (1.0 - smooth) * target + smooth * mean
    if dot(w, mean - target) >= 0.0:
        warnings.warn(
            "the scores say nothing of the labels, or run against them: the best temperature is infinite, "
            "and all classes become equally likely",
            DataWarning,
            stacklevel=6,
        )
        return 0.0
    problem = TemperatureProblem(columns, target, w)
    start = 1.0 / max(float(np.abs(columns).mean()), 1e-300)
    if n >= _WARM_START_FROM:
        start, _ = find_slope(problem.thin(n // (_WARM_START_FROM // 8)), start)
    slope, converged = find_slope(problem, start)
    if not converged:
        warnings.warn(
            f"temperature fit: no root of the gradient to {_TOL:.0e} after {_MAX_ITER} iterations; "
            f"inverse temperature {slope / unit:.6g}",
            ConvergenceWarning,
            stacklevel=6,
        )
    return min(slope / unit, float(np.finfo(np.float64).max))  # scores may lie closer than any slope can part


class RisingDerivative(Protocol):
    """A convex loss of one slope."""

    def derivatives(self, slope: float) -> tuple[float, float]:
        """Return the first and second derivative of the loss."""


@dataclass(frozen=True, slots=True)
class TemperatureProblem:
    """The loss sum_i w_i (log sum_k exp(slope z_ki) - slope t_i); the columns z_i have maximum zero."""

    columns: FloatArray
    target: FloatArray
    weight: FloatArray

    def thin(self, step: int) -> TemperatureProblem:
        """Return the problem of every `step`-th row."""
        return TemperatureProblem(
            np.ascontiguousarray(self.columns[:, ::step]), self.target[::step], self.weight[::step]
        )

    def derivatives(self, slope: float) -> tuple[float, float]:
        """Return the first and second derivative of the loss."""
        gradient = curvature = 0.0
        size = max(64, _BLOCK_ENTRIES // self.columns.shape[0])
        for start in range(0, self.target.size, size):
            block = slice(start, start + size)
            z, w = self.columns[:, block], self.weight[block]
            e = np.exp(slope * z)
            total = e.sum(axis=0)
            e *= z
            mean = e.sum(axis=0) / total
            e *= z
            square = e.sum(axis=0) / total
            gradient += dot(w, mean - self.target[block])
            curvature += dot(w, square - mean * mean)
        return gradient, curvature


def find_slope(problem: RisingDerivative, start: float) -> tuple[float, bool]:
    """Find the root of the loss's rising derivative by Newton within a bracket that bisects when it must."""
    low, high = 0.0, np.inf
    slope = start
    for n_iter in range(_MAX_ITER):
        gradient, curvature = problem.derivatives(slope)
        if gradient == 0.0:
            return slope, True
        if gradient < 0.0:
            low = slope
        else:
            high = slope
        tried = slope - gradient / curvature if curvature > 0.0 else np.inf
        if abs(tried - slope) <= _TOL * slope:
            return tried, True
        is_open = not np.isfinite(high)
        if is_open and (n_iter > _NEWTON_UNTIL or not low < tried < 4.0 * slope):
            tried = 4.0 * slope  # far out the loss is nearly exponential, where Newton only creeps
        elif not low < tried < high:
            tried = 0.5 * (low + high)
        if not np.isfinite(tried) or high - low <= 4.0 * EPS * slope:
            return slope, bool(np.isfinite(tried))
        slope = tried
    return slope, False
