"""Summaries built from batches of rows: exact while the distinct scores fit, in cells from there on. States merge.

Rows wait until there are enough of them, then are sorted into a run of distinct scores. Runs of similar length merge,
as in a merge sort, so that each score is moved a logarithmic number of times. Once all runs hold more scores than are
allowed, they are gathered into a table of cells (`calibrant.quantised`), which takes further rows one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant import kernels
from calibrant.errors import InvalidInputError
from calibrant.numerics import BoolArray, FloatArray
from calibrant.quantised import LEAST_BITS, MOST_BITS, CellTable
from calibrant.summary import DistinctScores, ScoreSummary

#: Rows that wait in a builder, all states together, before they are sorted: few at first where all may not fit, which
#: tell how many scores there are.
FIRST_ROWS = 1 << 17
_BUFFERED_ROWS = 1 << 22
#: Exact summaries are not tried where there seem to be so many times more scores than fit.
_SURELY = 1.1


@dataclass(slots=True)
class SortedRuns:
    """Distinct scores with their sums, as runs of falling length: adding one merges those that are as short."""

    runs: list[DistinctScores] = field(default_factory=list)

    def add(self, run: DistinctScores) -> None:
        """Add a run."""
        self.runs.append(run)
        while len(self.runs) > 1 and 2 * self.runs[-1].scores.size >= self.runs[-2].scores.size:
            last = self.runs.pop()
            self.runs[-1] = merge_runs(self.runs[-1], last)

    def merged(self) -> DistinctScores:
        """Return all as one run."""
        while len(self.runs) > 1:
            last = self.runs.pop()
            self.runs[-1] = merge_runs(self.runs[-1], last)
        return self.runs[0]

    @property
    def size(self) -> int:
        """Number of scores held; those of several runs count in each."""
        return sum(run.scores.size for run in self.runs)


def merge_runs(a: DistinctScores, b: DistinctScores) -> DistinctScores:
    """Merge two runs of distinct rising scores."""
    is_counted = a.weight is a.weight_squared and b.weight is b.weight_squared
    names = ("weight", "positives") if is_counted else ("weight", "weight_squared", "positives")
    stacks = [np.vstack([getattr(run, name) for name in names]) for run in (a, b)]
    room = a.scores.size + b.scores.size
    scores, columns = np.empty(room), np.empty((len(names), room))
    m = kernels.merge_runs(a.scores, stacks[0], b.scores, stacks[1], scores, columns)
    kept = [np.ascontiguousarray(column[:m]) for column in columns]
    if is_counted:
        return DistinctScores(scores[:m].copy(), kept[0], kept[0], kept[1])
    return DistinctScores(scores[:m].copy(), *kept)


@dataclass(slots=True)
class FoldState:
    """What is known of the rows so far: sorted runs, or a table of cells once these grew too many.

    Plain arrays: a worker can send it, and states merge in any order. Summaries of unweighted rows come out the same
    bits whatever the order; weighted sums are the same to rounding.
    """

    runs: SortedRuns = field(default_factory=SortedRuns)
    table: CellTable | None = None
    waiting: list[tuple[FloatArray, BoolArray, FloatArray | None]] = field(default_factory=list)

    def add(self, scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> None:
        """Add checked rows, which may wait."""
        if self.table is not None and weight is None:
            self.table.add_rows(scores, positive)
        else:
            self.waiting.append((scores, positive, weight))

    def flush(self) -> None:
        """Sort the rows that wait into a run, or count them in cells."""
        if not self.waiting:
            return
        scores, positive, weight = _joined(self.waiting)
        self.waiting = []
        self._add_run(ScoreSummary.from_rows(scores, positive, weight).distinct)

    def _add_run(self, run: DistinctScores) -> None:
        if self.table is None:
            self.runs.add(run)
        else:
            self.table.add_distinct(run)

    def quantise(self, n_bits: int, *, is_probability: bool) -> None:
        """Gather what is held into cells."""
        if self.table is None:
            self.table = CellTable.empty(n_bits, is_probability=is_probability)
            runs, self.runs = self.runs.runs, SortedRuns()
            for run in runs:
                self._add_run(run)

    def merge(self, other: FoldState) -> FoldState:
        """Add the rows of another state; return this one.

        Of two resolutions none is made from the other, so they must agree.
        """
        self.flush()
        other.flush()
        if self.table is None and other.table is not None:
            self.quantise(other.table.n_bits, is_probability=other.table.is_probability)
        for run in other.runs.runs:
            self._add_run(run)
        if self.table is not None and other.table is not None:
            if (other.table.n_bits, other.table.is_probability) != (self.table.n_bits, self.table.is_probability):
                raise InvalidInputError("the states have cells of different width. Fold both with the same settings.")
            self.table.merge(other.table)
        return self

    def summary(self) -> ScoreSummary:
        """Return the summary of the rows: a `QuantisedSummary` where they were gathered into cells."""
        self.flush()
        if self.table is not None:
            return self.table.summary()
        return ScoreSummary(self.runs.merged())


@dataclass(slots=True)
class SummaryBuilder:
    """States of several groups and classes that together hold at most `max_distinct` distinct scores.

    `exact` says whether summaries must be exact (an error where they don't fit), must be of cells, or as it comes
    (None). Where cells lie depends on whether scores are probabilities; how wide they are, on `n_states`, the number of
    states that there may be: their cells share the memory of one. `n_rows` is how many rows there will be, if known.
    """

    exact: bool | None
    max_distinct: int
    is_probability: bool
    n_states: int = 1
    states: dict[tuple[Any, int], FoldState] = field(default_factory=dict)
    n_rows: int | None = None
    n_waiting: int = 0
    n_flushed: int = 0
    is_quantised: bool = False

    @property
    def n_bits(self) -> int:
        """Cells per octave, as a power of two."""
        return max(LEAST_BITS, MOST_BITS - math.ceil(math.log2(max(self.n_states, 1))))

    def add(self, key: tuple[Any, int], scores: FloatArray, positive: BoolArray, weight: FloatArray | None) -> None:
        """Add checked rows of one group and class."""
        if key not in self.states:
            self.states[key] = FoldState()
            if self.exact is False or self.is_quantised:
                self.states[key].quantise(self.n_bits, is_probability=self.is_probability)
        self.states[key].add(scores, positive, weight)
        self.n_waiting += scores.size
        if self.n_waiting >= (FIRST_ROWS if self._is_first_look() else _BUFFERED_ROWS):
            self.flush()

    def _is_first_look(self) -> bool:
        """Whether the first rows are still to be looked at, as all scores, one a row for each class, may not fit."""
        return not self.n_flushed and self.exact is None and (self.n_rows or 0) * self.n_states > self.max_distinct

    def flush(self) -> None:
        """Sort the rows that wait, and gather all into cells where there are too many scores."""
        n_before, self.n_flushed, self.n_waiting = self.n_flushed, self.n_flushed + self.n_waiting, 0
        for state in self.states.values():
            state.flush()
        if self.exact is False or self.is_quantised:
            return
        if n_before == 0 and self.exact is None and self._is_hopeless():
            self._quantise()
            return
        if self._size() <= self.max_distinct:
            return
        for state in self.states.values():
            if state.runs.runs:
                state.runs.merged()
        if self._size() <= self.max_distinct:
            return
        if self.exact:
            raise InvalidInputError(
                f"there are more than {self.max_distinct:,} distinct scores. Pass a larger max_distinct if memory "
                "allows (100 bytes each), exact='auto' for a summary with bounds of its error, or fit by "
                "cb.engines.fit, whose isotonic fit is exact at any size."
            )
        self._quantise()

    def merge(self, other: SummaryBuilder) -> SummaryBuilder:
        """Add the rows of another builder with the same settings; return this one."""
        if other.is_quantised and not self.is_quantised:
            self._quantise()
        for key, state in other.states.items():
            if key in self.states:
                self.states[key].merge(state)
                continue
            self.states[key] = state
            if self.is_quantised:
                state.quantise(self.n_bits, is_probability=self.is_probability)
        self.n_flushed += other.n_flushed
        self.flush()
        return self

    def _quantise(self) -> None:
        self.is_quantised = True
        for state in self.states.values():
            state.quantise(self.n_bits, is_probability=self.is_probability)

    def _is_hopeless(self) -> bool:
        """Say whether the first rows show that the scores of all rows can't fit."""
        n_classes = max(1, len({k for _, k in self.states}))
        n_all = n_classes * (self.n_rows or 0)
        return has_too_many_scores(self.n_flushed, self._size(), n_all, self.max_distinct)

    def summaries(self) -> dict[tuple[Any, int], ScoreSummary]:
        """Return the summary of each group and class."""
        self.flush()
        return {key: state.summary() for key, state in self.states.items()}

    def _size(self) -> int:
        return sum(state.runs.size for state in self.states.values())


def _joined(
    parts: list[tuple[FloatArray, BoolArray, FloatArray | None]],
) -> tuple[FloatArray, BoolArray, FloatArray | None]:
    scores = np.concatenate([part[0] for part in parts])
    positive = np.concatenate([part[1] for part in parts])
    if all(part[2] is None for part in parts):
        return scores, positive, None
    weights = [np.ones(part[0].size) if part[2] is None else part[2] for part in parts]
    return scores, positive, np.concatenate(weights)


def has_too_many_scores(n_rows: int, n_seen: int, n_all: int, max_distinct: int) -> bool:
    """Say whether the distinct scores of some rows show that those of all rows are more than `max_distinct`.

    Where some scores are more frequent than others, there are taken to be fewer than there are.
    """
    if n_rows < 2 or not n_all:
        return False
    n_scores = _n_scores(n_rows, n_seen)
    return n_scores * -math.expm1(-n_all / n_scores) > _SURELY * max_distinct


def _n_scores(n_rows: int, n_seen: int) -> float:
    """Return the D of D (1 - exp(-r / D)) = `n_seen`: of D scores, all as frequent, r rows show so many."""
    seen = min(n_seen, n_rows - 1) / n_rows
    few, many = 0.0, 1.0 / seen  # between these lies r / D, how many rows each score has
    for _ in range(64):
        middle = 0.5 * (few + many)
        if -math.expm1(-middle) > seen * middle:
            few = middle
        else:
            many = middle
    return n_rows / many
