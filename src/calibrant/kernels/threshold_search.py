"""Search for the threshold and the cut at which the levels of outcomes are least uniform on both sides.

The state of a search, which the loops share: `values`, shape (K, n), holds in each row the sorted probabilities
h_i(y0_k) of a threshold, and `order` the rows of the data that they belong to. A cut after position r of row k puts
the rows `order[k, : r + 1]` on its left. No statistic is ever computed from scratch for a cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

RowArray = npt.NDArray[np.int32]
CellArray = npt.NDArray[np.uint8]


@compiled
def search_all_cuts(
    values: FloatArray,
    order: RowArray,
    level: FloatArray,
    rank: RowArray,
    weight: FloatArray,
    least: float,
    best: FloatArray,
    cut: npt.NDArray[np.int64],
) -> None:
    """Write for each threshold the greatest Cramer-von Mises distance over all its cuts, and where it is; -1 if none.

    The distance is sum over sides of (mass of the side) int_0^1 (F_side(c) - c)^2 dc, F_side being the distribution
    of the `level` of its rows, and `rank` the rank of each level. Both sides hold a weight of at least `least`.
    int F^2 = 1 - S / W^2 with S = sum_ij w_i w_j max(u_i, u_j), which a Fenwick tree over ranks adds up row by row.
    """
    n_thresholds, n = values.shape
    at_rank = np.empty(n)
    weight_at = np.empty(n)
    for i in range(n):
        at_rank[rank[i]] = level[i]
        weight_at[rank[i]] = weight[i]
    total = 0.0
    total_u = 0.0
    for r in range(n):
        total += weight_at[r]
        total_u += weight_at[r] * at_rank[r]
    with_all = np.empty(n)  # of each rank: sum over all rows j of w_j max(u, u_j)
    below = 0.0
    above = total_u
    pairs = 0.0
    squares = 0.0
    for r in range(n):
        u = at_rank[r]
        w = weight_at[r]
        below += w
        above -= w * u
        with_all[r] = u * below + above
        pairs += w * with_all[r]
        squares += w * (1.0 - u * u)
    tree = np.empty(2 * (n + 1))
    for k in range(n_thresholds):
        tree[:] = 0.0
        left = 0.0
        left_u = 0.0
        left_pairs = 0.0
        left_all = 0.0
        left_squares = 0.0
        best[k] = -1.0
        cut[k] = 0
        for r in range(n - 1):
            i = order[k, r]
            node = rank[i] + 1
            u = level[i]
            w = weight[i]
            under = 0.0
            under_u = 0.0
            j = node
            while j > 0:
                under += tree[2 * j]
                under_u += tree[2 * j + 1]
                j -= j & -j
            left_pairs += w * (w * u + 2.0 * (u * under + (left_u - under_u)))
            left_all += w * with_all[node - 1]
            left_squares += w * (1.0 - u * u)
            left += w
            left_u += w * u
            right = total - left
            if right < least:
                break
            j = node
            while j <= n:
                tree[2 * j] += w
                tree[2 * j + 1] += w * u
                j += j & -j
            if left < least or values[k, r] == values[k, r + 1]:
                continue
            right_pairs = pairs - 2.0 * left_all + left_pairs
            distance = 4.0 / 3.0 - (left_pairs / left + right_pairs / right + squares) / total
            if distance > best[k]:
                best[k] = distance
                cut[k] = r + 1


@compiled
def search_some_cuts(
    values: FloatArray,
    order: RowArray,
    cell: CellArray,
    weight: FloatArray,
    mass: FloatArray,
    edge: FloatArray,
    n_cuts: int,
    least: float,
    best: FloatArray,
    cut: npt.NDArray[np.int64],
) -> None:
    """Write what `search_all_cuts` does over `n_cuts` cuts of equal weight, levels being counted in cells.

    `cell` is the cell of each row's level, `mass` the weight in each and `edge` the upper end of each, the last
    being 1. Within a cell F - c is taken to run straight from end to end, so that its square integrates exactly.
    """
    n_thresholds, n = values.shape
    n_cells = mass.size
    total = 0.0
    for b in range(n_cells):
        total += mass[b]
    for k in range(n_thresholds):
        count = np.zeros(n_cells)
        left = 0.0
        following = total / n_cuts
        best[k] = -1.0
        cut[k] = 0
        for r in range(n - 1):
            i = order[k, r]
            count[cell[i]] += weight[i]
            left += weight[i]
            right = total - left
            if right < least:
                break
            if left < following or left < least or values[k, r] == values[k, r + 1]:
                continue
            while following <= left:
                following += total / n_cuts
            distance = 0.0
            on_left = 0.0
            on_right = 0.0
            before = 0.0
            left_before = 0.0
            right_before = 0.0
            for b in range(n_cells):
                on_left += count[b]
                on_right += mass[b] - count[b]
                c = edge[b]
                left_here = on_left / left - c
                right_here = on_right / right - c
                width = (c - before) / 3.0
                distance += (left_before * (left_before + left_here) + left_here * left_here) * width * left
                distance += (right_before * (right_before + right_here) + right_here * right_here) * width * right
                before = c
                left_before = left_here
                right_before = right_here
            distance /= total
            if distance > best[k]:
                best[k] = distance
                cut[k] = r + 1
