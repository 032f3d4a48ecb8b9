"""Reading tables of steps and knots: the interval that each score lies in, by the same operations for any batch.

Few scores are searched by bisection; for many, the range of the table is cut into equal slots, which `kernels.lookup`
explains. Both give the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.numerics import TINY, FloatArray
from calibrant.terms import knot_pieces

#: A table of slots is worth its cost from this many values, and values per knot.
_SMALL = 4096
_VALUES_PER_KNOT = 4


def step_levels(scores: FloatArray, edges: FloatArray, levels: FloatArray) -> FloatArray:
    """Return `levels[j]` for scores in (edges[j - 1], edges[j]]; the outer steps are unbounded."""
    if edges.size == 0:
        return np.full(scores.shape, levels[0])
    if not _wants_slots(scores, edges):
        return np.take(levels, np.searchsorted(edges, scores, side="left"))
    starts, scale = _slots(edges)
    out = np.empty(scores.size)
    kernels.take_step(_writable(scores), edges, levels, starts, scale, out)
    return out


def interpolate(scores: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Interpolate linearly between knots (x, y) with x strictly rising; flat outside them."""
    if x.size == 1:
        return np.full(scores.shape, y[0])
    unit, _, inverse_width, _ = knot_pieces(x, y)
    if not _wants_slots(scores, x):
        return _interpolate(scores, x, y, inverse_width, unit)
    starts, scale = _slots(x)
    out = np.empty(scores.size)
    kernels.interpolate(_writable(scores), x, y, inverse_width, unit, starts, scale, out)
    return out


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
    return values.size >= _SMALL and values.size >= _VALUES_PER_KNOT * knots.size


def _slots(knots: FloatArray) -> tuple[npt.NDArray[np.int32], float]:
    """Cut the knots' range into equal slots; return how many knots lie before each slot, and slots per unit."""
    n_slots = max(4096, 16 * knots.size)
    span = _span(knots)
    scale = n_slots / span if span > n_slots * TINY and np.isfinite(span) else 0.0
    if scale == 0.0:  # a range too narrow or too wide to cut: one slot, which is bisected
        return np.array([0, knots.size], np.int32), scale
    slot = np.minimum(((knots - knots[0]) * scale).astype(np.int64), n_slots - 1)
    return np.searchsorted(slot, np.arange(n_slots + 1), side="left").astype(np.int32), scale


def _span(knots: FloatArray) -> float:
    with np.errstate(over="ignore"):
        return float(knots[-1] - knots[0])


def _writable(values: FloatArray) -> FloatArray:
    """Copy read-only values, so that each loop is compiled for one kind of array only."""
    return values if values.flags.writeable else values.copy()
