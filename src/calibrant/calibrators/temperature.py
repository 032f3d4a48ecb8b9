"""Temperature scaling."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.base import Calibrator
from calibrant.errors import ConvergenceWarning, DataWarning
from calibrant.maps import BetaMap, BinaryMap, LogisticMap, Map, SoftmaxMap
from calibrant.numerics import FloatArray, clip_from_data, clip_open, logit
from calibrant.validation import InputKind, Labels

_MAX_ITER = 200
_TOL = 1e-12
#: Newton iterations before an upper bracket is looked for by steps of four.
_NEWTON_UNTIL = 10
_BLOCK_ENTRIES = 1 << 15
_WARM_START_FROM = 1 << 17


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

    @property
    def inverse_temperature_(self) -> float:
        """What the logits are multiplied by."""
        match self._fitted_map():
            case BetaMap(a=slope) | LogisticMap(slope=slope):
                return slope
            case SoftmaxMap(weight=weight):
                return float(weight)
            case other:
                raise AttributeError(f"a map of kind {type(other).__name__} has no temperature")

    def _fit_any(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> Map:
        if values.ndim == 1 or values.shape[1] == 2:
            return self._fit_binary(values, labels, weight)
        if self.input == "probability":
            clip = clip_from_data(values, _total(values, weight))
            slope = _inverse_temperature(np.log(np.maximum(values, clip)), labels.codes, weight)
            return SoftmaxMap(np.array(slope), np.zeros(values.shape[1]), clip)
        slope = _inverse_temperature(values, labels.codes, weight)
        return SoftmaxMap(np.array(slope), np.zeros(values.shape[1]), None)

    def _fit_binary(self, values: FloatArray, labels: Labels, weight: FloatArray | None) -> BinaryMap:
        if self.input == "probability":
            p = values if values.ndim == 1 else values[:, 1]
            clip = clip_from_data(p, _total(p, weight))
            slope = _binary_slope(logit(clip_open(p, clip)), labels, weight)
            return BetaMap(slope, slope, 0.0, clip)
        z = values if values.ndim == 1 else values[:, 1] - values[:, 0]
        return LogisticMap(_binary_slope(z, labels, weight), 0.0)


def _total(values: FloatArray, weight: FloatArray | None) -> float:
    return float(values.shape[0] if weight is None else weight.sum())


def _binary_slope(z: FloatArray, labels: Labels, weight: FloatArray | None) -> float:
    return _inverse_temperature(np.column_stack((np.zeros_like(z), z)), labels.codes, weight)


def _inverse_temperature(z: FloatArray, codes: npt.NDArray[np.integer[Any]], weight: FloatArray | None) -> float:
    """Return the minimiser, at least 0, of the mean log loss of softmax(slope * z)."""
    n, n_classes = z.shape
    w = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    own = np.take_along_axis(z, codes.astype(np.intp)[:, None], axis=1)[:, 0]
    target = own - z.max(axis=1)
    counted = w > 0.0
    if float(target[counted].min()) == 0.0:
        warnings.warn(
            "every row is classified correctly: the best temperature is zero, so labels are smoothed by 1 / (n + K)",
            DataWarning,
            stacklevel=6,
        )
        smooth = n_classes / (_total(z, weight) + n_classes)
        target = (1.0 - smooth) * target + smooth * (z.mean(axis=1) - z.max(axis=1))
    z = z - z.max(axis=1, keepdims=True)
    at_zero = float(w @ (z.mean(axis=1) - target))
    if at_zero >= 0.0:
        warnings.warn(
            "the scores say nothing of the labels, or run against them: the best temperature is infinite, "
            "and all classes become equally likely",
            DataWarning,
            stacklevel=6,
        )
        return 0.0
    start = 1.0 / max(float(np.abs(z).mean()), 1e-300)
    if n >= _WARM_START_FROM:
        step = n // (_WARM_START_FROM // 8)
        thin = w[::step] / w[::step].sum() if float(w[::step].sum()) > 0.0 else w[::step]
        start, _ = _root(z[::step], target[::step], thin, start)
    slope, converged = _root(z, target, w, start)
    if not converged:
        warnings.warn(
            f"temperature fit: no root of the gradient to {_TOL:.0e} after {_MAX_ITER} iterations; "
            f"inverse temperature {slope:.6g}",
            ConvergenceWarning,
            stacklevel=6,
        )
    return slope


def _root(z: FloatArray, target: FloatArray, w: FloatArray, start: float) -> tuple[float, bool]:
    """Find the root of the loss's rising derivative by Newton within a bracket that bisects when it must."""
    low, high = 0.0, np.inf
    slope = start
    for n_iter in range(_MAX_ITER):
        gradient, curvature = _derivatives(z, target, w, slope)
        if gradient < 0.0:
            low = slope
        else:
            high = slope
        step = gradient / curvature if curvature > 0.0 else np.copysign(np.inf, gradient)
        tried = slope - step
        is_open = not np.isfinite(high)
        if is_open and (n_iter > _NEWTON_UNTIL or not low < tried < 4.0 * slope):
            tried = 4.0 * slope  # far out the loss is nearly exponential, where Newton only creeps
        elif not low < tried < high:
            tried = 0.5 * (low + high)
        if abs(tried - slope) <= _TOL * slope or gradient == 0.0:
            return tried if gradient != 0.0 else slope, True
        if not np.isfinite(tried):
            break
        slope = tried
    return slope, False


def _derivatives(z: FloatArray, target: FloatArray, w: FloatArray, slope: float) -> tuple[float, float]:
    """Return first and second derivative of the loss; `z` has row maxima zero."""
    gradient = curvature = 0.0
    rows = max(64, _BLOCK_ENTRIES // z.shape[1])
    for start in range(0, z.shape[0], rows):
        part = np.ascontiguousarray(z[start : start + rows].T)  # reductions over the short axis then vectorise
        e = np.exp(slope * part)
        total = e.sum(axis=0)
        e *= part
        mean = e.sum(axis=0) / total
        e *= part
        square = e.sum(axis=0) / total
        block = w[start : start + rows]
        gradient += float(block @ (mean - target[start : start + rows]))
        curvature += float(block @ (square - mean * mean))
    return gradient, curvature
