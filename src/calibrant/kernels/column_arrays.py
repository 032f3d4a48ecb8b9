"""The arrays that the loops over sorted columns share. Nothing here is compiled, so importing it is cheap."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray, IntArray

PlaceArray: TypeAlias = npt.NDArray[np.int32]
#: How an order may be broken: a kind, and the slack or the price of a violation. Where None stands for it, the order
#: is kept; the compiler then leaves out the branches of a relaxed one.
Rule: TypeAlias = tuple[int, float]
SLACK, NEIGHBOURS, PAIRS = 0, 1, 2
#: Over-relaxation of the splitting's steps; between 1 and 2 all converge.
RELAXATION = 1.85
#: Columns of the table of rows that a pass reads at random, all by one memory access. With a penalty of r, in units of
#: the weight, a row has the share 1 / (1 + r) of what the objective says.
SHARE, WEIGHT, ROW, SUM = 0, 1, 2, 3


class SortedColumns(NamedTuple):
    """A matrix of n rows and K columns, each column sorted by itself, with the margins that it shall have.

    Place k of column j is row `order[j, k]`. A tie is a run of places that have to stay equal, of one place or more:
    those of column j start at `tie[j, : n_ties[j]]`, and `tie` has a single line where every place is a tie of its
    own. Probabilities that need no order span the places from `free[r, 0]` to `free[r, 1]`, those of column j
    for r from `free_start[j]` to `free_start[j + 1]`.
    """

    p: FloatArray  # (K, n), each column rising
    order: PlaceArray  # (K, n)
    tie: PlaceArray  # (K, n + 1) or (1, n + 1), with the number of rows after the last tie
    n_ties: IntArray  # (K,)
    free: IntArray  # (R, 2)
    free_start: IntArray  # (K + 1,)
    margins: FloatArray  # (K,) column totals, which sum to the weight of the rows where they are exact
    weight: FloatArray  # (n,)
    room: FloatArray  # (K,) how far a total may lie from its margin
    give: FloatArray  # (K,) where above 0, a total may lie anywhere, at the cost of its squared distance over this

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.weight.sum())

    @property
    def is_exact(self) -> bool:
        """Whether every total is given to the last digit."""
        return not (self.room.any() or self.give.any())

    def at(self, totals: FloatArray) -> SortedColumns:
        """Return columns whose totals are exactly these."""
        none = np.zeros_like(totals)
        return self._replace(margins=totals, room=none, give=none)

    def edges(self, j: int) -> PlaceArray:
        """Return the first place of each tie of column j, and the number of rows."""
        return self.tie[min(j, len(self.tie) - 1), : self.n_ties[j] + 1]

    def replace(self, *, p: FloatArray | None = None, order: PlaceArray | None = None) -> SortedColumns:
        """Return columns with other entries or another order."""
        return self._replace(p=self.p if p is None else p, order=self.order if order is None else order)

    def own_order(self) -> SortedColumns:
        """Return columns whose order loops may change: a copy of it, and of p, where rows may change places."""
        return self.replace(p=self.p.copy(), order=self.order.copy()) if self.free.size else self

    def in_order(self, order: PlaceArray) -> SortedColumns:
        """Return the columns with their rows in another order."""
        if not self.free.size:
            return self
        p, by_row = np.empty_like(self.p), np.empty(self.p.shape[1])
        for j, own in enumerate(self.order):
            by_row[own] = self.p[j]
            p[j] = by_row[order[j]]
        return self.replace(p=p, order=order)


class Workspace(NamedTuple):
    """Blocks and sums as the last pooling left them, and scratch of one column for each of two workers."""

    block: PlaceArray  # (K, n + 1): first tie of each block, and the number of ties after the last
    n_blocks: IntArray  # (K,)
    n_zero: IntArray  # (K,): blocks that lie at 0 because they would be negative
    level: FloatArray  # (2, n): the stack of blocks, its means
    first: PlaceArray  # (2, n): its first ties
    weights: FloatArray  # (2, n): weights by place, and below the place that is being pooled those of the stack
    row: FloatArray  # (n,): row sums less one
    total: FloatArray  # (K,): column totals

    @classmethod
    def of(cls, columns: SortedColumns) -> Workspace:
        """Return the arrays for these columns, with every tie as a block."""
        n_columns, n = columns.p.shape
        level, weights = np.empty((2, n)), np.empty((2, n))
        block, first = np.empty((n_columns, n + 1), dtype=np.int32), np.empty((2, n), dtype=np.int32)
        n_blocks, n_zero = np.empty(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.int64)
        work = cls(block, n_blocks, n_zero, level, first, weights, np.empty(n), np.empty(n_columns))
        work.reset(columns)
        return work

    def reset(self, columns: SortedColumns) -> None:
        """Make every tie a block."""
        for j, count in enumerate(columns.n_ties):
            self.block[j, : count + 1] = np.arange(count + 1)
        self.n_blocks[:] = columns.n_ties


class SplittingArrays(NamedTuple):
    """What the steps of the splitting change."""

    state: FloatArray  # (K, n): the iterate by place
    move: FloatArray  # (K, n): what the second half of a step adds to it, but for the parts of rows and margins
    rows: FloatArray  # (workers, n, 4): each worker's table of the rows, with the columns SHARE to SUM
    column: FloatArray  # (K,): multipliers of the margins, less their mean where totals have room
    mean: FloatArray  # (1,): that mean
