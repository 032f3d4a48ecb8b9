"""The exact isotonic regression of rows that don't fit in memory.

Scores are told apart by their leading bits, as in a tree whose nodes have more children where there are more rows. A
pass counts the rows of each leaf. Pooling the leaves gives the convex minorant over their edges. Only a leaf whose
corner (all its negatives first) is not above it can hold the end of a block; and where a block ends between two leaves,
it ends at scores of these. The rows of such leaves are fetched. Where they are too many, their leaves become nodes, and
another pass counts. Pooling these rows and the leaves that were left alone, in the order of their scores, gives the
blocks of all rows: any order of pooling does. Sums of unweighted rows are integers, and so are all comparisons that
decide.

Source: Robertson, Wright and Dykstra (1988), Order Restricted Statistical Inference, theorem 1.2.1, for the minorant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.engines.folding import FoldState
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.row_stream import RowStream
from calibrant.summary import Blocks, DistinctScores, ScoreSummary

_CodeArray: TypeAlias = npt.NDArray[np.uint64]
_NodeArray: TypeAlias = npt.NDArray[np.int32]
#: Where rows fall: the numbers of leaves, and number of rows, weight and positives of each, shape (m, 3).
_Counts: TypeAlias = tuple[IntArray, FloatArray]
_SIGN = np.uint64(1 << 63)
#: What rounding may take from a comparison of sums.
_SLACK = 1e-12
#: Leading bits that tell the roots apart: the sign of a score, its binary exponent and four of its digits.
_ROOT_BITS = 16
_N_ROOTS = 1 << _ROOT_BITS
#: Leaves of one pass: so many times the wanted rows to the power 2/3, from where on they decide about most of these, up
#: to what memory is asked to hold.
_LEAVES_FACTOR = 6.0
_MOST_LEAVES = 1 << 21
#: Passes that make nodes of leaves whose rows would fit one by one, and how much each must save.
_MOST_SPLITS = 4
_LEAST_FALL = 0.75
#: Rows that narrow integers can count.
_MOST_NARROW = (1 << 32) - 1
_ONE = np.uint32(1)


class PooledSummary(ScoreSummary):
    """What isotonic regression asks of a summary: the blocks of the rows and their totals. Each block is one score."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(DistinctScores(blocks.first, blocks.weight, blocks.weight, blocks.positives))
        self._blocks = blocks

    def isotonic_blocks(self) -> Blocks:
        return self._blocks


def pooled_summary(stream: RowStream, *, max_rows: int, known: ScoreSummary) -> PooledSummary:
    """Summarise a stream of one score with its exact isotonic blocks, at most `max_rows` distinct scores at a time.

    `known` is of the rows or of some of them, exact or not: it tells where scores are dense.
    """
    tree = _Tree.of(known.scores, known.weight, stream.count())
    leaves, n_before = tree.count(stream), np.inf
    while True:
        wanted = leaves.wanted()
        n_rows = leaves.n_rows[wanted]
        n_wanted = float(n_rows.sum())
        fit_alone = bool((n_rows <= max_rows).all())
        is_worth = len(tree.levels) <= _MOST_SPLITS and n_wanted <= _LEAST_FALL * n_before
        if n_wanted <= max_rows or (fit_alone and not is_worth):
            break
        n_before = n_wanted
        tree = tree.grown(leaves.at(wanted))
        leaves = leaves.at(~wanted).with_others(tree.count(stream))
    parts, is_counted = [leaves.pooled_without(wanted)], leaves.is_counted
    runs = [leaves.number[run] for run in _runs_that_fit(leaves.n_rows, np.flatnonzero(wanted), max_rows)]
    del leaves, wanted  # memory is short here
    parts += [tree.fetch(stream, run) for run in runs]
    return PooledSummary(pool(parts, is_counted=is_counted))


