"""Bounds of the mean prediction less the rate in many groups, valid for any number of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.numerics import BoolArray, FloatArray, IntArray, clip_from_data, clip_open, expit, logit, softplus
from calibrant.summary import ScoreSummary

#: Shift on the logit that takes any prediction to 0 or 1.
_FAR = 80.0
_MOST_STEPS = 80


@dataclass(frozen=True, slots=True)
class GapBounds:
    """Of each group: mean prediction, rate, their gap with its bounds, and the p-value of a gap of zero."""

    predicted: FloatArray
    observed: FloatArray
    low: FloatArray
    high: FloatArray
    p_value: FloatArray

    @property
    def gap(self) -> FloatArray:
        """Mean prediction minus rate: above zero where predictions are too high."""
        return self.predicted - self.observed


def gap_bounds(
    prob: FloatArray,
    positive: BoolArray | FloatArray,
    weight: FloatArray | None,
    codes: IntArray,
    n_groups: int,
    level: float,
    *,
    count: FloatArray | None = None,
) -> GapBounds:
    """Bound the gap in each of the groups 0 to `n_groups` - 1, all of which have rows.

    Parameters
    ----------
    prob : ndarray of shape (n,)
    positive : ndarray of bool, or of shares of rows, shape (n,)
    weight : ndarray of shape (n,) or None
    codes : ndarray of int, shape (n,)
    n_groups : int
    level : float
        Coverage of the bounds of one group.
    count : ndarray of shape (n,), optional
        How many rows each entry stands for; by default one.

    Notes
    -----
    The alternatives to calibrated predictions are the same predictions with all logits of the group shifted by d
    (by d times the row's weight). By Chernoff's bound a weighted count of events as far out as the one seen has
    probability at most exp(-D(d)), D being the log loss at d less the smallest over d; so twice that is a p-value
    of d, for any number of rows, and the bounds are the gaps at the d whose p-value is 1 - `level`. They exclude
    zero just where the p-value of d = 0 is below 1 - `level`.

    References
    ----------
    Chernoff (1952), *A measure of asymptotic efficiency for tests of a hypothesis based on the sum of
    observations*, Annals of Mathematical Statistics 23, theorem 1. Cox (1958), *Two further applications of a model
    for binary regression*, Biometrika 45, for the shift.
    """
    n = float(prob.size) if count is None else float(count.sum())
    w = np.ones(prob.size) if weight is None else weight / np.average(weight, weights=count)
    z = logit(clip_open(prob, clip_from_data(prob, n)))
    y = positive.astype(np.float64)

    def sums(values: FloatArray) -> FloatArray:
        counted = values if count is None else count * values
        return np.asarray(np.bincount(codes, weights=counted, minlength=n_groups))

    total, seen = sums(w), sums(w * y)

    def loss(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log loss of the shifted predictions, and its derivative."""
        x = z + w * shift[codes]
        return sums(softplus(x) - y * x), sums(w * expit(x)) - seen

    def slope(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = expit(z + w * shift[codes])
        return sums(w * q) - seen, sums(w**2 * q * (1.0 - q))

    far = np.full(n_groups, _FAR)
    start = np.zeros(n_groups)
    best = _root(slope, -far, far, start)
    least = loss(best)[0]
    room = math.log(2.0 / (1.0 - level))

    def beyond(side: float) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
        def excess(distance: FloatArray) -> tuple[FloatArray, FloatArray]:
            value, derivative = loss(best + side * distance)
            return value - least - room, side * derivative

        return excess

    spread = np.sqrt(2.0 * room / np.maximum(slope(best)[1], 1e-3))
    up = _root(beyond(1.0), start, far - best, np.minimum(spread, far - best))
    down = _root(beyond(-1.0), start, far + best, np.minimum(spread, far + best))
    predicted = sums(w * expit(z)) / total
    rate_up, rate_down = (sums(w * expit(z + w * (best + d)[codes])) / total for d in (up, -down))
    deviance = np.maximum(loss(start)[0] - least, 0.0)
    return GapBounds(
        predicted=sums(w * prob) / total,
        observed=seen / total,
        low=predicted - rate_up,
        high=predicted - rate_down,
        p_value=np.minimum(2.0 * np.exp(-deviance), 1.0),
    )


def gap_bounds_of_summaries(summaries: Sequence[ScoreSummary], level: float) -> GapBounds:
    """Bound the gap in each of several summaries: a score of weight W stands for its effective number of rows."""
    prob, weight, squared, positives = (
        np.concatenate(columns) for columns in zip(*(s.distinct for s in summaries), strict=True)
    )
    codes = np.repeat(np.arange(len(summaries)), [s.scores.size for s in summaries])
    is_counted = np.array_equal(weight, squared)
    return gap_bounds(
        prob,
        positives / weight,
        None if is_counted else squared / weight,
        codes,
        len(summaries),
        level,
        count=weight if is_counted else weight**2 / squared,
    )


def _root(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    low: FloatArray,
    high: FloatArray,
    start: FloatArray,
) -> FloatArray:
    """Find the roots of rising functions between two ends by Newton's steps, halving where these lead outside.

    A function without a root between the ends gives the end that is nearer to it.
    """
    low, high, x = low.copy(), high.copy(), start
    for _ in range(_MOST_STEPS):
        value, derivative = function(x)
        low, high = np.where(value <= 0.0, x, low), np.where(value >= 0.0, x, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - value / derivative
        inside = (step > low) & (step < high)
        following = np.where(inside, step, 0.5 * low + 0.5 * high)
        if np.all(np.abs(following - x) <= 1e-10 * (1.0 + np.abs(x))):
            return following
        x = following
    return x
