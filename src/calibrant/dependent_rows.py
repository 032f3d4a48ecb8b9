"""Rows that are not independent: how much more a figure varies than it would if they were, its design effect.

Intervals and debiased errors go by the effective number of rows. Where rows hang together, the number is divided by
the design effect (Kish 1965): the variance of a figure, as the sum over rows of what each adds to it, its influence,
over what that would be if rows were independent. It is measured between units: clusters, or blocks of times that are
long enough for labels that overlap (`calibrant.dependence.Units`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calibrant.dependence import Dependence, Units, dependence_hint, t_quantile
from calibrant.numerics import FloatArray, IntArray, kish_size, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary

#: What is said of rows that look as if they depended on each other, before what shows it and after.
SIGN = "A sign that rows are not independent"
DECLARE = "Name what they share (cluster), or say when labels overlap (time and label_end)."
#: Rows in which the sign is looked for, at most.
_MOST_LOOKED_AT = 200_000


@dataclass(frozen=True, slots=True)
class DesignEffects:
    """The units of rows that are not independent: clusters, blocks of times, or both; none of independent rows.

    `dof` are the degrees of freedom that a variance between units is measured with: their number less one, of units of
    unequal size the number of equal ones that say as much (Carter, Schnepel and Steigerwald 2017, *Asymptotic behavior
    of a t-test robust to cluster heterogeneity*, Review of Economics and Statistics 99).
    """

    dof: float = math.inf
    units: tuple[Units, ...] = ()

    @classmethod
    def of(cls, rows: Rows) -> DesignEffects:
        """Return what is known of rows."""
        declared = (Dependence(cluster=rows.cluster), Dependence(time=rows.time, label_end=rows.label_end))
        units = tuple(found for each in declared if (found := each.units()) is not None)
        sizes = [kish_size(each.sums(rows.weights)) for each in units]
        return cls(max(min(sizes, default=math.inf) - 1.0, 0.0), units)

    @property
    def is_dependent(self) -> bool:
        """Whether rows are not independent."""
        return math.isfinite(self.dof)

    def of_means(self, rows: Rows, influences: FloatArray) -> FloatArray:
        """Return how many times the variance of each weighted mean is that of independent rows, shape (m,): at least 1.

        `influences`, shape (n, m), hold what each row, at weight one, adds to each of m figures.
        """
        one = np.zeros(rows.n_rows, dtype=np.int64)
        found = [effects_in_groups(rows, one, 1, column, self)[0] for column in influences.T]
        return np.array(found)

    def widening(self, level: float) -> float:
        """Return the factor of the variance that few units ask for: (t / z)^2, the quantiles of t and the normal.

        Less than one degree of freedom counts as one. Cameron and Miller (2015), *A practitioner's guide to
        cluster-robust inference*, Journal of Human Resources 50.
        """
        if not self.is_dependent:
            return 1.0
        return (t_quantile(max(self.dof, 1.0), level) / normal_quantile(level)) ** 2


def effects_in_groups(
    rows: Rows, codes: IntArray, n_groups: int, influence: FloatArray, known: DesignEffects
) -> FloatArray:
    """Return the design effect of the mean of an influence in each of some groups of rows: at least 1.

    The variance between G units has the factor G / (G - 1), and what the ends of blocks lose is made up for. One unit
    tells nothing of how units differ: all its rows are worth one.
    """
    weight = rows.weights
    mean = np.bincount(codes, weight * influence, n_groups) / np.bincount(codes, weight, n_groups)
    away = weight * (influence - mean[codes])
    alone = np.bincount(codes, away**2, n_groups)
    worst = np.ones(n_groups)
    for units in known.units:
        group, part = parts_of_groups(units, codes)
        n_units = np.bincount(group, minlength=n_groups)
        between = np.bincount(group, np.bincount(part, away) ** 2, n_groups) / (1.0 - units.lost)
        between *= n_units / np.maximum(n_units - 1, 1)
        effect = np.divide(between, alone, out=np.ones(n_groups), where=alone > 0.0)
        kish = np.bincount(codes, weight, n_groups) ** 2 / np.bincount(codes, weight**2, n_groups)
        worst = np.maximum(worst, np.where(n_units == 1, kish, effect))
    return np.asarray(worst)


def parts_of_groups(units: Units, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the group of each part, which is what a group has of a unit, and the part of each row."""
    parts, part = np.unique(codes * units.n + units.code, return_inverse=True)
    return parts // units.n, part


def design_effect(rows: Rows, known: DesignEffects | None = None) -> float:
    """Return the largest design effect of the mean gaps between probability and outcome, of top label and classes.

    Kish (1965), *Survey sampling*, section 5.4.
    """
    known = DesignEffects.of(rows) if known is None else known
    return float(known.of_means(rows, gaps(rows)).max()) if known.is_dependent else 1.0


def gaps(rows: Rows) -> FloatArray:
    """Return probability less outcome of one column, or of the top label and each class, one column for each."""
    if rows.is_binary:
        return (rows.scores - rows.positive)[:, None]
    top = rows.top_label()
    return np.column_stack((top.scores - top.positive, rows.scores - np.eye(rows.n_classes)[rows.codes]))


def hint_of(rows: Rows, order: IntArray | None = None) -> str:
    """Return what looks like dependence between rows that stand next to each other, where none was declared."""
    if rows.declared:
        return ""
    rows = rows if order is None else rows.take(order)
    column = rows.take(np.arange(min(rows.n_rows, _MOST_LOOKED_AT))).one_column()
    return dependence_hint(column.positive - column.scores, scores=column.scores, weight=column.weight)


def as_independent(rows: Rows) -> Rows:
    """Return the rows without what says that they are not independent, for what takes their design effect apart."""
    return replace(rows, cluster=None, time=None, label_end=None)


def with_effect(summary: ScoreSummary, effect: float) -> ScoreSummary:
    """Return a summary whose effective number of rows is smaller by the design effect, everywhere alike."""
    if effect == 1.0:
        return summary
    scores, weight, squared, positives = summary.distinct
    return ScoreSummary(DistinctScores(scores, weight, squared * effect, positives))
