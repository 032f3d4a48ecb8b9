"""Parametric fits from sums of gradients and Hessians: one pass over the rows for each evaluation."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import BetaCalibrator, DirichletCalibrator, SigmoidCalibrator
from calibrant.calibrators.softmax_family import SoftmaxCalibrator
from calibrant.calibrators.temperature import TemperatureProblem, find_slope
from calibrant.engines.partitions import Column
from calibrant.engines.quantised import QuantisedSummary
from calibrant.engines.rows import CheckedRows, RowReader, added, summed
from calibrant.errors import ConvergenceWarning, DataWarning
from calibrant.logistic import LogisticProblem, minimise, separates
from calibrant.maps import BetaMap, BinaryMap, LogisticMap, SoftmaxMap
from calibrant.numerics import BoolArray, FloatArray, clip_from_data, clip_open, dot, logit
from calibrant.softmax_fit import SoftmaxProblem, fit_softmax
from calibrant.summary import Groups
from calibrant.validation import Labels

T = TypeVar("T")
_Codes: TypeAlias = npt.NDArray[np.integer[Any]]
#: Rows of the sample that a fit of several classes starts from, and takes its first matrix from.
_SAMPLE = 16_000
#: Logits beyond this are as sure as any.
_SURE = 1e8


@dataclass(frozen=True, slots=True)
class StreamedLogistic(LogisticProblem):
    """A logistic problem whose rows come in parts, again for each evaluation; its own arrays are cells of them."""

    total: Callable[[Callable[[LogisticProblem], Any]], Any]

    def value(self, theta: FloatArray) -> float:
        """Return the loss at `theta`."""
        value: float = self.total(lambda part: part.value(theta))
        return value

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return gradient, Hessian and the sum of w_i q_i (1 - q_i), at `theta`."""
        sums: tuple[FloatArray, FloatArray, float] = self.total(lambda part: part.derivatives(theta))
        return sums


def stream_sigmoid(calibrator: SigmoidCalibrator, column: Column, summary: QuantisedSummary) -> BinaryMap:
    """Fit Platt's logistic curve to the rows themselves, from the fit to their cells."""
    clip = exact_clip(summary) if calibrator.input == "probability" else None

    def on_line(s: FloatArray) -> FloatArray:
        return s if clip is None else logit(clip_open(s, clip))

    low, high = on_line(summary.low[:1]).item(), on_line(summary.high[-1:]).item()
    if low == high:
        return calibrator.fit_map(summary)
    unit = 0.5 * high - 0.5 * low
    middle = 0.5 * high + 0.5 * low
    slope, intercept = _stream(
        column,
        summary,
        lambda s: ((on_line(s) - middle) / unit, np.broadcast_to(1.0, s.shape)),
        has_platt_targets=True,
        what="sigmoid fit",
    ).tolist()
    slope /= unit
    intercept -= slope * middle
    return LogisticMap(slope, intercept) if clip is None else BetaMap(slope, slope, intercept, clip)


def stream_beta(calibrator: BetaCalibrator, column: Column, summary: QuantisedSummary) -> BinaryMap:
    """Fit the beta curve to the rows themselves, with those parameters free that are free in the fit to their cells."""
    start = calibrator.fit_map(summary)
    assert isinstance(start, BetaMap)  # noqa: S101
    clip = exact_clip(summary)
    is_free = (start.a != 0.0, start.b != 0.0)
    if not any(is_free):
        return replace(start, clip=clip)
    is_one_slope = "b" not in calibrator.form
    has_intercept = "m" in calibrator.form

    def columns(s: FloatArray) -> tuple[FloatArray, ...]:
        p = clip_open(s, clip)
        log_p, log_rest = np.log(p), -np.log1p(-p)
        slopes = (
            [log_p + log_rest]
            if is_one_slope
            else [x for x, free in zip((log_p, log_rest), is_free, strict=True) if free]
        )
        return (*slopes, np.ones_like(p)) if has_intercept else tuple(slopes)

    is_separated = separates(summary.groups())
    theta = _stream(column, summary, columns, has_platt_targets=is_separated, what="beta fit").tolist()
    c = theta.pop() if has_intercept else 0.0
    if min(theta) < 0.0:  # at the edge of what is allowed, to rounding
        return replace(start, clip=clip)
    a, b = (theta[0], theta[0]) if is_one_slope else (theta.pop(0) if free else 0.0 for free in is_free)
    return BetaMap(a, b, c, clip)


