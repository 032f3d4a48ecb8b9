"""Ranking: how often a positive row is scored above a negative one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calibrant.errors import InvalidLabelError
from calibrant.maps import InterpolatedMap
from calibrant.metrics.estimates import FEW, Column, Estimate, measured_rows
from calibrant.numerics import FloatArray, dot, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, check_both_classes

#: Knots between which a row's rank among the other class is interpolated, where only its spread is asked for.
_KNOTS = 4096
UNDEFINED = Estimate.of_value(math.nan, "undefined: one class")


class Ranks(NamedTuple):
    """The AUC, and at each distinct score the share of the other class that a row there is ranked rightly against.

    Ties count half.
    """

    auc: float
    of_positive: FloatArray
    of_negative: FloatArray


def roc_auc(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: object = None,
    classes: ArrayLike | None = None,
) -> float:
    """Return the area under the ROC curve: the share of pairs of both classes that are ranked rightly.

    Parameters are as in `evaluate`; of several classes each is judged against the rest by its own column, and the
    areas are averaged.

    Returns
    -------
    float
        In [0, 1]; 0.5 is no better than chance. Ties count half.

    Raises
    ------
    InvalidLabelError
        If a class has no rows: there are no pairs to rank.

    Notes
    -----
    Unbiased for the probability of a right ranking. It measures order alone, so no rising map changes it: it says
    nothing about calibration.

    References
    ----------
    Hanley and McNeil (1982), *The meaning and use of the area under a receiver operating characteristic (ROC)
    curve*, Radiology 143.

    Examples
    --------
    >>> from calibrant.metrics import roc_auc
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    if rows.is_binary:
        check_both_classes(rows.checked_labels(), "y_true")
        return rank(rows.one_column().summary()).auc
    absent = np.flatnonzero(rows.class_weight == 0.0)
    if absent.size:
        raise InvalidLabelError(
            f"y_true has no rows of class {rows.classes.tolist()[absent[0]]!r} "
            f"({absent.size:,} of {rows.n_classes:,} classes), so its AUC is undefined. "
            "Pass rows of every class, or drop the class and its column."
        )
    return float(np.mean([rank(rows.of_class(k).summary()).auc for k in range(rows.n_classes)]))


def rank(summary: ScoreSummary) -> Ranks:
    """Rank each distinct score among the rows of the other class; both classes must have rows."""
    positive = summary.positives
    negative = summary.weight - positive
    n_positive, n_negative = summary.total_positives, float(negative.sum())
    of_positive = (negative.cumsum() - 0.5 * negative) / n_negative
    of_negative = 1.0 - (positive.cumsum() - 0.5 * positive) / n_positive
    auc = dot(positive, of_positive) / n_positive
    return Ranks(min(auc, 1.0), of_positive, of_negative)


def auc_estimate(column: Column) -> Estimate:
    """Estimate the AUC with DeLong's interval on the logit scale, or Newcombe's where a class has few rows.

    The variance is that of DeLong, DeLong and Clarke-Pearson (1988), with Kish's effective numbers of rows. It is
    too small with fewer than 20 rows of a class, and zero for classes that don't overlap: there the interval is that
    of Newcombe (2006), method 5.
    """
    summary, size = column.summary, column.size
    base_rate = summary.base_rate
    if not 0.0 < base_rate < 1.0:
        return UNDEFINED
    auc, of_positive, of_negative = rank(summary)
    m, n = size * base_rate, size * (1.0 - base_rate)
    positive = summary.positives
    negative = summary.weight - positive
    spread_positive = float(np.sum(positive * (of_positive - auc) ** 2)) / summary.total_positives
    spread_negative = float(np.sum(negative * (of_negative - auc) ** 2)) / float(negative.sum())
    error = math.sqrt(spread_positive / max(m - 1.0, 1.0) + spread_negative / max(n - 1.0, 1.0))
    return _auc_interval(auc, error, m, n, column.level)


