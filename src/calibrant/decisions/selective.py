"""Selective prediction: the risk of the rows that are decided, over the share of rows that are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant import kernels
from calibrant.decisions.losses import numbers_of_rows
from calibrant.decisions.outcomes import of_taken, read_decided
from calibrant.decisions.policy import Policy
from calibrant.decisions.problem import Problem
from calibrant.dependent_rows import units_of
from calibrant.errors import InvalidTypeError
from calibrant.metrics import error_over_units, mean_over_units, wilson
from calibrant.numerics import FloatArray, IntArray, kish_size
from calibrant.results import Plain, Score
from calibrant.rows import Rows, read_rows
from calibrant.validation import ArrayLike, as_probabilities, check_fraction

#: Points of a curve at most: of more rows, shares of them at even steps.
_MOST_POINTS = 200


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RiskCoverageCurve(Plain):
    """The mean loss of the most confident rows, over their share.

    Attributes
    ----------
    coverage : ndarray of shape (m,)
        Share of the rows that are decided, the most confident ones.
    risk, low, high : ndarray of shape (m,)
        Mean loss of these rows, with the pointwise interval.
    aurc : Score
        Area under the curve: the mean of the risk over all shares; less is better.
    best : float
        The area if confidence ranked the rows by their losses: no order has a smaller one.
    loss : str
        What is lost.
    level, n, label
        As in `DecisionCurve`.
    """

    coverage: FloatArray
    risk: FloatArray
    low: FloatArray
    high: FloatArray
    aurc: Score
    best: float
    loss: str
    level: float
    n: int
    label: str = ""

    @property
    def excess(self) -> float:
        """How far the area is above that of the best order of the rows (E-AURC)."""
        return self.aurc.value - self.best


def risk_coverage_curve(
    y: ArrayLike,
    probabilities: ArrayLike,
    *,
    loss: Any = "error",
    confidence: ArrayLike | None = None,
    costs: Any = None,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    classes: ArrayLike | None = None,
    level: float = 0.95,
    label: str = "",
) -> RiskCoverageCurve:
    """Measure the risk of deciding only the most confident rows, over how many these are.

    Parameters
    ----------
    y, probabilities
        As in `calibrant.metrics.evaluate`.
    loss : "error", Problem, Policy, mapping or array-like of shape (n,)
        What is lost in a row: 1 where the most probable class is not the label; what the action of a policy loses; or
        losses that are given.
    confidence : array-like of shape (n,), optional
        By which rows are decided first. By default the largest probability, or for a policy the least expected loss.
    costs
        As in `Policy.decide`.
    sample_weight, cluster, time, label_end, classes, level
        As in `calibrant.metrics.evaluate`.
    label : str
        What the model is called, for a legend.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The area is the mean over k of the mean loss of the k most confident rows, each counting by its weight. Rows of
    equal confidence, but for rounding, count as in the mean over their orders, with their mean weight, so that no order
    of the rows matters. Intervals of error rates hold those of Wilson, as few errors say little of the most confident
    rows, and probabilities that are too sure less. The interval of the area is Student's t from its influence function:
    with U the share of rows that are as confident at least, the area is the mean of loss times -log U, where tied rows
    are spread evenly over the shares that they fill.

    References
    ----------
    Geifman and El-Yaniv (2017), *Selective classification for deep neural networks*, NeurIPS. Geifman, Uziel and
    El-Yaniv (2019), *Bias-reduced uncertainty estimation for deep neural classifiers*, ICLR, for the excess area.

    Examples
    --------
    >>> from calibrant.decisions import risk_coverage_curve
    >>> curve = risk_coverage_curve([1, 0, 1, 1], [0.9, 0.2, 0.3, 0.6])
    >>> curve.coverage, curve.risk  # of the confidences 0.9, 0.8, 0.7 and 0.6 the third is wrong
    (array([0.25, 0.5 , 0.75, 1.  ]), array([0.        , 0.        , 0.33333333, 0.25      ]))
    >>> round(curve.aurc.value, 4)
    0.1458
    """
    level = check_fraction("level", level)
    known: dict[str, Any] = {"cluster": cluster, "time": time, "label_end": label_end, "sample_weight": sample_weight}
    if isinstance(loss, (Policy, Problem, Mapping)):
        decided = read_decided(y, probabilities, loss, costs=costs, names=("probabilities", "y"), **known)
        rows, losses, sure, what = decided.rows, decided.realised_losses, -decided.promised_losses, "loss"
        variance = of_taken(decided.variance, decided.taken)
    else:
        rows = read_rows(probabilities, y, names=("probabilities", "y"), classes=classes, **known)
        losses, variance, sure = _errors(rows)
        what = "error"
        if isinstance(loss, str):
            if loss != "error":
                raise InvalidTypeError(f"loss={loss!r} is no loss. Pass 'error', a Problem, or the loss of each row.")
        else:
            losses, what = _counted(numbers_of_rows(loss, "loss", _n_rows(probabilities)), sample_weight), "loss"
            variance = np.zeros(losses.size)
    if confidence is not None:
        sure = _counted(numbers_of_rows(confidence, "confidence", _n_rows(probabilities)), sample_weight)
    return curve_of_losses(rows, losses, variance, sure, what, level=level, label=label)


def risk_coverage_of_rows(rows: Rows, *, level: float) -> RiskCoverageCurve:
    """Measure the error rate over coverage of checked rows."""
    return curve_of_losses(rows, *_errors(rows), "error", level=level)


def _errors(rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return whether each row's most probable class is not its label, the variance of that, and the probability."""
    top = rows.top_label()
    return (~top.positive).astype(np.float64), top.scores * (1.0 - top.scores), top.scores


