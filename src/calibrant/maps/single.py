"""Maps of one score per row to the probability of the positive class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.lookup import interpolate, step_levels
from calibrant.numerics import FloatArray, clip_open, expit, logit

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class LogisticMap:
    """q = expit(slope * s + intercept), of a score or logit s."""

    slope: float
    intercept: float

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the positive class for each score, shape (n,)."""
        with np.errstate(over="ignore"):  # infinity is right: the probability is 0 or 1
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
class LogitInterpolatedMap:
    """q = expit(f(z)) of z = logit(p), with p clipped to [clip, 1 - clip], or of a score z where `clip` is None.

    f is linear between knots (x, y) with x strictly rising and y not falling, and goes on beyond the outer knots with
    the slopes of the outer pieces.
    """

    x: FloatArray
    y: FloatArray
    clip: float | None

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the positive class for each score, shape (n,)."""
        z = scores if self.clip is None else logit(clip_open(scores, self.clip))
        x, y = self.x, self.y
        inner = interpolate(z, x, y)
        if x.size == 1:
            return expit(inner)
        with np.errstate(over="ignore"):
            below, above = np.clip(z - x[0], -_LARGEST, 0.0), np.clip(z - x[-1], 0.0, _LARGEST)
            first = (y[1] - y[0]) / (x[1] - x[0])
            last = (y[-1] - y[-2]) / (x[-1] - x[-2])
            return expit(inner + (below * first + above * last))


@dataclass(frozen=True, slots=True)
class QuadraticMap:
    """q = expit(c + a t + b t^2), t the place of z in [low, high] as a number from -1 to 1, and held there.

    z = logit(p) with p clipped to [clip, 1 - clip], or a score where `clip` is None. The parabola doesn't fall:
    |2 b| <= a. Of z itself its coefficients would cancel where scores lie far from 0.
    """

    a: float
    b: float
    c: float
    low: float
    high: float
    clip: float | None

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the probability of the positive class for each score, shape (n,)."""
        z = scores if self.clip is None else logit(clip_open(scores, self.clip))
        middle, half = 0.5 * self.low + 0.5 * self.high, 0.5 * self.high - 0.5 * self.low
        t = (np.clip(z, self.low, self.high) - middle) / half if half > 0.0 else np.zeros(z.shape)
        from_vertex = 1.0 + math.copysign(1.0, self.b) * t
        spare = self.a - 2.0 * abs(self.b)
        # the same parabola as a sum of terms that rise with t each, so that rounding can't make it fall
        return expit((self.c - self.b) + spare * t + self.b * (from_vertex * from_vertex))


@dataclass(frozen=True, slots=True, eq=False)
class VennAbersMap:
    """The pair (p0, p1) of an inductive Venn-Abers predictor, merged into q = p1 / (1 - p0 + p1).

    p0 = levels0[j] for the j of `edges0` at or below the score; p1 = levels1[j] for the j of `edges1` below it. Both
    rise, and p0 <= p1.
    """

    edges0: FloatArray
    levels0: FloatArray
    edges1: FloatArray
    levels1: FloatArray

    @property
    def lower(self) -> StepMap:
        """The map of scores to p0."""
        with np.errstate(over="ignore"):
            below = np.nextafter(self.edges0, -np.inf)  # at or above an edge is above the number before it
        first = int(np.isinf(below[:1]).sum())  # the lowest number has none before it
        return StepMap(below[first:], self.levels0[first:])

    @property
    def upper(self) -> StepMap:
        """The map of scores to p1."""
        return StepMap(self.edges1, self.levels1)

    def pair(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return p0 and p1 of each score, shape (n,) each."""
        return self.lower.apply(scores), self.upper.apply(scores)

    def merged(self) -> StepMap:
        """Return the map of scores to the merged probability as one table of steps."""
        edges = np.union1d(self.lower.edges, self.edges1)
        return StepMap(edges, _merge(*self.pair(np.append(edges, np.inf))))

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the merged probability of the positive class for each score, shape (n,)."""
        if scores.size > self.edges0.size + self.edges1.size:
            return self.merged().apply(scores)
        return _merge(*self.pair(scores))


@dataclass(frozen=True, slots=True, eq=False)
class BlendMap:
    """q = expit(sum_j w_j logit(q_j)) of the outputs q_j of several maps, each clipped to [clip, 1 - clip]."""

    maps: tuple[SingleMap, ...]
    weights: FloatArray
    clip: float

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the blended probability of the positive class for each score, shape (n,)."""
        z = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            z += weight * logit(clip_open(part.apply(scores), self.clip))
        return expit(z)


@dataclass(frozen=True, slots=True, eq=False)
class MeanMap:
    """q = sum_j w_j q_j of the outputs q_j of several maps; the weights sum to one."""

    maps: tuple[SingleMap, ...]
    weights: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the mean probability of the positive class for each score, shape (n,)."""
        q = np.zeros(scores.shape)
        for weight, part in zip(self.weights.tolist(), self.maps, strict=True):
            q += weight * part.apply(scores)
        return np.minimum(q, 1.0, out=q)


SingleMap: TypeAlias = (
    LogisticMap | BetaMap | StepMap | InterpolatedMap | LogitInterpolatedMap | QuadraticMap | VennAbersMap
)
BinaryMap: TypeAlias = SingleMap | BlendMap | MeanMap

#: The map of a probability to itself.
IDENTITY = InterpolatedMap(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
#: The map of a logit to its probability.
IDENTITY_LOGIT = LogisticMap(1.0, 0.0)


def _merge(p0: FloatArray, p1: FloatArray) -> FloatArray:
    """Return p1 / (1 - p0 + p1), in an order of operations that rises with p0 and p1 to the last bit."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.clip(1.0 / (1.0 + (1.0 - p0) / p1), p0, p1)
