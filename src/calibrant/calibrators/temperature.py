"""Temperature scaling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.calibrators.base import Calibrator, named
from calibrant.errors import ConvergenceWarning, DataWarning, warn
from calibrant.fitted import as_one_score
from calibrant.maps import BetaMap, LogisticMap, Map, SoftmaxMap, line_map
from calibrant.numerics import (
    EPS,
    LARGEST,
    FloatArray,
    IntArray,
    clip_from_data,
    clip_of_ends,
    clip_open,
    dot,
    fitting_steps,
    logit,
)
from calibrant.row_stream import RowStream
from calibrant.rows import Rows

T = TypeVar("T")
_MAX_ITER = 200
#: Steeper slopes would make infinities of ordinary logits, of which a softmax has no differences.
_STEEPEST = 1e150
#: Relative Newton step that is the last one: convergence is quadratic there.
_TOL = 1e-8
#: Newton iterations before an upper bracket is looked for by steps of four.
_NEWTON_UNTIL = 10
_BLOCK_ENTRIES = 1 << 15
#: From so many logits the search starts from the slope of a sample: of every eighth row, or of fewer.
_WARM_START_FROM, _LEAST_STEP = 1 << 18, 8
#: Rows of the sample that a search among many starts from, and takes its first matrix from.
_SAMPLE = 16_000
_SAY_NOTHING = (
    "the scores say nothing of the labels, or run against them: the best temperature is infinite, and all classes "
    "become equally likely"
)


@named("temperature")
class TemperatureCalibrator(Calibrator):
    """Temperature scaling: divide the logits by one number that maximises the likelihood.

    Parameters
    ----------
    input : {"probability", "logit", "score"}
        What the scores are. Probabilities enter as logarithms, zeros clipped by `calibrant.numerics.clip_from_data`.

    Attributes
    ----------
    inverse_temperature_ : float
        What the logits are multiplied by: below one for an overconfident model. Zero, with a DataWarning, where
        the scores run against the labels.

    Notes
    -----
    The likelihood is log-concave in the inverse temperature, which a bracketed Newton iteration finds. Where every
    row is already classified correctly the optimum is infinite: labels are then smoothed by 1 / (n + K), with a
    DataWarning. Without an intercept, it can't correct a wrong base rate.

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

    map_kinds = (BetaMap, LogisticMap)
    softmax_ndim = 0

    @property
    def inverse_temperature_(self) -> float:
        """What the logits are multiplied by."""
        return slope_of(self.fitted_map)

    @property
    def beta_(self) -> np.float64:
        """The inverse temperature, by the name and of the type that scikit-learn gives it."""
        return np.float64(self.inverse_temperature_)

    def map_of(self, rows: Rows) -> SoftmaxMap | BetaMap | LogisticMap:
        return self.map_near(rows, None)

    def map_and_refit(self, rows: Rows) -> tuple[Map, Callable[[Rows], Map]]:
        whole = self.map_of(rows)
        return whole, lambda part: self.map_near(part, slope_of(whole))

    def map_near(self, rows: Rows, start: float | None) -> SoftmaxMap | BetaMap | LogisticMap:
        """Fit the map to checked rows; the search starts from this inverse temperature, where one is given."""
        return self.map_and_logits(rows, start)[0]

    def map_and_logits(self, rows: Rows, start: float | None) -> tuple[SoftmaxMap | BetaMap | LogisticMap, FloatArray]:
        """Fit as `map_near` does, and return the logits of the rows too."""
        rows = as_one_score(rows, self.input) if rows.n_classes == 2 else rows
        clip = clip_from_data(rows.scores, rows.total_weight) if self.input == "probability" else None
        z = logits_of(rows, clip)
        slope = _inverse_temperature(z, rows, start)
        if rows.is_binary:
            return line_map(slope, 0.0, clip), z
        return SoftmaxMap(np.array(min(slope, _STEEPEST)), np.zeros(rows.n_classes), clip), z

    def fit_passes(self, stream: RowStream) -> SoftmaxMap | BetaMap | LogisticMap:
        logits = StreamedLogits.read(stream)
        slope, clip = logits.inverse_temperature(), logits.clip
        if not stream.is_binary:
            return SoftmaxMap(np.array(slope), np.zeros(len(stream.classes)), clip)
        return line_map(slope, 0.0, clip)


