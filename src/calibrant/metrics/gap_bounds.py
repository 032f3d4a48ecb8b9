"""Bounds of the mean prediction less the rate in many groups, valid for any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.metrics.bins import merged
from calibrant.numerics import (
    SMALLEST_CLIP,
    TINY,
    BoolArray,
    FloatArray,
    IntArray,
    clip_as_given,
    clip_open,
    expit,
    logit,
)
from calibrant.summary import DistinctScores, ScoreSummary, equal_mass_starts

#: Shift on the logit that takes any prediction to 0 or 1.
_FAR = 80.0
_MOST_STEPS = 80
_TOLERANCE = 1e-10
#: More distinct scores than this are put into about as many bins: the scores of a bin are as good as equal.
_MOST_BINS = 1024
#: Levels of weight that rows of a bin are told apart by.
_WEIGHT_LEVELS = 16


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
    level: float | FloatArray,
    *,
    count: FloatArray | None = None,
) -> GapBounds:
    """Bound the gap in each of the groups 0 to `n_groups` - 1, all of which have rows.

    `positive` may be shares of rows, `level` one for each group; each entry stands for `count` rows, by default one.

    The alternatives to calibrated predictions are the same predictions with all logits of the group shifted by d
    (by d times the row's weight). By Chernoff's bound a weighted count of events as far out as the one seen has
    probability at most exp(-D(d)), D being the log loss at d less the smallest over d; so twice that is a p-value
    of d, for any number of rows, and the bounds are the gaps at the d whose p-value is 1 - `level`. They exclude
    zero just where the p-value of d = 0 is below 1 - `level`.

    Chernoff (1952), *A measure of asymptotic efficiency for tests of a hypothesis based on the sum of
    observations*, Annals of Mathematical Statistics 23, theorem 1. Cox (1958), *Two further applications of a model
    for binary regression*, Biometrika 45, for the shift.
    """
    n = float(prob.size) if count is None else float(count.sum())
    w = np.ones(prob.size) if weight is None else weight / np.average(weight, weights=count)
    z = logit(clip_open(prob, max(clip_as_given(prob, n), SMALLEST_CLIP)))
    y = positive.astype(np.float64)

    def sums(values: FloatArray) -> FloatArray:
        counted = values if count is None else count * values
        return np.asarray(np.bincount(codes, weights=counted, minlength=n_groups))

    total, seen = sums(w), sums(w * y)

    def loss(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log loss of the shifted predictions, and its derivative."""
        x = z + w * shift[codes]
        e = np.exp(-np.abs(x))  # for both: softplus(x) and expit(x)
        q = np.where(x >= 0.0, 1.0, e) / (1.0 + e)
        return sums(np.maximum(x, 0.0) + np.log1p(e) - y * x), sums(w * q) - seen

    def slope(shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        q = expit(z + w * shift[codes])
        return sums(w * q) - seen, sums(w**2 * q * (1.0 - q))

    far = np.full(n_groups, _FAR)
    start = np.zeros(n_groups)
    nearest, furthest = np.where(seen >= total, far, -far), np.where(seen <= 0.0, -far, far)  # all alike: no root
    best = _root(slope, nearest, furthest, np.clip(start, nearest, furthest))
    least = loss(best)[0]
    room = np.log(2.0 / (1.0 - np.asarray(level)))

    def beyond(side: float) -> Callable[[FloatArray], tuple[FloatArray, FloatArray]]:
        def excess(distance: FloatArray) -> tuple[FloatArray, FloatArray]:
            value, derivative = loss(best + side * distance)
            return value - least - room, side * derivative

        return excess

    def distance(side: float, expected: FloatArray) -> FloatArray:
        """Return how far from the best shift the bound lies; `expected` counts what was not seen at all, if so."""
        guess = np.sqrt(2.0 * room / np.maximum(slope(best)[1], 1e-3))
        from_end = far + np.log(room / np.maximum(expected, TINY))  # of a group that is all of one kind
        end = far - side * best
        guess = np.clip(np.where(end > 2.0 * far - 1e-6, from_end, guess), 0.0, end)
        return _root(beyond(side), start, end, guess)

    up = distance(1.0, sums(w * expit(z)))
    down = distance(-1.0, sums(w * expit(-z)))
    predicted = sums(w * expit(z)) / total
    rate_up, rate_down = (sums(w * expit(z + w * (best + d)[codes])) / total for d in (up, -down))
    deviance = np.maximum(loss(start)[0] - least, 0.0)
    given, observed = sums(w * prob) / total, seen / total
    gap = given - observed  # of probabilities of 0 and 1 as they are, which the bounds have moved inward
    return GapBounds(
        predicted=given,
        observed=observed,
        low=np.minimum(predicted - rate_up, gap),
        high=np.maximum(predicted - rate_down, gap),
        p_value=np.minimum(2.0 * np.exp(-deviance), 1.0),
    )


def gap_bounds_of_summaries(summaries: Sequence[ScoreSummary], level: float) -> GapBounds:
    """Bound the gap in each of several summaries: a score of weight W stands for its effective number of rows."""
    parts = [fine_sums(summary) for summary in summaries]
    return _gap_bounds_of(parts, np.repeat(np.arange(len(parts)), [part.scores.size for part in parts]), level)


def gap_bounds_in_bins(summary: ScoreSummary, edges: FloatArray, level: float) -> tuple[GapBounds, float]:
    """Bound the gap in each bin of a summary, and last the gap of all of it; return the level of the former too.

    `level` is the coverage of the bounds of all rows, and of those of the bins, which all hold rows, together.
    """
    m = len(edges)
    fine = fine_sums(summary, np.searchsorted(summary.scores, edges[:, 0], side="right"))
    codes = np.searchsorted(edges[1:, 0], fine.scores, side="left")
    of_bin = 1.0 - (1.0 - level) / m
    levels = np.append(np.full(m, of_bin), level)
    return _gap_bounds_of([fine, fine], np.append(codes, np.full(codes.size, m)), levels), of_bin


def _gap_bounds_of(parts: Sequence[DistinctScores], codes: IntArray, level: float | FloatArray) -> GapBounds:
    prob, weight, squared, positives = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    is_counted = np.array_equal(weight, squared)
    return gap_bounds(
        prob,
        positives / weight,
        None if is_counted else squared / weight,
        codes,
        int(codes.max()) + 1,
        level,
        count=weight if is_counted else weight**2 / squared,
    )


def fine_sums(summary: ScoreSummary, starts: IntArray | None = None) -> DistinctScores:
    """Return the sums of a summary, of many scores in bins that don't cross the scores with the indexes `starts`.

    The bounds depend on how unequal weights are, so rows of each bin are kept apart by their weight.
    """
    scores, weight, squared, positives = summary.distinct
    if scores.size <= _MOST_BINS:
        return summary.distinct
    first = equal_mass_starts(weight, _MOST_BINS)
    first = first if starts is None else np.union1d(first, starts[starts < scores.size])
    if np.array_equal(weight, squared):
        return merged(summary.distinct, first)
    row_weight = squared / weight
    levels = np.quantile(row_weight, np.arange(1, _WEIGHT_LEVELS) / _WEIGHT_LEVELS)
    bin_of = np.repeat(np.arange(first.size), np.diff(np.append(first, scores.size)))
    code = bin_of * _WEIGHT_LEVELS + np.searchsorted(levels, row_weight)
    sums = np.array([np.bincount(code, column) for column in (weight * scores, weight, squared, positives)])
    total, weight, squared, positives = sums[:, sums[1] > 0.0]
    return DistinctScores(total / weight, weight, squared, positives)


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
        tolerance = _TOLERANCE * (1.0 + np.abs(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = x - value / derivative
        is_root = (np.abs(step - x) <= tolerance) | (high - low <= tolerance)
        inside = (step > low) & (step < high)
        x = np.where(is_root, x, np.where(inside, step, 0.5 * low + 0.5 * high))
        if is_root.all():
            break
    return x
