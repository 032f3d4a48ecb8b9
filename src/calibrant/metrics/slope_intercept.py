"""Calibration slope and intercept: the logistic regression of the outcomes on the logit of the prediction."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np

from calibrant.errors import ConvergenceWarning
from calibrant.logistic import fit_slope_intercept, separates
from calibrant.metrics.estimates import FEW, Column, Estimate, measured_rows
from calibrant.numerics import FloatArray, clip_as_given, clip_open, dot, expit, logit, normal_quantile
from calibrant.summary import TiedScores
from calibrant.validation import ArrayLike

_MAX_ITER = 100


class SlopeIntercept(NamedTuple):
    """The line that the true logit follows, as far as a line can: slope * logit(p) + intercept.

    Attributes
    ----------
    slope : float
        1 where predictions are neither too extreme (below 1) nor too timid (above 1).
    intercept : float
        The true logit where the predicted probability is 1/2; 0 where that is right.
    """

    slope: float
    intercept: float


def calibration_slope_intercept(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> SlopeIntercept:
    """Return slope and intercept of the logistic regression of the outcomes on the logit of the probability.

    Parameters are as in `evaluate`; of several classes the top label is judged.

    Returns
    -------
    SlopeIntercept
        A pair. NaN, with a ConvergenceWarning that says why, where the data have no finite best line: one class, one
        distinct probability, or probabilities that separate the classes.

    Notes
    -----
    The estimate is the maximum-likelihood one, without penalty. It estimates the best line, whether or not the truth
    is one: (1, 0) doesn't prove calibration, as errors that bend cancel in it. With few rows of either class the
    slope is biased away from 0. Probabilities of 0 and 1 have no logit and are moved inward by
    `calibrant.numerics.clip_as_given`; the result depends on that where there are many of them.

    The intercept belongs to the fitted slope. For the intercept of a line of slope 1, see `calibration_intercept`.

    References
    ----------
    Cox (1958), *Two further applications of a model for binary regression*, Biometrika 45. Van Calster et al. (2019),
    *Calibration: the Achilles heel of predictive analytics*, BMC Medicine 17.

    Examples
    --------
    >>> from calibrant.metrics import calibration_slope_intercept
    >>> p = [0.1] * 5 + [0.9] * 5
    >>> line = calibration_slope_intercept([0, 0, 0, 0, 1, 1, 1, 1, 1, 0], p)
    >>> round(line.slope, 4), abs(round(line.intercept, 4))
    (0.6309, 0.0)
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    ties = _on_logits(rows.one_column().tied())
    reason = _why_no_line(ties)
    if reason:
        _warn("calibration_slope_intercept", reason)
        return SlopeIntercept(math.nan, math.nan)
    return _fit(ties)


def calibration_intercept(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the intercept in the large: what to add to every logit so that the mean probability is the base rate.

    Parameters are those of `calibration_slope_intercept`.

    Returns
    -------
    float
        Above zero where predictions are too low. NaN, with a ConvergenceWarning, where all rows are of one class.

    Notes
    -----
    The maximum-likelihood intercept of a logistic regression with the logit as offset (slope fixed at 1). Its bias is
    of order 1/n. `calibration_in_the_large` says the same on the scale of probabilities, with the opposite sign.

    References
    ----------
    Cox (1958), as for `calibration_slope_intercept`. Steyerberg (2019), *Clinical prediction models*, section 15.3.

    Examples
    --------
    >>> from calibrant.metrics import calibration_intercept
    >>> round(calibration_intercept([0, 1, 1, 1], [0.5, 0.5, 0.5, 0.5]), 4)
    1.0986
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    ties = _on_logits(rows.one_column().tied())
    if _is_one_class(ties):
        _warn("calibration_intercept", "all rows are of one class")
        return math.nan
    return _fit_intercept(ties)


def slope_intercept_estimates(column: Column) -> dict[str, Estimate]:
    """Estimate slope and intercept of one column, with normal intervals that don't take the line to be true.

    The covariance is the sandwich H^-1 B H^-1, with H the Hessian of the loss and B the spread of its gradient over
    rows; weights enter B by the sum of their squares. A factor n / (n - 2) makes up for the two fitted parameters.
    """
    summary, ties = column.summary, _on_logits(column.summary.tied())
    reason = _why_no_line(ties)
    if reason:
        undefined = Estimate(math.nan, math.nan, math.nan, "none", f"undefined: {reason}")
        return {"slope": undefined, "intercept": undefined}
    line, z = _fit(ties), ties.scores
    q = expit(line.slope * z + line.intercept)
    spread = summary.weight_squared / summary.weight
    spread = spread * (ties.positives * (1.0 - q) ** 2 + (ties.weight - ties.positives) * q**2)
    bread = np.linalg.inv(_moments(z, ties.weight * q * (1.0 - q)))
    covariance = bread @ _moments(z, spread) @ bread
    covariance *= column.size / max(column.size - 2.0, 1.0)
    half = normal_quantile(column.level) * np.sqrt(np.diag(covariance))
    rarest = column.size * min(summary.base_rate, 1.0 - summary.base_rate)
    note = f"the interval is too short with fewer than {FEW:.0f} rows of a class" if rarest < FEW else ""
    return {
        name: Estimate(value, value - reach, value + reach, "normal (sandwich)", note)
        for name, value, reach in zip(("slope", "intercept"), line, half, strict=True)
    }


def _on_logits(ties: TiedScores) -> TiedScores:
    clip = clip_as_given(ties.scores, float(ties.weight.sum()))
    return TiedScores(logit(clip_open(ties.scores, clip)), ties.weight, ties.positives)


def _fit(ties: TiedScores) -> SlopeIntercept:
    slope, intercept = fit_slope_intercept(ties, ties.positives, what="calibration slope")
    return SlopeIntercept(float(slope), float(intercept))


def _fit_intercept(ties: TiedScores) -> float:
    """Solve for the intercept by Newton's method, kept between the values that it can take."""
    total, positives = float(ties.weight.sum()), float(ties.positives.sum())
    odds = math.log(positives) - math.log(total - positives)
    low, high = odds - float(ties.scores.max()), odds - float(ties.scores.min())
    intercept = min(max(0.0, low), high)
    for _ in range(_MAX_ITER):
        q = expit(ties.scores + intercept)
        excess = dot(ties.weight, q) - positives
        low, high = (low, intercept) if excess > 0.0 else (intercept, high)
        slope = dot(ties.weight, q * (1.0 - q))
        tried = intercept - excess / slope if slope > 0.0 else math.inf
        following = tried if low < tried < high else 0.5 * (low + high)
        if abs(following - intercept) <= 1e-12 * max(1.0, abs(following)):
            break
        intercept = following
    return following


def _why_no_line(ties: TiedScores) -> str:
    """Say why no finite line is the best one; an empty string where there is one."""
    if _is_one_class(ties):
        return "all rows are of one class"
    if float(ties.scores.min()) == float(ties.scores.max()):
        return "all probabilities are the same"
    if separates(ties) or separates(TiedScores(-ties.scores, ties.weight, ties.positives)):
        return "the probabilities separate the classes, so the slope has no bound"
    return ""


def _is_one_class(ties: TiedScores) -> bool:
    return not ties.positives.any() or bool((ties.positives == ties.weight).all())


def _moments(z: FloatArray, weight: FloatArray) -> FloatArray:
    first = dot(weight, z)
    return np.array([[dot(weight * z, z), first], [first, float(weight.sum())]])


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name} is undefined, hence nan: {reason}.", ConvergenceWarning, stacklevel=3)
