"""Calibration errors, how far predicted probabilities lie from what happened, by bins, with their intervals."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant.metrics.bins import Bins, Strategy, make_bins
from calibrant.metrics.estimates import CLEAR, Column, Estimate, measured_rows, normal_estimate, wilson
from calibrant.metrics.proper_scores import Losses, mean_loss_and_error
from calibrant.numerics import dot, normal_quantile
from calibrant.phrases import count, rate
from calibrant.rows import Rows
from calibrant.validation import ArrayLike, check_choice, check_integer

Norm: TypeAlias = Literal["l1", "l2", "max"]
#: Draws of the noise in the bins' rates.
_DRAWS = 4000
#: Errors that differ by a smaller share are equal.
_ROUNDING = 1e-12


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
    y_true, y_prob, sample_weight, pos_label, classes
        As in `evaluate`; of several classes the top label is judged, as in `top_label_ece`.
    n_bins : int
        Number of bins asked for; empty ones are passed over, and ties can leave fewer.
    strategy : {"uniform", "quantile"}
        Bins of equal width over [0, 1], or of near-equal weight. An inner edge belongs to the bin below it, as in
        scikit-learn's `calibration_curve`; 0 and 1 lie in the outer bins. Equal scores are never split.
    norm : {"l1", "l2", "max"}
        Weighted mean of the absolute gaps, root of the weighted mean of their squares, or the largest.

    Returns
    -------
    float
        In [0, 1].

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
    return binned_error(_bins(rows.one_column(), n_bins, strategy), norm)


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
    the confidence is the larger one of p and 1 - p. Parameters and range are those of `ece`.

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
    return binned_error(_bins(rows.top_label(), n_bins, strategy), norm)


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

    Of one column the two classes are the positive one and the rest. Parameters and range are those of `ece`.

    Notes
    -----
    Each class counts the same in the mean. With many classes most columns are near zero, and so is their error.
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
    return float(np.mean([binned_error(bins, norm) for bins in _class_bins(rows, n_bins, strategy)]))


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

    Of one column the two classes are the positive one and the rest. Parameters and range are those of `ece`; bins have
    near-equal weight by default.

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
    square = float(np.mean([debiased_square(bins) for bins in _class_bins(rows, n_bins, strategy)]))
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

    Parameters and range are those of `ece`.

    Notes
    -----
    The largest gap is mostly that of the bin with the fewest rows; with ``strategy="quantile"`` all have as many.

    Examples
    --------
    >>> from calibrant.metrics import max_calibration_error
    >>> max_calibration_error([0, 1, 1, 1], [0.25, 0.25, 1.0, 1.0], n_bins=2)
    0.25
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    return binned_error(_bins(rows.one_column(), n_bins, strategy), "max")


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

    Parameters and range are those of `ece`; bins have near-equal weight by default.

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
    return float(np.sqrt(max(debiased_square(_bins(rows.one_column(), n_bins, strategy)), 0.0)))


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

    Parameters are as in `evaluate`.

    Returns
    -------
    float
        In [-1, 1]; 0 says only that the predictions are right on average.

    Examples
    --------
    >>> from calibrant.metrics import calibration_in_the_large
    >>> calibration_in_the_large([0, 0, 0, 1], [0.5, 0.5, 0.5, 0.5])
    0.25
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    ties = rows.one_column().tied()
    return float(np.sum(ties.weight * ties.scores - ties.positives) / ties.weight.sum())


def binned_error(bins: Bins, norm: Norm) -> float:
    """Return a mean of the bins' gaps."""
    gap = np.abs(bins.gap)
    match norm:
        case "l1":
            return min(dot(bins.share, gap), 1.0)
        case "l2":
            return min(math.sqrt(dot(bins.share, gap**2)), 1.0)
        case "max":
            return float(gap.max())


def debiased_square(bins: Bins) -> float:
    """Return the mean squared gap less what noise adds to it; below zero where noise outweighs the gaps."""
    size = bins.size
    countable = size > 1.0 + 1e-9  # the size of one row may round to just above 1
    noise = np.zeros(size.size)
    np.divide(bins.rate * (1.0 - bins.rate), size - 1.0, out=noise, where=countable)
    return dot(bins.share, np.where(countable, bins.gap**2 - noise, 0.0))


def mean_gap_estimate(column: Column) -> Estimate:
    """Estimate the mean probability less the rate of one column."""
    summary = column.summary
    mean_prob = float(column.uniform.score_sum.sum()) / summary.total_weight
    gaps = Losses(summary.scores - 1.0, summary.scores)
    at_mean = Losses(np.array([mean_prob - 1.0]), np.array([mean_prob]))
    return normal_estimate(mean_loss_and_error(summary, gaps, at_mean), column.level, least=-1.0, most=1.0)


def worst_bin_estimate(column: Column) -> Estimate:
    """Estimate the gap of the bin that adds most to the calibration error, with Wilson's interval of its rate."""
    bins = column.uniform
    b, where = worst_bin(column)
    low, high = (float(end[b]) for end in wilson(bins.rate, bins.size, column.level))
    predicted = float(bins.mean_score[b])
    return Estimate(float(bins.gap[b]), predicted - high, predicted - low, "Wilson", where=where)


