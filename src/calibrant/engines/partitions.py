"""The exact isotonic regression of rows that don't fit in memory: a histogram shows where its blocks can end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.engines.columns import Column
from calibrant.engines.folding import FoldState
from calibrant.engines.quantised import MOST_BITS, CellTable, QuantisedSummary, n_cells
from calibrant.engines.rows import added
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.summary import Blocks, ScoreSummary

#: Which parts of ranges hold rows, and what each holds.
_Parts: TypeAlias = tuple[IntArray, FloatArray]
_CodeArray = npt.NDArray[np.uint64]
_SIGN = np.uint64(1 << 63)
#: What rounding may take from a comparison of sums.
_SLACK = 1e-12
#: Parts that a range of scores with too many rows is cut into, time after time.
_CUTS = 1 << 10
#: Passes that split cells, and how much each must save.
_MOST_SPLITS = 4
_LEAST_FALL = 0.75
#: Parts of one pass: so many times the wanted rows to the power 2/3, from where on they settle most of these, up to
#: what memory is asked to hold.
_PARTS_FACTOR = 4.0
_MOST_PARTS = 1 << 21


class PooledSummary(QuantisedSummary):
    """A quantised summary that knows the isotonic blocks of the rows themselves."""

    def __init__(self, filled: FloatArray, blocks: Blocks, *, is_probability: bool) -> None:
        super().__init__(filled, is_probability=is_probability)
        self._blocks = blocks

    def isotonic_blocks(self) -> Blocks:
        """Return the maximal blocks of the isotonic regression of the rows."""
        return self._blocks


def pooled_summary(column: Column, *, max_rows: int, start: QuantisedSummary | None = None) -> PooledSummary:
    """Summarise a column that can be read several times, with its exact isotonic blocks.

    Parameters
    ----------
    column : Column
    max_rows : int
        Distinct scores held at a time.
    start : QuantisedSummary, optional
        What one pass over the column gave.

    Notes
    -----
    The first pass counts rows in cells. Pooling the cells gives the convex minorant over their edges; only cells whose
    corner (all negatives first) is not above it can hold the end of a block. Further passes split those into finer
    ones, of which fewer can, until what is left fits; then its rows are fetched, in disjoint ranges of at most
    `max_rows` rows, and pooled. Pooling all ranges and the cells that were left alone, in the order of their scores,
    gives the blocks of all rows: any order of pooling does. Sums of unweighted rows are integers, and so are all
    comparisons that decide.

    References
    ----------
    Robertson, Wright and Dykstra (1988), *Order Restricted Statistical Inference*, theorem 1.2.1, for the minorant.
    """
    if start is None or start.n_bits is None or not start.is_counted:
        start, n_rows, is_counted = _count(column)
    else:
        n_rows, is_counted = start.weight, True
    cells = _Cells(start.low, start.high, start.weight, start.positives, n_rows)
    assert start.n_bits is not None  # noqa: S101
    grid = _Grid(start.n_bits, column.is_probability)
    flags = cells.flags()
    n_wanted = float(cells.n_rows[flags].sum())
    for _ in range(_MOST_SPLITS):
        if n_wanted <= max_rows:
            break
        cells = _split(column, cells, flags, grid)
        flags = cells.flags()
        n_before, n_wanted = n_wanted, float(cells.n_rows[flags].sum())
        if n_wanted > _LEAST_FALL * n_before:
            break
    pieces = [cells.at(~flags).pieces()]
    for group in _groups(cells.n_rows, np.flatnonzero(flags), max_rows):
        part = cells.at(np.array(group))
        if len(group) == 1 and part.n_rows[0] > max_rows:
            pieces.extend(_cut(column, part.low.item(), part.high.item(), max_rows, is_counted))
        else:
            pieces.append(_fetch(column, _Within(part, grid)))
    return PooledSummary(start.filled, pool(pieces, is_counted=is_counted), is_probability=column.is_probability)


def _count(column: Column) -> tuple[QuantisedSummary, FloatArray, bool]:
    """Count rows in cells; return their summary, the rows of each cell, and whether no row has a weight."""
    table, weighted = column.reduce(_count_part, _merge_counts)
    if weighted is None:
        return table.summary(), table.filled()[0], True
    return weighted.summary(), table.filled()[0], False


def _count_part(column: Column) -> tuple[CellTable, CellTable | None]:
    """Return cells of rows, and cells of their weights where there are any."""
    table = CellTable.empty(MOST_BITS, is_probability=column.is_probability)
    weighted = None
    for scores, positive, weight in column:
        if weight is not None and weighted is None:
            weighted = replace(table, cells=table.cells.copy())
        if weighted is not None:
            w = np.ones(scores.size) if weight is None else weight
            weighted.add_groups(ScoreSummary.from_rows(scores, positive, w).distinct)
        table.add_rows(scores, positive)
    return table, weighted


def _merge_counts(
    a: tuple[CellTable, CellTable | None], b: tuple[CellTable, CellTable | None]
) -> tuple[CellTable, CellTable | None]:
    weighted = None
    if a[1] is not None or b[1] is not None:
        weighted = replace(a[0], cells=a[0].cells.copy()) if a[1] is None else a[1]
        weighted.merge(b[0] if b[1] is None else b[1])
    a[0].merge(b[0])
    return a[0], weighted


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where cells of the first pass lie."""

    n_bits: int
    is_probability: bool

    def starts(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Return which of the rising scores is the first of each cell, or of a later one."""
        counts = np.zeros(n_cells(self.n_bits, is_probability=self.is_probability), np.int64)
        kernels.count_in_cells(scores, self.n_bits, self.is_probability, counts)
        return np.concatenate(([0], np.cumsum(counts)))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Disjoint ranges of scores in rising order, each with weight, positives and number of rows."""

    low: FloatArray
    high: FloatArray
    weight: FloatArray
    positives: FloatArray
    n_rows: FloatArray

    def flags(self) -> BoolArray:
        """Return whether each range can hold the end of a block."""
        flags = np.zeros(self.low.size, np.uint8)
        is_split = (self.low < self.high).astype(np.uint8)
        kernels.flag_vertices(self.weight, self.positives, is_split, _SLACK, flags)
        return flags.view(np.bool_)

    def at(self, chosen: BoolArray | npt.NDArray[np.int64]) -> _Cells:
        """Return some of the ranges."""
        columns = (self.low, self.high, self.weight, self.positives, self.n_rows)
        return _Cells(*(np.ascontiguousarray(column[chosen]) for column in columns))

    def pieces(self) -> _Pieces:
        """Return the ranges as they are pooled."""
        return _Pieces(self.low, self.high, self.weight, self.positives)


def _split(column: Column, cells: _Cells, flags: BoolArray, grid: _Grid) -> _Cells:
    """Split the flagged ranges into equal parts; return all ranges that hold rows."""
    wanted, settled = cells.at(flags), cells.at(~flags)
    n_all = min(_PARTS_FACTOR * float(wanted.n_rows.sum()) ** (2 / 3), _MOST_PARTS)
    n_parts = max(2, math.ceil(n_all / wanted.low.size))
    with np.errstate(over="ignore", divide="ignore"):
        scale = n_parts / (wanted.high - wanted.low)
    scale[~np.isfinite(scale)] = 0.0  # too near or too far apart to tell parts: left as one
    within = _Within(wanted, grid)

    def partial(column: Column) -> _Parts:
        parts = np.zeros((wanted.low.size * n_parts, 5))
        for scores, positive, weight in column:
            w = np.broadcast_to(1.0, scores.shape) if weight is None else weight
            kernels.split_ranges(scores, positive, w, within.places(scores), wanted.low, scale, n_parts, parts)
        at = np.flatnonzero(parts[:, 0])
        return at, parts[at]

    _, filled = column.reduce(partial, _merge_parts)
    n_rows, weight_sum, positives, low, high = np.ascontiguousarray(filled.T)
    order = np.argsort(np.concatenate((settled.low, low)), kind="stable")
    split = _Cells(low, high, weight_sum, positives, n_rows)
    names = ("low", "high", "weight", "positives", "n_rows")
    return _Cells(*(np.concatenate((getattr(settled, name), getattr(split, name)))[order] for name in names))


def _merge_parts(a: _Parts, b: _Parts) -> _Parts:
    """Add the sums of the same parts of ranges; take their least and largest scores."""
    if not a[0].size or not b[0].size:
        return a if a[0].size else b
    at, rows = np.concatenate((a[0], b[0])), np.vstack((a[1], b[1]))
    order = np.argsort(at, kind="stable")
    at, rows = at[order], rows[order]
    starts = np.flatnonzero(np.concatenate(([True], at[1:] != at[:-1])))
    merges = (np.add, np.add, np.add, np.minimum, np.maximum)
    columns = [merge.reduceat(column, starts) for merge, column in zip(merges, rows.T, strict=True)]
    return at[starts], np.column_stack(columns)


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


class _Within:
    """The rows of scores within some ranges."""

    def __init__(self, ranges: _Cells, grid: _Grid) -> None:
        self.ranges, self.grid = ranges, grid
        self.starts = grid.starts(ranges.low)  # each range lies within one cell of the grid

    def places(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Return the range that each score is in, or -1."""
        place = np.empty(scores.size, np.int64)
        grid, ranges = self.grid, self.ranges
        kernels.find_ranges(scores, grid.n_bits, grid.is_probability, self.starts, ranges.low, ranges.high, place)
        return place

    def take(self, scores: FloatArray) -> BoolArray:
        """Say of each row whether it is wanted."""
        return self.places(scores) >= 0


@dataclass(frozen=True, slots=True)
class _Between:
    """The rows of scores within [low, high]."""

    low: float
    high: float

    def take(self, scores: FloatArray) -> BoolArray:
        """Say of each row whether it is wanted."""
        return (scores >= self.low) & (scores <= self.high)


def _fetch(column: Column, wanted: _Within | _Between) -> _Pieces:
    """Return the distinct scores of the rows that are wanted."""

    def partial(column: Column) -> FoldState:
        state = FoldState()
        for scores, positive, weight in column:
            at = np.flatnonzero(wanted.take(scores))
            if at.size:
                state.add(scores[at], positive[at], None if weight is None else weight[at])
        state.settle()
        return state

    cells = column.reduce(partial, FoldState.merge).summary().distinct
    return _Pieces(cells.scores, cells.scores, cells.weight, cells.positives)


def _cut(column: Column, low: float, high: float, max_rows: int, is_counted: bool) -> Iterator[_Pieces]:
    """Cut a range of scores with too many rows until each part has few enough, or is one score; pool each."""
    ends = _ordered(np.array([low, high]))
    span = int(ends[1]) - int(ends[0]) + 1
    n_cuts = min(_CUTS, span)
    starts = np.array([int(ends[0]) + span * i // n_cuts for i in range(n_cuts)], dtype=np.uint64)

    def partial(column: Column) -> FloatArray:
        sums = np.zeros((3, n_cuts))
        for scores, positive, weight in column:
            at = np.flatnonzero((scores >= low) & (scores <= high))
            place = np.searchsorted(starts, _ordered(scores[at]), side="right") - 1
            w = np.ones(at.size) if weight is None else weight[at]
            sums[0] += np.bincount(place, minlength=n_cuts)
            sums[1] += np.bincount(place, w, n_cuts)
            sums[2] += np.bincount(place, np.where(positive[at], w, 0.0), n_cuts)
        return sums

    n_rows, total, hits = column.reduce(partial, added)
    stops = np.concatenate((starts[1:] - np.uint64(1), ends[1:]))
    for group in _groups(n_rows, np.flatnonzero(n_rows), max_rows):
        first, last = _scores(starts[group[:1]]).item(), _scores(stops[group[-1:]]).item()
        if len(group) > 1 or n_rows[group[0]] <= max_rows:
            yield _Pieces(*pool([_fetch(column, _Between(first, last))], is_counted=is_counted))
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
