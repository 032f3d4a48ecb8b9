"""A sign that rows depend on each other, in the order in which they stand in a table."""

from __future__ import annotations

import math

import numpy as np

from calibrant.numerics import FloatArray, IntArray

#: Noise passes this about once in 30,000 tables of independent rows.
_Z_LIMIT = 4.0
_LEAST_CORRELATION = 0.03
_LEAST_ROWS = 40
_N_BINS = 20


def dependence_hint(
    residuals: FloatArray, *, scores: FloatArray | None = None, weight: FloatArray | None = None
) -> str:
    """Say whether errors of rows that stand next to each other are alike; "" where there is no sign of it.

    Parameters
    ----------
    residuals : ndarray of shape (n,)
        Label less probability, in the order of the rows; of several classes those of the top label.
    scores : ndarray of shape (n,), optional
        What the residuals' mean may depend on: without it, rows that are sorted by score and not calibrated look as if
        they depended on each other.
    weight : ndarray of shape (n,), optional

    Returns
    -------
    str
        A clause without an end, to be followed by the options that declare what rows depend on.

    Notes
    -----
    With e the residuals less their mean (within bins of score), the sign is the sum of e[i] (e[i + 1] - far[i]) beyond
    4 times the root of the sum of squares of these terms, where far[i] is the mean of e over rows i + n / 20 to
    i + n / 10. Of independent rows the terms have mean zero and don't correlate. The far rows cancel what drifts
    slowly: a drift is not dependence. Rows that are sorted by label (all residuals of one sign first) are no sign, and
    neither is a correlation below 0.03.
    """
    n = residuals.size
    near, last = n // 20, n // 10
    if n < _LEAST_ROWS or np.count_nonzero(np.diff(residuals > 0.0)) <= 1:
        return ""
    e = residuals - _means(residuals, scores)
    if weight is not None:
        e = e * (weight / weight.max())  # whose squares are in range
    sums = np.concatenate(([0.0], np.cumsum(e)))
    far = (sums[last + 1 :] - sums[near : n - last + near]) / (last + 1 - near)
    first = e[: n - last]
    terms = first * (e[1 : n - last + 1] - far)
    total = float(terms.sum())
    correlation = total / max(float(first @ first), np.finfo(np.float64).tiny)
    if total <= _Z_LIMIT * math.sqrt(float(terms @ terms)) or correlation < _LEAST_CORRELATION:
        return ""
    return f"errors of neighbouring rows are alike (correlation {min(correlation, 1.0):.2f} in the order of the rows)"


def _means(residuals: FloatArray, scores: FloatArray | None) -> FloatArray:
    """Return the mean residual of each row's bin of score, or of all rows."""
    if scores is None:
        return np.full(residuals.size, residuals.mean())
    cuts = np.unique(np.quantile(scores, np.arange(1, _N_BINS) / _N_BINS))
    bins: IntArray = np.searchsorted(cuts, scores, side="right")
    counts = np.maximum(np.bincount(bins), 1)
    means: FloatArray = (np.bincount(bins, weights=residuals) / counts)[bins]
    return means
