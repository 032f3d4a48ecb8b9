"""The Hosmer-Lemeshow test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.metrics.bins import bin_rows
from calibrant.metrics.gate import measured_rows
from calibrant.validation import ArrayLike, check_integer


@dataclass(frozen=True, slots=True)
class HosmerLemeshowTest:
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
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the top label is judged.
    n_groups : int
        Number of groups asked for; equal probabilities are never split, which can leave fewer.
    in_sample : bool
        Whether the probabilities are those of a logistic regression that was fitted to these very rows: then two
        degrees of freedom are lost, which is the test as Hosmer and Lemeshow gave it.
    sample_weight : array-like of shape (n,), optional
        With weights a group's number of rows is Kish's effective one, so the scale of the weights changes nothing;
        a weight of zero counts as no row.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    HosmerLemeshowTest
        `statistic`, `dof` and `p_value`.

    Raises
    ------
    CalibrantError
        If an argument can't be used, or no degree of freedom is left; the message says where and why.

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
