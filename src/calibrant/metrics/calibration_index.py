"""The integrated calibration index: how far probabilities lie from a local regression of the outcomes on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.binning import equal_mass_bins
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.noise import noise_bounds
from calibrant.numerics import EPS, FloatArray, IntArray
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike

#: Share of the rows that each local regression takes in: the default of R's `loess`, which the index was defined by.
SPAN = 0.75
#: More distinct probabilities than this are put into as many groups of near-equal weight.
_GROUPS = 2048
#: The regression is solved at this many probabilities and interpolated between them.
_VERTICES = 128
#: Draws of the noise of the regression, and the neighbouring groups' noise that is drawn as one: the regression is so
#: smooth that it doesn't tell these apart.
_DRAWS = 1000
_SOURCES = 32


@dataclass(frozen=True, slots=True)
class CalibrationIndex:
    """How far the probabilities of the rows lie from the smoothed rate of the event at them.

    Attributes
    ----------
    ici : float
        The mean over rows of the absolute difference: the integrated calibration index.
    e50, e90 : float
        The median and the 90th percentile of it.
    emax : float
        The largest.
    """

    ici: float
    e50: float
    e90: float
    emax: float


def integrated_calibration_index(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    quantile: float | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the mean absolute difference between probabilities and a local regression of the outcomes on them.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the top label is judged.
    quantile : float, optional
        In [0, 1]: return this quantile of the absolute differences instead of their mean. 0.5 is known as E50, 0.9 as
        E90, 1 as Emax; `calibration_index` gives all of them.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The smoother is loess without robustness steps: at a probability t, a parabola is fitted by least squares to the
    outcomes of the 75% of rows nearest to t, with tricube weights that fall to zero at the furthest of them, and its
    value at t, cut to [0, 1], is the rate. It is solved directly at 128 probabilities of near-equal weight between
    them and interpolated linearly; more than 2,048 distinct probabilities are first put into as many groups, each at
    its mean. Where the nearest rows hold fewer than three distinct probabilities, the smallest of the fitting
    parabolas is taken.

    The index estimates the mean distance to the true rate so far as the smoother can follow it: it flattens narrow
    gaps, and noise biases it upward, less than a binned error because so many rows are averaged.

    A quantile is the smallest difference that is not below the wanted share of weight.

    References
    ----------
    Austin and Steyerberg (2019), *The Integrated Calibration Index (ICI) and related metrics for quantifying the
    calibration of logistic regression models*, Statistics in Medicine 38. Cleveland and Devlin (1988), *Locally
    weighted regression*, JASA 83.

    Examples
    --------
    >>> from calibrant.metrics import integrated_calibration_index
    >>> round(integrated_calibration_index([0, 1, 1, 1] * 9, [0.25, 0.5, 0.75, 1.0] * 9), 4)
    0.25
    """
    if quantile is not None:
        _check_quantile(quantile)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    groups = _groups(rows.one_column().summary())
    error = np.abs(_smooth(groups)[1])
    return float(np.sum(groups.share * error)) if quantile is None else _quantile(error, groups.share, float(quantile))


