"""The two steps of mimic calibration: filling the first bins, and merging neighbours whose rates fall."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import BoolArray, FloatArray

IndexArray = npt.NDArray[np.int64]


@compiled
def fill_bins(
    scores: FloatArray,
    weight: FloatArray,
    positives: FloatArray,
    least: float,
    first: IndexArray,
    bin_weight: FloatArray,
    bin_positives: FloatArray,
    mean: FloatArray,
) -> int:
    """Cut sorted groups into bins that each hold positives of weight `least`, but for the last; return their number.

    The outputs are, for each bin: index of its first group, weight, weighted positives and mean score.
    """
    n = 0
    i = 0
    while i < scores.size:
        start = i
        w = 0.0
        p = 0.0
        while i < scores.size and p < least:
            w += weight[i]
            p += positives[i]
            i += 1
        base = 0.5 * scores[start]  # halves: the span of scores may exceed the range of float64
        above = 0.0
        for k in range(start, i):
            above += (weight[k] / w) * (0.5 * scores[k] - base)
        first[n] = start
        bin_weight[n] = w
        bin_positives[n] = p
        mean[n] = min(max(2.0 * (base + above), scores[start]), scores[i - 1])
        n += 1
    return n


@compiled
def merge_bins(
    weight: FloatArray,
    positives: FloatArray,
    mean: FloatArray,
    unweighted: FloatArray,
    is_kept: BoolArray,
    left: IndexArray,
    right: IndexArray,
    work: IndexArray,
    n_work: int,
    n_passes: int,
) -> int:
    """Sweep over the bins from left to right, merging each with its right neighbour while its rate is greater.

    A merged bin keeps the place of its leftmost part; `left` and `right` link the bins that are left. `mean` is merged
    by weight, `unweighted` as the mean of two means. A sweep looks only at pairs that the one before it may have
    changed: `work[:n_work]` holds their left bins, in rising order, and all sweeps together take linear time. Stops
    after `n_passes` sweeps, or with nothing left to do; returns the `n_work` of the next sweep.
    """
    n = weight.size
    while n_work > 0 and n_passes > 0:
        n_passes -= 1
        n_later = 0
        for k in range(n_work):
            i = work[k]
            if not is_kept[i]:  # merged into its left neighbour a moment ago
                continue
            j = right[i]
            while j < n and positives[i] / weight[i] > positives[j] / weight[j]:
                total = weight[i] + weight[j]
                share = weight[j] / total
                mean[i] = (1.0 - share) * mean[i] + share * mean[j]
                unweighted[i] = 0.5 * unweighted[i] + 0.5 * unweighted[j]
                weight[i] = total
                positives[i] += positives[j]
                is_kept[j] = False
                j = right[j]
            if j != right[i]:
                right[i] = j
                if j < n:
                    left[j] = i
                if left[i] >= 0:
                    work[n_later] = left[i]
                    n_later += 1
        n_work = n_later
    return n_work
