"""Labels that overlap in time: how many independent ones they are worth, and a bootstrap that keeps them together.

A label that takes h rows to be known overlaps those of its neighbours, so that their losses are correlated.
`block_draws` resamples blocks of neighbouring rows, which keeps that dependence inside the blocks (Künsch 1989, The
jackknife and the bootstrap for general stationary observations, Annals of Statistics 17), and lets the first row follow
the last, so that each row is drawn equally often (Politis and Romano 1992, A circular block-resampling procedure for
stationary data).
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.dependence.times import TimeArray, as_label_times
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.validation import ArrayLike

#: A block is this many times as long as a label: its ends then lose 1 / 12 of the variance that overlap adds.
LABELS_PER_BLOCK = 4
_LEAST_BLOCKS = 10
#: Numbers that are drawn at a time, about.
_PART = 1 << 22


def overlapping(start: TimeArray, end: TimeArray, block: IntArray | BoolArray, embargo: object = 0) -> BoolArray:
    """Say which rows have labels that overlap those of a block of rows, or start within the embargo after them.

    The rows of a block are next to each other in time, so that a label overlaps one of them where it overlaps the span
    from the first start to the last end.
    """
    first, last = start[block].min(), end[block].max()
    reached: BoolArray = (end >= first) & (start <= last + embargo)
    return reached


def block_length(time: ArrayLike, label_end: ArrayLike) -> int:
    """Return how many rows in the order of time make a block: four times the rows that start while a label is open.

    If a label overlaps those of h rows after it, blocks of b rows lose a share h / (3 b) of the variance that this adds
    (Künsch 1989). No more than a tenth of the rows make a block, so that there are ten of them at least.
    """
    start, end = as_label_times(time, label_end)
    ordered = np.sort(start)
    overlapped = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, start, side="right")
    wanted = LABELS_PER_BLOCK * float(overlapped.mean())
    return max(1, min(math.ceil(wanted), start.size // _LEAST_BLOCKS))


def effective_rows(time: ArrayLike, label_end: ArrayLike) -> float:
    """Return the number of independent labels that rows are worth: the sum of their average uniqueness.

    A label's uniqueness is the mean, over the starts of labels while it is open, of one over the number of labels open
    then (López de Prado 2018, *Advances in financial machine learning*, sections 4.3 and 4.4).
    """
    start, end = as_label_times(time, label_end)
    moments = np.unique(start)
    first = np.searchsorted(moments, start)
    after = np.searchsorted(moments, end, side="right")
    steps = np.zeros(moments.size + 1)
    np.add.at(steps, first, 1.0)
    np.add.at(steps, after, -1.0)
    shared = np.concatenate(([0.0], np.cumsum(1.0 / np.cumsum(steps)[:-1])))
    return math.fsum((shared[after] - shared[first]) / (after - first))


def block_draws(table: FloatArray, block: int, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return the column means of `n_draws` circular block-bootstrap samples of checked rows, shape (n_draws, m)."""
    n, m = table.shape
    block = min(block, n)
    n_blocks = -(-n // block)
    last = n - (n_blocks - 1) * block  # the last block is cut, so that a sample has n rows
    sums = np.vstack((np.zeros(m), np.cumsum(np.vstack((table, table[: block - 1])), axis=0)))
    whole, cut = sums[block:] - sums[:n], sums[last : last + n] - sums[:n]
    out = np.empty((n_draws, m))
    step = max(1, _PART // max(n_blocks * m, 1))
    for first in range(0, n_draws, step):
        size = min(step, n_draws - first)
        starts = rng.integers(0, n, (size, n_blocks))
        out[first : first + size] = (whole[starts[:, 1:]].sum(axis=1) + cut[starts[:, 0]]) / n
    return out
