"""Sums over bins of rows that nobody has sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import BoolArray, FloatArray


@compiled
def sum_bins(scores: FloatArray, positive: BoolArray, weight: FloatArray, edges: FloatArray, sums: FloatArray) -> None:
    """Add each row to its bin: an inner edge belongs to the bin below it, 0 and 1 to the outer bins.

    `edges` rise from 0 to 1 in near-equal steps; an empty `weight` stands for ones. The six columns of `sums`, one row
    per bin, gather weight, squared weight, positive weight, weight times score, least and largest score.
    """
    last = np.int64(edges.size - 2)
    scale = np.float64(edges.size - 1)
    is_weighted = weight.size > 0
    for i in range(scores.size):
        s = scores[i]
        b = np.int64(s * scale)
        if b > last:
            b = last
        while b > 0 and edges[b] >= s:
            b -= np.int64(1)
        while b < last and edges[b + 1] < s:
            b += np.int64(1)
        own = sums[b]
        w = weight[i] if is_weighted else 1.0
        own[0] += w
        if is_weighted:
            own[1] += w * w
        own[2] += w * np.float64(positive[i])
        own[3] += w * s
        own[4] = min(own[4], s)  # without a branch, which would be mispredicted
        own[5] = max(own[5], s)
    if not is_weighted:
        sums[:, 1] = sums[:, 0]


@compiled
def sum_cells(
    x: FloatArray, weight: FloatArray, target: FloatArray, low: float, scale: float, sums: FloatArray
) -> None:
    """Add weight, weighted x and target of each row to its cell; cells are 1 / `scale` wide and start at `low`.

    `sums` has a row per cell; an empty `weight` stands for ones.
    """
    last = np.int64(sums.shape[0] - 1)
    is_weighted = weight.size > 0
    for i in range(x.size):
        own = sums[min(np.int64((x[i] - low) * scale), last)]
        w = weight[i] if is_weighted else 1.0
        own[0] += w
        own[1] += w * x[i]
        own[2] += target[i]


@compiled
def rows_in_bins(scores: FloatArray, edges: FloatArray, is_wanted: BoolArray, rows: npt.NDArray[np.int64]) -> int:
    """Write the rows whose bin, by the rule of `sum_bins`, is wanted; return their number."""
    last = np.int64(edges.size - 2)
    scale = np.float64(edges.size - 1)
    found = 0
    for i in range(scores.size):
        s = scores[i]
        b = np.int64(s * scale)
        if b > last:
            b = last
        while b > 0 and edges[b] >= s:
            b -= np.int64(1)
        while b < last and edges[b + 1] < s:
            b += np.int64(1)
        if is_wanted[b]:  # few are
            rows[found] = i
            found += 1
    return found
