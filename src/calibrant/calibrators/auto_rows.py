"""The rows of two classes that automatic calibration looks at: a sample of many, or those of the other class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.calibrators.auto_report import EXACT, sample_size
from calibrant.numerics import IntArray
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import Labels


def sample_of(summary: ScoreSummary, seed: int) -> tuple[Rows, int]:
    """Return the summary as rows, or a sample of as many of them as decide, and their number.

    Ties of whole weight become so many rows of weight one; others Kish's effective number of rows of equal weight. The
    order is that of the scores, positives first, so that it depends on the summary only.
    """
    scores, weight, squared, positives = summary.distinct
    parts = np.column_stack((positives, weight - positives))
    if bool((parts == np.floor(parts)).all()) and float(parts.sum()) < EXACT:
        counts = parts.astype(np.int64)
    else:
        own = weight**2 / squared
        counts = np.where(parts > 0.0, np.maximum(np.rint(own[:, None] * parts / weight[:, None]), 1.0), 0.0)
        counts = counts.astype(np.int64)
    ends = np.cumsum(counts.reshape(-1))
    n = int(ends[-1])
    part = np.searchsorted(ends, _drawn(n, summary.base_rate, seed), side="right")
    unit = (parts / np.maximum(counts, 1)).reshape(-1)[part]
    return Rows.of_positives(scores[part // 2], part % 2 == 0, None if bool((unit == 1.0).all()) else unit), n


def turned(data: Rows | ScoreSummary) -> Rows | ScoreSummary:
    """Return the same scores with the labels of the other class."""
    if isinstance(data, Rows):
        return replace(data, labels=Labels((~data.positive).view(np.uint8), data.classes))
    scores, weight, squared, positives = data.distinct
    return ScoreSummary(DistinctScores(scores, weight, squared, weight - positives))


def some_of(rows: Rows, seed: int) -> Rows:
    """Return rows that are not independent as they are, or a sample of as many as decide."""
    drawn = _drawn(rows.n_rows, float(rows.positive.mean()), seed)
    return rows if drawn.size == rows.n_rows else rows.take(drawn)


def _drawn(n_rows: int, rate: float, seed: int) -> IntArray:
    """Return the numbers of the rows that decide, rising; of all rows a share `rate` is positive."""
    size = sample_size(n_rows, min(rate, 1.0 - rate))
    if size == n_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False))
