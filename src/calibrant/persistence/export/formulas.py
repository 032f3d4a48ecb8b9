"""Every map as a formula over a builder: one exhaustive `match`, whatever language comes out."""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np

from calibrant.maps import (
    BetaMap,
    BinaryMap,
    BlendMap,
    Coupling,
    InterpolatedMap,
    LogisticMap,
    LogitInterpolatedMap,
    LogPoolMap,
    Map,
    MeanMap,
    MixtureMap,
    OneVsRestMap,
    QuadraticMap,
    SoftmaxMap,
    StepMap,
    TopLabelMap,
    VennAbersMap,
)
from calibrant.numerics import TINY, FloatArray
from calibrant.persistence.export.terms import Builder, Term

_LARGEST = float(np.finfo(np.float64).max)
#: expit is 0 or 1 to the last bit beyond this.
_FAR = 1_600.0
_BEFORE = 1.0 - 0.5 * float(np.finfo(np.float64).eps)


def formula(b: Builder, fitted: Map, s: Term) -> Term:
    """Return the probability of the positive class of a score, or of all classes of a score for each."""
    match fitted:
        case SoftmaxMap():
            return softmax(b, _logits(b, fitted, s))
        case MixtureMap(maps, weights):
            mixed = b.weighted_total([softmax(b, _logits(b, part, s)) for part in maps], weights)
            return b.least(mixed, b.number(1.0))
        case OneVsRestMap():
            return _one_vs_rest(b, fitted, s)
        case TopLabelMap():
            return _top_label(b, fitted, s)
        case LogPoolMap():
            return _log_pool(b, fitted, s)
        case _:
            return binary_formula(b, fitted, s)


def binary_formula(b: Builder, fitted: BinaryMap, s: Term) -> Term:
    """Return the probability of the positive class of a score."""
    steps = as_steps(fitted)
    if steps is not None:
        return b.step(b.near(s, _fitted_scores(fitted)), steps)
    match fitted:
        case LogisticMap(slope, intercept):
            return b.expit(slope * _before_overflow(b, fitted, s) + intercept)
        case BetaMap(first, second, intercept, clip):
            p = b.hold(b.clip(s, clip, 1.0 - clip))
            return b.expit(first * b.ln(p) - second * b.ln(1.0 - p) + intercept)
        case InterpolatedMap(x, y):
            return b.interpolate(b.near(s, x), x, y) if x.size > 1 else b.step(s, StepMap(x[1:], y))
        case LogitInterpolatedMap():
            return _logit_interpolated(b, fitted, s)
        case QuadraticMap():
            return _quadratic(b, fitted, s)
        case BlendMap(maps, weights, clip):
            logits = [_logit(b, b.clip(binary_formula(b, part, s), clip, 1.0 - clip)) for part in maps]
            return b.expit(b.weighted_total(logits, weights))
        case MeanMap(maps, weights):
            mean = b.weighted_total([binary_formula(b, part, s) for part in maps], weights)
            return b.least(mean, b.number(1.0))
        case StepMap() | VennAbersMap():
            raise AssertionError("a map of steps is one step map")
        case _:
            assert_never(fitted)


def as_steps(fitted: BinaryMap) -> StepMap | None:
    """Return a map that is made of steps alone as one step map, of the same values to the last bit; else None."""
    edges = _step_edges(fitted)
    if edges is None:
        return None
    above = np.append(edges, np.inf)  # a step holds its upper edge, and the last one all that lies above
    levels = fitted.apply(above)
    is_edge = levels[1:] != levels[:-1]
    return StepMap(edges[is_edge], levels[np.append(is_edge, True)])


def _step_edges(fitted: BinaryMap) -> FloatArray | None:
    match fitted:
        case StepMap(edges=edges):
            return edges
        case VennAbersMap():
            return np.union1d(fitted.lower.edges, fitted.upper.edges)
        case BlendMap(maps=maps) | MeanMap(maps=maps):
            found = [each for part in maps if (each := _step_edges(part)) is not None]
            return np.unique(np.concatenate(found)) if len(found) == len(maps) else None
        case _:
            return None


def _fitted_scores(fitted: BinaryMap) -> FloatArray:
    """Return the sorted scores at which a map of steps changes: what was fitted, at or just above which it steps."""
    match fitted:
        case StepMap(edges=edges):
            return edges
        case VennAbersMap(edges0=edges0, edges1=edges1):
            return np.union1d(edges0, edges1)
        case BlendMap(maps=maps) | MeanMap(maps=maps):
            return np.unique(np.concatenate([_fitted_scores(part) for part in maps]))
        case _:
            raise AssertionError("a map of steps alone")


def softmax(b: Builder, z: Term) -> Term:
    """Return the probabilities of all classes from their logits."""
    z = b.hold(z)
    e = b.hold(b.exp(z - b.largest(z)))
    return e / b.total(e)


def _logit(b: Builder, p: Term) -> Term:
    p = b.hold(p)
    return b.ln(p) - b.ln(1.0 - p)


