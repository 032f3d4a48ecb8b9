"""Consistency bands: where a reliability curve would lie if the probabilities were calibrated."""

from __future__ import annotations

import numpy as np

from calibrant import kernels
from calibrant.binning import equal_mass_bins
from calibrant.metrics.bins import Bins, CurveStrategy
from calibrant.numerics import FloatArray, IntArray
from calibrant.summary import ScoreSummary

#: Curves that are drawn.
_DRAWS = 1000
#: More distinct probabilities than this are put into about as many groups, whose rows share their mean probability.
_GROUPS = 2048


def consistency_band(
    summary: ScoreSummary, bins: Bins, strategy: CurveStrategy, level: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the pointwise quantiles, at each bin, of curves drawn from outcomes that follow the probabilities.

    Notes
    -----
    Probabilities and weights stay as they are, and each row's outcome is drawn from its probability. Rows of a group
    share one binomial draw; with weights the group has Kish's effective number of rows.
    """
    scores, weight, weight_squared, _ = summary.distinct
    first_of_bin = np.searchsorted(scores, bins.edges[:, 0], side="left" if strategy == "isotonic" else "right")
    first_of_bin[0] = 0
    first = np.arange(scores.size)
    if scores.size > _GROUPS:
        first = np.flatnonzero(np.diff(equal_mass_bins(weight, _GROUPS), prepend=-1))
        first = np.union1d(first, first_of_bin)
    group_weight = np.add.reduceat(weight, first)
    p = np.clip(np.add.reduceat(weight * scores, first) / group_weight, 0.0, 1.0)
    size = np.maximum(np.rint(group_weight**2 / np.add.reduceat(weight_squared, first)), 1.0).astype(np.int64)
    drawn = rng.binomial(size, p, (_DRAWS, size.size)) * (group_weight / size)
    bin_of_group = np.searchsorted(first, first_of_bin)
    if strategy == "isotonic":
        rates = _refits(group_weight, drawn, np.searchsorted(p, bins.mean_score, side="right") - 1)
    else:
        rates = np.add.reduceat(drawn, bin_of_group, axis=1) / np.add.reduceat(group_weight, bin_of_group)
    low, high = np.quantile(rates, (0.5 - 0.5 * level, 0.5 + 0.5 * level), axis=0)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _refits(weight: FloatArray, drawn: FloatArray, places: IntArray) -> FloatArray:
    """Pool each draw of positives into rising rates, and return these at the groups `places`."""
    n = weight.size
    block_weight, block_positives, end = np.empty(n), np.empty(n), np.empty(n, np.int64)
    rates = np.empty((len(drawn), places.size))
    for i, positives in enumerate(drawn):
        top = kernels.pool_weighted(weight, positives, block_weight, block_positives, end)
        block = np.searchsorted(end[:top], np.maximum(places, 0), side="right")
        rates[i] = block_positives[block] / block_weight[block]
    return rates