def calibration_index(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> CalibrationIndex:
    """Return the integrated calibration index with E50, E90 and Emax.

    Parameters, definitions and bias are those of `integrated_calibration_index`.

    Returns
    -------
    CalibrationIndex
        `ici`, `e50`, `e90` and `emax`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.metrics import calibration_index
    >>> index = calibration_index([0, 1, 1, 1] * 9, [0.25, 0.5, 0.75, 1.0] * 9)
    >>> round(index.e50, 4), round(index.emax, 4)
    (0.25, 0.5)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    groups = _groups(rows.one_column().summary())
    error = np.abs(_smooth(groups)[1])
    e50, e90, largest = (_quantile(error, groups.share, q) for q in (0.5, 0.9, 1.0))
    return CalibrationIndex(float(np.sum(groups.share * error)), e50, e90, largest)


def calibration_index_estimate(summary: ScoreSummary, level: float, rng: np.random.Generator) -> Estimate:
    """Estimate the integrated calibration index of one column, with an interval from the noise of the smoother."""
    groups = _groups(summary)
    vertices, gap, smoother, fitted = _smooth(groups)
    value = float(np.sum(groups.share * np.abs(gap)))
    rate = np.clip(np.interp(groups.scores, vertices, fitted), 0.0, 1.0)
    near = groups.share * summary.effective_size * SPAN / groups.share.max()  # rows that a fitted rate rests on
    rate = (rate * near + 1.0) / (near + 2.0)
    variance = smoother**2 * (rate * (1.0 - rate) / groups.size)
    source = np.flatnonzero(np.diff(equal_mass_bins(groups.share, _SOURCES), prepend=-1))
    say = np.sqrt(np.add.reduceat(variance, source, axis=1)) * np.sign(np.add.reduceat(smoother, source, axis=1))
    noise = np.einsum("ds,vs->dv", rng.standard_normal((_DRAWS, source.size)), say)
    share = np.bincount(_nearest(vertices, groups.scores), groups.share, vertices.size)
    at_vertices = share * (vertices - fitted)
    between = max(float(np.sum(groups.share * gap**2)) - value**2, 0.0) / summary.effective_size
    return noise_bounds(value, at_vertices, noise * share, between, level, rng)


class _Groups(NamedTuple):
    """Groups of rows in rising order: mean score, share of all weight, rate, and effective number of rows of each."""

    scores: FloatArray
    share: FloatArray
    rate: FloatArray
    size: FloatArray


class _Smooth(NamedTuple):
    """Vertices; at each group the mean probability less the rate; the rows' say in each vertex; the rate at vertices.

    `smoother` has shape (vertices, groups).
    """

    vertices: FloatArray
    gap: FloatArray
    smoother: FloatArray
    fitted: FloatArray


def _groups(summary: ScoreSummary) -> _Groups:
    scores, weight, weight_squared, positives = summary.distinct
    if scores.size > _GROUPS:
        first = np.flatnonzero(np.diff(equal_mass_bins(weight, _GROUPS), prepend=-1))
        sums = (np.add.reduceat(column, first) for column in (weight * scores, weight, weight_squared, positives))
        total, weight, weight_squared, positives = sums
        scores = total / weight
    return _Groups(scores, weight / weight.sum(), positives / weight, weight**2 / weight_squared)


def _smooth(groups: _Groups) -> _Smooth:
    vertices = groups.scores
    if vertices.size > _VERTICES:
        inner = np.flatnonzero(np.diff(equal_mass_bins(groups.share, _VERTICES - 1), prepend=-1))
        vertices = groups.scores[np.unique(np.append(inner, groups.scores.size - 1))]
    smoother = _local_parabolas(groups, vertices)
    fitted = np.clip(np.sum(smoother * groups.rate, axis=1), 0.0, 1.0)
    return _Smooth(vertices, groups.scores - np.interp(groups.scores, vertices, fitted), smoother, fitted)


def _local_parabolas(groups: _Groups, vertices: FloatArray) -> FloatArray:
    """Return the weight of each group's rate in the value at each vertex of a parabola fitted around it."""
    radius = _radius(groups, vertices)
    u = (groups.scores - vertices[:, None]) / radius[:, None]
    near = groups.share * np.maximum(1.0 - np.abs(u) ** 3, 0.0) ** 3
    moments = [np.sum(near, axis=1)]
    power = near
    for _ in range(4):
        power = power * u
        moments.append(np.sum(power, axis=1))
    normal = np.stack([np.stack(moments[i : i + 3], axis=-1) for i in range(3)], axis=-2) / moments[0][:, None, None]
    inverse = np.linalg.pinv(normal, rcond=1e-10, hermitian=True)[:, 0, :]
    a, b, c = (column[:, None] for column in inverse.T)
    say: FloatArray = near * (a + b * u + c * u**2) / moments[0][:, None]
    return say


def _radius(groups: _Groups, vertices: FloatArray) -> FloatArray:
    """Return the distance from each vertex within which `SPAN` of the weight lies, by halving; never zero."""
    cumulative = np.concatenate(([0.0], np.cumsum(groups.share)))
    wanted = SPAN * cumulative[-1] * (1.0 - 8.0 * EPS)
    low, high = np.zeros(vertices.size), np.ones(vertices.size)
    for _ in range(52):
        middle = 0.5 * (low + high)
        first = np.searchsorted(groups.scores, vertices - middle, side="left")
        last = np.searchsorted(groups.scores, vertices + middle, side="right")
        is_enough = cumulative[last] - cumulative[first] >= wanted
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high


def _nearest(vertices: FloatArray, scores: FloatArray) -> IntArray:
    return np.searchsorted(0.5 * (vertices[1:] + vertices[:-1]), scores)


def _quantile(error: FloatArray, share: FloatArray, quantile: float) -> float:
    order = np.argsort(error, kind="stable")
    cumulative = np.cumsum(share[order])
    reached = np.searchsorted(cumulative, quantile * cumulative[-1] * (1.0 - 8.0 * EPS))
    return float(error[order[min(int(reached), order.size - 1)]])


def _check_quantile(quantile: object) -> None:
    if isinstance(quantile, bool) or not isinstance(quantile, float | int):
        raise InvalidTypeError(f"quantile={quantile!r} is not a number. Pass None for the mean, or 0.5 for the median.")
    if not 0.0 <= quantile <= 1.0:
        raise InvalidInputError(f"quantile={quantile!r} is outside [0, 1]. Pass a number such as 0.9.")
