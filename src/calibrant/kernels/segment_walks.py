"""Cumulative sums within segments: how far they range, in many draws of the rows' steps at once.

Rows come in the order of their scores. Each segment adds up the steps of its rows, and keeps the largest and the
smallest sum at the ends of ties. One pass over the rows does this for all segments of a family, which share no row:
what a segment keeps lies in one place for all draws, so that a row touches few lines of memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray

#: Draws that are walked at once: a constant, so that the loops over them are unrolled.
DRAWS = 8


@compiled
def widest_walks(
    codes: npt.NDArray[np.uint32], tie: IntArray, steps: FloatArray, scale: FloatArray, widest: FloatArray
) -> None:
    """Raise `widest`, shape (DRAWS,), to the largest range of the sums of a segment, times the `scale` of the segment.

    `codes` is the segment of each row, `tie` the number of its tie, rising; `steps` has shape (n, DRAWS), and `scale`
    (n_segments, DRAWS).
    """
    n_segments = len(scale)
    sums = np.zeros((n_segments, DRAWS))
    high = np.zeros((n_segments, DRAWS))
    low = np.zeros((n_segments, DRAWS))
    last = np.full(n_segments, -1)
    for i in range(codes.size):
        c = codes[i]
        if last[c] != tie[i]:  # the sums are those at the end of a tie
            last[c] = tie[i]
            for d in range(DRAWS):
                s = sums[c, d]
                h = high[c, d]
                m = low[c, d]
                high[c, d] = s if s > h else h
                low[c, d] = s if s < m else m
        for d in range(DRAWS):
            sums[c, d] += steps[i, d]
    for c in range(n_segments):
        for d in range(DRAWS):
            s = sums[c, d]
            reach = max(high[c, d], s) - min(low[c, d], s)
            if reach > 0.0:  # a scale may be infinite
                widest[d] = max(widest[d], reach * scale[c, d])


@compiled
def taken_moments(
    codes: npt.NDArray[np.uint32], times: FloatArray, weight: FloatArray, step: FloatArray, out: FloatArray
) -> None:
    """Add the moments of steps that are taken `times` often, shape (n, DRAWS), to those of their segments.

    `out` has shape (n_segments, 5, DRAWS): sums of weights, steps, squared steps, steps times weights and squared
    weights. A step that is taken -1 times has the other sign.
    """
    for i in range(codes.size):
        c, w, e = codes[i], weight[i], step[i]
        for d in range(DRAWS):
            t = times[i, d]
            n = abs(t)
            out[c, 0, d] += n * w
            out[c, 1, d] += t * e
            out[c, 2, d] += n * e * e
            out[c, 3, d] += t * e * w
            out[c, 4, d] += n * w * w
