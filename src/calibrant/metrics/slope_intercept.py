"""Calibration slope and intercept: the logistic regression of the outcomes on the logit of the prediction."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibrant.errors import ConvergenceWarning
from calibrant.logistic import fit_slope_intercept, separates
from calibrant.metrics.estimates import Column, Estimate, measured_rows
from calibrant.metrics.gap_bounds import fine_sums
from calibrant.numerics import (
    EPS,
    FloatArray,
    clip_as_given,
    clip_open,
    dot,
    expit,
    logit,
    normal_quantile,
    root_between,
    softplus,
)
from calibrant.readable import Readable
from calibrant.rows import Rows
from calibrant.summary import TiedScores
from calibrant.validation import ArrayLike

_MAX_ITER = 100
#: Fewer rows of the rarer class than this, expected and seen, are too few for a line.
_FEW_EVENTS = 3.0
#: Ends of a profile are looked for up to here; a step may move logits so far, and is the last one below.
_FURTHEST = 1e3
#: The first step of the search for an end, at most.
_FIRST_STEP = 8.0
_LONGEST_STEP = 4.0
_SETTLED = 1e-8
#: How close to the end of an interval one comes, in standard errors.
_CLOSE = 1e-10
#: Share of the largest possible curvature that keeps a Newton step finite where all rates are 0 or 1.
_LEAST_BEND = 1e-14
#: What is said of a line that the likelihood hardly tells from ever steeper ones.
_ENDLESS = "no interval: the data give it no end"
#: Variance of the logits over their mean square, up to which rounding decides what a line would be.
_NEARLY_CONSTANT = 1024.0 * EPS


class _Line(NamedTuple):
    slope: float
    intercept: float


class SlopeIntercept(Readable, _Line):
    """The line that the true logit follows, as far as a line can: slope * logit(p) + intercept.

    Attributes
    ----------
    slope : float
        1 where predictions are neither too extreme (below 1) nor too timid (above 1).
    intercept : float
        The true logit where the predicted probability is 1/2; 0 where that is right.
    """

    __slots__ = ()


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
        distinct probability, probabilities that differ by little more than rounding, or that separate the classes.

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
    line, _, reason = _fit(ties)
    if reason:
        _warn("calibration_slope_intercept", reason)
    return line


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
    """Estimate slope and intercept of one column, with intervals by the profile of the likelihood.

    An interval holds the values at which twice the loss of the log-likelihood, at the best value of the other, is at
    most the quantile of chi-squared times a factor. It covers with a few events too, where normal intervals are too
    short. The factor is the variance by the sandwich H^-1 B H^-1, with H the Hessian of the loss and B the spread of
    its gradient over rows, over that of H^-1, so that the line isn't taken to be true; at least what weights and
    dependence ask for.

    Venzon and Moolgavkar (1988), *A method for computing profile-likelihood-based confidence intervals*, Applied
    Statistics 37. Kent (1982), *Robust properties of likelihood ratio tests*, Biometrika 69, for the factor.
    """
    summary, ties = column.summary, _on_logits(column.summary.tied())
    line, curvature, reason = _fit(ties)
    if reason:
        return dict.fromkeys(("slope", "intercept"), Estimate.of_value(math.nan, f"undefined: {reason}"))
    z = ties.scores
    q = expit(line.slope * z + line.intercept)
    spread = summary.weight_squared / summary.weight
    least = float(summary.weight_squared.sum()) / summary.total_weight
    spread = spread * (ties.positives * (1.0 - q) ** 2 + (ties.weight - ties.positives) * q**2)
    bread = np.linalg.inv(_moments(z, curvature))
    variance = np.diag(bread @ _moments(z, spread) @ bread)
    factor = np.maximum(variance / np.diag(bread), least) * column.size / max(column.size - 2.0, 1.0)
    p, weight, _, positives = fine_sums(summary)
    total = summary.total_weight
    few = _few_events(column, dot(weight, p))
    cells = _on_logits(TiedScores(p, weight, positives))
    cells = TiedScores(cells.scores, weight / total, positives / total)  # whose sums are in range
    reach = normal_quantile(column.level) * np.sqrt(factor) / math.sqrt(total)
    ends = _profile_ends(cells, line, reach, np.sqrt(np.diag(bread)) * math.sqrt(total))
    if not np.isfinite(ends).all():
        return {name: Estimate.of_value(value, _ENDLESS) for name, value in line._asdict().items()}
    return {
        name: Estimate(value, min(low, value), max(high, value), "profile likelihood", few)
        for name, value, (low, high) in zip(("slope", "intercept"), line, ends, strict=True)
    }


def slope_intercept_values(column: Column) -> dict[str, Estimate]:
    """Return slope and intercept of one column without intervals."""
    summary, ties = column.summary, _on_logits(column.summary.tied())
    line, _, reason = _fit(ties)
    if reason:
        return dict.fromkeys(("slope", "intercept"), Estimate.of_value(math.nan, f"undefined: {reason}"))
    few = _few_events(column, dot(summary.weight, summary.scores))
    return {"slope": Estimate.of_value(line.slope, few), "intercept": Estimate.of_value(line.intercept, few)}


def _few_events(column: Column, expected: float) -> str:
    """Say how many rows of the rarer class there are, or are expected by the sum of the probabilities, if very few."""
    total = column.summary.total_weight
    rarest = column.size / total * max(min(f, total - f) for f in (column.summary.total_positives, expected))
    return f"too few events: {rarest:.1f} rows of the rarer class are expected, or seen" if rarest < _FEW_EVENTS else ""


@dataclass(frozen=True, slots=True)
class LineInfluence:
    """What gives each row's influence on slope and intercept, but for a factor: the line, its bread, and the clip."""

    line: SlopeIntercept
    bread: FloatArray
    clip: float

    @classmethod
    def of(cls, ties: TiedScores) -> LineInfluence | None:
        """Return the influence on the line of ties of probabilities; None where they have none."""
        clip, on_line = clip_as_given(ties.scores, float(ties.weight.sum())), _on_logits(ties)
        line, curvature, reason = _fit(on_line)
        if reason:
            return None
        bread = np.linalg.inv(_moments(on_line.scores, curvature))
        return cls(line, np.asarray(bread, dtype=np.float64), clip)

    def apply(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Return what each row adds to slope and intercept."""
        z = logit(clip_open(rows.scores, self.clip))
        residual = rows.positive - expit(self.line.slope * z + self.line.intercept)
        slope, intercept = ((own[0] * z + own[1]) * residual for own in self.bread)
        return slope, intercept


def _profile_ends(
    ties: TiedScores, line: SlopeIntercept, reach: FloatArray, error: FloatArray
) -> list[tuple[float, float]]:
    """Return the ends between which slope, and intercept, lose less than `reach` squared by twice the likelihood.

    An end that the data don't give is infinite.
    """
    columns = np.stack((ties.scores, np.ones(ties.scores.size)))
    best = _polished(ties, columns, np.array(line))
    most = _likelihood(ties, columns, best)
    found: list[tuple[float, float]] = []
    for j, at in enumerate(line):
        theta, known = best.copy(), {at: -float(reach[j])}

        def excess(value: float, j: int = j, theta: FloatArray = theta, known: dict[float, float] = known) -> float:
            """Return how far beyond the end a value is: as a root, which is nearly linear in it."""
            if value not in known:
                theta[j] = value
                theta[1 - j] = _best_other(ties, columns, theta, j)
                lost = 2.0 * max(most - _likelihood(ties, columns, theta), 0.0)
                known[value] = math.sqrt(lost) - float(reach[j])
            return known[value]

        ends = []
        for side in (-1.0, 1.0):
            near, step = at, side * min(float(reach[j] * error[j]), _FIRST_STEP)
            while excess(near + step) < 0.0 and abs(step) < _FURTHEST:
                near, step = near + step, 2.0 * step
            is_found = abs(step) < _FURTHEST
            close = _CLOSE * float(error[j])
            ends.append(root_between(excess, near, near + step, tol=close) if is_found else side * math.inf)
        found.append((ends[0], ends[1]))
    return found


def _likelihood(ties: TiedScores, columns: FloatArray, theta: FloatArray) -> float:
    x = theta @ columns
    return dot(ties.positives, x) - dot(ties.weight, softplus(x))


def _polished(ties: TiedScores, columns: FloatArray, theta: FloatArray) -> FloatArray:
    """Go on from the best line for all scores to that for cells of them, which is near, by Newton's method."""
    value, least = _likelihood(ties, columns, theta), np.diag(_LEAST_BEND * (columns**2 @ ties.weight))
    for _ in range(_MAX_ITER):
        q = expit(theta @ columns)
        slope = columns @ (ties.positives - ties.weight * q)
        tried = theta + np.linalg.solve(_moments(ties.scores, ties.weight * q * (1.0 - q)) + least, slope)
        reached = _likelihood(ties, columns, tried)
        if not reached > value:
            break
        theta, value = tried, reached
    return theta


def _best_other(ties: TiedScores, columns: FloatArray, theta: FloatArray, fixed: int) -> float:
    """Maximise the likelihood over slope or intercept, the other fixed: by Newton's method, between known bounds."""
    column, held, value = columns[1 - fixed], theta[fixed] * columns[fixed], float(theta[1 - fixed])
    longest, squares = max(float(np.abs(column).max()), 1.0), column**2 * ties.weight
    low, high, least = -math.inf, math.inf, _LEAST_BEND * float(squares.sum())
    reach = _LONGEST_STEP / longest
    for _ in range(_MAX_ITER):
        q = expit(held + value * column)
        slope = dot(column, ties.positives - ties.weight * q)
        low, high = (value, high) if slope > 0.0 else (low, value)
        step = slope / (dot(squares, q * (1.0 - q)) + least)
        tried = value + min(max(step, -reach), reach)
        reach = 2.0 * reach if abs(step) > reach else reach  # where it is flat, the root may be far
        following = tried if low <= tried <= high else 0.5 * (low + high)
        if abs(following - value) * longest < _SETTLED:
            return following
        value = following
    return value


def _on_logits(ties: TiedScores) -> TiedScores:
    clip = clip_as_given(ties.scores, float(ties.weight.sum()))
    return TiedScores(logit(clip_open(ties.scores, clip)), ties.weight, ties.positives)


def _fit(ties: TiedScores) -> tuple[SlopeIntercept, FloatArray, str]:
    """Return the line, the curvature of the loss at each score, and why there is no line: empty where there is one."""
    reason = _why_no_line(ties)
    if not reason:
        slope, intercept = fit_slope_intercept(ties, (0.0, 1.0), what="calibration slope", start=(1.0, 0.0))
        q = expit(slope * ties.scores + intercept)
        curvature = ties.weight * q * (1.0 - q)
        if not _is_nearly_constant(ties.scores, curvature):
            return SlopeIntercept(float(slope), float(intercept)), curvature, ""
        reason = "the probabilities that would decide the slope are nearly the same"
    return SlopeIntercept(math.nan, math.nan), np.empty(0), reason


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
    if separates(ties, either_way=True):
        return "the probabilities separate the classes, so the slope has no bound"
    if _is_nearly_constant(ties.scores, ties.weight):
        return "all probabilities are nearly the same"
    return ""


def _is_nearly_constant(z: FloatArray, weight: FloatArray) -> bool:
    """Say whether logits vary so little that their moments are those of a constant, but for rounding."""
    total = float(weight.sum())
    if not total > 0.0:
        return True
    centred = z - dot(weight, z) / total
    return dot(weight * centred, centred) <= _NEARLY_CONSTANT * dot(weight * z, z)


def _is_one_class(ties: TiedScores) -> bool:
    return not ties.positives.any() or bool((ties.positives == ties.weight).all())


def _moments(z: FloatArray, weight: FloatArray) -> FloatArray:
    first = dot(weight, z)
    return np.array([[dot(weight * z, z), first], [first, float(weight.sum())]])


def _warn(name: str, reason: str) -> None:
    warnings.warn(f"{name} is undefined, hence nan: {reason}.", ConvergenceWarning, stacklevel=3)
