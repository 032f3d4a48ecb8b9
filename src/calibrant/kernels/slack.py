"""Columns that rise but for a slack: the nearest ones."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.columns import PlaceArray
from calibrant.numerics import FloatArray


@compiled
def _push(place: FloatArray, bend: FloatArray, jump: FloatArray, size: int, at: float, more: float, step: float) -> int:
    """Put a knot on the heap, the farthest first; return the new size."""
    k = size
    while k > 0 and place[(k - 1) // 2] < at:
        parent = (k - 1) // 2
        place[k], bend[k], jump[k] = place[parent], bend[parent], jump[parent]
        k = parent
    place[k], bend[k], jump[k] = at, more, step
    return size + 1


@compiled
def _drop(place: FloatArray, bend: FloatArray, jump: FloatArray, size: int) -> int:
    """Take the farthest knot off the heap; return the new size."""
    size -= 1
    at, more, step = place[size], bend[size], jump[size]
    k = 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and place[child + 1] > place[child]:
            child += 1
        if place[child] <= at:
            break
        place[k], bend[k], jump[k] = place[child], bend[child], jump[child]
        k = child
    place[k], bend[k], jump[k] = at, more, step
    return size


@compiled
def rise_with_slack(
    value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int, slack: float, out: FloatArray
) -> None:
    """Write the nearest non-negative column of which no entry lies more than `slack` below one before it.

    Entries lie between a rising level and that level less the slack. What the units so far cost, as a function of the
    last level, is convex; its slope is kept as knots, where it bends or jumps, with a line beyond the last. A higher
    level may follow any lower one, so the slope is cut off where it turns positive: that is the unit's best level, and
    the levels are the least of those to come.
    """
    size = 0
    capacity = 2 * value.size + n_units
    place, bend, jump = np.empty(capacity), np.empty(capacity), np.empty(capacity)
    level = np.empty(n_units)
    for u in range(n_units):
        tilt = 0.0
        offset = 0.0
        for k in range(unit[u], unit[u + 1]):
            w, z = weight[k], value[k]
            tilt += w
            offset -= w * (slack + z)
            if z > 0.0:
                size = _push(place, bend, jump, size, z, -w, 0.0)
            size = _push(place, bend, jump, size, max(z, 0.0) + slack, w, w * max(-z, 0.0))
        farthest = np.inf
        best = -1.0
        while best < 0.0:
            if size == 0:  # the cost rises from 0 on, or turns before the nearest knot
                best = min(max(-offset / tilt, 0.0), farthest) if tilt > 0.0 else 0.0
                break
            at = place[0]
            if tilt * at + offset < 0.0:
                best = min(max(-offset / tilt, at), farthest) if tilt > 0.0 else farthest
                break
            if tilt * at + offset - jump[0] < 0.0:
                best = at
            offset += bend[0] * at - jump[0]
            tilt -= bend[0]
            size = _drop(place, bend, jump, size)
            farthest = at
        level[u] = best
        size = _push(place, bend, jump, size, best, -tilt, -(tilt * best + offset))
    best = np.inf
    for u in range(n_units - 1, -1, -1):
        best = min(best, level[u])
        floor = max(best - slack, 0.0)
        for k in range(unit[u], unit[u + 1]):
            out[k] = min(max(value[k], floor), best)
