"""Calibration tests on cumulative differences: Kolmogorov-Smirnov and Kuiper, without bins or bandwidths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.metrics.gate import measured_rows
from calibrant.numerics import FloatArray
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike

#: Terms of the series of the distributions: the first left out is far below the precision of a float.
_TERMS = 60
#: Below this value the series in exp(-c / x^2) converges fast, above it the one in exp(-c x^2).
_TURN = 2.0
#: A motion exceeds this but for a chance that no float can hold beside 1.
_CERTAIN = 0.05


@dataclass(frozen=True, slots=True)
class CumulativeTest:
    """The outcome of a test on cumulative differences.

    Attributes
    ----------
    statistic : float
        In [0, 1], in units of probability: the gap, summed over the rows in the worst range of probabilities, over
        the number of all rows. At most the mean absolute calibration error.
    scaled : float
        The statistic over the standard deviation that the whole sum has if the probabilities are calibrated.
    p_value : float
        Chance of a larger `scaled` if the probabilities are calibrated, for many rows.
    """

    statistic: float
    scaled: float
    p_value: float


def kolmogorov_smirnov(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> CumulativeTest:
    """Test calibration by the largest cumulative difference between outcomes and probabilities.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the top label is judged.
    sample_weight : array-like of shape (n,), optional
        In `statistic` a weight of two counts as two rows. In `scaled` and `p_value` each row is one observation
        whatever its weight, so the scale of the weights changes nothing. A weight of zero counts as no row.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    CumulativeTest
        `statistic`, `scaled` and `p_value`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    With rows sorted by probability, C_k = sum_{i <= k} w_i (y_i - p_i) / sum w, and the statistic is max |C_k| over
    the ends of runs of equal probabilities, which have no order. Nothing is binned or smoothed. It estimates the
    largest gap, in share of rows, over the probabilities up to some value, and is biased upward by noise of order
    n^(-1/2), which `scaled` is measured in.

    If the probabilities are calibrated, C_k over the standard deviation of its end, sqrt(sum w^2 p (1 - p)) / sum w,
    tends to a Brownian motion on [0, 1], so the p-value is the chance that the largest absolute value of one exceeds
    `scaled`. With few rows or many ties the walk has fewer turns, and the p-value is too large rather than too small.

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), *Metrics of calibration for probabilistic predictions*,
    Journal of Machine Learning Research 23: the "ECCE-MAD". Feller (1971), *An introduction to probability theory and
    its applications* II, section X.5.

    Examples
    --------
    >>> from calibrant.metrics import kolmogorov_smirnov
    >>> test = kolmogorov_smirnov([0, 0, 1, 0], [0.25, 0.25, 0.5, 0.75])
    >>> test.statistic, round(test.scaled, 4), round(test.p_value, 4)
    (0.1875, 0.8321, 0.7857)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return _test(rows.one_column().summary(), lambda walk: float(np.abs(walk).max()), motion_exceeds)


def kuiper(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> CumulativeTest:
    """Test calibration by the range of the cumulative differences between outcomes and probabilities.

    Parameters are those of `kolmogorov_smirnov`.

    Returns
    -------
    CumulativeTest
        `statistic`, `scaled` and `p_value`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The statistic is max C_k - min C_k, with C_0 = 0 and C_k as in `kolmogorov_smirnov`: the largest gap, in share of
    rows, over any range of probabilities and not only over those that begin at 0. It is therefore as sensitive in the
    middle as at the ends. Biased upward by noise, as that is. The p-value is the chance that the range of a Brownian
    motion on [0, 1] exceeds `scaled`.

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert and Xu (2022), *Metrics of calibration for probabilistic predictions*,
    Journal of Machine Learning Research 23: the "ECCE-R". Feller (1951), *The asymptotic distribution of the range of
    sums of independent random variables*, Annals of Mathematical Statistics 22.

    Examples
    --------
    >>> from calibrant.metrics import kuiper
    >>> test = kuiper([0, 0, 1, 0], [0.25, 0.25, 0.5, 0.75])
    >>> test.statistic, round(test.scaled, 4), round(test.p_value, 4)
    (0.1875, 0.8321, 0.9901)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return _test(rows.one_column().summary(), lambda walk: float(walk.max() - walk.min()), range_exceeds)


def motion_exceeds(x: float) -> float:
    """Return the chance that a Brownian motion on [0, 1] somewhere lies further than x from 0."""
    if x <= _CERTAIN:
        return 1.0
    odd = 2.0 * np.arange(_TERMS) + 1.0
    sign = 1.0 - 2.0 * (np.arange(_TERMS) % 2)
    if x > _TURN:
        return min(4.0 * float(np.sum(sign * _normal_tail(odd * x))), 1.0)
    inside = 4.0 / np.pi * float(np.sum(sign / odd * np.exp(-((np.pi * odd / x) ** 2) / 8.0)))
    return min(max(1.0 - inside, 0.0), 1.0)


def range_exceeds(x: float) -> float:
    """Return the chance that a Brownian motion on [0, 1] has a range above x."""
    if x <= _CERTAIN:
        return 1.0
    if x > _TURN:
        k = np.arange(1.0, _TERMS)
        sign = 2.0 * (k % 2.0) - 1.0
        return min(8.0 * float(np.sum(sign * k * _normal_tail(k * x))), 1.0)
    odd = 2.0 * np.arange(_TERMS) + 1.0
    decay = np.exp(-0.5 * (np.pi * odd / x) ** 2)
    inside = 8.0 * float(np.sum((1.0 / (np.pi * odd) ** 2 + 1.0 / x**2) * decay))
    return min(max(1.0 - inside, 0.0), 1.0)


def _test(
    summary: ScoreSummary, measure: Callable[[FloatArray], float], exceeds: Callable[[float], float]
) -> CumulativeTest:
    p, weight, weight_squared, positives = summary.distinct
    walk = np.concatenate(([0.0], np.cumsum(positives - weight * p))) / summary.total_weight
    statistic = min(measure(walk), 1.0)
    spread = math.sqrt(float(np.sum(weight_squared * p * (1.0 - p)))) / summary.total_weight
    if spread == 0.0:  # probabilities of 0 and 1 only
        return CumulativeTest(statistic, math.inf if statistic > 0.0 else 0.0, 0.0 if statistic > 0.0 else 1.0)
    return CumulativeTest(statistic, statistic / spread, exceeds(statistic / spread))


def _normal_tail(x: npt.NDArray[np.floating[Any]]) -> FloatArray:
    return np.array([0.5 * math.erfc(v / math.sqrt(2.0)) for v in x.tolist()])