def _stream(
    column: Column,
    summary: QuantisedSummary,
    columns: Callable[[FloatArray], tuple[FloatArray, ...]],
    *,
    has_platt_targets: bool,
    what: str,
) -> FloatArray:
    """Return the minimiser over the rows of a column."""
    high, low = 1.0, 0.0
    if has_platt_targets:
        n_positive = summary.total_positives
        high = (n_positive + 1.0) / (n_positive + 2.0)
        low = 1.0 / (summary.total_weight - n_positive + 2.0)

    def problem(groups: Groups) -> LogisticProblem:
        targets = groups.positives * (high - low) + low * groups.weight
        return LogisticProblem(columns(groups.scores), groups.weight, targets)

    def total(find: Callable[[LogisticProblem], Any]) -> Any:
        def partial(column: Column) -> Any:
            return summed(find(problem(_groups(*rows))) for rows in column)

        return column.reduce(partial, added, is_large=False)

    coarse = problem(summary.groups())
    return minimise(
        StreamedLogistic(coarse.columns, coarse.weight, coarse.target_weight, total), what=what, coarse=coarse
    )


def _groups(scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> Groups:
    """Return each row as a group of its own."""
    w = np.ones(scores.size) if weight is None else weight
    return Groups(scores, w, np.where(positive, w, 0.0))


def exact_clip(summary: QuantisedSummary) -> float:
    """Return the clip that the rows of a quantised summary support, which depends on the outermost scores alone."""
    ends = np.concatenate((summary.low, summary.high))
    return clip_from_data(ends, summary.total_weight)


# --- several classes -----------------------------------------------------------------------------------------


class _Outline(NamedTuple):
    """What one pass says of rows of several classes."""

    n_rows: int
    total: float
    clip: float | None

    def logits(self, rows: CheckedRows) -> FloatArray:
        """Return the logits of rows."""
        return rows.scores if self.clip is None else np.log(np.maximum(rows.scores, self.clip))

    def share(self, rows: CheckedRows) -> FloatArray:
        """Return the share of each row in the total weight."""
        if rows.weight is None:
            return np.full(len(rows.scores), 1.0 / self.total)
        return rows.weight / self.total


class _Logits:
    """Rows of several classes as logits, as often as they are asked for."""

    def __init__(self, reader: RowReader) -> None:
        self.reader = reader
        self.outline = self._outline()

    def total(self, part: Callable[[FloatArray, _Codes, FloatArray], T]) -> T:
        """Return the sum of what `part` finds of logits, codes and shares of the weight; see `RowReader.total`."""
        outline = self.outline
        return self.reader.total(lambda rows: part(outline.logits(rows), rows.codes, outline.share(rows)))

    def sample(self) -> tuple[FloatArray, _Codes, FloatArray]:
        """Draw rows with a fixed seed: their logits, codes, and weights that sum to one."""
        outline = self.outline
        chance = min(1.0, _SAMPLE / outline.n_rows)

        def partial(reader: RowReader) -> list[tuple[FloatArray, _Codes, FloatArray]]:
            rng = np.random.default_rng(0)
            drawn = []
            for rows in reader:
                at = np.flatnonzero(rng.random(len(rows.scores)) < chance)
                drawn.append((outline.logits(rows)[at], rows.codes[at], outline.share(rows)[at]))
            return drawn

        drawn = self.reader.reduce(partial, operator.iadd)
        z, codes, share = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        return z, codes, share / share.sum()

    def _outline(self) -> _Outline:
        def part(rows: CheckedRows) -> tuple[int, float, list[float]]:
            p = rows.scores
            inner = p[(p > 0.0) & (p < 1.0)]
            ends = [float(p.min()), float(p.max()), *([float(inner.min()), float(inner.max())] if inner.size else [])]
            return len(p), float(len(p) if rows.weight is None else rows.weight.sum()), ends

        n_rows, total, ends = self.reader.total(part)
        clip = clip_from_data(np.array(ends), total) if self.reader.input == "probability" else None
        return _Outline(n_rows, total, clip)


@dataclass(frozen=True, slots=True)
class _StreamedTemperature:
    """The loss of temperature scaling, whose rows come in parts."""

    logits: _Logits
    smooth: float

    def derivatives(self, slope: float) -> tuple[float, float]:
        """Return the first and second derivative of the loss."""
        smooth = self.smooth
        return self.logits.total(lambda z, codes, share: _temperature_part(z, codes, share, smooth).derivatives(slope))


def stream_temperature(reader: RowReader) -> SoftmaxMap:
    """Fit the temperature of several classes."""
    logits = _Logits(reader)
    slope = _inverse_temperature(logits)
    return SoftmaxMap(np.array(slope), np.zeros(len(reader.classes)), logits.outline.clip)


def _inverse_temperature(logits: _Logits) -> float:
    n_wrong, gap, size = logits.total(_temperature_outline)
    smooth = 0.0
    n_classes = len(logits.reader.classes)
    if n_wrong == 0:
        warnings.warn(
            "every row is classified correctly: the best temperature is zero, so labels are smoothed by 1 / (n + K)",
            DataWarning,
            stacklevel=6,
        )
        smooth = n_classes / (logits.outline.total + n_classes)
        gap *= 1.0 - smooth
    if gap >= 0.0:
        warnings.warn(
            "the scores say nothing of the labels, or run against them: the best temperature is infinite, "
            "and all classes become equally likely",
            DataWarning,
            stacklevel=6,
        )
        return 0.0
    z, codes, share = logits.sample()
    start, _ = find_slope(_temperature_part(z, codes, share, smooth), 1.0 / max(size, 1e-300))
    streamed = _StreamedTemperature(logits, smooth)
    slope, converged = find_slope(streamed, start if start > 0.0 else 1.0 / max(size, 1e-300))  # type: ignore[arg-type]
    if not converged:
        warnings.warn("temperature fit: the gradient has no root that was found", ConvergenceWarning, stacklevel=6)
    return slope


def _temperature_outline(z: FloatArray, codes: _Codes, share: FloatArray) -> tuple[int, float, float]:
    """Return the number of rows whose label has not the largest logit, the gradient at slope 0, and a mean logit."""
    part = _temperature_part(z, codes, share, 0.0)
    gap = dot(part.weight, part.columns.mean(axis=0) - part.target)
    return int((part.target < 0.0).sum()), gap, float(part.weight.sum()) * float(np.abs(part.columns).mean())


def _temperature_part(z: FloatArray, codes: _Codes, share: FloatArray, smooth: float) -> TemperatureProblem:
    columns = np.ascontiguousarray(z.T)
    columns = columns - columns.max(axis=0)
    target = columns[codes, np.arange(codes.size)]
    return TemperatureProblem(columns, (1.0 - smooth) * target + smooth * columns.mean(axis=0), share)


@dataclass(frozen=True, slots=True)
class StreamedSoftmax(SoftmaxProblem):
    """A softmax problem whose rows come in parts, again for each evaluation; its own arrays are a sample of them."""

    sample: SoftmaxProblem
    total: Callable[[Callable[[SoftmaxProblem], Any]], Any]

    def logits(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        """Return new logits."""
        return self.sample.logits(x, theta)

    def pull_back(self, x: FloatArray, residual: FloatArray) -> FloatArray:
        """Return the gradient over theta where that over the logits is `residual`."""
        return self.sample.pull_back(x, residual)

    def curvature(self, x: FloatArray, q: FloatArray, w: FloatArray) -> FloatArray:
        """Return the Hessian over theta flattened."""
        return self.sample.curvature(x, q, w)

    def curvature_diagonal(self, x: FloatArray, bend: FloatArray) -> FloatArray:
        """Return the Hessian's diagonal."""
        return self.sample.curvature_diagonal(x, bend)

    def value_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the loss and its gradient."""
        off = theta - self.centre
        value, gradient = self.total(lambda part: part.value_gradient(theta))
        return value + 0.5 * float((self.penalty * off * off).sum()), gradient + self.penalty * off

    def few(self) -> Any:
        """Return the problem of the sample, which a Hessian is made of."""
        return replace(self.sample, penalty=self.penalty)


def stream_softmax(calibrator: SoftmaxCalibrator, reader: RowReader) -> SoftmaxMap:
    """Fit vector, matrix or Dirichlet calibration of several classes: the temperature first, then what deviates."""
    logits = _Logits(reader)
    slope = _inverse_temperature(logits)
    middle = 0.0
    if isinstance(calibrator, DirichletCalibrator):  # logarithms less the mean of them all
        middle = logits.total(lambda z, _, share: dot(share, z.mean(axis=1)))

    def scaled(z: FloatArray) -> FloatArray:
        x = np.clip(slope * (z - middle), -_SURE, _SURE)
        return np.clip(calibrator.centred(x), -_SURE, _SURE)

    z, codes, share = logits.sample()
    labels = Labels(codes, reader.classes)
    template = calibrator.problem(scaled(z), labels, share)
    empty = replace(template, x=z[:0], codes=codes[:0], weight=share[:0], penalty=np.zeros_like(template.penalty))

    def total(find: Callable[[SoftmaxProblem], Any]) -> Any:
        return logits.total(lambda found, of, weight: find(replace(empty, x=scaled(found), codes=of, weight=weight)))

    problem = StreamedSoftmax(
        template.x, template.codes, template.weight, template.centre, template.penalty, template, total
    )
    given = None if calibrator.penalty == "evidence" else float(calibrator.penalty)
    theta, calibrator.penalty_ = fit_softmax(problem, logits.outline.total, given, what=f"{calibrator.name} fit")
    matrix, bias = calibrator.linear(theta)
    matrix = calibrator.centred(matrix)
    return SoftmaxMap(slope * matrix, bias - slope * middle * matrix.sum(axis=1), logits.outline.clip)
