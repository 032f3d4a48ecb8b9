"""Maps of one score that are tables of steps or knots, and how these are read: by the same operations for any batch.

Few scores are searched by bisection; for many, the range of the table is cut into equal slots, which `kernels.lookup`
explains. Both give the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.maps.base import (
    BinaryMap,
    ExpitMap,
    LoggedScores,
    SingleMap,
    check_clip,
    decode_optional_clip,
    input_logit,
)
from calibrant.maps.logistic import EXPIT_SATURATES
from calibrant.numerics import LARGEST, TINY, FloatArray, clip_between
from calibrant.phrases import count
from calibrant.terms import Builder, Term, knot_pieces
from calibrant.validation import InputKind

#: A table of slots is worth its cost from this many values, and values per knot.
_SMALL = 4096
_VALUES_PER_KNOT = 4


@dataclass(frozen=True, slots=True, eq=False)
class StepMap(SingleMap):
    """q = levels[j] for scores in (edges[j - 1], edges[j]]; the outer steps are unbounded."""

    kind: ClassVar[str] = "step"
    has_steps: ClassVar[bool] = True
    edges: FloatArray
    levels: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        return step_levels(scores, self.edges, self.levels)

    def formula(self, b: Builder, s: Term) -> Term:
        return step_formula(b, s, self)

    def step_edges(self) -> FloatArray:
        return self.edges

    def fitted_scores(self) -> FloatArray:
        return self.edges

    def in_words(self) -> str:
        return f"{count(self.levels.size, 'step')} with levels from {self.levels.min():.6g} to {self.levels.max():.6g}"

    def score_range(self) -> tuple[float, float]:
        return _ends(self.edges)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        return cls(*decode_steps(parts["edges"], parts["levels"]))


@dataclass(frozen=True, slots=True, eq=False)
class InterpolatedMap(SingleMap):
    """Linear interpolation between knots (x, y) with x strictly rising; flat outside them."""

    kind: ClassVar[str] = "interpolated"
    x: FloatArray
    y: FloatArray

    def apply(self, scores: FloatArray) -> FloatArray:
        return interpolate(scores, self.x, self.y)

    def formula(self, b: Builder, s: Term) -> Term:
        return b.interpolate(b.near(s, self.x), self.x, self.y) if self.x.size > 1 else b.step(s, self.x[1:], self.y)

    def in_words(self) -> str:
        return (
            f"linear between {count(self.x.size, 'knot')} at scores from {self.x[0]:.6g} to {self.x[-1]:.6g}, "
            f"outputs from {self.y.min():.6g} to {self.y.max():.6g}"
        )

    def score_range(self) -> tuple[float, float]:
        return _ends(self.x)

    def check_rises(self, field: DocumentField) -> None:
        """Refuse a map in a document that falls somewhere, though its calibrator promises that it doesn't."""
        _check_rises(self.y, field.member("y"))

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        x, y = parts["x"].rising(), parts["y"].probabilities()
        _check_one_per_knot(x, y, parts)
        return cls(x, y)


@dataclass(frozen=True, slots=True, eq=False)
class LogitInterpolatedMap(ExpitMap):
    """q = expit(f(z)) of z = logit(p), with p clipped to [clip, 1 - clip], or of a score z where `clip` is None.

    f is linear between knots (x, y), x strictly rising and y not falling, and goes on beyond the outer knots with the
    slopes of the outer pieces.
    """

    kind: ClassVar[str] = "logit_interpolated"
    x: FloatArray
    y: FloatArray
    clip: float | None

    def logits(self, given: LoggedScores) -> FloatArray:
        z = given.logit(self.clip)
        x = self.x
        if z.size == 1 and x.item(0) <= (value := z.item()) <= x.item(-1):  # one row, as in a server
            return np.array([_interpolate_one(value, x, self.y)])
        inner = interpolate(z, x, self.y)
        if x.size == 1:
            return inner
        first, last = self._outer_slopes()
        with np.errstate(over="ignore"):
            below, above = clip_between(z - x[0], -LARGEST, 0.0), clip_between(z - x[-1], 0.0, LARGEST)
            return inner + (below * first + above * last)

    def logit_formula(self, b: Builder, s: Term) -> Term:
        z, x, y = input_logit(b, s, self.clip), self.x, self.y
        if x.size == 1:
            return b.step(z, x[1:], y)
        slopes = self._outer_slopes()
        reach = [
            min((abs(float(end)) + EXPIT_SATURATES) / slope if slope > 0.0 else 0.0, LARGEST)
            for end, slope in zip((y[0], y[-1]), slopes, strict=True)
        ]
        below = b.clip(z - float(x[0]), -reach[0], 0.0)
        above = b.clip(z - float(x[-1]), 0.0, reach[1])
        return b.interpolate(z, x, y) + (below * slopes[0] + above * slopes[1])

    def in_words(self) -> str:
        knots = f"{count(self.x.size, 'knot')} at z from {self.x[0]:.6g} to {self.x[-1]:.6g}"
        return f"q = expit(f(z)), f linear between {knots}"

    def check_input(self, input: InputKind, field: DocumentField) -> None:
        check_clip(self.clip, input, field)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return the map of rising knots whose values don't fall, with slopes that float64 can hold."""
        x, y = parts["x"].rising(), parts["y"].numbers()
        _check_one_per_knot(x, y, parts)
        _check_rises(y, parts["y"])
        with np.errstate(over="ignore", invalid="ignore"):
            is_steep = ~np.isfinite(np.diff(y) / np.diff(x)) | ~np.isfinite(np.diff(x))
        if is_steep.any():
            first = f"{parts['x'].path}[{int(is_steep.argmax())}]"
            parts["y"].refuse(f"rises from {first} to the next by more than float64 can hold")
        return cls(x, y, decode_optional_clip(parts["clip"]))

    def _outer_slopes(self) -> tuple[float, float]:
        x, y = self.x, self.y
        return float((y[1] - y[0]) / (x[1] - x[0])), float((y[-1] - y[-2]) / (x[-1] - x[-2]))


