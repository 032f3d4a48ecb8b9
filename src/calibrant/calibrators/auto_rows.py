"""The rows of two classes that automatic calibration looks at: a sample of many, or those of the other class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.calibrators.auto_report import EXACT, sample_size
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
    size = sample_size(n, min(summary.base_rate, 1.0 - summary.base_rate))
    taken = np.arange(n) if size == n else np.sort(np.random.default_rng(seed).choice(n, size, replace=False))
    part = np.searchsorted(ends, taken, side="right")
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
    rate = float(rows.positive.mean())
    size = sample_size(rows.n_rows, min(rate, 1.0 - rate))
    if size == rows.n_rows:
        return rows
    return rows.take(np.sort(np.random.default_rng(seed).choice(rows.n_rows, size, replace=False)))
