"""Rows that are not independent: how much more a figure varies than it would if they were, its design effect.

Intervals and debiased errors go by the effective number of rows. Where rows hang together, the number is divided by
the design effect (Kish 1965): the variance of a figure, as the sum over rows of what each adds to it, its influence,
over what that would be if rows were independent. Of clusters it is that of the sums over clusters; of labels that
overlap in time that of circular block-bootstrap draws, which keep neighbours in time together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calibrant.dependence import block_draws, block_length
from calibrant.numerics import FloatArray, IntArray, kish_size, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary

_DRAWS = 500


@dataclass(frozen=True, slots=True)
class Dependence:
    """How rows hang together: their clusters, or the blocks of times that are resampled.

    `dof` are the degrees of freedom that a variance between clusters, or blocks, is measured with: their number less
    one, of clusters of unequal size the number of equal ones that say as much (Carter, Schnepel and Steigerwald 2017,
    *Asymptotic behavior of a t-test robust to cluster heterogeneity*, Review of Economics and Statistics 99).
    """

    dof: float = math.inf
    block: int | None = None

    @classmethod
    def of(cls, rows: Rows) -> Dependence:
        """Return what is known of rows."""
        dof = math.inf
        if rows.cluster is not None:
            dof = kish_size(np.bincount(rows.cluster, weights=rows.weights).astype(np.float64)) - 1.0
        if rows.time is None:
            return cls(max(dof, 0.0))
        times, known = _times(rows)[:2]
        block = block_length(times, known)
        return cls(max(min(dof, times.size / block - 1.0), 0.0), block)

    @property
    def is_dependent(self) -> bool:
        """Whether rows are not independent."""
        return math.isfinite(self.dof)

    def effects(self, rows: Rows, influences: FloatArray) -> FloatArray:
        """Return how many times the variance of each weighted mean is that of independent rows, shape (m,): at least 1.

        `influences`, shape (n, m), hold what each row, at weight one, adds to each of m figures. With G clusters the
        variance between them has the factor G / (G - 1). Cameron and Miller (2015), *A practitioner's guide to
        cluster-robust inference*, Journal of Human Resources 50. Künsch (1989), *The jackknife and the bootstrap for
        general stationary observations*, Annals of Statistics 17.
        """
        found = np.ones(influences.shape[1])
        if rows.cluster is None and rows.time is None:
            return found
        mean = np.average(influences, axis=0, weights=rows.weight)
        away = rows.weights[:, None] * (influences - mean)
        alone = np.sum(away**2, axis=0)
        varies = alone > 0.0
        if rows.cluster is not None:
            found = np.maximum(found, _between_clusters(rows, rows.cluster, away) / np.where(varies, alone, 1.0))
        if self.block is not None:
            together = _between_blocks(rows, influences, self.block) * rows.total_weight**2
            found = np.maximum(found, together / np.where(varies, alone, 1.0))
        return np.where(varies, found, 1.0)

    def widening(self, level: float) -> float:
        """Return the factor of the variance that few clusters ask for: (t / z)^2, the quantiles of t and the normal.

        Less than one degree of freedom counts as one.
        """
        if not self.is_dependent:
            return 1.0
        from scipy.special import stdtrit

        return float(stdtrit(max(self.dof, 1.0), 0.5 + 0.5 * level) / normal_quantile(level)) ** 2


def design_effect(rows: Rows, dependence: Dependence | None = None) -> float:
    """Return the largest design effect of the mean gaps between probability and outcome, of top label and classes."""
    dependence = Dependence.of(rows) if dependence is None else dependence
    return float(dependence.effects(rows, gaps(rows)).max()) if dependence.is_dependent else 1.0


def block_of_rows(rows: Rows) -> IntArray | None:
    """Return the cluster of each row, or the block of times that it lies in; None where rows are independent."""
    if rows.cluster is not None:
        return rows.cluster
    if rows.time is None:
        return None
    times, known, time_of_row = _times(rows)
    return np.asarray(time_of_row // block_length(times, known), dtype=np.int64)


def gaps(rows: Rows) -> FloatArray:
    """Return probability less outcome of one column, or of the top label and each class, one column for each."""
    if rows.is_binary:
        return (rows.scores - rows.positive)[:, None]
    top = rows.top_label()
    return np.column_stack((top.scores - top.positive, rows.scores - np.eye(rows.n_classes)[rows.codes]))


def as_independent(rows: Rows) -> Rows:
    """Return the rows without what says that they are not independent, for what takes their design effect apart."""
    return replace(rows, cluster=None, time=None, label_end=None)


def with_effect(summary: ScoreSummary, effect: float) -> ScoreSummary:
    """Return a summary whose effective number of rows is smaller by the design effect, everywhere alike."""
    if effect == 1.0:
        return summary
    scores, weight, squared, positives = summary.distinct
    return ScoreSummary(DistinctScores(scores, weight, squared * effect, positives))


def _between_clusters(rows: Rows, cluster: IntArray, away: FloatArray) -> FloatArray:
    """Return the variance of the sums of weighted deviations, by their sums over clusters."""
    n_clusters = np.count_nonzero(np.bincount(cluster))
    if n_clusters == 1:  # which tells nothing of how clusters differ: all rows are worth one
        return np.asarray(kish_size(rows.weights) * np.sum(away**2, axis=0))
    sums = np.column_stack([np.bincount(cluster, column) for column in away.T])
    return np.asarray(np.sum(sums**2, axis=0) * (n_clusters / (n_clusters - 1.0)))


def _times(rows: Rows) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return the distinct times, when the last label of each is known, and the time of each row, as its number."""
    assert rows.time is not None  # noqa: S101
    assert rows.label_end is not None  # noqa: S101
    times, time_of_row = np.unique(rows.time, return_inverse=True)
    order = np.argsort(time_of_row, kind="stable")
    known = np.maximum.reduceat(rows.label_end[order], np.searchsorted(time_of_row[order], np.arange(times.size)))
    return times, known, time_of_row


def _between_blocks(rows: Rows, influences: FloatArray, block: int) -> FloatArray:
    """Return the variance of weighted means over draws of blocks of times: all rows of a time stay together."""
    times, _, time_of_row = _times(rows)
    columns = (rows.weights, *(rows.weights * column for column in influences.T))
    summed = np.column_stack([np.bincount(time_of_row, column, times.size) for column in columns])
    drawn = block_draws(summed.astype(np.float64), block, _DRAWS, np.random.default_rng(0))
    return np.asarray((drawn[:, 1:] / drawn[:, :1]).var(axis=0, ddof=1))
