"""Calibration errors: how far predicted probabilities lie from what happened, by bins."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.metrics.bins import Bins, Strategy, make_bins
from calibrant.metrics.gate import measured_rows
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, check_choice, check_integer

Norm: TypeAlias = Literal["l1", "l2", "max"]


def ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error: the mean gap between predicted and observed rate over bins.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class; or of each of the sorted classes, of which the top label is judged, as
        in `top_label_ece`.
    n_bins : int
        Number of bins asked for; empty ones are passed over, and ties can leave fewer.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of near-equal weight. An inner edge belongs to the bin below it, as in
        scikit-learn's `calibration_curve`; 0 and 1 lie in the outer bins. Equal scores are never split.
    norm : {"l1", "l2", "max"}
        Weighted mean of the absolute gaps, root of the weighted mean of their squares, or the largest.
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
    For one column the gap is between the mean probability and the rate of positives, not of correct decisions.
    It estimates the calibration error of the binned probabilities, a lower bound of the error of the probabilities
    themselves, because gaps of opposite sign within a bin cancel. The estimate is biased upward by noise: perfect
    probabilities have an ECE above zero in any sample, more so with many bins and few rows. See `ece_debiased`.

    References
    ----------
    Naeini, Cooper and Hauskrecht (2015), *Obtaining well calibrated probabilities using Bayesian binning*, AAAI.
    Guo et al. (2017), *On calibration of modern neural networks*, ICML.

    Examples
    --------
    >>> from calibrant.metrics import ece
    >>> ece([0, 1, 1, 1], [0.25, 0.25, 1.0, 1.0], n_bins=2)
    0.125
    """
    check_choice("norm", norm, get_args(Norm))
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return binned_error(_bins(rows, n_bins, strategy), norm)


def top_label_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the expected calibration error of the confidence in the most probable class.

    The event is that this class is the true one. Of equal probabilities the first class is taken. Of one column
    the confidence is the larger one of p and 1 - p. Parameters are those of `ece`.

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
    Says nothing about the probabilities of the other classes: see `classwise_ece`. Biased upward, as `ece` is.

    Examples
    --------
    >>> from calibrant.metrics import top_label_ece
    >>> top_label_ece(["a", "b", "c"], [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2]])
    0.16666666666666666
    """
    check_choice("norm", norm, get_args(Norm))
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    _check_bins(n_bins, strategy)
    return binned_error(make_bins(rows.top_label().summary(), n_bins, strategy), norm)


def classwise_ece(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the mean over classes of the expected calibration error of each class's own column.

    Of one column the two classes are the positive one and the rest. Parameters are those of `ece`.

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
    The mean gives each class the same say. With many classes most columns are near zero, and so is their error.
    Biased upward, as `ece` is.

    References
    ----------
    Kull et al. (2019), *Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with
    Dirichlet calibration*, NeurIPS, equation 3.

    Examples
    --------
    >>> from calibrant.metrics import classwise_ece
    >>> classwise_ece([0, 1], [[0.75, 0.25], [0.25, 0.75]])
    0.25
    """
    check_choice("norm", norm, get_args(Norm))
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    _check_bins(n_bins, strategy)
    columns = [rows.of_class(k).summary() for k in range(rows.n_classes)]
    return float(np.mean([binned_error(make_bins(column, n_bins, strategy), norm) for column in columns]))


def marginal_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "quantile",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the root mean squared calibration error over classes and bins, freed of what noise adds to it.

    Of one column the two classes are the positive one and the rest. Parameters are those of `ece`; bins have
    near-equal weight by default.

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
    sqrt(max(0, mean_k s_k)), with s_k the debiased mean squared gap of the column of class k, as in `ece_debiased`,
    and every class of the same importance 1 / K. The classes' squares are averaged as they are, also those that
    noise has made negative: cutting each at zero first, as the authors' program does, brings bias back, the more the
    more classes there are.

    References
    ----------
    Kumar, Liang and Ma (2019), *Verified uncertainty calibration*, NeurIPS, definitions 2.3 and 4.2.

    Examples
    --------
    >>> from calibrant.metrics import marginal_calibration_error
    >>> P = [[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]] * 50
    >>> round(marginal_calibration_error([0, 1, 2] * 50, P), 4)
    0.216
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    _check_bins(n_bins, strategy)
    columns = [rows.of_class(k).summary() for k in range(rows.n_classes)]
    square = float(np.mean([debiased_square(make_bins(column, n_bins, strategy)) for column in columns]))
    return float(np.sqrt(max(square, 0.0)))


