"""The nearest feasible matrix, by Newton's method on the dual problem."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant import kernels
from calibrant.numerics import EPS, FloatArray, IntArray
from calibrant.rank_preserving.problem import PlaceArray, Problem

#: A step is taken where the dual rises by this share of what its slope promises.
_SUFFICIENT = 1e-4
#: Added to the averages, so that rows that only flat blocks at 0 hold have a finite multiplier.
_RIDGE = 1e-9
_MAX_HALVINGS = 12
_MAX_INNER = 200
#: Below this many blocks per row, steps change so many of them that their quadratic model fails: see `project`.
_LEAST_BLOCKS = 1.05
_SMALL = 5_000
#: Columns that are worked on at the same time.
N_LANES = 2


@dataclass(frozen=True, slots=True)
class Workspace:
    """Arrays of the size of the matrix or of its rows, made once; the scratch of one column is there for two lanes."""

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
    def of(cls, problem: Problem) -> Workspace:
        """Make the arrays for a problem."""
        n_columns, n = problem.p.shape
        return cls(
            block=np.empty((n_columns, n + 1), dtype=np.int32),
            n_blocks=np.empty(n_columns, dtype=np.int64),
            n_zero=np.zeros(n_columns, dtype=np.int64),
            level=np.empty((N_LANES, n)),
            mass=np.empty((N_LANES, n)),
            first=np.empty((N_LANES, n), dtype=np.int32),
            weights=np.empty((N_LANES, n)),
            row=np.empty(n),
            total=np.empty(n_columns),
        )

    def reset(self, problem: Problem) -> None:
        """Make every unit a block."""
        for j, count in enumerate(problem.n_units):
            self.block[j, : count + 1] = np.arange(count + 1)
        self.n_blocks[:] = problem.n_units


def lagrangian(
    problem: Problem, target: FloatArray, order: PlaceArray, lift: FloatArray, shift: FloatArray, space: Workspace
) -> float:
    """Return the least half squared distance from `target` plus the multipliers' terms: a lower bound of the best.

    The blocks of the least matrix, its row sums less one and its column totals are left in `space`.
    """
    half = kernels.pool_shifted(
        target,
        order,
        problem.unit,
        problem.runs,
        problem.run_start,
        problem.weight,
        lift,
        shift,
        space.level[1],  # the other lane's scratch, free outside of steps
        space.weights[0],
        space.block,
        space.n_blocks,
        space.n_zero,
        space.level[0],
        space.mass[0],
        space.first[0],
        space.row,
        space.total,
    )
    rows = float(np.einsum("i,i,i->", problem.weight, lift, space.row))
    return half + rows + float(np.sum(shift * (space.total - problem.margins)))


def project(
    problem: Problem,
    target: FloatArray,
    order: PlaceArray,
    *,
    aim: float,
    tol: float,
    max_passes: int,
    space: Workspace,
) -> bool:
    """Turn `target` into the feasible matrix nearest to it; return whether it was reached.

    Sums are met to `aim`, or to `tol` after `max_passes`.

    Notes
    -----
    The dual of the projection has one multiplier for each row and column; its Hessian averages over the blocks of the
    pooled columns. Newton steps, each solved by conjugate gradients, settle within a few where most blocks are single
    rows, that is where the target lies further inside the order than outside of the sums. Where there are as few
    blocks as rows, the sums all but determine the matrix, and the method gives up early.
    """
    n_columns, n = target.shape
    unit_scale = 1.0 / np.sqrt(problem.total)
    lift, shift = np.zeros(n), np.zeros(n_columns)
    space.reset(problem)
    is_rich = n > _SMALL and int(problem.n_units.sum()) >= 2 * n
    value = lagrangian(problem, target, order, lift, shift, space)
    passes = 1
    while True:
        slack = (space.total - problem.margins) * unit_scale
        residual = max(float(np.abs(space.row).max()), float(np.abs(slack).max()) * unit_scale)
        if residual <= (aim if passes <= max_passes else tol):
            _fill(problem, space, target, order, lift, shift)
            return True
        if passes > max_passes or (is_rich and int(space.n_blocks.sum()) < _LEAST_BLOCKS * n):
            return False
        size = _size(problem.weight, space.row, slack)
        lift_step, shift_step, rise, n_inner = _newton_step(
            problem, order, space, slack, unit_scale, min(0.1, np.sqrt(size))
        )
        passes += n_inner
        start_lift, start_shift, start, length = lift, shift, value, 1.0
        for _ in range(_MAX_HALVINGS):
            lift = start_lift + length * lift_step
            shift = start_shift + length * shift_step
            value = lagrangian(problem, target, order, lift, shift, space)
            passes += 1
            after = _size(problem.weight, space.row, (space.total - problem.margins) * unit_scale)
            if value >= start + _SUFFICIENT * length * rise or after < 0.5 * size:
                break
            length *= 0.5
        else:
            return False


def _newton_step(
    problem: Problem, order: PlaceArray, space: Workspace, slack: FloatArray, unit_scale: float, accuracy: float
) -> tuple[FloatArray, FloatArray, float, int]:
    """Return the steps of both multipliers, what the dual rises along them, and the passes of conjugate gradients."""
    total = slack / unit_scale
    lift, shift, n_inner = solve_blocks(problem, order, space, space.row, total, accuracy, _MAX_INNER)
    rise = float(np.einsum("i,i,i->", problem.weight, space.row, lift) + np.sum(total * shift))
    return lift, shift, rise, n_inner


def solve_blocks(
    problem: Problem,
    order: PlaceArray,
    space: Workspace,
    row: FloatArray,
    total: FloatArray,
    accuracy: float,
    max_passes: int,
) -> tuple[FloatArray, FloatArray, int]:
    """Return multipliers whose averages over the blocks in `space` sum to `row` and `total`, and the passes this took.

    By conjugate gradients, to `accuracy` as a share of the right-hand side.
    """
    n = row.size
    unit_scale = 1.0 / np.sqrt(problem.total)
    residual = np.concatenate((row, total * unit_scale))
    step = np.zeros_like(residual)
    image = np.empty_like(residual)
    rows, totals = image[:n], np.empty(total.size)
    kernels.block_shares(order, problem.unit, problem.weight, space.block, space.n_blocks, space.n_zero, rows, totals)
    scale = np.concatenate((rows, totals * unit_scale**2))
    scale += _RIDGE
    direction = residual / scale
    product = first = _inner(problem.weight, residual, direction)
    n_inner = 0
    while n_inner < max_passes and product > accuracy**2 * first:
        kernels.average_blocks(
            order,
            problem.unit,
            problem.weight,
            space.block,
            space.n_blocks,
            space.n_zero,
            direction[:n],
            direction[n:] * unit_scale,
            rows,
            totals,
        )
        n_inner += 1
        image[n:] = totals * unit_scale
        image[:n] += np.multiply(direction[:n], _RIDGE, out=space.mass[1])  # the other lane's scratch
        image[n:] += _RIDGE * direction[n:]
        curvature = _inner(problem.weight, direction, image)
        if curvature <= EPS * product:
            break
        length = product / curvature
        image *= length
        residual -= image
        step += np.multiply(direction, length, out=image)
        scaled = np.divide(residual, scale, out=image)
        before, product = product, _inner(problem.weight, residual, scaled)
        direction *= product / before
        direction += scaled
    return step[:n], unit_scale * step[n:], n_inner


def _inner(weight: FloatArray, a: FloatArray, b: FloatArray) -> float:
    """Return the product of two vectors of a multiplier for each row, weighted, and each column."""
    n = weight.size
    return float(np.einsum("i,i,i->", weight, a[:n], b[:n]) + np.sum(a[n:] * b[n:]))


def _size(weight: FloatArray, row: FloatArray, slack: FloatArray) -> float:
    return float(np.sqrt(np.einsum("i,i,i->", weight, row, row) + np.sum(slack**2)))


def _fill(
    problem: Problem, space: Workspace, target: FloatArray, order: PlaceArray, lift: FloatArray, shift: FloatArray
) -> None:
    """Write the columns that the blocks in `space` stand for over `target`, less the multipliers."""
    for j, count in enumerate(space.n_blocks):
        edges = problem.edges(j)[space.block[j, : count + 1]]
        weight = problem.weight[order[j]]
        value = weight * (target[j] - lift[order[j]] - shift[j])
        level = np.add.reduceat(value, edges[:-1]) / np.add.reduceat(weight, edges[:-1])
        np.maximum.accumulate(np.maximum(level, 0.0), out=level)
        target[j] = np.repeat(level, np.diff(edges))
