"""Fits of temperature and of softmax maps from sums over rows: one pass for each evaluation."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.calibrators import (
    DirichletCalibrator,
    MixtureProblem,
    Parts,
    SoftmaxCalibrator,
    TemperatureProblem,
    find_shares,
    find_slope,
    line_of,
    mixture_of,
    own_probabilities,
    parts_of,
)
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.errors import ConvergenceWarning, DataWarning
from calibrant.maps import BetaMap, LogisticMap, MeanMap, MixtureMap, SoftmaxMap
from calibrant.numerics import FloatArray, clip_from_data, clip_open, dot, logit
from calibrant.softmax_fit import SoftmaxProblem, fit_softmax

T = TypeVar("T")
_Codes: TypeAlias = npt.NDArray[np.integer[Any]]
#: Rows of the sample that a fit starts from, and takes its first matrix from.
_SAMPLE = 16_000
#: Logits beyond this are as sure as any.
_SURE = 1e8


class _Outline(NamedTuple):
    """What one pass says of the rows."""

    n_rows: int
    total: float
    clip: float | None

    def logits(self, rows: CheckedRows) -> FloatArray:
        """Return the logits of rows, one column per class; of one score z they are -z / 2 and z / 2."""
        if rows.scores.ndim == 1:
            z = rows.scores if self.clip is None else logit(clip_open(rows.scores, self.clip))
            return 0.5 * np.column_stack((-z, z))
        return rows.scores if self.clip is None else np.log(np.maximum(rows.scores, self.clip))

    def share(self, rows: CheckedRows) -> FloatArray:
        """Return the share of each row in the total weight."""
        return weights_of(rows) / self.total


def weights_of(rows: CheckedRows) -> FloatArray:
    """Return the weight of each row."""
    return np.ones(len(rows.scores)) if rows.weight is None else rows.weight


def sample_rows(reader: RowReader, chance: float, seed: int) -> tuple[FloatArray, _Codes, FloatArray | None]:
    """Draw each row with a chance and a fixed seed: scores, codes, and weights, None where all are one."""

    def partial(part: RowReader) -> list[tuple[FloatArray, _Codes, FloatArray]]:
        rng = np.random.default_rng(seed)
        drawn = []
        for rows in part:
            at = np.flatnonzero(rng.random(len(rows.scores)) < chance)
            drawn.append((rows.scores[at], rows.codes[at], weights_of(rows)[at]))
        return drawn

    drawn = reader.reduce(partial, operator.iadd)
    values, codes, weight = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    return values, codes, None if bool((weight == 1.0).all()) else weight


class _Logits:
    """Rows as logits, as often as they are asked for."""

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
            return len(p), float(weights_of(rows).sum()), ends

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


def stream_temperature(reader: RowReader) -> SoftmaxMap | BetaMap | LogisticMap:
    """Fit the temperature."""
    logits = _Logits(reader)
    slope = _inverse_temperature(logits)
    clip = logits.outline.clip
    if not reader.is_binary:
        return SoftmaxMap(np.array(slope), np.zeros(len(reader.classes)), clip)
    return LogisticMap(slope, 0.0) if clip is None else BetaMap(slope, slope, 0.0, clip)


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
    slope, converged = find_slope(streamed, start if start > 0.0 else 1.0 / max(size, 1e-300))
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


def stream_softmax(calibrator: SoftmaxCalibrator, reader: RowReader) -> SoftmaxMap | BetaMap | LogisticMap:
    """Fit vector, matrix or Dirichlet calibration: the temperature first, then what deviates from it."""
    logits = _Logits(reader)
    slope = _inverse_temperature(logits)
    middle = 0.0
    if isinstance(calibrator, DirichletCalibrator):  # logarithms less the mean of them all
        middle = logits.total(lambda z, _, share: dot(share, z.mean(axis=1)))

    def scaled(z: FloatArray) -> FloatArray:
        x = np.clip(slope * (z - middle), -_SURE, _SURE)
        return np.clip(calibrator.centred(x), -_SURE, _SURE)

    z, codes, share = logits.sample()
    template = calibrator.problem(scaled(z), codes, share)
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
    clip = logits.outline.clip
    if not reader.is_binary:
        return SoftmaxMap(slope * matrix, bias - slope * middle * matrix.sum(axis=1), clip)
    line, intercept = line_of(matrix, bias, slope)
    return LogisticMap(line, intercept) if clip is None else BetaMap(line, line, intercept, clip)


@dataclass(frozen=True, slots=True)
class _StreamedMixture:
    """The log-likelihood of a mixture, whose rows come in parts."""

    reader: RowReader
    parts: Parts

    def log_likelihood(self, shares: FloatArray) -> float:
        """Return sum_i w_i log(sum_j share_j parts_ji)."""
        parts = self.parts
        return self.reader.total(lambda rows: _mixture_part(parts, rows).log_likelihood(shares))

    def derivatives(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return its gradient and its negative Hessian."""
        parts = self.parts
        return self.reader.total(lambda rows: _mixture_part(parts, rows).derivatives(shares))


def stream_ensemble(reader: RowReader) -> MeanMap | MixtureMap:
    """Fit ensemble temperature scaling: the temperature first, then the shares of the mixture."""
    parts = parts_of(stream_temperature(reader))
    total = reader.total(lambda rows: float(weights_of(rows).sum()))
    return mixture_of(parts, find_shares(_StreamedMixture(reader, parts), len(parts), total))


def _mixture_part(parts: Parts, rows: CheckedRows) -> MixtureProblem:
    return MixtureProblem(own_probabilities(parts, rows.scores, rows.codes), weights_of(rows))
