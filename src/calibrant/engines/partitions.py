"""The exact isotonic regression of rows that don't fit in memory: a histogram shows where its blocks can end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.engines.folding import SortedRuns
from calibrant.engines.quantised import MOST_BITS, CellTable, QuantisedSummary
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.numerics import BoolArray, FloatArray, softmax
from calibrant.summary import Blocks, ScoreSummary

_CodeArray = npt.NDArray[np.uint64]
_SIGN = np.uint64(1 << 63)
#: What rounding may take from a comparison of sums.
_SLACK = 1e-12
#: Parts that a range of scores with too many rows is cut into, time after time.
_CUTS = 1 << 10


class PooledSummary(QuantisedSummary):
    """A quantised summary that knows the isotonic blocks of the rows themselves."""

    def __init__(self, filled: FloatArray, blocks: Blocks, *, is_probability: bool) -> None:
        super().__init__(filled, is_probability=is_probability)
        self._blocks = blocks

    def isotonic_blocks(self) -> Blocks:
        """Return the maximal blocks of the isotonic regression of the rows."""
        return self._blocks


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the scores that a reader reads, against one of its classes; both 0 where there is one only."""

    reader: RowReader
    k: int = 0

    def __iter__(self) -> Iterator[tuple[FloatArray, BoolArray, FloatArray | None]]:
        for rows in self.reader:
            yield self.of(rows)

    def of(self, rows: CheckedRows) -> tuple[FloatArray, BoolArray, FloatArray | None]:
        """Return scores, whether each row is positive, and weights."""
        if self.reader.is_binary:
            return rows.scores, rows.codes.view(np.bool_), rows.weight
        values = softmax(rows.scores) if self.reader.input == "logit" else rows.scores
        return np.ascontiguousarray(values[:, self.k]), rows.codes == self.k, rows.weight

    @property
    def is_probability(self) -> bool:
        """Whether the column holds probabilities."""
        return self.reader.input == "probability" or (self.reader.input == "logit" and not self.reader.is_binary)


