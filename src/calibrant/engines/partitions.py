"""The exact isotonic regression of rows that don't fit in memory.

The first pass counts rows in cells. Pooling the cells gives the convex minorant over their edges; only cells whose
corner (all negatives first) is not above it can hold the end of a block. Further passes split those into finer ranges,
of which fewer can, until what is left fits; then its rows are fetched, in disjoint ranges of a bounded number of rows,
and pooled. Pooling all ranges and the cells that were left alone, in the order of their scores, gives the blocks of all
rows: any order of pooling does. Sums of unweighted rows are integers, and so are all comparisons that decide.

Source: Robertson, Wright and Dykstra (1988), Order Restricted Statistical Inference, theorem 1.2.1, for the minorant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial as bind
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.engines.folding import FoldState
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.quantised import MOST_BITS, CellTable, QuantisedSummary, n_cells
from calibrant.row_stream import RowStream
from calibrant.rows import Rows
from calibrant.summary import Blocks, ScoreSummary

#: Cells of rows, and cells of their weights where there are any.
_Counts: TypeAlias = tuple[CellTable, CellTable | None]
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
#: Parts of one pass: so many times the wanted rows to the power 2/3, from where on they decide about most of these, up
#: to what memory is asked to hold.
_PARTS_FACTOR = 4.0
_MOST_PARTS = 1 << 21


class PooledSummary(QuantisedSummary):
    """A quantised summary that knows the isotonic blocks of the rows themselves."""

    def __init__(self, filled: FloatArray, blocks: Blocks, *, is_probability: bool) -> None:
        super().__init__(filled, is_probability=is_probability)
        self._blocks = blocks

    def isotonic_blocks(self) -> Blocks:
        return self._blocks


def pooled_summary(stream: RowStream, *, max_rows: int, start: QuantisedSummary | None = None) -> PooledSummary:
    """Summarise a stream of one score with its exact isotonic blocks, at most `max_rows` distinct scores at a time.

    `start` is what one pass gave.
    """
    is_probability = stream.input == "probability"
    if start is None or start.n_bits is None or not start.is_counted:
        start, n_rows, is_counted = _count(stream, is_probability=is_probability)
    else:
        n_rows, is_counted = start.weight, True
    cells = _Cells(start.low, start.high, start.weight, start.positives, n_rows)
    assert start.n_bits is not None  # noqa: S101
    within = bind(_Within, start.n_bits, is_probability=is_probability)
    flags = cells.flags()
    n_wanted = float(cells.n_rows[flags].sum())
    for _ in range(_MOST_SPLITS):
        if n_wanted <= max_rows:
            break
        cells = _split(stream, cells, flags, within)
        flags = cells.flags()
        n_before, n_wanted = n_wanted, float(cells.n_rows[flags].sum())
        if n_wanted > _LEAST_FALL * n_before:
            break
    parts = [cells.at(~flags).blocks()]
    for run in _runs_that_fit(cells.n_rows, np.flatnonzero(flags), max_rows):
        part = cells.at(np.array(run))
        if len(run) == 1 and part.n_rows[0] > max_rows:
            parts.extend(_cut(stream, part.low.item(), part.high.item(), max_rows, is_counted))
        else:
            parts.append(_fetch(stream, within(part).hold))
    return PooledSummary(start.filled, pool(parts, is_counted=is_counted), is_probability=is_probability)


def _count(stream: RowStream, *, is_probability: bool) -> tuple[QuantisedSummary, FloatArray, bool]:
    """Count rows in cells; return their summary, the rows of each cell, and whether no row has a weight."""

    def partial(stream: RowStream) -> _Counts:
        table = CellTable.empty(MOST_BITS, is_probability=is_probability)
        weighted = None
        for rows in stream:
            if rows.weight is not None and weighted is None:
                weighted = replace(table, cells=table.cells.copy())
            if weighted is not None:
                weighted.add_distinct(ScoreSummary.from_rows(rows.scores, rows.positive, rows.weights).distinct)
            table.add_rows(rows.scores, rows.positive)
        return table, weighted

    table, weighted = stream.reduce(partial, _merge_counts, is_large=True)
    if weighted is None:
        return table.summary(), table.filled()[0], True
    return weighted.summary(), table.filled()[0], False


def _merge_counts(a: _Counts, b: _Counts) -> _Counts:
    weighted = None
    if a[1] is not None or b[1] is not None:
        weighted = replace(a[0], cells=a[0].cells.copy()) if a[1] is None else a[1]
        weighted.merge(b[0] if b[1] is None else b[1])
    a[0].merge(b[0])
    return a[0], weighted


class _Cells(NamedTuple):
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
        return _Cells(*(np.ascontiguousarray(column[chosen]) for column in self))

    def blocks(self) -> Blocks:
        """Return the ranges as they are pooled."""
        return Blocks(self.low, self.high, self.weight, self.positives)


def _split(stream: RowStream, cells: _Cells, flags: BoolArray, within: Callable[[_Cells], _Within]) -> _Cells:
    """Split the flagged ranges into equal parts; return all ranges that hold rows."""
    wanted, alone = cells.at(flags), cells.at(~flags)
    n_all = min(_PARTS_FACTOR * float(wanted.n_rows.sum()) ** (2 / 3), _MOST_PARTS)
    n_parts = max(2, math.ceil(n_all / wanted.low.size))
    with np.errstate(over="ignore", divide="ignore"):
        scale = n_parts / (wanted.high - wanted.low)
    scale[~np.isfinite(scale)] = 0.0  # too near or too far apart to tell parts: left as one
    ranges = within(wanted)

    def partial(stream: RowStream) -> _Parts:
        parts = np.zeros((wanted.low.size * n_parts, 5))
        for rows in stream:
            s = rows.scores
            w = np.broadcast_to(1.0, s.shape) if rows.weight is None else rows.weight
            kernels.split_ranges(s, rows.positive, w, ranges.places(s), wanted.low, scale, n_parts, parts)
        at = np.flatnonzero(parts[:, 0])
        return at, parts[at]

    _, filled = stream.reduce(partial, _merge_parts, is_large=True)
    n_rows, weight_sum, positives, low, high = filled.T
    order = np.argsort(np.concatenate((alone.low, low)), kind="stable")
    split = _Cells(low, high, weight_sum, positives, n_rows)
    return _Cells(*(np.concatenate(columns)[order] for columns in zip(alone, split, strict=True)))


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


def pool(parts: list[Blocks], *, is_counted: bool) -> Blocks:
    """Pool disjoint ranges of scores, each of which is pooled or has no block's end inside, into the blocks of all.

    Weights that are counts of rows are compared as integers. Scores within a few units in the last place are one.
    """
    columns = list(zip(*parts, strict=True))  # joined one by one, as memory is short here
    first = np.concatenate(columns[0])
    order = np.argsort(first)
    first, last = first[order], np.concatenate(columns[1])[order]
    tie = np.empty(first.size, np.int64)
    tie = tie[: kernels.near_starts(first.view(np.uint64), tie)]
    first, last = first[tie], last[np.append(tie[1:], last.size) - 1]
    w, p = (np.add.reduceat(np.concatenate(column)[order], tie) for column in columns[2:])
    del order, tie
    if is_counted:
        w, p = w.astype(np.int64), p.astype(np.int64)
    out_weight, out_positives, end = np.empty_like(w), np.empty_like(p), np.empty(w.size, np.int64)
    top = kernels.pool_weighted(w, p, out_weight, out_positives, end)
    starts = np.concatenate(([0], end[: top - 1]))
    return Blocks(
        first[starts],
        last[end[:top] - 1],
        out_weight[:top].astype(np.float64),
        out_positives[:top].astype(np.float64),
    )


def _runs_that_fit(n_rows: FloatArray, chosen: npt.NDArray[np.int64], max_rows: int) -> list[list[int]]:
    """Put neighbouring ranges together so that each run holds at most so many rows, or is one range."""
    runs: list[list[int]] = []
    held = np.inf
    for i in chosen.tolist():
        if held + n_rows[i] > max_rows:
            runs.append([])
            held = 0.0
        runs[-1].append(i)
        held += n_rows[i]
    return runs


class _Within:
    """The rows of scores within some ranges, each of which lies within one cell of the first pass."""

    def __init__(self, n_bits: int, ranges: _Cells, *, is_probability: bool) -> None:
        self.n_bits, self.is_probability, self.ranges = n_bits, is_probability, ranges
        counts = np.zeros(n_cells(n_bits, is_probability=is_probability), np.int64)
        kernels.count_in_cells(ranges.low, n_bits, is_probability, counts)
        self.starts = np.concatenate(([0], np.cumsum(counts)))  # the first range of each cell, or of a later one

    def places(self, scores: FloatArray) -> npt.NDArray[np.int64]:
        """Return the range that each score is in, or -1."""
        place = np.empty(scores.size, np.int64)
        low, high = self.ranges.low, self.ranges.high
        kernels.find_ranges(scores, self.n_bits, self.is_probability, self.starts, low, high, place)
        return place

    def hold(self, scores: FloatArray) -> BoolArray:
        """Say of each score whether it is in one of the ranges."""
        return self.places(scores) >= 0


def _fetch(stream: RowStream, wanted: Callable[[FloatArray], BoolArray]) -> Blocks:
    """Return the distinct scores of the rows whose scores are wanted."""

    def partial(stream: RowStream) -> FoldState:
        state = FoldState()
        for rows in stream:
            found = rows.take(np.flatnonzero(wanted(rows.scores)))
            if found.n_rows:
                state.add(found.scores, found.positive, found.weight)
        state.flush()
        return state

    found = stream.reduce(partial, FoldState.merge, is_large=True).summary().distinct
    return Blocks(found.scores, found.scores, found.weight, found.positives)


def _cut(stream: RowStream, low: float, high: float, max_rows: int, is_counted: bool) -> Iterator[Blocks]:
    """Cut a range of scores with too many rows until each part has few enough, or is one score; pool each."""
    ends = _ordered(np.array([low, high]))
    span = int(ends[1]) - int(ends[0]) + 1
    n_cuts = min(_CUTS, span)
    starts = np.array([int(ends[0]) + span * i // n_cuts for i in range(n_cuts)], dtype=np.uint64)

    def part(rows: Rows) -> FloatArray:
        found = rows.take(_is_between(low, high, rows.scores)).tied()
        place = np.searchsorted(starts, _ordered(found.scores), side="right") - 1
        return np.array([np.bincount(place, sums, n_cuts) for sums in (None, found.weight, found.positives)], float)

    n_rows, total, hits = stream.total(part)
    stops = np.concatenate((starts[1:] - np.uint64(1), ends[1:]))
    for run in _runs_that_fit(n_rows, np.flatnonzero(n_rows), max_rows):
        first, last = _scores(starts[run[:1]]).item(), _scores(stops[run[-1:]]).item()
        if len(run) > 1 or n_rows[run[0]] <= max_rows:
            yield pool([_fetch(stream, bind(_is_between, first, last))], is_counted=is_counted)
        elif first == last:
            yield Blocks(*(np.array([value]) for value in (first, last, total[run[0]], hits[run[0]])))
        else:
            yield from _cut(stream, first, last, max_rows, is_counted)


def _is_between(low: float, high: float, scores: FloatArray) -> BoolArray:
    return (scores >= low) & (scores <= high)


def _ordered(scores: FloatArray) -> _CodeArray:
    """Return integers in the order of the scores."""
    bits = (scores + 0.0).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _scores(codes: _CodeArray) -> FloatArray:
    """Return the scores of the integers that `_ordered` gives."""
    bits = np.where(codes & _SIGN, codes ^ _SIGN, ~codes)
    return np.ascontiguousarray(bits).view(np.float64)
