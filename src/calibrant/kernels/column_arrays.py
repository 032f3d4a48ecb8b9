"""The arrays that the loops over sorted columns share. Nothing here is compiled, so importing it is cheap."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray, IntArray

PlaceArray: TypeAlias = npt.NDArray[np.int32]
#: Columns of the table of rows that a pass reads at random: one memory access brings all of them.
PENALTY, WEIGHT, ROW, SUM = 0, 1, 2, 3
#: How an order may be broken: a kind, and the slack or the price of a violation. Where None stands for it, the order
#: is kept; the compiler then leaves out the branches of a relaxed one.
Rule: TypeAlias = tuple[int, float]
SLACK, NEIGHBOURS, PAIRS = 0, 1, 2


class SortedColumns(NamedTuple):
    """A matrix of n rows and K columns, each column sorted by itself, with the margins that it shall have.

    Every row may be a tie of its own in every column; `tie` then has one line instead of K.

    Attributes
    ----------
    p : shape (K, n)
        The columns, each rising.
    order : shape (K, n)
        The row of the matrix at each place of a column.
    tie : shape (K, n + 1) or (1, n + 1)
        First place of each tie, that is of rows that have to stay equal; the first `n_ties + 1` entries count.
    n_ties : shape (K,)
    free, free_start : shape (R, 2), shape (K + 1,)
        First place and end of the equal probabilities that may separate, and where those of each column begin.
    margins : shape (K,)
        Column totals, which sum to the weight of the rows.
    weight : shape (n,)
    """

    p: FloatArray
    order: PlaceArray
    tie: PlaceArray
    n_ties: IntArray
    free: IntArray
    free_start: IntArray
    margins: FloatArray
    weight: FloatArray

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.weight.sum())

    def edges(self, j: int) -> PlaceArray:
        """Return the first place of each tie of column j, and the number of rows."""
        return self.tie[min(j, len(self.tie) - 1), : self.n_ties[j] + 1]

    def own_order(self) -> SortedColumns:
        """Return columns whose order loops may change: a copy of it where equal probabilities may separate."""
        return self._replace(order=self.order.copy()) if self.free.size else self


class Workspace(NamedTuple):
    """Blocks as the last pooling left them, and scratch of one column for each worker.

    Attributes
    ----------
    block : shape (K, n + 1)
        First tie of each block, and the number of ties; the first `n_blocks + 1` entries count.
    n_blocks, n_zero : shape (K,)
        Blocks, and how many of them lie at 0 because they would be negative.
    level, mass, first, weights : shape (n_workers, n)
        Stack of blocks (mean, weight, first tie) and weights by place, of the column that is worked on.
    row, total : shape (n,), shape (K,)
        Row sums less one, and column totals, of the columns that were pooled or measured last.
    """

    block: PlaceArray
    n_blocks: IntArray
    n_zero: IntArray
    level: FloatArray
    mass: FloatArray
    first: PlaceArray
    weights: FloatArray
    row: FloatArray
    total: FloatArray

    @classmethod
    def of(cls, columns: SortedColumns, *, n_workers: int = 2) -> Workspace:
        """Return the arrays for these columns, with every tie as a block."""
        n_columns, n = columns.p.shape
        work = cls(
            block=np.empty((n_columns, n + 1), dtype=np.int32),
            n_blocks=np.empty(n_columns, dtype=np.int64),
            n_zero=np.zeros(n_columns, dtype=np.int64),
            level=np.empty((n_workers, n)),
            mass=np.empty((n_workers, n)),
            first=np.empty((n_workers, n), dtype=np.int32),
            weights=np.empty((n_workers, n)),
            row=np.empty(n),
            total=np.empty(n_columns),
        )
        work.reset(columns)
        return work

    def reset(self, columns: SortedColumns) -> None:
        """Make every tie a block."""
        for j, count in enumerate(columns.n_ties):
            self.block[j, : count + 1] = np.arange(count + 1)
        self.n_blocks[:] = columns.n_ties


class SplittingArrays(NamedTuple):
    """What the steps of the splitting change.

    Attributes
    ----------
    state, move : shape (K, n)
        The splitting's iterate by place, and what the last half step adds to it (see `take_steps`).
    rows : shape (n_workers, n, 4)
        Each worker's table of the rows: penalty, weight, move of the row's sum, and sum over the worker's columns.
    column : shape (K,)
        Multipliers of the margins.
    """

    state: FloatArray
    move: FloatArray
    rows: FloatArray
    column: FloatArray
