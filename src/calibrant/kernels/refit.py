"""Isotonic regression refitted to labels drawn from known rates: what a fit gains by fitting noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

CountArray = npt.NDArray[np.int64]


@compiled
def count_hits(uniform: FloatArray, size: CountArray, truth: FloatArray, hits: CountArray) -> None:
    """Draw the labels of groups of `size[i]` rows, which take the next values of `uniform`; write their sums."""
    row = 0
    for i in range(size.size):
        rate = truth[i]
        n = 0
        for j in range(row, row + size[i]):
            n += uniform[j] < rate
        row += size[i]
        hits[i] = n


@compiled
def refit_drawn_labels(
    hits: CountArray,
    size: CountArray,
    share: FloatArray,
    truth: FloatArray,
    block_share: FloatArray,
    block_positives: FloatArray,
) -> tuple[float, float]:
    """Pool drawn labels of sorted groups, and compare the refit's Brier score with that of the true rates.

    Group i has `hits[i]` positives in `size[i]` rows, which share `share[i]` of all weight. The last two arguments are
    room for the stack of blocks. Returns how far the refit's score lies below that of the true
    rates, and the drawn base rate less the true one.
    """
    top = 0
    gain = 0.0
    shift = 0.0
    for i in range(size.size):
        rate = truth[i]
        w = share[i]
        p = w * hits[i] / size[i]
        # mean (rate - truth)^2 less mean (rate - refit)^2, where the mean of rate * refit is that of refit^2
        gain += (w * rate - 2.0 * p) * rate
        shift += p - w * rate
        while top > 0 and block_positives[top - 1] * w >= p * block_share[top - 1]:
            top -= 1
            w += block_share[top]
            p += block_positives[top]
        block_share[top] = w
        block_positives[top] = p
        top += 1
    for b in range(top):
        gain += block_positives[b] * block_positives[b] / block_share[b]
    return gain, shift