class _Leaves(NamedTuple):
    """Leaves that hold rows, rising: where each begins, the bits that are left in it, its sums, and its number.

    Those of earlier passes have the number -1.
    """

    start: _CodeArray
    n_bits: IntArray
    n_rows: FloatArray
    weight: FloatArray
    positives: FloatArray
    number: IntArray

    @property
    def is_counted(self) -> bool:
        """Whether no row has a weight."""
        return bool(np.array_equal(self.n_rows, self.weight))

    def at(self, chosen: BoolArray) -> _Leaves:
        """Return some of the leaves."""
        columns: Any = (column[chosen] for column in self)
        return _Leaves(*columns)

    def with_others(self, others: _Leaves) -> _Leaves:
        """Return these, as those of earlier passes, and others."""
        mine = self._replace(number=np.full(self.number.size, -1))
        order = np.argsort(np.concatenate((self.start, others.start)), kind="stable")
        columns: Any = (np.concatenate(both)[order] for both in zip(mine, others, strict=True))
        return _Leaves(*columns)

    def wanted(self) -> BoolArray:
        """Say which leaves hold the end of a block, or may: of the last pass, others were left alone for good."""
        can_split = (self.n_bits > 0) & (self.number >= 0)
        flags = np.zeros(self.weight.size, np.uint8)
        kernels.flag_vertices(self.weight, self.positives, can_split.view(np.uint8), _SLACK, flags)
        end = _pool_sums(self.weight, self.positives, is_counted=self.is_counted)[0]
        flags[0] = 1
        flags[end - 1] = 1
        flags[end[:-1]] = 1
        return flags.view(np.bool_) & can_split

    def pooled_without(self, wanted: BoolArray) -> Blocks:
        """Return the leaves that are not wanted, from the first score that each may hold to the last.

        No block ends in them, or between two of them unless the first is a single score: they are pooled.
        """
        is_first = np.append(True, (wanted | (self.n_bits == 0))[:-1])
        at = np.flatnonzero(~wanted)
        first = np.flatnonzero(is_first[at])
        if not first.size:
            return Blocks(*np.empty((4, 0)))
        end = at[np.append(first[1:], at.size) - 1]
        last = self.start[end] + ((np.uint64(1) << self.n_bits[end].astype(np.uint64)) - np.uint64(1))
        sums = (np.add.reduceat(column[at], first) for column in (self.weight, self.positives))
        return Blocks(_scores(self.start[at[first]]), _scores(last), *sums)


@dataclass(frozen=True, slots=True)
class _Level:
    """Nodes of one depth whose children the next bits of a score tell apart.

    Of `n_nodes`, those with the numbers `at` have children: each begins at `start`, its children are numbered from
    `first` on, the last number of which is that of all children, and `n_bits` are left in each of these.
    """

    n_nodes: int
    at: IntArray
    start: _CodeArray
    first: IntArray
    n_bits: IntArray

    @classmethod
    def of(cls, n_nodes: int, leaves: _Leaves, *, least: int, n_leaves: float) -> Self:
        """Give children to leaves, at least 2^`least` to each: about `n_leaves`, and more where there are more rows."""
        share = leaves.n_rows / leaves.n_rows.sum()
        taken = np.ceil(np.log2(np.maximum(share * n_leaves, 1.0))).astype(np.int64)
        taken = np.minimum(np.maximum(taken, least), leaves.n_bits)
        first = np.concatenate(([0], np.cumsum(1 << taken)))
        return cls(n_nodes, leaves.number, leaves.start, first, leaves.n_bits - taken)

    def table(self) -> tuple[_NodeArray, npt.NDArray[np.uint8], _CodeArray]:
        """Return of each node its first child or -1, how far to shift a score, and the bits to keep."""
        child = np.full(self.n_nodes, -1, np.int32)
        shift, kept = np.zeros(self.n_nodes, np.uint8), np.zeros(self.n_nodes, np.uint64)
        child[self.at], shift[self.at], kept[self.at] = self.first[:-1], self.n_bits, np.diff(self.first) - 1
        return child, shift, kept

    def leaves(self, counts: _Counts) -> _Leaves:
        """Return the children that hold rows."""
        number, sums = counts
        parent = np.searchsorted(self.first, number, side="right") - 1
        n_bits = self.n_bits[parent]
        nth = (number - self.first[parent]).astype(np.uint64)
        start = self.start[parent] + (nth << n_bits.astype(np.uint64))
        n_rows, weight, positives = np.ascontiguousarray(sums.T)
        return _Leaves(start, n_bits, n_rows, weight, positives, number)


@dataclass(frozen=True, slots=True)
class _Tree:
    """Levels of nodes; the children of the last are leaves."""

    levels: tuple[_Level, ...]

    @classmethod
    def of(cls, scores: FloatArray, weight: FloatArray, n_rows: int) -> Self:
        """Return a tree of one level for so many rows, of which some scores are known."""
        roots = np.arange(_N_ROOTS)
        n_bits = 64 - _ROOT_BITS
        known = np.bincount((_codes(scores) >> np.uint64(n_bits)).astype(np.int64), weight, _N_ROOTS).astype(np.float64)
        start = roots.astype(np.uint64) << np.uint64(n_bits)
        leaves = _Leaves(start, np.full(_N_ROOTS, n_bits), known, known, known, roots)
        return cls((_Level.of(_N_ROOTS, leaves, least=0, n_leaves=_n_leaves(n_rows)),))

    def grown(self, leaves: _Leaves) -> _Tree:
        """Return the tree with another level below some leaves of the last."""
        n_leaves = _n_leaves(float(leaves.n_rows.sum()))
        return _Tree((*self.levels, _Level.of(self.n_leaves, leaves, least=1, n_leaves=n_leaves)))

    @property
    def n_leaves(self) -> int:
        """How many leaves the last level has."""
        return int(self.levels[-1].first[-1])

    def count(self, stream: RowStream) -> _Leaves:
        """Count the rows of each leaf of the last level; return those that hold rows."""

        def partial(stream: RowStream) -> _Counts:
            counter = _Counter(self)
            for rows in stream:
                counter.add(rows.scores, rows.positive, rows.weight)
            return counter.found()

        return self.levels[-1].leaves(stream.reduce(partial, _merge, is_large=True))

    def fetch(self, stream: RowStream, numbers: IntArray) -> Blocks:
        """Return the distinct scores of the rows of some leaves."""
        is_wanted = np.zeros(self.n_leaves + 1, np.bool_)  # the last is for rows in no leaf, whose number is -1
        is_wanted[numbers] = True

        def partial(stream: RowStream) -> FoldState:
            state, walk = FoldState(), _Walk(self)
            for rows in stream:
                found = rows.take(np.flatnonzero(is_wanted[walk.leaves_of(rows.scores)]))
                if found.n_rows:
                    state.add(found.scores, found.positive, found.weight)
            state.flush()
            return state

        found = stream.reduce(partial, FoldState.merge, is_large=True).summary().distinct
        return Blocks(found.scores, found.scores, found.weight, found.positives)