def pooled_summary(column: Column, *, max_rows: int) -> PooledSummary:
    """Summarise a column that can be read several times, with its exact isotonic blocks.

    Parameters
    ----------
    column : Column
    max_rows : int
        Distinct scores held at a time.

    Notes
    -----
    The first pass counts rows in cells. Pooling the cells gives the convex minorant over their edges; only cells whose
    corner (all negatives first) is not above it can hold the end of a block. Further passes fetch the rows of those
    alone, in disjoint ranges of at most `max_rows` rows, and pool each; a range with more is cut into finer ones first.
    Pooling the blocks of ranges and the cells that were left alone, in the order of their scores, gives the blocks of
    all rows: any order of pooling does. Sums of unweighted rows are integers, and so are all comparisons.

    References
    ----------
    Robertson, Wright and Dykstra (1988), *Order Restricted Statistical Inference*, theorem 1.2.1, for the minorant.
    """
    table = CellTable.empty(MOST_BITS, is_probability=column.is_probability)
    counts, is_counted = table, True
    for scores, positive, weight in column:
        if weight is not None and is_counted:
            counts = CellTable(table.cells.copy(), MOST_BITS, column.is_probability)
            is_counted = False
        if weight is None:
            table.add_rows(scores, positive)
        else:
            table.add_groups(ScoreSummary.from_rows(scores, positive, weight).cells)
        if not is_counted:
            counts.add_rows(scores, positive)
    filled = table.filled()
    n_rows = counts.cells[counts.cells[:, 0] > 0.0, 0]
    places = np.flatnonzero(table.cells[:, 0] > 0.0)
    flags = np.zeros(places.size, np.uint8)
    kernels.flag_vertices(filled[0], filled[2], (filled[4] < filled[5]).astype(np.uint8), _SLACK, flags)
    settled = flags == 0
    pieces = [_Pieces(filled[4][settled], filled[5][settled], filled[0][settled], filled[2][settled])]
    for group in _groups(n_rows, np.flatnonzero(flags), max_rows):
        if len(group) == 1 and n_rows[group[0]] > max_rows:
            pieces.extend(_cut(column, filled[4][group[0]], filled[5][group[0]], max_rows, is_counted))
            continue
        wanted = np.zeros(table.cells.shape[0], np.uint8)
        wanted[places[group]] = 1
        pieces.append(_fetch(column, _Flagged(wanted, table), is_counted))
    return PooledSummary(filled, pool(pieces, is_counted=is_counted), is_probability=column.is_probability)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Disjoint ranges of scores, each with its weight and positives."""

    first: FloatArray
    last: FloatArray
    weight: FloatArray
    positives: FloatArray


def pool(pieces: list[_Pieces], *, is_counted: bool) -> Blocks:
    """Pool disjoint ranges, each of which is pooled or has no block's end inside, into the blocks of all.

    Weights that are counts of rows are compared as integers.
    """
    first, last, weight, positives = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("first", "last", "weight", "positives")
    )
    order = np.argsort(first)
    w, p = weight[order], positives[order]
    if is_counted:
        w, p = w.astype(np.int64), p.astype(np.int64)
    out_weight, out_positives, end = np.empty_like(w), np.empty_like(p), np.empty(w.size, np.int64)
    top = kernels.pool_weighted(w, p, out_weight, out_positives, end)
    starts = np.concatenate(([0], end[: top - 1]))
    return Blocks(
        first[order][starts],
        last[order][end[:top] - 1],
        out_weight[:top].astype(np.float64),
        out_positives[:top].astype(np.float64),
    )


def _groups(weight: FloatArray, chosen: npt.NDArray[np.int64], max_rows: int) -> list[list[int]]:
    """Group neighbouring cells so that each group holds at most so many rows, or is one cell."""
    groups: list[list[int]] = []
    held = np.inf
    for i in chosen.tolist():
        if held + weight[i] > max_rows:
            groups.append([])
            held = 0.0
        groups[-1].append(i)
        held += weight[i]
    return groups


@dataclass(frozen=True, slots=True)
class _Flagged:
    """The rows of flagged cells."""

    flags: npt.NDArray[np.uint8]
    table: CellTable

    def take(self, scores: FloatArray) -> BoolArray:
        """Say of each row whether it is wanted."""
        wanted = np.empty(scores.size, np.bool_)
        kernels.flag_rows(scores, self.table.n_bits, self.table.is_probability, self.flags, wanted)
        return wanted


@dataclass(frozen=True, slots=True)
class _Between:
    """The rows of scores within [low, high]."""

    low: float
    high: float

    def take(self, scores: FloatArray) -> BoolArray:
        """Say of each row whether it is wanted."""
        return (scores >= self.low) & (scores <= self.high)


def _fetch(column: Column, wanted: _Flagged | _Between, is_counted: bool) -> _Pieces:
    """Read the rows that are wanted, and pool them within the range that they are neighbours in.

    Where settled cells lie between them they must not be pooled across: their distinct scores are returned.
    """
    runs = SortedRuns()
    for scores, positive, weight in column:
        at = np.flatnonzero(wanted.take(scores))
        if at.size:
            part = None if weight is None else weight[at]
            runs.add(ScoreSummary.from_rows(scores[at], positive[at], part).cells)
    cells = runs.merged()
    pieces = _Pieces(cells.scores, cells.scores, cells.weight, cells.positives)
    if isinstance(wanted, _Flagged):
        return pieces
    return _Pieces(*pool([pieces], is_counted=is_counted))


def _cut(column: Column, low: float, high: float, max_rows: int, is_counted: bool) -> Iterator[_Pieces]:
    """Cut a range of scores with too many rows until each part has few enough, or is one score; pool each."""
    ends = _ordered(np.array([low, high]))
    span = int(ends[1]) - int(ends[0]) + 1
    n_cuts = min(_CUTS, span)
    starts = np.array([int(ends[0]) + span * i // n_cuts for i in range(n_cuts)], dtype=np.uint64)
    n_rows, total, hits = np.zeros(n_cuts), np.zeros(n_cuts), np.zeros(n_cuts)
    for scores, positive, weight in column:
        at = np.flatnonzero((scores >= low) & (scores <= high))
        place = np.searchsorted(starts, _ordered(scores[at]), side="right") - 1
        w = np.ones(at.size) if weight is None else weight[at]
        n_rows += np.bincount(place, minlength=n_cuts)
        total += np.bincount(place, w, n_cuts)
        hits += np.bincount(place, np.where(positive[at], w, 0.0), n_cuts)
    stops = np.concatenate((starts[1:] - np.uint64(1), ends[1:]))
    for group in _groups(n_rows, np.flatnonzero(n_rows), max_rows):
        first, last = _scores(starts[group[:1]]).item(), _scores(stops[group[-1:]]).item()
        if len(group) > 1 or n_rows[group[0]] <= max_rows:
            yield _fetch(column, _Between(first, last), is_counted)
        elif first == last:
            yield _Pieces(*(np.array([value]) for value in (first, last, total[group[0]], hits[group[0]])))
        else:
            yield from _cut(column, first, last, max_rows, is_counted)


def _ordered(scores: FloatArray) -> _CodeArray:
    """Return integers in the order of the scores."""
    bits = (scores + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _scores(codes: _CodeArray) -> FloatArray:
    """Return the scores of the integers that `_ordered` gives."""
    bits = np.where(codes & _SIGN, codes ^ _SIGN, ~codes)
    return np.ascontiguousarray(bits).view(np.float64)
