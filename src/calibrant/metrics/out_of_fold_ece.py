"""The expected calibration error that one map would show on as many new rows, from rows calibrated out of fold.

Out of fold, each row's map is fitted to the rows of other folds. Pooled over the folds, what chance does to these maps
is nearly what it does to a map of all rows, and these are the rows that they are measured on: where chance raises the
rate of a bin, it raises its probabilities too. On new rows the two are independent. So the gap of a bin varies less
than that of new rows would, by twice the covariance of its mean probability and its rate.

The covariance is measured: what leaving out a fold moves the mean probability of a bin by, times what the fold adds to
its rate. The sum over bins gives the share of the variance of the rates that is missing, which all bins are taken to
lack alike, as single bins tell little. The figure is the mean over bins of the expected absolute gap where a normal
error of the missing variance is added to the gap that was seen.
"""

from __future__ import annotations

import numpy as np

from calibrant.metrics.bins import Bins
from calibrant.numerics import FloatArray, IntArray
from calibrant.rows import Rows


def ece_of_new_rows(
    top: Rows, by_fit: FloatArray, in_sample: FloatArray, fold: IntArray, *, n_bins: int, effect: float = 1.0
) -> float:
    """Return the ECE, over bins of equal width, that a map of all rows is expected to show on as many new rows.

    `top` holds the confidence of each row out of fold and whether its top label was right; `by_fit`, shape (k, n), the
    probability of that label by the map without each of k folds, and `in_sample`, shape (n,), by the map of all rows;
    `fold` the fold of each row. `effect` is the design effect of rows that are not independent.
    """
    at = np.searchsorted(np.linspace(0.0, 1.0, n_bins + 1)[1:-1], top.scores)
    codes, place = np.unique(at, return_inverse=True)
    w, right = top.weights, top.positive.astype(np.float64)
    sums = (np.bincount(place, values).astype(np.float64) for values in (w, w**2, w * right, w * top.scores))
    bins = Bins(np.column_stack((codes, codes + 1)) / n_bins, *sums)
    missing = _missing_share(bins, place, w * (right - in_sample), w * (in_sample - by_fit), fold, 2.0 * effect)
    return float(bins.share @ _mean_absolute(bins.gap, np.sqrt(missing * bins.rate_variance)))


def _missing_share(
    bins: Bins, place: IntArray, residual: FloatArray, moved: FloatArray, fold: IntArray, most: float
) -> float:
    """Return the share of the variance of the bins' rates that their gaps out of fold lack, from 0 to `most`.

    `residual`, shape (n,), and `moved`, shape (k, n), are of each row times its weight: outcome less probability, and
    probability by all rows less that without each fold.
    """
    n_folds, m = moved.shape[0], bins.weight.size
    moves = np.array([np.bincount(place, each, m) for each in moved]) / bins.weight
    rates = np.bincount(fold * m + place, residual, n_folds * m).reshape(n_folds, m) / bins.weight
    moves, rates = (each - each.mean(axis=0) for each in (moves, rates))
    # the second term: maps of a fold less vary more than the map of all rows
    lacking = np.sum(2.0 * moves * rates - moves**2 / n_folds, axis=0)
    size = bins.size
    return float(np.clip(size @ lacking / (size @ bins.rate_variance), 0.0, most))


def _mean_absolute(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return the expected absolute values of normal variables."""
    from scipy.special import erf

    at = np.divide(mean, deviation * np.sqrt(2.0), out=np.full_like(mean, np.inf), where=deviation > 0.0)
    found = deviation * np.sqrt(2.0 / np.pi) * np.exp(-(at**2)) + np.abs(mean) * erf(np.abs(at))
    return np.asarray(found)