def max_calibration_error(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the largest gap between predicted and observed rate over bins: `ece` with ``norm="max"``.

    Parameters are those of `ece`.

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
    The largest gap is mostly that of the bin with the fewest rows: ``strategy="quantile"`` tames it.

    Examples
    --------
    >>> from calibrant.metrics import max_calibration_error
    >>> max_calibration_error([0, 1, 1, 1], [0.25, 0.25, 1.0, 1.0], n_bins=2)
    0.25
    """
    return ece(
        y_true,
        y_prob,
        n_bins=n_bins,
        strategy=strategy,
        norm="max",
        sample_weight=sample_weight,
        pos_label=pos_label,
        classes=classes,
    )


def ece_debiased(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    n_bins: int = 15,
    strategy: Strategy = "quantile",
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the root mean squared calibration error over bins, freed of what noise adds to it.

    Parameters are those of `ece`; bins have near-equal weight by default.

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
    sqrt(max(0, sum_b w_b (gap_b^2 - r_b (1 - r_b) / (n_b - 1)))), where w_b is the bin's share of weight, r_b its
    rate and n_b its number of rows. The sum estimates the squared calibration error of the binned probabilities
    without bias; the root and the cut at zero bring some back. An absolute gap has no such correction, hence the
    squares: the result is at least the mean absolute gap that `ece` aims at. A bin with a single row can't tell
    gap from noise and adds nothing.

    With weights n_b is Kish's effective number of rows: noise depends on how many rows there are, so here, unlike
    in the other metrics, a row of weight two is less than two rows.

    References
    ----------
    Kumar, Liang and Ma (2019), *Verified uncertainty calibration*, NeurIPS, definition 4.2.

    Examples
    --------
    >>> from calibrant.metrics import ece_debiased
    >>> ece_debiased([0, 1] * 50, [0.1, 0.9] * 50)
    0.1
    >>> ece_debiased([0, 1] * 50, [0.49, 0.49] * 50)
    0.0
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return float(np.sqrt(max(debiased_square(_bins(rows, n_bins, strategy)), 0.0)))


def calibration_in_the_large(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the mean probability minus the rate of positives: above zero where predictions are too high.

    Of K columns: the mean confidence in the most probable class minus the accuracy.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each of the sorted classes.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.

    Returns
    -------
    float
        In [-1, 1]; 0 says only that the predictions are right on average.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Examples
    --------
    >>> from calibrant.metrics import calibration_in_the_large
    >>> calibration_in_the_large([0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5])
    0.25
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    groups = rows.one_column().tied()
    return float(np.sum(groups.weight * groups.scores - groups.positives) / groups.weight.sum())


def binned_error(bins: Bins, norm: Norm) -> float:
    """Return a mean of the bins' gaps."""
    gap = np.abs(bins.gap)
    match norm:
        case "l1":
            return min(float(np.sum(bins.share * gap)), 1.0)
        case "l2":
            return min(float(np.sqrt(np.sum(bins.share * gap**2))), 1.0)
        case "max":
            return float(gap.max())


def debiased_square(bins: Bins) -> float:
    """Return the mean squared gap less what noise adds to it; below zero where noise outweighs the gaps."""
    size = bins.size
    countable = size > 1.0 + 1e-9  # the size of one row may round to just above 1
    noise = np.zeros(size.size)
    np.divide(bins.rate * (1.0 - bins.rate), size - 1.0, out=noise, where=countable)
    return float(np.sum(np.where(countable, bins.share * (bins.gap**2 - noise), 0.0)))


def _bins(rows: Rows, n_bins: int, strategy: Strategy) -> Bins:
    _check_bins(n_bins, strategy)
    return make_bins(rows.one_column().summary(), n_bins, strategy)


def _check_bins(n_bins: int, strategy: Strategy) -> None:
    check_integer("n_bins", n_bins, minimum=1)
    check_choice("strategy", strategy, get_args(Strategy))
