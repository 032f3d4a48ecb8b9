"""A summary of neighbouring scores gathered into cells, and the bounds of what that changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant import kernels
from calibrant.numerics import EPS, BoolArray, FloatArray, IntArray, clip_from_data, dot
from calibrant.readable import Readable
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import check_integer

#: Cells per octave, as a power of two, of one table; of many tables at once there are fewer.
MOST_BITS = 12
LEAST_BITS = 4


def n_cells(n_bits: int, *, is_probability: bool) -> int:
    """Return the number of cells of a table."""
    if not is_probability:
        return 2 * ((kernels.SCORE_OCTAVES << n_bits) + 2)
    n_deep = kernels.DEEP_OCTAVES << max(n_bits - kernels.COARSER, 0)
    return 2 * ((kernels.PROBABILITY_OCTAVES << n_bits) + n_deep + 2)


@dataclass(frozen=True, slots=True)
class CellTable:
    """Cells of neighbouring scores in rising order: the sums of any number of rows in a table of fixed size.

    Tables of the same resolution add up, in any order: counts exactly, sums of weights and scores to rounding. The
    columns of `cells`, of shape (m, 6), are weight, squared weight, positive weight, weighted score, least and largest
    score. There are 2^n_bits cells per octave; octaves of probabilities are counted from 0 and from 1, of other scores
    from 0 to both sides. Rows lie in the cells from `span[0]` up to `span[1]`: elsewhere the system gives the table no
    memory, as long as nobody looks there.
    """

    cells: FloatArray
    span: IntArray
    n_bits: int
    is_probability: bool

    def __reduce__(self) -> tuple[Callable[..., CellTable], tuple[Any, ...]]:
        """Pickle only the cells that hold rows."""
        at = self._at()
        return CellTable.of, (at, self.cells[at], self.n_bits, self.is_probability)

    @classmethod
    def empty(cls, n_bits: int, *, is_probability: bool) -> CellTable:
        """Return a table without rows."""
        n = n_cells(n_bits, is_probability=is_probability)
        return cls(np.zeros((n, 6)), np.array([n, 0]), n_bits, is_probability)

    @classmethod
    def of(cls, at: IntArray, filled: FloatArray, n_bits: int, is_probability: bool) -> CellTable:
        """Return the table whose cells with the numbers `at` are filled."""
        table = cls.empty(n_bits, is_probability=is_probability)
        table.cells[at] = filled
        if at.size:
            table.span[:] = at.min(), at.max() + 1
        return table

    def add_rows(self, scores: FloatArray, positive: BoolArray) -> None:
        """Add rows of weight one."""
        kernels.fold_rows(scores, positive, self.n_bits, self.is_probability, self.cells, self.span)

    def add_distinct(self, scores: DistinctScores) -> None:
        """Add distinct scores with their sums."""
        columns = (scores.scores, scores.weight, scores.weight_squared, scores.positives)
        kernels.fold_groups(*columns, self.n_bits, self.is_probability, self.cells, self.span)

    def merge(self, other: CellTable) -> None:
        """Add the rows of another table of the same resolution."""
        start, stop = other.span.tolist()
        kernels.merge_cells(self.cells[start:stop], other.cells[start:stop])
        self.span[:] = min(self.span[0], start), max(self.span[1], stop)

    def filled(self) -> FloatArray:
        """Return the cells that hold rows, one column per row of the result, shape (6, m)."""
        return np.ascontiguousarray(self.cells[self._at()].T)

    def _at(self) -> IntArray:
        """Return the numbers of the cells that hold rows."""
        start, stop = self.span.tolist()
        at: IntArray = start + np.flatnonzero(self.cells[start:stop, 0])
        return at

    def summary(self) -> QuantisedSummary:
        """Return the summary of the rows, each moved to the mean score of its cell."""
        return QuantisedSummary(self.filled(), is_probability=self.is_probability, n_bits=self.n_bits)


@dataclass(frozen=True, slots=True, repr=False)
class ErrorBounds(Readable):
    """How far the metrics of a quantised summary can be from those of the rows.

    Attributes
    ----------
    score : float
        The furthest that any score was moved.
    mean_score : float
        The weighted mean of how far scores can have been moved.
    brier : float
        Of the Brier score; NaN where scores are no probabilities, as are the next ones.
    log_loss : float
        Of the log loss.
    auc : float
        Of the area under the ROC curve.
    """

    score: float
    mean_score: float
    brier: float
    log_loss: float
    auc: float

    @property
    def in_words(self) -> str:
        """The bounds in a sentence."""
        parts = [f"scores moved by at most {self.score:.1e} (mean at most {self.mean_score:.1e})"]
        if self.brier == self.brier:
            parts.append(f"Brier score within {self.brier:.1e}, log loss within {self.log_loss:.1e}")
        parts.append(f"AUC within {self.auc:.1e}")
        return "; ".join(parts)


class QuantisedSummary(ScoreSummary):
    """A summary whose scores are the means of cells of neighbouring scores, with bounds of what that changes.

    Totals, weights and positives are those of the rows. A cell that holds one score only is exact.
    """

    def __init__(self, filled: FloatArray, *, is_probability: bool, n_bits: int | None = None) -> None:
        weight, squared, positives, score_sum, low, high = filled
        mean = np.clip(score_sum / weight, low, high)
        super().__init__(DistinctScores(mean + 0.0, weight, squared, np.minimum(positives, weight)))
        self.filled, self.low, self.high = filled, low, high
        self.n_bits, self.is_probability = n_bits, is_probability

    @cached_property
    def bounds(self) -> ErrorBounds:
        """How far metrics of this summary can be from those of the rows.

        Notes
        -----
        Let a cell hold weight W, of it P positive and N negative, with scores in [l, h] and mean c. The mean of
        (s - c)^2 is at most (h - c)(c - l) (Bhatia and Davis 2000), and the sum of w (s - c) over positives is minus
        that over negatives: the sum of squared errors moves by at most W (h - c)(c - l) + 2 min(P, N) d, where d is
        the larger of h - c and c - l. The log loss of a row moves by at most log(h / l), or the same of 1 - s. Pairs of
        a positive and a negative in one cell count one half in the AUC instead of 0 to 1. To each comes what rounding
        may change in the sum of scores of a cell.
        """
        scores, weight, _, positives = self.distinct
        negatives = weight - positives
        rounding = np.where(self.low < self.high, weight * EPS * np.abs(scores), 0.0)
        up, down = self.high - scores, scores - self.low
        far = np.maximum(up, down) + rounding
        total = self.total_weight
        pairs = self.total_positives * (total - self.total_positives)
        split = self.low < self.high
        auc = dot(positives[split], negatives[split]) / (2.0 * pairs) if pairs > 0.0 else np.nan
        brier = log_loss = np.nan
        if self.is_probability:
            brier = (dot(weight, up * down + rounding) + 2.0 * dot(np.minimum(positives, negatives), far)) / total
            spans = _log_span(positives, self.low, self.high) + _log_span(negatives, 1.0 - self.high, 1.0 - self.low)
            log_loss = spans / total
        return ErrorBounds(float(far.max()), dot(weight, far) / total, float(brier), float(log_loss), float(auc))

    @property
    def clip(self) -> float:
        """The clip of 0 and 1 that the rows support, which depends on the outermost scores alone."""
        return clip_from_data(np.concatenate((self.low, self.high)), self.total_weight)

    @property
    def is_counted(self) -> bool:
        """Whether rows have no weights, as far as sums tell: the weight of each cell is then its number of rows."""
        _, weight, squared, positives = self.distinct
        are_whole = all(np.array_equal(sums, np.round(sums)) for sums in (weight, positives))
        return are_whole and bool(np.array_equal(weight, squared))

    def ece_bound(self, n_bins: int = 15) -> float:
        """Return how far the expected calibration error of `n_bins` bins of equal width can be from that of the rows.

        Only cells that an edge cuts move rows from one bin to another: each changes two bins by its weight at most.
        Sums of cells differ by rounding besides.
        """
        check_integer("n_bins", n_bins, minimum=1)
        place = [np.minimum(np.floor(ends * n_bins), n_bins - 1) for ends in (self.low, self.high)]
        edge = np.round(self.distinct.scores * n_bins) / n_bins
        near = (place[0] != place[1]) | ((self.low < self.high) & (self.low <= edge) & (edge <= self.high))
        return 2.0 * float(self.distinct.weight[near].sum()) / self.total_weight + self.distinct.scores.size * EPS

    def _before(self) -> list[str]:
        return [
            f"Summary of {self.total_weight:,.10g} rows in {self.distinct.scores.size:,} cells: {self.bounds.in_words}"
        ]


def _log_span(mass: FloatArray, low: FloatArray, high: FloatArray) -> float:
    """Return the sum of mass times log(high / low), where there is mass and the ends differ."""
    kept = (mass > 0.0) & (low < high)
    with np.errstate(divide="ignore"):
        return dot(mass[kept], np.log(high[kept]) - np.log(low[kept]))
