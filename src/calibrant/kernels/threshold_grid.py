"""The official code's search over a grid of thresholds and cuts: bounds from counts, and exact where these tie.

`values`, shape (K, n), holds the probabilities h_i(y0_k) of rows in any order. Rows are also numbered by their levels
u, rising, and cut into blocks of neighbours: `block` is that of each row, and `block_start` says where each begins.
A cut alpha puts the rows with h_i(y0_k) <= alpha on its left.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

RowArray = npt.NDArray[np.int32]
BlockArray = npt.NDArray[np.uint16]
#: Cells of [0, 1] that say which cut comes next.
_CELLS = 256
#: Keeps the quotient of two zeros a number.
_NOTHING = 1e-300


@compiled
def bound_splits(
    values: FloatArray,
    level: FloatArray,
    block: BlockArray,
    rising: FloatArray,
    block_start: npt.NDArray[np.int64],
    cuts: FloatArray,
    least: float,
    lower: FloatArray,
    upper: FloatArray,
) -> None:
    """Write what the error of each threshold and rising cut is at least and at most, shape (K, A); -1 if not usable.

    Per side, of its m rows, the error is the mean of |u_(i) - i / (m - 1)| over i = 0..m - 1, and that of both sides
    is added. Per block, the rows of a side and the sum of their levels are enough where all differences have one
    sign; else they bound it. A side of no more than `least` rows is not usable.
    """
    n_thresholds, n = values.shape
    n_cuts, n_blocks = cuts.size, block_start.size - 1
    following = np.append(cuts, np.inf)
    first = np.searchsorted(cuts, np.arange(_CELLS + 1) / _CELLS).astype(np.uint32)
    count = np.empty((n_cuts + 1, n_blocks))
    total = np.empty((n_cuts + 1, n_blocks))
    before = np.empty((n_cuts + 1, n_blocks + 1))
    other_count, other_total, other_before = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks)
    low, high = rising[block_start[:-1]], rising[block_start[1:] - 1]
    for k in range(n_thresholds):
        count[:] = 0.0
        total[:] = 0.0
        for i in range(n):
            v = values[k, i]
            a = first[np.uint32(v * _CELLS)]
            while following[a] < v:
                a = np.uint32(a + np.uint32(1))
            b = block[i]
            count[a, b] += 1.0
            total[a, b] += level[i]
        for a in range(n_cuts):
            count[a + 1] += count[a]
            total[a + 1] += total[a]
        _sum_before(count, before)
        everyone = before[n_cuts, n_blocks]
        for a in range(n_cuts):
            n_left = before[a, n_blocks]
            n_right = everyone - n_left
            if n_left <= least or n_right <= least:
                lower[k, a] = -1.0
                upper[k, a] = -1.0
                continue
            for b in range(n_blocks):
                other_count[b] = count[n_cuts, b] - count[a, b]
                other_total[b] = total[n_cuts, b] - total[a, b]
                other_before[b] = before[n_cuts, b] - before[a, b]
            one = _bound_side(count[a], total[a], before[a], n_left, low, high)
            other = _bound_side(other_count, other_total, other_before, n_right, low, high)
            lower[k, a] = one[0] + other[0]
            upper[k, a] = one[1] + other[1]


@compiled
def _sum_before(count: FloatArray, before: FloatArray) -> None:
    """Write the counts before each block, and of all blocks, for each line."""
    for a in range(count.shape[0]):
        before[a, 0] = 0.0
        for b in range(count.shape[1]):
            before[a, b + 1] = before[a, b] + count[a, b]


@numba.njit(fastmath={"reassoc"}, error_model="numpy")  # compiled into its caller, which is kept on disk
def _bound_side(
    count: FloatArray, total: FloatArray, before: FloatArray, m: float, low: FloatArray, high: FloatArray
) -> tuple[float, float]:
    """Return what the error of a side of m rows is at least and at most; levels of a block are in [low, high].

    Where differences lie in [-down, up], of c rows and the sum S, the sum of their sizes is |S| plus twice the lesser
    of its positive and its negative part, of which one is at most c up down / (up + down).
    """
    step = 1.0 / max(m - 1.0, 1.0)
    sure = 0.0
    unsure = 0.0
    for b in range(count.size):
        c = count[b]
        start = before[b] * step
        end = start + (c - 1.0) * step
        sure += abs(total[b] - c * 0.5 * (start + end))
        up = high[b] - start
        down = end - low[b]
        up = up if up > 0.0 else 0.0
        down = down if down > 0.0 else 0.0
        c = c if c > 1.0 else 0.0
        unsure += c * up * down / (up + down + _NOTHING)
    return sure / m, (sure + 2.0 * unsure) / m


@compiled
def measure_splits(
    values: FloatArray,
    rising: FloatArray,
    by_level: RowArray,
    k: npt.NDArray[np.int64],
    alpha: FloatArray,
    error: FloatArray,
) -> None:
    """Write the error of each split, a threshold's side by side; `by_level` lists the rows in the order of levels."""
    n = rising.size
    own = np.empty(n)
    read = -1
    for j in range(k.size):
        if k[j] != read:
            read = k[j]
            for r in range(n):
                own[r] = values[read, by_level[r]]
        cut = alpha[j]
        n_left = 0
        for r in range(n):
            n_left += int(own[r] <= cut)
        step_left, step_right = 1.0 / max(n_left - 1.0, 1.0), 1.0 / max(n - n_left - 1.0, 1.0)
        at_left = 0
        left, right = 0.0, 0.0
        for r in range(n):
            is_left = int(own[r] <= cut)
            off_left = abs(rising[r] - at_left * step_left)
            off_right = abs(rising[r] - (r - at_left) * step_right)
            left += off_left if is_left else 0.0
            right += 0.0 if is_left else off_right
            at_left += is_left
        error[j] = left / max(n_left, 1) + right / max(n - n_left, 1)
