"""Smooth calibration error: the gap under a Gaussian kernel that is as wide as the error is large."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibrant.metrics.estimates import Column, Estimate, measured_rows, noise_bounds
from calibrant.numerics import FloatArray, IntArray, root_between
from calibrant.summary import TiedScores
from calibrant.validation import ArrayLike

#: Points of the grid that rows are put on, at least and at most, and of how many the width is to be: moving rows to
#: them then changes the error by less than a part in 12 * 128^2.
_GRID = (1 << 12, 1 << 16)
_POINTS_IN_WIDTH = 128
#: Points at which the smoothed gap is looked at: at least this many per kernel width, between these numbers.
_POINTS_PER_WIDTH = 32.0
_POINTS = (1 << 10, 1 << 16)
#: The width that the search begins with.
_USUAL_WIDTH = 0.1
#: The same for the noise of the gap; how many normal deviates are drawn, and the least number of draws they make.
_NOISE_POINTS_PER_WIDTH = 4.0
_NOISE_POINTS = (1 << 5, 1 << 11)
_DEVIATES = 1 << 18
_LEAST_DRAWS = 200
#: A wave whose number times the width is larger than this is damped to zero: its factor is below the smallest number.
_VANISHES = 39.0 / np.pi
#: The width is found to this precision.
_TOLERANCE = 1e-13


def smooth_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the smooth calibration error: the mean absolute gap under a kernel whose width is that error.

    Parameters are as in `evaluate`; of several classes the top label is judged.

    Returns
    -------
    float
        In [0, 1].

    Notes
    -----
    With the Gaussian kernel of width s on [0, 1], reflected at both ends, the error at that width is

        E(s) = integral over t of |mean over rows of K_s(t, p) (y - p)|.

    E never rises with s, so it meets s at one width, and that is the result: there is nothing to choose. Unlike a
    binned error it is continuous in the probabilities, and it lies, up to constant factors, between the distance
    to the nearest perfectly calibrated prediction and the root of that distance. It is biased upward by noise, as
    the binned error is: perfect probabilities have a smooth error that falls about as n^(-1/3).

    Rows at exactly 0 or 1 count in full: the kernel folds back what lies outside. (The authors' package counts them
    half.)

    Rows are put on a grid, each shared between the two nearest points, and the kernel is applied to their cosine
    series, where it is exact: time grows with n alone. The grid has more points than there are distinct probabilities,
    and at least 128 in the width, between 2^12 and 2^16: the error moves by a part in 100,000 at most where these do.

    References
    ----------
    Blasiok and Nakkiran (2023), *Smooth ECE: principled reliability diagrams via kernel smoothing*, definitions 3
    and 4; the reflected kernel is in section 3.2.

    Examples
    --------
    >>> from calibrant.metrics import smooth_ece
    >>> round(smooth_ece([0, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]), 4)
    0.25
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return smooth_error(rows.one_column().tied())


def smooth_ece_estimate(column: Column) -> Estimate:
    """Estimate the smooth calibration error of one column, with an interval from the noise of the smoothed gap.

    The interval is that of the error E at the width that was found. As E falls with the width, a bound on it there
    bounds the crossing of E and the width too.
    """
    summary = column.summary
    value = smooth_error(summary.tied())
    width = max(value, 1.0 / _NOISE_POINTS[1])
    m = _points(width, _NOISE_POINTS_PER_WIDTH, _NOISE_POINTS)
    scores, weight, weight_squared, positives = summary.distinct
    total = summary.total_weight
    point = np.minimum((scores * m).astype(np.int64), m - 1)
    columns = (weight / total, positives / total, (weight * scores - positives) / total)
    share, rate, gap = _smoothed(np.vstack([np.bincount(point, column, m) for column in columns]), width)
    # no gap is larger than the share of the rows near it, but for the rounding of the transform where there are none
    share = np.maximum(share, np.maximum(np.abs(gap), np.finfo(np.float64).tiny))
    # rows within reach of the kernel, with one event and one non-event more: noise is never nothing
    reach = 2.0 * np.sqrt(np.pi) * width * m
    size = share * reach * column.size
    rate = (np.clip(rate / share, 0.0, 1.0) * size + 1.0) / (size + 2.0)
    spread = np.sqrt(rate * (1.0 - rate) * np.bincount(point, weight_squared, m)) / total
    noise = _smoothed(column.rng.standard_normal((max(_DEVIATES // m, _LEAST_DRAWS), m)) * spread, width)
    between = max(float(np.sum(gap**2 / share)) - float(np.sum(np.abs(gap))) ** 2, 0.0) / column.size
    return noise_bounds(value, gap, noise, between, column.level, column.rng)


def _smoothed(values: FloatArray, width: float) -> FloatArray:
    """Apply the reflected Gaussian kernel to sums in equal parts of [0, 1], the last axis."""
    n = values.shape[-1]
    mirrored = np.concatenate((values, values[..., ::-1]), axis=-1)
    return np.asarray(np.fft.irfft(np.fft.rfft(mirrored) * _damping(n + 1, width), 2 * n)[..., :n])


def smooth_error(ties: TiedScores) -> float:
    """Return the smooth calibration error of the rows."""
    width, grid = _USUAL_WIDTH, min(max(1 << ties.scores.size.bit_length(), _GRID[0]), _GRID[1])
    while True:
        waves = np.fft.rfft(_gap_values(ties, grid))
        width = _crossing(waves, _POINTS[0], width)
        if grid == _GRID[1] or grid * width >= _POINTS_IN_WIDTH:
            break
        grid = min(4 * grid, _GRID[1])
    n = min(_points(max(width, _TOLERANCE), _POINTS_PER_WIDTH, _POINTS), grid)
    return width if n <= _POINTS[0] else _crossing(waves, n, width)


def _gap_values(ties: TiedScores, n: int) -> FloatArray:
    """Return the measure on n points of [0, 1] that gives each row its share of w (p - y), as `_places` orders it."""
    gap = (ties.weight * ties.scores - ties.positives) / float(ties.weight.sum())
    position = ties.scores * n + 0.5  # in points, counted from point -1, as the middle of part j is point j
    left = position.astype(np.int64)
    to_right = gap * (position - left)
    places = _places(n)
    grid = np.asarray(np.bincount(places[left], gap - to_right, n), dtype=np.float64)
    grid += np.bincount(places[left + 1], to_right, n)
    return grid


@lru_cache(maxsize=5)
def _places(n: int) -> IntArray:
    """Return where `_series` needs the points -1, 0, ..., n of a grid: the even ones rising, then the odd ones falling.

    Points -1 and n lie outside of [0, 1] and are the mirror images of 0 and n - 1. Cached, so read-only.
    """
    point = np.arange(-1, n + 1).clip(0, n - 1)
    found: IntArray = np.where(point % 2 == 0, point // 2, n - 1 - point // 2)
    found.flags.writeable = False
    return found


def _series(waves: npt.NDArray[np.complex128], kept: int) -> FloatArray:
    """Return the first cosine coefficients on [0, 1] of the Fourier transform of `_gap_values`.

    Makhoul (1980), *A fast cosine transform in one and two dimensions*, IEEE Transactions on Acoustics, Speech and
    Signal Processing 28.
    """
    n = 2 * (waves.size - 1)
    shift = _shift(n)
    half = min(kept, waves.size)
    low: FloatArray = (waves[:half] * shift[:half].conj()).real
    if kept == half:
        return low
    return np.concatenate((low, (waves[n - kept + 1 : n - half + 1][::-1] * shift[half:kept]).real))


def _crossing(waves: npt.NDArray[np.complex128], n: int, near: float) -> float:
    """Return the width that equals the error at that width, measured at n points; `near` is a guess to begin with.

    The error never rises with the width. So what is looked for lies between any width and the error there, and a width
    that is closer to its error than the tolerance is as close to it.
    """
    series = _series(waves, n)
    known: dict[float, float] = {}

    def excess(width: float) -> float:
        if width not in known:
            found = _error(series, width, n) - width
            known[width] = found if abs(found) > _TOLERANCE else 0.0
        return known[width]

    first = near if near * n > _VANISHES else 0.0  # at a smaller one the n waves are too few, so that errors may rise
    second = min(first + excess(first), 1.0)
    return root_between(excess, first, second, tol=_TOLERANCE) if excess(first) * excess(second) < 0.0 else second


def _error(series: FloatArray, width: float, n: int) -> float:
    """Return the mean absolute value, at the middles of n equal parts, of the gap under a kernel of this width.

    The inverse of the transform in `_series`: the points come in the order of `_places`.
    """
    m = series.size
    if m * width > _VANISHES:
        m = int(_VANISHES / width) + 1
    damped, middle, shift = series[:m] * _damping(m, width), n // 2, _shift(n)
    waves = damped[: middle + 1] * shift[: min(m, middle + 1)]
    if m > middle:
        waves[n - m + 1 :] -= 1j * damped[: middle - 1 : -1] * shift[n - m + 1 : middle + 1]
    return float(np.abs(np.fft.irfft(waves, n)).sum())


def _damping(n: int, width: float) -> FloatArray:
    """Return what the reflected Gaussian kernel leaves of the cosine waves 0 to n - 1 of [0, 1]."""
    return np.asarray(np.exp(_decay(1 << (n - 1).bit_length())[:n] * width**2))


@lru_cache(maxsize=4)
def _decay(n_waves: int) -> FloatArray:
    """Return the logarithms of `_damping` at width 1; cached, so read-only."""
    found: FloatArray = -0.5 * (np.pi * np.arange(n_waves, dtype=np.float64)) ** 2
    found.flags.writeable = False
    return found


@lru_cache(maxsize=8)
def _shift(n: int) -> npt.NDArray[np.complex128]:
    """Return the phases of waves between the middles of n equal parts and their left ends; cached, so read-only."""
    found = np.asarray(np.exp(0.5j * np.pi / n * np.arange(n)))
    found.flags.writeable = False
    return found


def _points(width: float, per_width: float, bounds: tuple[int, int]) -> int:
    return min(max(1 << int(np.ceil(np.log2(per_width / width))), bounds[0]), bounds[1])