def worst_bin(column: Column) -> tuple[int, str]:
    """Return the number of the equal-width bin that adds most to the calibration error, and say where it lies."""
    bins = column.uniform
    share = bins.share
    adds = share * np.abs(bins.gap)
    b = int(np.argmax(adds >= adds.max() * (1.0 - _ROUNDING)))  # the first of equals, whatever the scale of weights
    edges, predicted, observed = bins.edges[b], float(bins.mean_score[b]), float(bins.rate[b])
    amount = count(round(bins.weight[b]), "row") if column.is_counted else f"{share[b]:.0%} of the weight"
    seen = f"predicted {rate(predicted)}, {'right' if column.is_top else 'happened'} {rate(observed)} ({amount})"
    return b, f"between {rate(edges[0])} and {rate(edges[1])}: {seen}"


def ece_estimate(bins: list[Bins], size: float, level: float, rng: np.random.Generator) -> Estimate:
    """Estimate the mean absolute gap of the bins of a column, or its mean over classes, by the triangle inequality.

    Noise in the rates moves the sum of absolute gaps down by at most its signed sum, and up by at most its absolute
    sum, which is what happens where the true gaps are zero. Hence the upper end is the estimate plus the normal
    quantile of the one, and the lower end the estimate minus the simulated quantile of the other; a gap of more
    than four times its noise counts as signed. Both include the chance of which bins the rows fell into.

    Over classes the ends are averaged: right if the classes' noise is one and the same, as that of two classes is,
    and too wide if it isn't.
    """
    ends = np.mean([_ece_ends(each, size, level, rng) for each in bins], axis=0)
    value, low, high = ends.tolist()
    return Estimate(value, max(low, 0.0), min(high, 1.0), "bin noise bounds")


def _ece_ends(bins: Bins, size: float, level: float, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return the mean absolute gap and the ends of its interval, which may lie outside [0, 1]."""
    value = binned_error(bins, "l1")
    share, gap = bins.share, np.abs(bins.gap)
    noise = np.sqrt(bins.rate_variance)
    between = max(float(np.sum(share * gap**2)) - value**2, 0.0) / size
    signed = math.sqrt(float(np.sum((share * noise) ** 2)) + between)
    draws = rng.standard_normal((_DRAWS, noise.size))
    excess = np.where(gap > CLEAR * noise, draws, np.abs(draws)) @ (share * noise)
    excess += math.sqrt(between) * rng.standard_normal(_DRAWS)
    return value, value - float(np.quantile(excess, 0.5 + 0.5 * level)), value + normal_quantile(level) * signed


def ece_debiased_estimate(bins: list[Bins], size: float, level: float) -> Estimate:
    """Estimate the root of the debiased mean squared gap of bins: of one column, or the mean over those of classes.

    The ends are roots of the mean squared gaps that lie just z standard errors from the estimate, the variance being
    that which each of them would have: 2 sum w^2 v^2 from noise alone, where v is a bin's rate variance, and
    4 sum w^2 v gap^2 in proportion to the mean squared gap, with the gaps in the proportions that were seen. So the
    lower end is above zero just where perfect calibration is rejected, on the null's own variance. Where gaps are
    smaller than noise alone makes them, the upper end is that of an estimate of zero: luck rules out no error.

    Over classes squares are averaged, and so are standard errors: right if the classes' noise is one and the same,
    as that of two classes is, and too wide if it isn't.
    """
    parts = np.array([_square_parts(each, size) for each in bins])
    square, seen = parts[:, :2].mean(axis=0).tolist()
    alone, by_gap = np.square(np.sqrt(parts[:, 2:]).mean(axis=0)).tolist()
    by_gap = by_gap / seen if seen > 0.0 else 0.0
    z2 = normal_quantile(level) ** 2

    def end(square: float, sign: float) -> float:
        centre = square + 0.5 * z2 * by_gap
        half = math.sqrt(max(centre**2 - square**2 + z2 * alone, 0.0))
        return root_of_square(centre + sign * half)

    value, low, high = root_of_square(square), end(square, -1.0), end(max(square, 0.0), 1.0)
    return Estimate(value, min(low, value), high, "score (squared gaps)")


def root_of_square(square: float) -> float:
    """Return the root of a mean squared gap, which an estimate without bias may have put below zero or above one."""
    return math.sqrt(min(max(square, 0.0), 1.0))


def _square_parts(bins: Bins, size: float) -> tuple[float, float, float, float]:
    """Return the debiased and the plain mean squared gap, and the variance without gaps and in proportion to them."""
    square = debiased_square(bins)
    share, seen, variance = bins.share, bins.gap**2, bins.rate_variance
    by_noise = 2.0 * float(np.sum((share * variance) ** 2))
    by_gap = 4.0 * float(np.sum(share**2 * variance * seen))
    by_place = max(float(np.sum(share * np.maximum(seen - variance, 0.0) ** 2)) - square**2, 0.0) / size
    return square, float(np.sum(share * seen)), by_noise + by_place, by_gap


def _bins(rows: Rows, n_bins: int, strategy: Strategy) -> Bins:
    check_integer("n_bins", n_bins, minimum=1)
    check_choice("strategy", strategy, get_args(Strategy))
    return make_bins(rows.summary(), n_bins, strategy)


def _class_bins(rows: Rows, n_bins: int, strategy: Strategy) -> list[Bins]:
    return [_bins(rows.of_class(k), n_bins, strategy) for k in range(rows.n_classes)]