@dataclass(frozen=True, slots=True, eq=False)
class VennAbersMap(SingleMap):
    """The pair (p0, p1) of an inductive Venn-Abers predictor, merged into q = p1 / (1 - p0 + p1).

    p0 = levels0[j] for the j of `edges0` at or below the score; p1 = levels1[j] for the j of `edges1` below it. Both
    rise, and p0 <= p1.
    """

    kind: ClassVar[str] = "venn_abers"
    has_steps: ClassVar[bool] = True
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
        upper = step_levels(scores, self.edges1, self.levels1)
        if scores.size < _SMALL:  # as `lower` gives it, without computing its edges
            return self.levels0.take(self.edges0.searchsorted(scores, side="right")), upper
        return self.lower.apply(scores), upper

    def merged(self) -> StepMap:
        """Return the map of scores to the merged probability as one table of steps."""
        edges = self.step_edges()
        return StepMap(edges, _merge(*self.pair(np.append(edges, np.inf))))

    def apply(self, scores: FloatArray) -> FloatArray:
        if scores.size > self.edges0.size + self.edges1.size:
            return self.merged().apply(scores)
        return _merge(*self.pair(scores))

    def formula(self, b: Builder, s: Term) -> Term:
        return step_formula(b, s, self)

    def step_edges(self) -> FloatArray:
        return np.union1d(self.lower.edges, self.edges1)

    def fitted_scores(self) -> FloatArray:
        return np.union1d(self.edges0, self.edges1)

    def in_words(self) -> str:
        steps = f"p0 of {count(self.levels0.size, 'step')} and p1 of {count(self.levels1.size, 'step')}"
        return f"q = p1 / (1 - p0 + p1), {steps}"

    def score_range(self) -> tuple[float, float]:
        return _ends(self.edges1)

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return the map of two tables that rise and don't cross; p1 is smallest where p0 takes a new level."""
        tables = []
        for k in (0, 1):
            edges, levels = decode_steps(parts[f"edges{k}"], parts[f"levels{k}"])
            _check_rises(levels, parts[f"levels{k}"])
            tables += [edges, levels]
        found = cls(*tables)
        p0, p1 = found.pair(np.append(-np.inf, found.edges0))
        if (p0 > p1).any():
            i = int((p0 > p1).argmax())
            parts["levels0"].refuse(
                f"holds p0 = {p0[i].item()!r} for scores where p1 = {p1[i].item()!r}, but p0 must not be above p1"
            )
        return found


#: The map of a probability to itself.
IDENTITY = InterpolatedMap(np.array([0.0, 1.0]), np.array([0.0, 1.0]))


def is_identity(fitted: SingleMap) -> bool:
    """Say whether a map is that of a probability to itself."""
    return fitted.n_numbers == IDENTITY.n_numbers and fitted.encode() == IDENTITY.encode()


def step_formula(b: Builder, s: Term, fitted: BinaryMap) -> Term:
    """Return a map that is made of steps alone as one table of steps, of the same values to the last bit."""
    edges = fitted.step_edges()
    assert edges is not None, "a map of steps alone"  # noqa: S101 - for the type checker: callers have asked
    levels = fitted.apply(np.append(edges, np.inf))  # a step holds its upper edge, and the last one all above
    is_edge = levels[1:] != levels[:-1]
    return b.step(b.near(s, fitted.fitted_scores()), edges[is_edge], levels[np.append(is_edge, True)])


def decode_steps(edges: DocumentField, levels: DocumentField) -> tuple[FloatArray, FloatArray]:
    """Return rising edges, and probabilities, one more than edges."""
    rising, heights = edges.rising(minimum=0), levels.probabilities()
    if heights.size != rising.size + 1:
        levels.refuse(f"does not go with {rising.size:,} edges: one level more than edges is needed")
    return rising, heights


def _check_one_per_knot(x: FloatArray, y: FloatArray, parts: dict[str, DocumentField]) -> None:
    if x.size != y.size:
        parts["y"].refuse(f"does not go with {parts['x'].path} of {x.size:,}: one value per knot is needed")


