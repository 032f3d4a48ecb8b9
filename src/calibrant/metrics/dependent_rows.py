"""The design effect of rows that are not independent: how much more mean gaps vary than those of independent rows.

Intervals and debiased errors go by the effective number of rows. Where rows hang together, the number is divided by
the design effect (Kish 1965): the variance of a mean over the rows, over what it would be if they were independent.
It is measured on the mean gaps between probability and outcome, of the top label and of each class, and the largest
is taken for all figures. Of clusters the variance is that of the sums over clusters; of labels that overlap in time
it is that of circular block-bootstrap draws, which keep neighbours in time together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.dependence import block_draws, block_length
from calibrant.numerics import FloatArray, IntArray, kish_size
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary

_DRAWS = 500


def design_effect(rows: Rows) -> float:
    """Return how many times the variance of mean gaps is that of independent rows: at least 1.

    Kish (1965), *Survey sampling*, section 5.4. Künsch (1989), *The jackknife and the bootstrap for general
    stationary observations*, Annals of Statistics 17.
    """
    of_clusters = 1.0 if rows.cluster is None else _of_clusters(rows, rows.cluster)
    return max(of_clusters, 1.0 if rows.time is None else _of_times(rows))


def as_independent(rows: Rows) -> Rows:
    """Return the rows without what says that they are not independent, for what takes their design effect apart."""
    return replace(rows, cluster=None, time=None, label_end=None)


def with_effect(summary: ScoreSummary, effect: float) -> ScoreSummary:
    """Return a summary whose effective number of rows is smaller by the design effect, everywhere alike."""
    if effect == 1.0:
        return summary
    scores, weight, squared, positives = summary.distinct
    return ScoreSummary(DistinctScores(scores, weight, squared * effect, positives))


def _gaps(rows: Rows) -> FloatArray:
    """Return probability less outcome of one column, or of the top label and each class, one column for each."""
    if rows.is_binary:
        return (rows.scores - rows.positive)[:, None]
    top = rows.top_label()
    return np.column_stack((top.scores - top.positive, rows.scores - np.eye(rows.n_classes)[rows.codes]))


def _of_clusters(rows: Rows, cluster: IntArray) -> float:
    n_clusters = int(cluster.max()) + 1
    if n_clusters == 1:  # which tells nothing of how clusters differ: all rows are worth one
        return kish_size(rows.weights)
    away = _weighted_deviations(rows)
    sums = np.zeros((n_clusters, away.shape[1]))
    np.add.at(sums, cluster, away)
    return _largest_ratio(np.sum(sums**2, axis=0) * (n_clusters / (n_clusters - 1.0)), np.sum(away**2, axis=0))


def _of_times(rows: Rows) -> float:
    """Resample blocks of times: all rows of a time together, with their neighbours in time."""
    assert rows.time is not None  # noqa: S101
    assert rows.label_end is not None  # noqa: S101
    times, time_of_row = np.unique(rows.time, return_inverse=True)
    order = np.argsort(time_of_row, kind="stable")
    known = np.maximum.reduceat(rows.label_end[order], np.searchsorted(time_of_row[order], np.arange(times.size)))
    table = np.column_stack((rows.weights, rows.weights[:, None] * _gaps(rows)))
    summed = np.zeros((times.size, table.shape[1]))
    np.add.at(summed, time_of_row, table)
    drawn = block_draws(summed, block_length(times, known), _DRAWS, np.random.default_rng(0))
    together = (drawn[:, 1:] / drawn[:, :1]).var(axis=0, ddof=1)
    return _largest_ratio(together, np.sum(_weighted_deviations(rows) ** 2, axis=0) / rows.total_weight**2)


def _weighted_deviations(rows: Rows) -> FloatArray:
    """Return each row's share in the deviations of the mean gaps, whose squares sum to the variance if independent."""
    gaps = _gaps(rows)
    return np.asarray(rows.weights[:, None] * (gaps - np.average(gaps, axis=0, weights=rows.weight)))


def _largest_ratio(together: FloatArray, alone: FloatArray) -> float:
    ratios = np.divide(together, alone, out=np.ones_like(alone), where=alone > 0.0)
    return float(max(1.0, ratios.max()))
