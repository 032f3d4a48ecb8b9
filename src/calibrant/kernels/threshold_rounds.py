"""The sorted state of a search, pushed through the maps of a round."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.kernels.threshold_search import RowArray
from calibrant.numerics import FloatArray

SideArray = npt.NDArray[np.uint8]


@compiled
def push_state(
    values: FloatArray,
    order: RowArray,
    side: SideArray,
    x0: FloatArray,
    y0: FloatArray,
    x1: FloatArray,
    y1: FloatArray,
) -> None:
    """Map the sorted `values` of each line by the map of each row's `side`, and sort again by one merge.

    A rising map leaves each side sorted, so that no line is ever sorted twice.
    """
    n_lines, n = values.shape
    left = np.empty(n + 1)
    right = np.empty(n + 1)
    left_row = np.empty(n + 1, np.int32)
    right_row = np.empty(n + 1, np.int32)
    slope0 = (y0[1:] - y0[:-1]) / (x0[1:] - x0[:-1])
    slope1 = (y1[1:] - y1[:-1]) / (x1[1:] - x1[:-1])
    for k in range(n_lines):
        a = 0
        b = 0
        for r in range(n):  # without branches, which nobody could predict
            i = order[k, r]
            v = values[k, r]
            s = int(side[i])
            left[a] = v
            right[b] = v
            left_row[a] = i
            right_row[b] = i
            a += 1 - s
            b += s
        _map_rising(left, a, x0, y0, slope0)
        _map_rising(right, b, x1, y1, slope1)
        left[a] = np.inf
        right[b] = np.inf
        a = 0
        b = 0
        for r in range(n):
            u = left[a]
            v = right[b]
            takes_left = int(u <= v)
            values[k, r] = u if takes_left else v
            order[k, r] = left_row[a] if takes_left else right_row[b]
            a += takes_left
            b += 1 - takes_left


@compiled
def _map_rising(values: FloatArray, n: int, x: FloatArray, y: FloatArray, slope: FloatArray) -> None:
    """Map the first `n` of rising values in [0, 1], in place, in one walk along the knots."""
    p = 0
    last = x.size - 2
    for r in range(n):
        v = values[r]
        while p < last and x[p + 1] <= v:
            p += 1
        values[r] = min(slope[p] * (v - x[p]) + y[p], y[p + 1])
