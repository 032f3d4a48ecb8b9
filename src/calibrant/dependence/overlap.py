"""Labels that overlap in time: how many independent ones they are worth, and a bootstrap that keeps them together.

A label that takes h rows to be known overlaps those of its neighbours, so that their losses are correlated.
`block_draws` resamples blocks of neighbouring rows, which keeps that dependence inside the blocks (Künsch 1989, The
jackknife and the bootstrap for general stationary observations, Annals of Statistics 17), and lets the first row follow
the last, so that each row is drawn equally often (Politis and Romano 1992, A circular block-resampling procedure for
stationary data). Where nothing but the order in time is known, `serial_blocks` takes the length from the data.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from calibrant.dependence.times import TimeArray, as_label_times
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.validation import ArrayLike

#: A block is this many times as long as a label: its ends then lose 1 / 12 of the variance that overlap adds.
LABELS_PER_BLOCK = 4
_LEAST_BLOCKS = 10
#: Numbers that are drawn at a time, about.
_PART = 1 << 22
#: No more than this share of the variance is taken to be lost at the ends of blocks.
_MOST_LOST = 0.5


class Blocks(NamedTuple):
    """How many rows in time make a block, and the share of the variance of a mean that is lost at their ends."""

    length: int
    lost: float


def overlapping(start: TimeArray, end: TimeArray, held_out: IntArray | BoolArray, embargo: Any = None) -> BoolArray:
    """Say which rows have labels that overlap one of some rows held out, or start within the embargo after one.

    Of the labels held out that start before a label ends, those that end before it starts don't overlap it.
    """
    until = end[held_out] if embargo is None else end[held_out] + embargo
    begun = np.searchsorted(np.sort(start[held_out]), end, side="right")
    return np.asarray(begun > np.searchsorted(np.sort(until), start, side="left"))


def block_length(time: ArrayLike, label_end: ArrayLike) -> int:
    """Return how many rows in the order of time make a block: four times the rows that start while a label is open.

    If a label overlaps those of h rows after it, blocks of b rows lose a share h / (3 b) of the variance that this adds
    (Künsch 1989). No more than a tenth of the rows make a block, so that there are ten of them at least.
    """
    return label_blocks(*as_label_times(time, label_end)).length


def label_blocks(start: TimeArray, end: TimeArray) -> Blocks:
    """Return the blocks of checked labels, from `start` to `end`; see `block_length`."""
    ordered = np.sort(start)
    overlapped = np.searchsorted(ordered, end, side="right") - np.searchsorted(ordered, start, side="right")
    reach = float(overlapped.mean())
    length = max(1, min(math.ceil(LABELS_PER_BLOCK * reach), start.size // _LEAST_BLOCKS))
    return Blocks(length, min(reach / (3.0 * length), _MOST_LOST))


def serial_blocks(values: FloatArray) -> Blocks:
    """Return the blocks of a series, as its own autocorrelations ask for.

    The length is the one with the least mean squared error of the variance of a mean by circular blocks (Politis and
    White 2004, *Automatic block-length selection for the dependent bootstrap*, Econometric Reviews 23, section 3.2, as
    corrected by Patton, Politis and White 2009, Econometric Reviews 28): the cube root of 2 G^2 n / D, where G is the
    sum of |k| R(k) over lags k, and D = 4/3 of the squared sum of R(k), the long-run variance. Autocovariances R(k)
    beyond twice the last notable lag are left out. Blocks of b rows lose a share G / b of that variance.
    """
    n = values.size
    most = max(1, n // _LEAST_BLOCKS)
    centred = values - values.mean()
    if n <= _LEAST_BLOCKS or not float(centred @ centred) > 0.0:
        return Blocks(1, 0.0)
    last = min(math.ceil(math.sqrt(n)) + _lags_in_a_run(n), n - 1)
    found = autocovariances(centred, last)
    lags = np.arange(last + 1)
    reach = min(2 * _last_notable(found / found[0], n), last)
    taper = np.clip(2.0 * (1.0 - lags / reach), 0.0, 1.0)  # a flat top: 1 up to half the reach
    twice = np.where(lags > 0, 2.0, 1.0) * taper * found
    variance, weighted = float(twice.sum()), float(lags @ twice)
    if variance <= 0.0:  # which only negative correlations give
        return Blocks(1, 0.0)
    length = (1.5 * (weighted / variance) ** 2 * n) ** (1.0 / 3.0)
    length = max(1, min(math.ceil(length), most))
    return Blocks(length, min(max(weighted / variance / length, 0.0), _MOST_LOST))


def autocovariances(centred: FloatArray, last: int) -> FloatArray:
    """Return the autocovariances of a series with a mean of zero, at lags 0 to `last`."""
    n = centred.size
    spectrum = np.fft.rfft(centred, 1 << (n + last).bit_length())
    return np.asarray(np.fft.irfft(spectrum.real**2 + spectrum.imag**2)[: last + 1] / n)


def _lags_in_a_run(n: int) -> int:
    return max(5, math.ceil(math.log10(n)))


def _last_notable(correlation: FloatArray, n: int) -> int:
    """Return the lag after which a run of correlations is within noise (Politis and White 2004); at least 1."""
    run = _lags_in_a_run(n)
    is_notable = np.abs(correlation[1:]) >= 2.0 * math.sqrt(math.log10(n) / n)
    quiet = np.flatnonzero(np.convolve(is_notable, np.ones(run, dtype=np.int64), mode="valid") == 0)
    if quiet.size:
        return max(int(quiet[0]), 1)
    return max(int(np.flatnonzero(is_notable)[-1]) + 1, 1)


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


def label_uniqueness(first: IntArray, last: IntArray, n_moments: int) -> FloatArray:
    """Return the average uniqueness of labels that are open after moment number `first` up to `last`.

    It is the mean, over these moments, of one over the number of labels open then (López de Prado 2018, *Advances in
    financial machine learning*, section 4.4); 1 for a label that is known at once. How many labels are open at a
    moment is known at that moment, so a finished label's uniqueness never changes.
    """
    lasting = last > first
    steps = np.zeros(n_moments + 2, dtype=np.int64)
    np.add.at(steps, first[lasting] + 1, 1)
    np.add.at(steps, last[lasting] + 1, -1)
    n_open = np.cumsum(steps)[:n_moments]
    share = np.divide(1.0, n_open, out=np.zeros(n_moments), where=n_open > 0)
    out = np.ones(first.size)
    for row in np.flatnonzero(lasting):  # a difference of cumulated sums would round by what comes before
        out[row] = share[first[row] + 1 : last[row] + 1].mean()
    return out


def label_uniqueness_in_time(time: TimeArray, label_end: TimeArray) -> FloatArray:
    """Return the average uniqueness of labels open from `time` to `label_end`, over the moments of all of them."""
    moments, places = np.unique(np.concatenate((time, label_end)), return_inverse=True)
    first, last = np.split(places.reshape(-1).astype(np.int64), 2)
    return label_uniqueness(first, last, moments.size)


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