class _Walk:
    """The way of scores down a tree."""

    def __init__(self, tree: _Tree) -> None:
        self._tables = [level.table() for level in tree.levels]

    def leaves_of(self, scores: FloatArray) -> _NodeArray:
        """Return the leaf of the last level that each score is in, or -1."""
        bits = np.ascontiguousarray(scores).view(np.int64)
        node = np.empty(scores.size, np.int32)
        for depth, table in enumerate(self._tables):
            kernels.step_down(bits, 64 - _ROOT_BITS if depth == 0 else 0, *table, node)
        return node


class _Counter:
    """The sums of rows in the leaves of a tree: number and positives, and weights where there are any."""

    def __init__(self, tree: _Tree) -> None:
        self._walk = _Walk(tree)
        self._numbers: npt.NDArray[Any] = np.zeros((tree.n_leaves, 2), np.uint32)
        self._weights: FloatArray | None = None
        self._n_left = _MOST_NARROW

    def add(self, scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> None:
        """Add rows."""
        self._n_left -= scores.size
        if self._n_left < 0 and self._numbers.dtype == np.uint32:
            self._numbers = self._numbers.astype(np.int64)
        node = self._walk.leaves_of(scores)
        if weight is not None and self._weights is None:
            self._weights = self._numbers.astype(np.float64)
        if self._weights is not None:
            known = np.broadcast_to(1.0, scores.shape) if weight is None else weight
            kernels.add_to_leaves(node, positive, known, self._weights)
        kernels.add_to_leaves(node, positive, np.broadcast_to(_ONE, scores.shape), self._numbers)

    def found(self) -> _Counts:
        """Return the sums of the leaves that hold rows."""
        at = np.flatnonzero(self._numbers[:, 0])
        sums = self._numbers if self._weights is None else self._weights
        return at, np.column_stack((self._numbers[at, 0], sums[at])).astype(np.float64)


def _merge(a: _Counts, b: _Counts) -> _Counts:
    """Add the sums of the same leaves."""
    if not a[0].size or not b[0].size:
        return a if a[0].size else b
    at, place = np.unique(np.concatenate((a[0], b[0])), return_inverse=True)
    sums = np.zeros((at.size, 3))
    for part, rows in ((place[: a[0].size], a[1]), (place[a[0].size :], b[1])):
        sums[part] += rows  # each leaf is once in a part
    return at, sums


def _n_leaves(n_rows: float) -> float:
    """Return how many leaves so many rows are counted in."""
    return float(min(_LEAVES_FACTOR * n_rows ** (2 / 3), _MOST_LEAVES))


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
    end, weight, positives = _pool_sums(w, p, is_counted=is_counted)
    return Blocks(first[np.append(0, end[:-1])], last[end - 1], weight, positives)


def _pool_sums(w: FloatArray, p: FloatArray, *, is_counted: bool) -> tuple[IntArray, FloatArray, FloatArray]:
    """Pool weights and positives of neighbours, counts as integers; return end, weight and positives of each block."""
    kind: type[Any] = np.int64 if is_counted else np.float64
    weight, positives, end = w.astype(kind), p.astype(kind), np.empty(w.size, np.int64)
    top = kernels.pool_weighted(weight, positives, weight, positives, end)
    return end[:top].copy(), weight[:top].astype(np.float64), positives[:top].astype(np.float64)


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


def _codes(scores: FloatArray) -> _CodeArray:
    """Return integers in the order of the scores."""
    bits = (scores + 0.0).view(np.int64)
    codes: _CodeArray = (bits ^ ((bits >> 63) | np.int64(-(1 << 63)))).view(np.uint64)
    return codes


def _scores(codes: _CodeArray) -> FloatArray:
    """Return the scores of the integers that `_codes` gives."""
    bits = np.where(codes & _SIGN, codes ^ _SIGN, ~codes)
    return np.ascontiguousarray(bits).view(np.float64)