def slope_of(fitted: Map) -> float:
    """Return what the map of temperature scaling multiplies logits by."""
    match fitted:
        case BetaMap(a=slope) | LogisticMap(slope=slope) | SoftmaxMap(weight=slope):
            return float(slope)
        case other:
            raise AttributeError(f"a map of kind {type(other).__name__} has no temperature")


def _inverse_temperature(z: FloatArray, rows: Rows, near: float | None = None) -> float:
    """Return the minimiser, at least 0, of the mean log loss of softmax(slope * z), `z` the logits of the rows.

    The search starts from `near`, where it is given and positive.
    """
    n, n_classes = z.shape
    unit = float(2.0 ** np.frexp(np.abs(z).max())[1].clip(max=1023))  # exact, and sums of the rest don't overflow
    w = np.full(n, 1.0 / n) if rows.weight is None else rows.weight / rows.total_weight
    problem = TemperatureProblem.of(z / unit, rows.codes, w)
    if float(problem.target.min()) == 0.0:
        problem = problem.smoothed(_smoothing(rows.total_weight, n_classes))
    if problem.gradient_at_zero() >= 0.0:
        warn(_SAY_NOTHING, DataWarning)
        return 0.0
    start = 1.0 / max(float(np.abs(problem.columns).mean()), 1e-300)
    if near is not None and 0.0 < near * unit < np.inf:
        start = near * unit
    elif z.size >= _WARM_START_FROM:
        few = problem.thin(max(n // _SAMPLE, _LEAST_STEP))
        if float(few.target.min()) < 0.0:  # where all of them are right, they have no best slope
            start, _ = find_slope(few.derivatives, start)
    slope, converged = find_slope(problem.derivatives, start)
    if not converged:
        warn(
            f"temperature fit: no root of the gradient to {_TOL:.0e} after {_MAX_ITER} iterations; "
            f"inverse temperature {slope / unit:.6g}",
            ConvergenceWarning,
        )
    return min(slope / unit, LARGEST)  # the slope of scores that lie very close together may overflow


@dataclass(frozen=True, slots=True)
class TemperatureProblem:
    """The loss sum_i w_i (log sum_k exp(slope z_ki) - slope t_i); the columns z_i have maximum zero."""

    columns: FloatArray
    target: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, z: FloatArray, codes: npt.NDArray[np.integer[Any]], weight: FloatArray) -> TemperatureProblem:
        """Return the problem of logits of shape (n, K)."""
        columns = np.ascontiguousarray(z.T)  # reductions over the short axis then vectorise
        columns = columns - columns.max(axis=0)
        return cls(columns, columns[codes, np.arange(codes.size)], weight)

    def smoothed(self, smooth: float) -> TemperatureProblem:
        """Return the problem of labels that are spread over all classes by a share `smooth`."""
        return replace(self, target=(1.0 - smooth) * self.target + smooth * self.columns.mean(axis=0))

    def gradient_at_zero(self) -> float:
        """Return the first derivative of the loss at slope zero."""
        return dot(self.weight, self.columns.mean(axis=0) - self.target)

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


@dataclass(frozen=True, slots=True)
class StreamedLogits:
    """The logits of a stream, as often as they are asked for; `total` is the weight of the rows, `clip` that of 0."""

    stream: RowStream
    total: float
    clip: float | None

    @classmethod
    def read(cls, stream: RowStream) -> StreamedLogits:
        """Sum the weights, and find the clip that the rows support."""

        def part(rows: Rows) -> tuple[float, list[float], IntArray]:
            p = rows.scores
            inner = p[(p > 0.0) & (p < 1.0)]
            ends = [float(inner.min()), float(inner.max())] if inner.size else []
            unfit = (~fitting_steps(p)).astype(np.int64) if is_clipped else np.zeros(0, np.int64)
            return float(rows.weights.sum()), ends, unfit

        is_clipped = stream.input == "probability"
        total, ends, n_unfit = stream.total(part)
        clip = clip_of_ends(np.array(ends), total, np.flatnonzero(n_unfit == 0)) if is_clipped else None
        return cls(stream, total, clip)

    def sum(self, part: Callable[[FloatArray, npt.NDArray[np.integer[Any]], FloatArray], T]) -> T:
        """Return the sum of what `part` finds of logits, codes and shares of the weight."""
        clip, total = self.clip, self.total
        return self.stream.total(lambda rows: part(logits_of(rows, clip), rows.codes, rows.weights / total))

    def sample(self) -> tuple[FloatArray, npt.NDArray[np.integer[Any]], FloatArray]:
        """Draw rows with a fixed seed: their logits, codes, and weights that sum to one."""
        rows = self.stream.sample(_SAMPLE, rng=0)
        share = rows.weights / self.total
        return logits_of(rows, self.clip), rows.codes, share / share.sum()

    def inverse_temperature(self) -> float:
        """Find the slope, from that of the sample, by Newton's method: one pass for each evaluation."""
        n_wrong, gap, size = self.sum(_outline)
        smooth = 0.0
        if n_wrong == 0:
            smooth = _smoothing(self.total, len(self.stream.classes))
            gap *= 1.0 - smooth
        if gap >= 0.0:
            warn(_SAY_NOTHING, DataWarning)
            return 0.0
        first = 1.0 / max(size, 1e-300)
        start, _ = find_slope(TemperatureProblem.of(*self.sample()).smoothed(smooth).derivatives, first)

        def derivatives(slope: float) -> tuple[float, float]:
            return self.sum(lambda *rows: TemperatureProblem.of(*rows).smoothed(smooth).derivatives(slope))

        slope, converged = find_slope(derivatives, start if start > 0.0 else first)
        if not converged:
            warn("temperature fit: the gradient has no root that was found", ConvergenceWarning)
        return slope


def logits_of(rows: Rows, clip: float | None) -> FloatArray:
    """Return the logits of rows, one column per class; of one score z they are -z / 2 and z / 2."""
    if rows.is_binary:
        z = rows.scores if clip is None else logit(clip_open(rows.scores, clip))
        return 0.5 * np.column_stack((-z, z))
    return rows.scores if clip is None else np.log(np.maximum(rows.scores, clip))


def _outline(z: FloatArray, codes: npt.NDArray[np.integer[Any]], share: FloatArray) -> tuple[int, float, float]:
    """Return the number of rows whose label has not the largest logit, the gradient at slope 0, and a mean logit."""
    part = TemperatureProblem.of(z, codes, share)
    size = float(share.sum()) * float(np.abs(part.columns).mean())
    return int((part.target < 0.0).sum()), part.gradient_at_zero(), size


def _smoothing(total: float, n_classes: int) -> float:
    """Return how far labels are smoothed where all rows are right, and say so."""
    warn(
        "every row is classified correctly: the best temperature is zero, so labels are smoothed by 1 / (n + K)",
        DataWarning,
    )
    return n_classes / (total + n_classes)


def find_slope(derivatives: Callable[[float], tuple[float, float]], start: float) -> tuple[float, bool]:
    """Find the root of a rising derivative, given with the second one, by Newton in a bracket, else by bisection."""
    low, high = 0.0, np.inf
    slope = start
    for n_iter in range(_MAX_ITER):
        gradient, curvature = derivatives(slope)
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
