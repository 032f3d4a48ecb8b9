"""Tests of calibration: Kolmogorov-Smirnov and Kuiper on cumulative differences, Spiegelhalter's, Hosmer-Lemeshow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError
from calibrant.metrics.bins import bin_rows
from calibrant.metrics.estimates import measured_rows
from calibrant.metrics.gap_bounds import fine_sums
from calibrant.numerics import FloatArray
from calibrant.readable import Readable
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, check_integer

#: Terms of the series of the distributions: the first left out is far below the precision of a float.
_TERMS = 60
#: Below this value the series in exp(-c / x^2) converges fast, above it the one in exp(-c x^2).
_TURN = 2.0
#: A motion exceeds this but for a chance that no float can hold beside 1.
_CERTAIN = 0.05
#: Skewness, as if all jumps leant to one side, up to which a walk is near a Brownian motion: that of four rare events.
_MOST_LEANING = 0.5
#: Walks that are simulated where it is above, and how many at once.
_SIMULATED, _AT_ONCE = 2_000, 200
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class CumulativeTest(Readable):
    """The outcome of a test on cumulative differences.

    Attributes
    ----------
    statistic : float
        In [0, 1], in units of probability: the gap, summed over the rows in the worst range of probabilities, over
        the number of all rows. At most the mean absolute calibration error.
    scaled : float
        The statistic over the standard deviation that the whole sum has if the probabilities are calibrated.
    p_value : float
        Chance of a larger `scaled` if the probabilities are calibrated.
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
    y_true, y_prob, pos_label, classes
        As in `evaluate`; of several classes the top label is judged.
    sample_weight : array-like of shape (n,), optional
        In `statistic` a weight of two counts as two rows. In `scaled` and `p_value` each row is one observation
        whatever its weight, so the scale of the weights changes nothing. A weight of zero counts as no row.

    Returns
    -------
    CumulativeTest

    Notes
    -----
    With rows sorted by probability, C_k = sum_{i <= k} w_i (y_i - p_i) / sum w, and the statistic is max |C_k| over
    the ends of runs of equal probabilities, which have no order. Nothing is binned or smoothed. It estimates the
    largest gap, in share of rows, over the probabilities up to some value, and is biased upward by noise of order
    n^(-1/2), which `scaled` is measured in.

    If the probabilities are calibrated, C_k over the standard deviation of its end, sqrt(sum w^2 p (1 - p)) / sum w,
    tends to a Brownian motion on [0, 1], so the p-value is the chance that the largest absolute value of one exceeds
    `scaled`. With few rows or many ties the walk has fewer turns, and the p-value is too large rather than too small.
    Where fewer than about four events are expected, or rows of large weight make it as uneven, the walk is far from a
    Brownian motion, and the p-value is the share of 2,000 simulated walks, at least 1/2001.

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
    return _test(rows.one_column().summary(), lambda walk: np.abs(walk).max(axis=-1), motion_exceeds)


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

    Notes
    -----
    The statistic is max C_k - min C_k, with C_0 = 0 and C_k as in `kolmogorov_smirnov`: the largest gap, in share of
    rows, over any range of probabilities and not only over those that begin at 0. It is therefore as sensitive in the
    middle as at the ends. Biased upward by noise, as that is. The p-value is the chance that the range of a Brownian
    motion on [0, 1] exceeds `scaled`, or a share of simulated walks, as in `kolmogorov_smirnov`.

    References
    ----------
    Arrieta-Ibarra et al. (2022), as for `kolmogorov_smirnov`: the "ECCE-R". Feller (1951), *The asymptotic distribution
    of the range of sums of independent random variables*, Annals of Mathematical Statistics 22.

    Examples
    --------
    >>> from calibrant.metrics import kuiper
    >>> test = kuiper([0, 0, 1, 0], [0.25, 0.25, 0.5, 0.75])
    >>> test.statistic, round(test.scaled, 4), round(test.p_value, 4)
    (0.1875, 0.8321, 0.9901)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return _test(rows.one_column().summary(), lambda walk: np.ptp(walk, axis=-1), range_exceeds)


