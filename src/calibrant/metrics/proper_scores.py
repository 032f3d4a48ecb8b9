"""Proper scores: what a probability costs once the outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.metrics.estimates import Column, Estimate, Mean, mean_of, mean_value, measured_rows, normal_estimate
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary, TiedScores
from calibrant.validation import ArrayLike, check_fraction

#: What is said of an infinite log loss.
INFINITE = "infinite: something happened that had probability 0"


class Losses(NamedTuple):
    """What each probability of an event costs if the event happens, and if it doesn't."""

    if_positive: FloatArray
    if_negative: FloatArray


LossFunction: TypeAlias = Callable[[FloatArray], Losses]


def brier_losses(p: FloatArray) -> Losses:
    """Return the squared distances of probabilities to 1 and to 0."""
    return Losses((1.0 - p) ** 2, p**2)


def log_losses(p: FloatArray) -> Losses:
    """Return the negative log-probabilities of the event and of its absence; infinite where these have none."""
    with np.errstate(divide="ignore"):
        return Losses(-np.log(p), -np.log1p(-p))


def loss_parts(ties: TiedScores, losses: Losses) -> list[tuple[FloatArray, FloatArray]]:
    """Return the losses of the rows with their weights: first of positive rows, then of negative ones."""
    return [(losses.if_positive, ties.positives), (losses.if_negative, ties.weight - ties.positives)]


def mean_loss(ties: TiedScores, losses: Losses) -> float:
    """Return the weighted mean loss of the rows."""
    return mean_value(loss_parts(ties, losses))


def mean_loss_and_error(summary: ScoreSummary, losses: Losses, at_mean: Losses) -> Mean:
    """Return the mean loss with its error, the spread as if two more rows were seen with the losses `at_mean`."""
    return mean_of(loss_parts(summary.tied(), losses), summary.effective_size, extra=np.concatenate(at_mean))


def brier_estimate(column: Column) -> Estimate:
    """Estimate the Brier score of one column."""
    losses = brier_losses(column.summary.scores)
    found = mean_loss_and_error(column.summary, losses, brier_losses(column.mean_prob))
    return normal_estimate(found, column.level, least=0.0, most=1.0)


def log_loss_estimate(column: Column) -> Estimate:
    """Estimate the log loss of one column."""
    inner = np.clip(column.mean_prob, 1.0 / (column.size + 2.0), 1.0 - 1.0 / (column.size + 2.0))
    found = mean_loss_and_error(column.summary, log_losses(column.summary.scores), log_losses(inner))
    return bounded_log_loss(found, column.level)


def bounded_log_loss(mean: Mean, level: float) -> Estimate:
    """Estimate a mean log loss, which has no interval where it is infinite."""
    if np.isinf(mean.value):
        return Estimate(mean.value, mean.value, mean.value, "none", INFINITE)
    return normal_estimate(mean, level, least=0.0, most=np.inf)


def brier_of(rows: Rows) -> float:
    """Return the Brier score of checked rows: of the positive class, or the sum over the classes of a matrix."""
    if rows.is_binary:
        ties = rows.one_column().tied()
        return mean_loss(ties, brier_losses(ties.scores))
    return float(np.average(row_brier(rows), weights=rows.weight))


def row_brier(rows: Rows) -> FloatArray:
    """Return the sum over classes of squared distances of each row; of one score the squared distance."""
    if rows.is_binary:
        return np.asarray(np.square(rows.scores - rows.positive))
    squares: FloatArray = np.einsum("ik,ik->i", rows.scores, rows.scores)
    return np.maximum(squares + (1.0 - 2.0 * _of_own_class(rows)), 0.0)


def brier_of_each_class(prob: FloatArray) -> FloatArray:
    """Return what the Brier score of one row would be if it were of each class, for the same prediction."""
    return np.asarray(1.0 + float(prob @ prob) - 2.0 * prob)


def row_log_loss(rows: Rows) -> FloatArray:
    """Return the negative log-probability of each row's own class."""
    if rows.is_binary:
        losses = log_losses(rows.scores)
        return np.abs(np.where(rows.positive, losses.if_positive, losses.if_negative))
    with np.errstate(divide="ignore"):
        return np.abs(np.log(_of_own_class(rows)))  # -log(1) would be a negative zero


def loss_less(loss: FloatArray, other: FloatArray) -> FloatArray:
    """Return the differences of losses of rows, of which two infinite ones are equal."""
    with np.errstate(invalid="ignore"):
        return np.where(loss == other, 0.0, loss - other)


def _of_own_class(rows: Rows) -> FloatArray:
    return np.take_along_axis(rows.scores, rows.codes.astype(np.intp)[:, None], axis=1)[:, 0]


def brier_score(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the Brier score: the mean squared distance between probability and outcome.

    Parameters are as in `evaluate`.

    Returns
    -------
    float
        In [0, 1] for one column; in [0, 2] for K columns, where the squares are summed over the classes.

    Notes
    -----
    Two columns give twice the score of the second column alone. The mean over rows estimates the expected score
    without bias.

    References
    ----------
    Brier (1950), *Verification of forecasts expressed in terms of probability*, Monthly Weather Review 78.

    Examples
    --------
    >>> from calibrant.metrics import brier_score
    >>> brier_score([0, 1, 1], [0.5, 0.5, 1.0])
    0.16666666666666666
    """
    return brier_of(measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes))


def log_loss(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    clip: float | None = None,
) -> float:
    """Return the log loss: the mean negative natural logarithm of the probability of what happened.

    Parameters
    ----------
    y_true, y_prob, sample_weight, pos_label, classes
        As in `evaluate`.
    clip : float, optional
        Move probabilities into [clip, 1 - clip] first, with 0 < clip < 0.5; rows of a matrix are not divided by
        their sum again.

    Returns
    -------
    float
        At least 0. Infinite where something happened that had probability 0, unless `clip` is given.

    Notes
    -----
    Nothing is clipped unasked: a clip is a choice that the result depends on. scikit-learn clips at the spacing
    of floating-point numbers. The mean over rows estimates the expected loss without bias.

    Examples
    --------
    >>> from calibrant.metrics import log_loss
    >>> log_loss(["no", "yes"], [0.5, 0.5])
    0.6931471805599453
    >>> log_loss([0, 1], [0.5, 0.0])
    inf
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    if clip is not None:
        if check_fraction("clip", clip) >= 0.5:
            raise InvalidInputError(f"clip={clip!r} leaves no room for a probability. Pass a small one such as 1e-9.")
        rows = rows.with_scores(np.clip(rows.scores, clip, 1.0 - clip))
    if rows.is_binary:
        ties = rows.one_column().tied()
        return mean_loss(ties, log_losses(ties.scores))
    return float(np.average(row_log_loss(rows), weights=rows.weight))
