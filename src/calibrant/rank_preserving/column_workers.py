"""Steps of the splitting by two workers, and how large the penalties of rows should be beside each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from calibrant import kernels
from calibrant.kernels import ROW, SHARE, WEIGHT, Rule, SortedColumns, SplittingArrays, Workspace
from calibrant.numerics import FloatArray

#: Entries of the matrix below which a step takes less time than waking a thread.
_WORTH_A_THREAD = 300_000
#: Share of the rows on either side of a row that its spacing is measured over, the least spacing that counts, and the
#: power by which a row's penalty falls with it.
_NEIGHBOURHOOD, _LEAST_SPACING, _POWER = 0.01, 1e-8, 0.25


class ColumnWorkers:
    """The steps of the splitting, with the columns shared between two workers, which `threads` run at the same time.

    Whether they do does not change a bit of the answer: each has its own table of the rows, which both read at random
    and add to, and their sums are joined in a fixed order.
    """

    def __init__(self, columns: SortedColumns, work: Workspace, threads: ThreadPoolExecutor | None) -> None:
        self.columns, self.work, self.threads = columns, work, threads
        self.column, self.mean = np.empty(len(columns.p)), np.zeros(1)
        self.n_workers = min(len(work.level), len(columns.p))

    def take_steps(
        self, state: FloatArray, move: FloatArray, penalty: FloatArray, rule: Rule | None, n_steps: int
    ) -> tuple[FloatArray, FloatArray]:
        """Take steps; return the multipliers of the row sums and of the margins after the last."""
        row = self.work.row
        rows = np.empty((self.n_workers, row.size, 4))
        rows[:, :, WEIGHT] = self.columns.weight
        share = np.add(penalty, 1.0, out=rows[0, :, SHARE])
        del penalty  # memory for the steps, where the caller keeps none
        rows[1:, :, SHARE] = np.divide(1.0, share, out=share)
        self._run(SplittingArrays(state, move, rows, self.column, self.mean), rule, n_steps)
        np.divide(rows[0, :, ROW], rows[0, :, SHARE], out=row)
        row -= self.mean[0]
        del rows  # memory for the copy
        return row.copy(), self.column + self.mean[0]

    def _run(self, arrays: SplittingArrays, rule: Rule | None, n_steps: int) -> None:
        def run(first: int, end: int, worker: int) -> None:
            kernels.take_steps(self.columns, self.work, arrays, rule, (first, end, n_steps), worker)

        if self.threads is None:
            run(0, n_steps + 1, -1)
            return
        for number in range(n_steps + 1):
            others = [self.threads.submit(run, number, number + 1, worker) for worker in range(1, self.n_workers)]
            run(number, number + 1, 0)
            for other in others:
                other.result()
            if number < n_steps:
                kernels.join_workers(self.columns, arrays)

    def pool(self, state: FloatArray, penalty: FloatArray, rule: Rule | None, out: FloatArray) -> None:
        """Write the columns nearest to `state` that the order allows to `out`."""
        by_row = penalty * self.columns.weight
        kernels.pool_columns(self.columns.replace(p=state), self.work, by_row, rule, out)


@contextmanager
def workers_of(columns: SortedColumns, work: Workspace) -> Iterator[ColumnWorkers]:
    """Give workers for these columns: with a thread of their own where that is worth it."""
    if columns.p.size >= _WORTH_A_THREAD and (os.cpu_count() or 1) > 1:
        with ThreadPoolExecutor(1) as threads:
            yield ColumnWorkers(columns, work, threads)
    else:
        yield ColumnWorkers(columns, work, None)


def row_scale(columns: SortedColumns) -> FloatArray:
    """Return how large each row's penalty should be for how dense the entries around its own are, shape (n,).

    Rows whose entries lie close to others, those of confident predictions above all, have little room to move: where
    all penalties are equal, their sums are met last. What counts is the geometric mean over the columns of the
    distance between the entries some places below and above.
    """
    n_columns, n = columns.p.shape
    spacing = np.zeros(n)
    for p, order in zip(columns.p, columns.order, strict=True):
        first = np.flatnonzero(np.append(True, p[1:] > p[:-1]))
        if first.size == 1:
            continue
        near = max(1, int(_NEIGHBOURHOOD * first.size))
        place = np.arange(first.size)
        low, high = np.maximum(place - near, 0), np.minimum(place + near, first.size - 1)
        level = p[first]
        apart = np.maximum((level[high] - level[low]) / (high - low), _LEAST_SPACING)
        spacing[order] += np.repeat(np.log(apart), np.diff(np.append(first, n)))
    spacing *= -_POWER / n_columns
    spacing -= spacing.mean()
    scale: FloatArray = np.exp(spacing, out=spacing)
    return scale