def curve_of_losses(
    rows: Rows,
    losses: FloatArray,
    variance: FloatArray,
    confidence: FloatArray,
    what: str,
    *,
    level: float,
    label: str = "",
) -> RiskCoverageCurve:
    """Measure the curve of checked rows with a loss and a confidence each; `variance` is that of a loss, if known."""
    weight, units = rows.weights, units_of(rows)
    order, first, block = ties = _ties(confidence)
    tie = np.empty_like(block)
    tie[order] = block
    w, own = weight[order], losses[order]
    ends = np.append(first[1:], w.size)
    mean = np.add.reduceat(w * own, first) / np.add.reduceat(w, first)
    total, sums = np.cumsum(w), np.cumsum(w * mean[block])
    area = _area(weight, losses, ties)
    at = ends - 1
    if at.size > _MOST_POINTS:
        at = at[np.unique(np.linspace(0, at.size - 1, _MOST_POINTS).astype(np.int64))]
    low, high = np.array(
        [_interval(rows, losses, variance, tie <= last, level, is_rate=what == "error") for last in block[at].tolist()]
    ).T
    influence, steepness = np.empty(w.size), np.empty(w.size)
    influence[order], steepness[order] = _influence(w, own, mean, first, block)
    least = float(np.average(steepness**2 * variance, weights=weight))
    found = error_over_units(influence, weight, units, least_variance=least)
    low_area, high_area = found.error.ends(area, level)
    if what == "error":  # a rate; NaN stays
        low_area, high_area = np.clip([low_area, high_area], 0.0, 1.0).tolist()
    score = Score("aurc", area, low_area, high_area, level, rows.n_rows, f"{found.method}, influence function")
    least = min(_area(weight, losses, _ties(-losses)), area)
    risk = sums[at] / total[at]
    return RiskCoverageCurve(total[at] / total[-1], risk, low, high, score, least, what, level, rows.n_rows, label)


class _Ties(NamedTuple):
    """The order of sorted rows, the place at which each tie begins, and the number of the tie at each place."""

    order: IntArray
    first: IntArray
    tie: IntArray


def _ties(confidence: FloatArray) -> _Ties:
    """Sort the rows, the most confident first; those that differ by rounding are one tie, as 1 - 0.43 and 0.57 are."""
    distinct, code = np.unique(confidence + 0.0, return_inverse=True)  # of one zero
    starts = np.empty(distinct.size, np.int64)
    starts = starts[: kernels.near_starts(distinct.view(np.uint64), starts)]
    tie = starts.size - np.searchsorted(starts, code, side="right")
    order = np.argsort(tie, kind="stable")
    size = np.bincount(tie)
    return _Ties(order, np.cumsum(size) - size, tie[order])


def _area(weight: FloatArray, losses: FloatArray, ties: _Ties) -> float:
    """Return the mean, over rows in order, of the mean loss of the rows up to each.

    Each row of a tie counts with the tie's mean weight and mean loss, so that their order doesn't matter.
    """
    order, first, tie = ties
    of_tie = np.add.reduceat(weight[order], first)
    mean = np.add.reduceat((weight * losses)[order], first) / of_tie
    w = (of_tie / np.bincount(tie))[tie]
    return float(np.sum(w * np.cumsum(w * mean[tie]) / np.cumsum(w)) / w.sum())


def _influence(
    w: FloatArray, own: FloatArray, mean: FloatArray, first: IntArray, tie: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return what each row adds to the area, up to a constant, and by how much a unit of its loss raises that.

    Rows come from the most confident on.

    The area is E[loss * -log U], where the U of tied rows is anywhere between the shares of rows before and with them.
    A row adds its own loss times the mean of -log U, and moves the U of all less confident rows: less the integral of
    loss / U from its own U on.
    """
    of_tie = np.add.reduceat(w, first)
    end = np.cumsum(of_tie)
    grown = of_tie[1:] / end[:-1]  # by how much of itself the share grows with each tie but the first
    log_grown = np.append(0.0, np.log1p(grown))
    rest = np.append(1.0, 1.0 - log_grown[1:] / grown)  # log of the last U of a tie, less the mean of its log U
    steepness = (rest - np.log(end / end[-1]))[tie]
    after = np.append(np.cumsum((mean * log_grown)[::-1])[::-1][1:], 0.0)
    return own * steepness - (after + mean * rest)[tie], steepness


def _interval(
    rows: Rows, losses: FloatArray, variance: FloatArray, at: Any, level: float, *, is_rate: bool
) -> tuple[float, float]:
    """Return the interval of the mean loss of some rows; of a rate it holds Wilson's.

    Of few errors that of a mean says too little, and what the probabilities say of their variance is little where they
    are too sure. Where one row, or cluster, says nothing of others, it is the range of all losses.
    """
    part = rows.part(at)
    least = float(np.average(variance[at], weights=part.weights))
    mean = mean_over_units(losses[at], part.weights, units_of(part), level, least_variance=least)
    if not is_rate:
        return (mean.low, mean.high) if math.isfinite(mean.low) else (float(losses.min()), float(losses.max()))
    (low,), (high,) = wilson(np.array([mean.value]), np.array([kish_size(part.weights) / mean.effect]), level)
    return max(min(mean.low, low), 0.0), min(max(mean.high, high), 1.0)


def _n_rows(probabilities: ArrayLike) -> int:
    checked = as_probabilities(probabilities, name="probabilities", takes_one_column=True)
    n_rows: int = checked.values.shape[0]
    return n_rows


def _counted(values: FloatArray, sample_weight: ArrayLike | None) -> FloatArray:
    """Return the values of the rows with weight."""
    if sample_weight is None:
        return values
    kept: FloatArray = values[np.asarray(sample_weight, dtype=np.float64) > 0.0]
    return kept