@dataclass(frozen=True, slots=True, repr=False)
class SpiegelhalterTest(Readable):
    """The outcome of Spiegelhalter's test.

    Attributes
    ----------
    z : float
        Standard normal if the probabilities are calibrated. Above zero where the Brier score is worse than the
        probabilities promise, as over-confident ones are; below zero where it is better.
    p_value : float
        Two-sided.
    """

    z: float
    p_value: float


def spiegelhalter_z(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> SpiegelhalterTest:
    """Test calibration by comparing the Brier score with its expectation under the probabilities.

    Parameters are those of `kolmogorov_smirnov`; each row is one observation whatever its weight.

    Returns
    -------
    SpiegelhalterTest

    Notes
    -----
    z = sum w (y - p)(1 - 2p) / sqrt(sum w^2 (1 - 2p)^2 p (1 - p)): the Brier score less its expectation, over its
    standard deviation. The p-value is two-sided, 2 (1 - Phi(|z|)), and holds for many rows. Rows at 1/2 say nothing.
    Errors of opposite direction cancel: predictions can be wrong with z near 0. Where nothing can vary (all
    probabilities 0, 1/2 or 1), z is 0 if all went as said and infinite if not.

    References
    ----------
    Spiegelhalter (1986), *Probabilistic prediction in patient management and clinical trials*, Statistics in
    Medicine 5, equation 10.

    Examples
    --------
    >>> from calibrant.metrics import spiegelhalter_z
    >>> test = spiegelhalter_z([0, 0, 1, 1], [0.9, 0.2, 0.3, 0.8])
    >>> round(test.z, 4), round(test.p_value, 4)
    (1.6729, 0.0944)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    column = rows.one_column()
    p, weight = column.scores, rows.weights
    bend = weight * (1.0 - 2.0 * p)
    excess = float(np.sum(bend * (column.positive - p)))
    variance = float(np.sum(bend**2 * p * (1.0 - p)))
    z = excess / math.sqrt(variance) if variance > 0.0 else math.copysign(math.inf, excess) if excess else 0.0
    return SpiegelhalterTest(z, math.erfc(abs(z) / math.sqrt(2.0)))


@dataclass(frozen=True, slots=True, repr=False)
class HosmerLemeshowTest(Readable):
    """The outcome of a Hosmer-Lemeshow test.

    Attributes
    ----------
    statistic : float
        Sum over groups of the squared gap over its variance.
    dof : int
        Degrees of freedom of the chi-squared distribution that the statistic has if the probabilities are calibrated.
    p_value : float
        Chance of a statistic at least as large.
    """

    statistic: float
    dof: int
    p_value: float


def hosmer_lemeshow(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_groups: int = 10,
    in_sample: bool = False,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> HosmerLemeshowTest:
    """Test calibration by the squared gaps of groups of near-equal weight.

    Parameters
    ----------
    y_true, y_prob, pos_label, classes
        As in `evaluate`; of several classes the top label is judged.
    n_groups : int
        Number of groups asked for; equal probabilities are never split, which can leave fewer.
    in_sample : bool
        Whether the probabilities are those of a logistic regression that was fitted to these very rows: then two
        degrees of freedom are lost, which is the test as Hosmer and Lemeshow gave it.
    sample_weight : array-like of shape (n,), optional
        With weights a group's number of rows is Kish's effective one, so the scale of the weights changes nothing;
        a weight of zero counts as no row.

    Returns
    -------
    HosmerLemeshowTest

    Raises
    ------
    InvalidInputError
        If no degree of freedom is left.

    Notes
    -----
    The statistic is sum_g n_g (rate_g - p_g)^2 / (p_g (1 - p_g)), with p_g the mean probability of the group.

    Its defects are well known, and it is here because readers ask for it. The answer depends on the number of groups
    and on how ties are cut. It has little power against gaps that change sign within a group. With many rows it
    rejects models that are good enough for any use, with few it accepts bad ones, and the statistic says nothing of
    how large the gaps are. Prefer `ece_debiased` or `smooth_ece` with its interval, and `kuiper` for a test.

    References
    ----------
    Hosmer and Lemeshow (1980), *Goodness of fit tests for the multiple logistic regression model*, Communications in
    Statistics 9. Hosmer, Hosmer, le Cessie and Lemeshow (1997), *A comparison of goodness-of-fit tests for the
    logistic regression model*, Statistics in Medicine 16, for its defects.

    Examples
    --------
    >>> from calibrant.metrics import hosmer_lemeshow
    >>> test = hosmer_lemeshow([0, 0, 0, 1] * 10 + [0, 1] * 20, [0.2] * 40 + [0.6] * 40)
    >>> round(test.statistic, 4), test.dof, round(test.p_value, 4)
    (2.2917, 2, 0.318)
    """
    from scipy.special import gammaincc

    check_integer("n_groups", n_groups, minimum=1)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    bins = bin_rows(rows.one_column(), n_groups, "quantile")
    dof = bins.weight.size - (2 if in_sample else 0)
    if dof < 1:
        raise InvalidInputError(
            f"{bins.weight.size} groups leave no degree of freedom with in_sample=True. Pass a larger n_groups; "
            "probabilities with few distinct values can't be cut into more groups."
        )
    p = np.clip(bins.mean_score, 0.0, 1.0)
    square, variance = bins.gap**2, p * (1.0 - p) / bins.size
    parts = np.where(square > 0.0, np.inf, 0.0)
    with np.errstate(over="ignore"):
        np.divide(square, variance, out=parts, where=variance > 0.0)
    statistic = float(parts.sum())
    return HosmerLemeshowTest(statistic, dof, float(gammaincc(0.5 * dof, 0.5 * statistic)))


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


def is_near_motion(p: FloatArray, size: FloatArray, unit: FloatArray, effect: float = 1.0) -> bool:
    """Say whether a walk over `size` rows of each score, each of weight `unit`, is near a Brownian motion.

    It is where its jumps hardly lean to one side. `effect` is the design effect of the rows.
    """
    variance = size * unit**2 * p * (1.0 - p)
    leaning = float(np.sum(variance * unit * np.abs(1.0 - 2.0 * p))) * math.sqrt(effect)
    return bool(leaning <= _MOST_LEANING * float(np.sum(variance)) ** 1.5)


def _test(
    summary: ScoreSummary, measure: Callable[[FloatArray], FloatArray], exceeds: Callable[[float], float]
) -> CumulativeTest:
    p, weight, weight_squared, positives = summary.near_ties
    walk = np.concatenate(([0.0], np.cumsum(positives - weight * p))) / summary.total_weight
    statistic = min(float(measure(walk)), 1.0)
    spread = math.sqrt(float(np.sum(weight_squared * p * (1.0 - p)))) / summary.total_weight
    if spread == 0.0:  # probabilities of 0 and 1 only
        return CumulativeTest(statistic, math.inf if statistic > 0.0 else 0.0, 0.0 if statistic > 0.0 else 1.0)
    unit = weight_squared / weight
    if is_near_motion(p, weight / unit, unit / unit.max()):
        return CumulativeTest(statistic, statistic / spread, exceeds(statistic / spread))
    return CumulativeTest(statistic, statistic / spread, _share_of_walks(summary, statistic, measure))


def _share_of_walks(summary: ScoreSummary, statistic: float, measure: Callable[[FloatArray], FloatArray]) -> float:
    """Return the share of simulated walks that go as far; their outcomes are drawn from the probabilities."""
    p, weight, weight_squared, _ = fine_sums(summary)
    size = np.maximum(np.rint(weight**2 / weight_squared), 1.0)  # rows that vary as much as those of a score do
    rng = np.random.default_rng(0)
    n_as_far = 0
    for _ in range(_SIMULATED // _AT_ONCE):
        excess = (rng.binomial(size.astype(np.int64), p, (_AT_ONCE, p.size)) - size * p) * (weight / size)
        walk = np.cumsum(np.insert(excess, 0, 0.0, axis=1), axis=1) / summary.total_weight
        n_as_far += int(np.count_nonzero(measure(walk) >= statistic * (1.0 - _ROUNDING)))
    return (n_as_far + 1.0) / (_SIMULATED + 1.0)


def _normal_tail(x: npt.NDArray[np.floating[Any]]) -> FloatArray:
    return np.array([0.5 * math.erfc(v / math.sqrt(2.0)) for v in x.tolist()])
