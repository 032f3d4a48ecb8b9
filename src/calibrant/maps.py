"""The closed set of fitted maps: frozen values of float64 that know how to apply themselves, and nothing else.

Persistence, export and applying at scale are each one exhaustive `match` over `BinaryMap` and `Map`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.numerics import TINY, FloatArray, clip_open, expit, normalise_rows, softmax

#: A table of cells is worth its cost from this many values per knot.
_VALUES_PER_KNOT = 4
_SMALL = 4096


@dataclass(frozen=True, slots=True)
class LogisticMap:
    """q = expit(slope * s + intercept), of a score or logit s."""

    slope: float
    intercept: float

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the positive class for each score, shape (n,)."""
        return expit(self.slope * scores + self.intercept)


@dataclass(frozen=True, slots=True)
class BetaMap:
    """q = expit(a * log(p) - b * log(1 - p) + c), of a probability p clipped to [clip, 1 - clip]."""

    a: float
    b: float
    c: float
    clip: float

    def apply(self, p: FloatArray) -> FloatArray:
        """Return the probability of the positive class for each probability, shape (n,)."""
        p = clip_open(p, self.clip)
        return expit(self.a * np.log(p) - self.b * np.log1p(-p) + self.c)


@dataclass(frozen=True, slots=True, eq=False)
class StepMap:
    """q = levels[j] for scores in (edges[j - 1], edges[j]]; the outer steps are unbounded."""

    edges: FloatArray
    levels: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the level of the step that each score lies in, shape (n,)."""
        if self.edges.size == 0:
            return np.full(scores.shape, self.levels[0])
        if not _wants_cells(scores, self.edges):
            return np.take(self.levels, np.searchsorted(self.edges, scores, side="left"))
        starts, scale = _cells(self.edges)
        out = np.empty(scores.size)
        kernels.take_step(_writable(scores), self.edges, self.levels, starts, scale, out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class InterpolatedMap:
    """Linear interpolation between knots (x, y) with x strictly rising; flat outside them."""

    x: FloatArray
    y: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the interpolated value at each score, shape (n,)."""
        x, y = self.x, self.y
        if x.size == 1:
            return np.full(scores.shape, y[0])
        if not np.isfinite(_span(x)):  # nearly the range of float64 itself: halve it
            x, scores = 0.5 * x, 0.5 * scores
        with np.errstate(over="ignore", divide="ignore"):
            inverse_width = 1.0 / np.diff(x)
        inverse_width[np.isinf(inverse_width)] = 0.0  # knots a subnormal apart
        if not _wants_cells(scores, x):
            return _interpolate(scores, x, y, inverse_width)
        starts, scale = _cells(x)
        out = np.empty(scores.size)
        kernels.interpolate(_writable(scores), x, y, inverse_width, starts, scale, out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxMap:
    """q = softmax(W z + bias) of logits z, or of z = log(p) with p clipped to at least `clip`.

    `weight` is a scalar (temperature), a vector (one slope per class) or a matrix, as an array of 0, 1 or 2
    dimensions; `clip` is None for logits.
    """

    weight: FloatArray
    bias: FloatArray
    clip: float | None

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        z = scores if self.clip is None else np.log(np.maximum(scores, self.clip))
        return softmax(_linear(z, self.weight) + self.bias)


BinaryMap: TypeAlias = LogisticMap | BetaMap | StepMap | InterpolatedMap


@dataclass(frozen=True, slots=True, eq=False)
class OneVsRestMap:
    """One binary map per column, then each row divided by its sum; a row of zeros becomes uniform.

    Columns of logits, where `is_logit` says so, are turned into probabilities by softmax first.
    """

    maps: tuple[BinaryMap, ...]
    is_logit: bool = False

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probabilities of all classes, shape (n, K)."""
        if self.is_logit:
            scores = softmax(scores)
        columns = [m.apply(np.ascontiguousarray(scores[:, j])) for j, m in enumerate(self.maps)]
        return normalise_rows(np.column_stack(columns))


MulticlassMap: TypeAlias = SoftmaxMap | OneVsRestMap
Map: TypeAlias = BinaryMap | MulticlassMap

#: The map of a probability to itself.
IDENTITY = InterpolatedMap(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
#: The map of a logit to its probability.
IDENTITY_LOGIT = LogisticMap(1.0, 0.0)


def is_binary(fitted: Map) -> bool:
    """Say whether a map takes one score per row."""
    return isinstance(fitted, BinaryMap)


def _interpolate(values: FloatArray, x: FloatArray, y: FloatArray, inverse_width: FloatArray) -> FloatArray:
    """Interpolate in NumPy with the operations of the compiled loop, in its order: the same bits for any batch."""
    inside = np.clip(values, x[0], x[-1])
    low = np.minimum(np.searchsorted(x, inside, side="right") - 1, x.size - 2)
    left, right = y[low], y[low + 1]
    inner = left + ((inside - x[low]) * inverse_width[low]) * (right - left)
    inner = np.where(right >= left, np.minimum(inner, right), np.maximum(inner, right))
    outer: FloatArray = np.where(values <= x[0], y[0], np.where(values >= x[-1], y[-1], inner))
    return outer


def _linear(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply row by row; a matrix product would round differently in batches of different size."""
    if weight.ndim < 2:
        return z * weight
    out = np.zeros((z.shape[0], weight.shape[0]))
    for k in range(weight.shape[1]):
        out += z[:, k : k + 1] * weight[:, k]
    return out


def _wants_cells(values: FloatArray, knots: FloatArray) -> bool:
    return values.size >= _SMALL and values.size >= _VALUES_PER_KNOT * knots.size


def _cells(knots: FloatArray) -> tuple[npt.NDArray[np.int32], float]:
    """Cut the knots' range into equal cells; return how many knots lie before each cell, and cells per unit."""
    n_cells = max(4096, 16 * knots.size)
    span = _span(knots)
    scale = n_cells / span if span > n_cells * TINY and np.isfinite(span) else 0.0
    if scale == 0.0:  # a range too narrow or too wide to cut: one cell, which is bisected
        return np.array([0, knots.size], np.int32), scale
    cell = np.minimum(((knots - knots[0]) * scale).astype(np.int64), n_cells - 1)
    return np.searchsorted(cell, np.arange(n_cells + 1), side="left").astype(np.int32), scale


def _span(knots: FloatArray) -> float:
    with np.errstate(over="ignore"):
        return float(knots[-1] - knots[0])


def _writable(values: FloatArray) -> FloatArray:
    """Copy read-only values, so that each loop is compiled for one kind of array only."""
    return values if values.flags.writeable else values.copy()