@dataclass(frozen=True, slots=True)
class Influence:
    """The AUC, and what gives each row's influence on it: n times what it would change by if the row came twice."""

    auc: float
    base_rate: float
    of_positive: InterpolatedMap
    of_negative: InterpolatedMap

    def apply(self, own: Rows) -> FloatArray:
        """Return the influence of each row."""
        found, positive = np.empty(own.n_rows), own.positive
        found[positive] = (self.of_positive.apply(own.scores[positive]) - self.auc) / self.base_rate
        found[~positive] = (self.of_negative.apply(own.scores[~positive]) - self.auc) / (1.0 - self.base_rate)
        return found


def influence_of(summary: ScoreSummary) -> Influence:
    """Return the AUC and the influence of rows on it.

    Read off between `_KNOTS` of the distinct scores where they are more: it is used for variances only.
    """
    ranks, scores = rank(summary), summary.scores
    kept = np.unique(np.linspace(0, scores.size - 1, min(scores.size, _KNOTS)).astype(np.int64))
    of_both = (InterpolatedMap(scores[kept], share[kept]) for share in (ranks.of_positive, ranks.of_negative))
    return Influence(ranks.auc, summary.base_rate, *of_both)


def macro_auc_estimate(
    influences: Sequence[Influence], mean_square: float, size: float, *, n_classes: int, level: float
) -> Estimate:
    """Estimate the mean over classes of the one-vs-rest AUC, with DeLong's interval on the logit scale.

    `influences` are of the classes that have rows, and `mean_square` is of the sum over these of a row's influence, as
    they share their rows. The interval goes by the rarest class, or complement of a class.
    """
    if not influences:
        return UNDEFINED
    mean = macro_auc([each.auc for each in influences], n_classes)
    error = math.sqrt(mean_square / len(influences) ** 2 / size)
    rarest = min(min(each.base_rate, 1.0 - each.base_rate) for each in influences)
    estimate = _auc_interval(mean.value, error, size * rarest, size * (1.0 - rarest), level)
    return replace(estimate, note=mean.note)


def macro_auc(aucs: Sequence[float], n_classes: int) -> Estimate:
    """Return the mean of the AUC of those of the classes that have rows, without an interval."""
    if not aucs:
        return UNDEFINED
    few = f"mean over {len(aucs)} of {n_classes} classes: the others have no rows" if len(aucs) < n_classes else ""
    return Estimate.of_value(float(np.mean(aucs)), few)


def _auc_interval(auc: float, error: float, m: float, n: float, level: float) -> Estimate:
    if error <= 0.0 or auc in (0.0, 1.0) or min(m, n) < FEW:
        return _newcombe(auc, m, n, level)
    centre = math.log(auc / (1.0 - auc))
    half = normal_quantile(level) * error / (auc * (1.0 - auc))
    low, high = (0.5 + 0.5 * math.tanh(0.5 * (centre + sign * half)) for sign in (-1.0, 1.0))
    return Estimate(auc, low, high, "DeLong, logit")


def _newcombe(auc: float, m: float, n: float, level: float) -> Estimate:
    """Return the areas that lie just `z` of their own standard errors from `auc`."""
    z2 = normal_quantile(level) ** 2
    pairs = max((m + n) / 2.0 - 1.0, 0.0)

    def is_far(area: float) -> bool:
        inner = 1.0 + pairs * ((1.0 - area) / (2.0 - area) + area / (1.0 + area))
        return (area - auc) ** 2 > z2 * area * (1.0 - area) * inner / (m * n)

    ends = []
    for outer in (0.0, 1.0):
        near, far = auc, outer
        for _ in range(60):
            middle = 0.5 * (near + far)
            near, far = (near, middle) if is_far(middle) else (middle, far)
        ends.append(far)
    return Estimate(auc, ends[0], ends[1], "Newcombe 5")
