"""Mimic calibration: the first bins of equal positives, and the merging of neighbours whose rates fall.

`fill_bins` goes through the ties of sorted scores and closes a bin once it holds enough positives. `merge_bins` then
passes over the bins from left to right and merges each with its right neighbour while its rate is greater; passes are
repeated until no rate falls. The original program checks all bins in every pass, which takes quadratic time where a
low rate at the right end moves down bin by bin. Here a pass checks only pairs that the pass before may have changed:
same bins after every pass, linear time for all passes together.

Source: https://github.com/scikit-learn-contrib/mimic, `mimic.py`.
"""

from __future__ import annotations

from calibrant.kernels._jit import compiled
from calibrant.numerics import BoolArray, FloatArray, IntArray


@compiled
def fill_bins(
    scores: FloatArray, weight: FloatArray, positives: FloatArray, least: float, first: IntArray, bins: FloatArray
) -> int:
    """Cut sorted ties into bins that each hold positives of weight `least`, but for the last; return their number.

    Writes the index of each bin's first tie into `first`, and into the four rows of `bins` its weight, its positives,
    its mean score and that mean again.
    """
    n = i = 0
    while i < scores.size:
        start = i
        w = p = 0.0
        while i < scores.size and p < least:
            w += weight[i]
            p += positives[i]
            i += 1
        base = 0.5 * scores[start]  # halves: the span of scores may exceed the range of float64
        above = 0.0
        for k in range(start, i):
            above += (weight[k] / w) * (0.5 * scores[k] - base)
        first[n] = start
        bins[0, n] = w
        bins[1, n] = p
        bins[2, n] = bins[3, n] = min(max(2.0 * (base + above), scores[start]), scores[i - 1])
        n += 1
    return n


@compiled
def merge_bins(
    bins: FloatArray, is_kept: BoolArray, beside: IntArray, work: IntArray, n_work: int, n_passes: int
) -> int:
    """Pass over the bins, merging each with its right neighbour while its rate is greater; return what is left to do.

    `bins`, shape (4, n), are as `fill_bins` writes them. A merged bin keeps the place of its leftmost part; the third
    row becomes the mean score by weight, the fourth the mean of the parts' means. `is_kept` becomes false for bins that
    were merged into another. `beside`, shape (2, n), holds the left and the right neighbour of each bin that is left,
    -1 and n at the ends. The first `n_work` entries of `work` are the left bins of the pairs to check, rising; those
    of the next pass on return.
    """
    n = is_kept.size
    while n_work > 0 and n_passes > 0:
        n_passes -= 1
        n_later = 0
        for k in range(n_work):
            i = work[k]
            if not is_kept[i]:  # merged into its left neighbour in this pass
                continue
            j = beside[1, i]
            while j < n and bins[1, i] / bins[0, i] > bins[1, j] / bins[0, j]:
                total = bins[0, i] + bins[0, j]
                share = bins[0, j] / total
                bins[2, i] = (1.0 - share) * bins[2, i] + share * bins[2, j]
                bins[3, i] = 0.5 * bins[3, i] + 0.5 * bins[3, j]
                bins[0, i] = total
                bins[1, i] += bins[1, j]
                is_kept[j] = False
                j = beside[1, j]
            if j != beside[1, i]:
                beside[1, i] = j
                if j < n:
                    beside[0, j] = i
                if beside[0, i] >= 0:
                    work[n_later] = beside[0, i]
                    n_later += 1
        n_work = n_later
    return n_work