def _before_overflow(b: Builder, fitted: LogisticMap, s: Term) -> Term:
    if fitted.slope == 0.0:
        return s
    with np.errstate(over="ignore"):
        ends = np.sort((np.array([-_FAR, _FAR]) - fitted.intercept) / fitted.slope)
    low, high = np.clip(ends, -_LARGEST, _LARGEST).tolist()
    return b.hold_within(s, low, high)


def _input_logit(b: Builder, s: Term, clip: float | None) -> Term:
    return s if clip is None else b.hold(_logit(b, b.clip(s, clip, 1.0 - clip)))


def _logit_interpolated(b: Builder, fitted: LogitInterpolatedMap, s: Term) -> Term:
    z, x, y = _input_logit(b, s, fitted.clip), fitted.x, fitted.y
    if x.size == 1:
        return b.expit(b.step(z, StepMap(x[1:], y)))
    first, last = float((y[1] - y[0]) / (x[1] - x[0])), float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    # as far as expit can tell where the lines end
    reach = [(abs(float(end)) + _FAR) / slope if slope > 0.0 else 0.0 for end, slope in ((y[0], first), (y[-1], last))]
    reach = [min(far, _LARGEST) for far in reach]
    below = b.clip(z - float(x[0]), -reach[0], 0.0)
    above = b.clip(z - float(x[-1]), 0.0, reach[1])
    return b.expit(b.interpolate(z, x, y) + (below * first + above * last))


def _quadratic(b: Builder, fitted: QuadraticMap, s: Term) -> Term:
    low, high = fitted.low, fitted.high
    middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if half > 0.0:
        t = b.hold((b.clip(_input_logit(b, s, fitted.clip), low, high) - middle) / half)
    else:
        t = 0.0 * s
    from_vertex = b.hold(1.0 + math.copysign(1.0, fitted.b) * t)
    spare = fitted.a - 2.0 * abs(fitted.b)
    return b.expit((fitted.c - fitted.b) + spare * t + fitted.b * (from_vertex * from_vertex))


def _logits(b: Builder, fitted: SoftmaxMap, scores: Term) -> Term:
    z = scores if fitted.clip is None else b.hold(b.ln(b.greatest(scores, b.number(fitted.clip))))
    weight = fitted.weight
    if weight.ndim == 2:
        product = b.linear(z, weight)
    else:
        product = b.number(float(weight) if weight.ndim == 0 else weight) * z
    return product + b.number(fitted.bias)


def _one_vs_rest(b: Builder, fitted: OneVsRestMap, scores: Term) -> Term:
    p = b.hold(softmax(b, scores)) if fitted.is_logit else scores
    rates = b.hold(b.columns([binary_formula(b, part, b.column(p, k)) for k, part in enumerate(fitted.maps)]))
    return couple(b, rates, len(fitted.maps), fitted.coupling)


def couple(b: Builder, rates: Term, n_classes: int, coupling: Coupling) -> Term:
    """Return the distribution over the classes that goes with one-vs-rest rates."""
    match coupling:
        case "normalise":
            total = b.hold(b.total(rates))
            return b.choose(total > 0.0, rates / total, b.number(1.0 / n_classes))
        case "likelihood":
            return b.couple_likeliest(rates)


def _top_label(b: Builder, fitted: TopLabelMap, scores: Term) -> Term:
    """Return what `TopLabelMap.apply` says, whose names these are."""
    p = b.hold(softmax(b, scores)) if fitted.is_logit else scores
    is_top, largest = b.is_first_largest(p), b.hold(b.largest(p))
    nothing = b.number(0.0)
    if len(fitted.maps) == 1:
        confidence = binary_formula(b, fitted.maps[0], largest)
    else:
        each = b.columns([binary_formula(b, part, largest) for part in fitted.maps])
        confidence = b.total(b.choose(is_top, each, nothing))
    q = b.hold(b.greatest(confidence, b.number(1.0 / fitted.n_classes)))
    others = b.hold(b.choose(is_top, nothing, p))
    total = b.hold(b.total(others))
    equal = 1.0 / (fitted.n_classes - 1.0)
    share = b.hold(b.choose(is_top, nothing, b.choose(total > 0.0, others / total, b.number(equal))))
    left, highest = b.hold(1.0 - q), b.hold(b.largest(share))
    excess = b.greatest(left * highest - q, nothing)
    pull = b.hold(b.least(excess / b.greatest(left * (highest - equal), b.number(TINY)), b.number(1.0)))
    drawn = left * (share + pull * (equal - share))
    return b.choose(is_top, q, b.least(drawn, q * _BEFORE))


def _log_pool(b: Builder, fitted: LogPoolMap, scores: Term) -> Term:
    logs = []
    for part in fitted.maps:
        match part:
            case SoftmaxMap():
                z = b.hold(_logits(b, part, scores))
                logs.append(z - b.largest(z))
            case OneVsRestMap():
                logs.append(b.ln(b.greatest(_one_vs_rest(b, part, scores), b.number(fitted.clip))))
            case _:
                assert_never(part)
    q = softmax(b, b.weighted_total(logs, fitted.weights))
    return q * (1.0 - fitted.uniform) + fitted.uniform / int(_n_columns(fitted))


def _n_columns(fitted: LogPoolMap) -> int:
    first = fitted.maps[0]
    return int(first.bias.size) if isinstance(first, SoftmaxMap) else len(first.maps)
