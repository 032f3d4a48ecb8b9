"""Finding the interval of a sorted table that each value lies in, without a binary search through the whole table.

The table's range is cut into equal slots, at least 16 per entry (`calibrant.maps.tables`); `starts[c]` is the number of
entries in the slots before slot c. A value's slot is one multiplication away, and only the entries in it are searched.
Values and entries are put into slots by the same operations, so that rounding can't part them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

SlotArray = npt.NDArray[np.int32]


@compiled
def interpolate(
    values: FloatArray,
    x: FloatArray,
    y: FloatArray,
    inverse_width: FloatArray,
    unit: float,
    starts: SlotArray,
    scale: float,
    out: FloatArray,
) -> None:
    """Interpolate linearly between knots (x, y), flat outside them.

    `inverse_width` is one over the distances of the knots times `unit`, which is one half where these could overflow.
    """
    last = x.size - 1
    first_x, last_x = x[0], x[last]
    last_slot = np.int64(starts.size - 2)
    for i in range(values.size):
        v = values[i]
        if v <= first_x:
            out[i] = y[0]
        elif v >= last_x:
            out[i] = y[last]
        else:
            offset = (v - first_x) * scale  # NaN in a range beyond float64, which has one slot
            slot = np.int64(offset) if offset < last_slot else last_slot
            low, high = starts[slot], starts[slot + 1]
            while high - low > 8:
                middle = (low + high) >> 1
                if x[middle] <= v:
                    low = middle
                else:
                    high = middle
            while low < high and x[low] <= v:
                low += 1
            left, right = y[low - 1], y[low]
            value = left + ((unit * v - unit * x[low - 1]) * inverse_width[low - 1]) * (right - left)
            if right >= left:
                out[i] = right if value > right else value
            else:
                out[i] = right if value < right else value


@compiled
def take_step(
    values: FloatArray, edges: FloatArray, levels: FloatArray, starts: SlotArray, scale: float, out: FloatArray
) -> None:
    """Give each value the level of its step: `levels[j]` where j of the sorted `edges` lie below it."""
    n_edges = edges.size
    first_edge, last_edge = edges[0], edges[n_edges - 1]
    last_slot = np.int64(starts.size - 2)
    for i in range(values.size):
        v = values[i]
        if v <= first_edge:
            out[i] = levels[0]
        elif v > last_edge:
            out[i] = levels[n_edges]
        else:
            offset = (v - first_edge) * scale
            slot = np.int64(offset) if offset < last_slot else last_slot
            low, high = starts[slot], starts[slot + 1]
            while high - low > 8:
                middle = (low + high) >> 1
                if edges[middle] < v:
                    low = middle
                else:
                    high = middle
            while low < high and edges[low] < v:
                low += 1
            out[i] = levels[low]
