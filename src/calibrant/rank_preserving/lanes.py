"""Columns dealt to two lanes that may run at the same time; the answer's bits don't depend on whether they do."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import numpy as np

from calibrant import kernels
from calibrant.numerics import FloatArray
from calibrant.rank_preserving.polish import N_LANES, Workspace
from calibrant.rank_preserving.problem import PlaceArray, Problem

#: Entries of the matrix below which a step takes less time than waking a thread.
_WORTH_A_THREAD = 100_000


class Lanes:
    """The steps of the splitting, with all that is kept by column; a context manager of its thread.

    While steps run, each lane has its own table of the rows, since both read it at random and add to it; the sums of
    the lanes are joined in a fixed order.
    """

    def __init__(self, problem: Problem, order: PlaceArray, space: Workspace) -> None:
        n_columns, n = problem.p.shape
        self.problem, self.order, self.space = problem, order, space
        self.n_lanes = min(N_LANES, n_columns)
        self.level, self.mass, self.first, self.weights = space.level, space.mass, space.first, space.weights
        self.shift = np.empty(n_columns)
        is_worth_it = n * n_columns >= _WORTH_A_THREAD and (os.cpu_count() or 1) > 1
        self.threads = ThreadPoolExecutor(self.n_lanes - 1) if is_worth_it and self.n_lanes > 1 else None

    def __enter__(self) -> Lanes:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the thread go."""
        if self.threads is not None:
            self.threads.shutdown()

    def step(
        self,
        state: FloatArray,
        move: FloatArray,
        penalty: float,
        ratio: FloatArray,
        relaxation: float,
        n_steps: int,
    ) -> FloatArray:
        """Take steps; return the multipliers of the row sums after the last; those of the margins are `shift`.

        See `kernels.split_steps`.
        """
        from calibrant.kernels.columns import PENALTY, ROW, WEIGHT

        rows = np.empty((self.n_lanes, self.problem.weight.size, 4))
        rows[:, :, WEIGHT] = self.problem.weight
        rows[:, :, PENALTY] = penalty * ratio
        rows[:, :, PENALTY] *= self.problem.weight
        self._take(state, move, rows, relaxation, n_steps)
        found = np.add(rows[0, :, WEIGHT], rows[0, :, PENALTY], out=self.space.row)
        found *= rows[0, :, ROW]
        found /= rows[0, :, WEIGHT]
        del rows  # memory for the copy
        lift: FloatArray = found.copy()
        return lift

    def _take(self, state: FloatArray, move: FloatArray, rows: FloatArray, relaxation: float, n_steps: int) -> None:
        if self.threads is None:
            kernels.split_steps(
                self.problem.p,
                self.order,
                self.problem.unit,
                self.problem.runs,
                self.problem.run_start,
                self.problem.margins,
                rows,
                relaxation,
                n_steps,
                state,
                move,
                self.space.block,
                self.space.n_blocks,
                self.level,
                self.mass,
                self.first,
                self.weights,
                self.shift,
            )
            return

        def run(lane: int, step: int) -> None:
            kernels.step_lane(
                self.problem.p,
                self.order,
                self.problem.unit,
                self.problem.runs,
                self.problem.run_start,
                self.problem.margins,
                lane,
                len(rows),
                rows[lane],
                relaxation,
                step == 0,
                step == n_steps,
                state,
                move,
                self.space.block,
                self.space.n_blocks,
                self.level[lane],
                self.mass[lane],
                self.first[lane],
                self.weights[lane],
                self.shift,
            )

        for step in range(n_steps + 1):
            others = [self.threads.submit(run, lane, step) for lane in range(1, len(rows))]
            run(0, step)
            for other in others:
                other.result()
            if step < n_steps:
                kernels.join_lanes(rows, self.shift)

    def pool(self, state: FloatArray, penalty: FloatArray, out: FloatArray) -> None:
        """Write the rising columns nearest to `state` to `out`."""
        scratch = self.level[0], self.mass[0], self.first[0], self.weights[0]
        kernels.pool_columns(
            state, self.order, self.problem.unit, penalty, self.space.block, self.space.n_blocks, *scratch, out
        )
