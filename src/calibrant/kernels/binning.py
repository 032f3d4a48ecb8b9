"""Sums over bins of unsorted rows, in one pass and with few searches.

Bins of equal width: a row's bin is guessed from its score and corrected. The edges are rounded numbers, so that score
times the number of bins can be off by one bin; the row is then moved until its score lies above the lower edge and not
above the upper one. Bins between any edges, and the scores around wanted ranks: scores are put into fine bins of
equal width by one multiplication, and only in the few that hold an edge or a wanted rank are they searched or sorted.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import BoolArray, FloatArray, IntArray


@compiled
def _bin_of(s: float, edges: FloatArray, n_bins: int) -> np.int64:
    """Return the bin of a score: an inner edge belongs to the bin below it, 0 and 1 to the outer bins."""
    b = min(np.int64(s * np.float64(n_bins)), np.int64(n_bins - 1))
    while b > 0 and edges[b] >= s:
        b -= np.int64(1)
    while b < n_bins - 1 and edges[b + 1] < s:
        b += np.int64(1)
    return b


@compiled
def sum_bins(scores: FloatArray, positive: BoolArray, weight: FloatArray, edges: FloatArray, sums: FloatArray) -> None:
    """Add each row to its bin; an empty `weight` stands for ones.

    `edges` rise from 0 to 1 in near-equal steps. The six columns of `sums`, one row per bin, add up weight, squared
    weight, positive weight and weight times score, and keep the least and the largest score.
    """
    is_weighted = weight.size > 0
    for i in range(scores.size):
        s = scores[i]
        own = sums[_bin_of(s, edges, edges.size - 1)]
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
    """Add each row to its cell; cells are 1 / `scale` wide and start at `low`.

    `sums` has a row per cell. Its columns add up w, w u, w u^2, w u^3, t and t u, where u is the distance of x from the
    middle of the cell in widths; t is the weight of the target, and an empty `weight` stands for ones.
    """
    last = np.int64(sums.shape[0] - 1)
    is_weighted = weight.size > 0
    for i in range(x.size):
        place = (x[i] - low) * scale
        cell = min(np.int64(place), last)
        u = place - np.float64(cell) - 0.5
        w = weight[i] if is_weighted else 1.0
        own = sums[cell]
        own[0] += w
        w *= u
        own[1] += w
        w *= u
        own[2] += w
        own[3] += w * u
        own[4] += target[i]
        own[5] += target[i] * u


@compiled
def rows_in_bins(scores: FloatArray, edges: FloatArray, is_wanted: BoolArray, rows: IntArray) -> int:
    """Write the rows whose bin, by the rule of `sum_bins`, is wanted; return their number."""
    found = 0
    for i in range(scores.size):
        if is_wanted[_bin_of(scores[i], edges, edges.size - 1)]:  # few are
            rows[found] = i
            found += 1
    return found


@compiled
def sum_between(
    scores: FloatArray,
    positive: BoolArray,
    weight: FloatArray,
    edges: FloatArray,
    start: IntArray,
    scale: float,
    sums: FloatArray,
) -> None:
    """Add each row to the bin of as many `edges` as lie below its score.

    A score's fine bin is the whole part of the score times `scale`, and `start` holds the number of edges in the fine
    bins below each. An empty `weight` stands for ones. The columns of `sums`, one row per bin, add up weight, squared
    weight, positive weight and weight times score, in the order of the rows.
    """
    is_weighted = weight.size > 0
    for i in range(scores.size):
        s = scores[i]
        fine = np.int64(s * scale)
        low, high = start[fine], start[fine + 1]
        while low < high:  # few fine bins hold an edge
            middle = (low + high) // 2
            if edges[middle] < s:
                low = middle + 1
            else:
                high = middle
        own = sums[low]
        w = weight[i] if is_weighted else 1.0
        own[0] += w
        if is_weighted:
            own[1] += w * w
        own[2] += w * np.float64(positive[i])
        own[3] += w * s
    if not is_weighted:
        sums[:, 1] = sums[:, 0]


@compiled
def count_fine_bins(scores: FloatArray, scale: float, counts: IntArray) -> None:
    """Count the rows in each fine bin: the whole part of score times `scale`."""
    for i in range(scores.size):
        counts[np.int64(scores[i] * scale)] += 1


@compiled
def scores_in_fine_bins(scores: FloatArray, scale: float, is_wanted: BoolArray, found: FloatArray) -> int:
    """Write the scores of wanted fine bins into `found`, and return their number."""
    n = 0
    for i in range(scores.size):
        if is_wanted[np.int64(scores[i] * scale)]:
            found[n] = scores[i]
            n += 1
    return n
