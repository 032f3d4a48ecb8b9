"""The closed set of fitted maps: frozen values of float64 that know how to apply themselves, and nothing else.

Persistence, export and applying at scale are each one exhaustive `match` over `BinaryMap` and `Map`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.lookup import interpolate, step_levels
from calibrant.numerics import FloatArray, clip_open, expit, normalise_rows, softmax


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
        return step_levels(scores, self.edges, self.levels)


@dataclass(frozen=True, slots=True, eq=False)
class InterpolatedMap:
    """Linear interpolation between knots (x, y) with x strictly rising; flat outside them."""

    x: FloatArray
    y: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the interpolated value at each score, shape (n,)."""
        return interpolate(scores, self.x, self.y)


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


def _linear(z: FloatArray, weight: FloatArray) -> FloatArray:
    """Multiply row by row; a matrix product would round differently in batches of different size."""
    if weight.ndim < 2:
        return z * weight
    out = np.zeros((z.shape[0], weight.shape[0]))
    for k in range(weight.shape[1]):
        out += z[:, k : k + 1] * weight[:, k]
    return out
