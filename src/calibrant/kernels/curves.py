"""Sums between any edges, and the scores around wanted ranks, of unsorted rows.

Scores from 0 up are put into cells of equal width by one multiplication. Most cells lie between two edges, or hold no
wanted rank: only the others need a search, or have their scores sorted.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import BoolArray, FloatArray, IntArray


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

    A score's cell is the whole part of the score times `scale`, and `start` holds the number of edges in the cells
    below each. An empty `weight` stands for ones. The columns of `sums`, one row per bin, add up weight, squared
    weight, positive weight and weight times score, in the order of the rows.
    """
    is_weighted = weight.size > 0
    for i in range(scores.size):
        s = scores[i]
        cell = np.int64(s * scale)
        low = start[cell]
        high = start[cell + 1]
        while low < high:  # few cells hold an edge
            middle = (low + high) // 2
            if edges[middle] < s:
                low = middle + 1
            else:
                high = middle
        own = sums[low]
        if is_weighted:
            w = weight[i]
            own[0] += w
            own[1] += w * w
            own[2] += w * np.float64(positive[i])
            own[3] += w * s
        else:
            own[0] += 1.0
            own[2] += np.float64(positive[i])
            own[3] += s
    if not is_weighted:
        sums[:, 1] = sums[:, 0]


@compiled
def count_cells(scores: FloatArray, scale: float, counts: IntArray) -> None:
    """Count the rows in each cell: the whole part of score times `scale`."""
    for i in range(scores.size):
        counts[np.int64(scores[i] * scale)] += 1


@compiled
def scores_in_cells(scores: FloatArray, scale: float, is_wanted: BoolArray, found: FloatArray) -> int:
    """Write the scores of wanted cells into `found`, and return their number."""
    n = 0
    for i in range(scores.size):
        if is_wanted[np.int64(scores[i] * scale)]:
            found[n] = scores[i]
            n += 1
    return n