def _check_rises(values: FloatArray, field: DocumentField) -> None:
    if (values[1:] < values[:-1]).any():
        field.refuse("falls somewhere, but these must not")


def _ends(at: FloatArray) -> tuple[float, float]:
    return (float(at[0]), float(at[-1])) if at.size > 1 else (-5.0, 5.0)


def _merge(p0: FloatArray, p1: FloatArray) -> FloatArray:
    """Return p1 / (1 - p0 + p1), in an order of operations that rises with p0 and p1 to the last bit."""
    if p0.size == 1:  # one row, as in a server: the same bits
        low, high = p0.item(), p1.item()
        merged = 1.0 / (1.0 + (1.0 - low) / high) if high > 0.0 else 0.0
        return np.array([min(max(merged, low), high)])
    with np.errstate(divide="ignore", over="ignore"):
        return clip_between(1.0 / (1.0 + (1.0 - p0) / p1), p0, p1)


def step_levels(scores: FloatArray, edges: FloatArray, levels: FloatArray) -> FloatArray:
    """Return `levels[j]` for scores in (edges[j - 1], edges[j]]; the outer steps are unbounded."""
    if edges.size == 0:
        return np.full(scores.shape, levels[0])
    if not _wants_slots(scores, edges):
        return levels.take(edges.searchsorted(scores, side="left"))
    starts, scale = _slots(edges)
    out = np.empty(scores.size)
    kernels.take_step(_writable(scores), edges, levels, starts, scale, out)
    return out


def interpolate(scores: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolate linearly between knots (x, y) with x strictly rising; flat outside them."""
    if x.size == 1:
        return np.full(scores.shape, y[0])
    if scores.size == 1:
        return np.array([_interpolate_one(scores.item(), x, y)])
    unit, _, inverse_width, _ = knot_pieces(x, y)
    if not _wants_slots(scores, x):
        return _interpolate(scores, x, y, inverse_width, unit)
    starts, scale = _slots(x)
    out = np.empty(scores.size)
    kernels.interpolate(_writable(scores), x, y, inverse_width, unit, starts, scale, out)
    return out


def _interpolate_one(value: float, x: FloatArray, y: FloatArray) -> float:
    """Interpolate one value with the operations of `_interpolate` and of `knot_pieces`, on the one piece it lies in."""
    first, last = x.item(0), x.item(-1)
    if value <= first:
        return y.item(0)
    if value >= last:
        return y.item(-1)
    low = int(x.searchsorted(value, side="right")) - 1
    start, end, left, right = x.item(low), x.item(low + 1), y.item(low), y.item(low + 1)
    unit = 1.0 if math.isfinite(last - first) else 0.5
    width = unit * end - unit * start
    inverse_width = 1.0 / width if width > 0.0 else 0.0
    inverse_width = inverse_width if math.isfinite(inverse_width) else 0.0
    inner = left + ((unit * value - unit * start) * inverse_width) * (right - left)
    return min(inner, right) if right >= left else max(inner, right)


def _interpolate(
    values: FloatArray, x: FloatArray, y: FloatArray, inverse_width: FloatArray, unit: float
) -> FloatArray:
    """Interpolate in NumPy with the operations of the compiled loop, in its order: the same bits for any batch."""
    inside = np.clip(values, x[0], x[-1])
    low = np.minimum(np.searchsorted(x, inside, side="right") - 1, x.size - 2)
    left, right = y[low], y[low + 1]
    inner = left + ((unit * inside - unit * x[low]) * inverse_width[low]) * (right - left)
    inner = np.where(right >= left, np.minimum(inner, right), np.maximum(inner, right))
    outer: FloatArray = np.where(values <= x[0], y[0], np.where(values >= x[-1], y[-1], inner))
    return outer


def _wants_slots(values: FloatArray, knots: FloatArray) -> bool:
    return values.size >= max(_SMALL, _VALUES_PER_KNOT * knots.size) and kernels.can_compile()


def _slots(knots: FloatArray) -> tuple[npt.NDArray[np.int32], float]:
    """Cut the knots' range into equal slots; return how many knots lie before each slot, and slots per unit."""
    n_slots = max(4096, 16 * knots.size)
    with np.errstate(over="ignore"):
        span = float(knots[-1] - knots[0])
    scale = n_slots / span if span > n_slots * TINY and np.isfinite(span) else 0.0
    if scale == 0.0:  # a range too narrow or too wide to cut: one slot, which is bisected
        return np.array([0, knots.size], np.int32), scale
    slot = np.minimum(((knots - knots[0]) * scale).astype(np.int64), n_slots - 1)
    return np.searchsorted(slot, np.arange(n_slots + 1), side="left").astype(np.int32), scale


def _writable(values: FloatArray) -> FloatArray:
    """Copy read-only values, so that each loop is compiled for one kind of array only."""
    return values if values.flags.writeable else values.copy()
