"""Bins of a summary: what every binned metric and curve is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant import kernels
from calibrant.numerics import FloatArray, IntArray
from calibrant.readable import Readable
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary, bins_of_mass, equal_mass_starts, midpoints

Strategy: TypeAlias = Literal["uniform", "quantile"]
CurveStrategy: TypeAlias = Literal["quantile", "uniform", "isotonic"]
#: From this many rows, bins are filled without sorting the rows.
_MANY = 1 << 15
#: Fine bins of [0, 1]: their rows are told apart only where a bin may end among them.
_FINE_BINS = 1 << 12
#: Fine bins, at least, that rows are put into for bins of equal width.
_PARTS = 1 << 9


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Bins(Readable):
    """Bins that hold rows, from left to right: ends of shape (m, 2), and sums over the rows of shape (m,) each."""

    edges: FloatArray
    weight: FloatArray
    weight_squared: FloatArray
    positives: FloatArray
    score_sum: FloatArray
    _of_ends = ("edges",)

    @property
    def share(self) -> FloatArray:
        """Share of all weight."""
        return self.weight / float(self.weight.sum())

    @property
    def mean_score(self) -> FloatArray:
        """Weighted mean of the predicted probabilities."""
        return self.score_sum / self.weight

    @property
    def rate(self) -> FloatArray:
        """Weighted share of positives."""
        return self.positives / self.weight

    @property
    def gap(self) -> FloatArray:
        """Mean prediction minus rate: above zero where predictions are too high."""
        return (self.score_sum - self.positives) / self.weight

    @property
    def size(self) -> FloatArray:
        """Kish's effective number of rows."""
        return self.weight**2 / self.weight_squared

    @property
    def rate_variance(self) -> FloatArray:
        """Sampling variance of the rate, by the rate of one more event and one more non-event; never zero."""
        size = self.size
        rate = (self.rate * size + 1.0) / (size + 2.0)
        return rate * (1.0 - rate) / size


def make_bins(summary: ScoreSummary, n_bins: int, strategy: CurveStrategy) -> Bins:
    """Cut the summary of probabilities into bins; empty ones are dropped."""
    scores = summary.scores
    if strategy == "isotonic":
        blocks = summary.isotonic_blocks()
        first, edges = np.searchsorted(scores, blocks.first), np.column_stack((blocks.first, blocks.last))
    elif strategy == "uniform":  # equal widths; an inner edge belongs to the bin below it, 0 and 1 to the outer bins
        grid = np.linspace(0.0, 1.0, n_bins + 1)
        start = np.searchsorted(scores, grid, side="right")
        start[0] = 0
        held = start[:-1] < start[1:]
        first, edges = start[:-1][held], both_edges(grid)[held]
    else:  # near-equal weights, ties whole; inner edges lie midway between neighbouring scores
        ties = summary.near_ties
        first = equal_mass_starts(ties.weight, n_bins)
        above = ties.scores[first[1:]]
        return Bins(_edges_between(summary.last_below(above), above), *_sums(ties, first))
    return Bins(edges, *_sums(summary.distinct, first))


def bin_rows(rows: Rows, n_bins: int, strategy: CurveStrategy) -> Bins:
    """Cut rows into the bins that their summary would be cut into, without sorting them where they are many."""
    if rows.scores.size < _MANY or strategy == "isotonic":
        return make_bins(rows.summary(), n_bins, strategy)
    if strategy == "uniform":
        grid = np.linspace(0.0, 1.0, n_bins + 1)
        # parts of bins: rows one after another that fall into the same bin would wait for each other's sums
        n_parts = -(-_PARTS // n_bins)
        edges = np.linspace(0.0, 1.0, n_bins * n_parts + 1)
        edges[::n_parts] = grid
        sums = _sum_between(rows, edges)[:4].reshape(4, n_bins, n_parts).sum(axis=2)
        held = sums[0] > 0.0
        return Bins(both_edges(grid)[held], *sums[:, held])
    return _quantile_bins_of_rows(rows, n_bins)


def _sum_between(rows: Rows, edges: FloatArray) -> FloatArray:
    sums = np.zeros((edges.size - 1, 6))
    sums[:, 4:] = np.inf, -np.inf
    kernels.sum_bins(rows.scores, rows.positive, np.empty(0) if rows.weight is None else rows.weight, edges, sums)
    return np.asarray(np.ascontiguousarray(sums.T))


def _quantile_bins_of_rows(rows: Rows, n_bins: int) -> Bins:
    """Sum the rows in fine bins, and sort only those in fine bins that more than one bin has a part of."""
    fine = np.linspace(0.0, 1.0, _FINE_BINS + 1)
    sums = _sum_between(rows, fine)
    cumulative = np.concatenate(([0.0], np.cumsum(sums[0])))
    bin_of = bins_of_mass(cumulative, float(sums[0].sum()), n_bins)
    is_open = (bin_of[1:] > bin_of[:-1]) & (sums[4] < sums[5])
    index = np.empty(rows.scores.size, np.int64)
    index = index[: kernels.rows_in_bins(rows.scores, fine, is_open, index)]
    weight = None if rows.weight is None else rows.weight[index]
    parts = sums[:, ~is_open & (sums[0] > 0.0)]
    if index.size:
        scores, *columns = ScoreSummary.from_rows(rows.scores[index], rows.positive[index], weight).near_ties
        parts = np.hstack((parts, np.vstack((*columns, columns[0] * scores, scores, scores))))
        parts = parts[:, np.argsort(parts[4])]
    first = equal_mass_starts(parts[0], n_bins)
    edges = _edges_between(parts[5, first[1:] - 1], parts[4, first[1:]])
    return Bins(edges, *np.add.reduceat(parts[:4], first, axis=1))


def _edges_between(last: FloatArray, first: FloatArray) -> FloatArray:
    """Return the edges of bins of [0, 1], given the last score of each but the highest, and the first of the next."""
    edges = np.empty(last.size + 2)
    edges[0], edges[1:-1], edges[-1] = 0.0, midpoints(last, first), 1.0
    return both_edges(edges)


def both_edges(edges: FloatArray) -> FloatArray:
    """Return both edges of each bin, given the edges in order."""
    return np.array((edges[:-1], edges[1:])).T


def _sums(distinct: DistinctScores, first: IntArray) -> list[FloatArray]:
    """Sum weight, squared weight, positives and weighted scores of runs, given the index of the first of each."""
    scores, weight, squared, positives = distinct
    return [np.add.reduceat(column, first) for column in (weight, squared, positives, weight * scores)]


def merged(distinct: DistinctScores, first: IntArray) -> DistinctScores:
    """Sum runs of neighbouring scores, given the index of the first of each, and put them at their mean score."""
    weight, squared, positives, total = _sums(distinct, first)
    return DistinctScores(np.clip(total / weight, 0.0, 1.0), weight, squared, positives)
