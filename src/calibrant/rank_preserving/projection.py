"""The feasible matrix nearest to a given one, and lower bounds of its distance.

Feasible are sorted columns that rise, are not negative, and have the right row sums and column totals. `project`
maximises the dual of the least distance over one multiplier for each row and each column: at given multipliers the
nearest rising columns come from pooling (`dual_value`, a lower bound of the least half squared distance), and the
slope of the dual is what the sums are off. Newton steps solve the Hessian, which averages over the pooled blocks, by
conjugate gradients with a diagonal preconditioner, and are halved until the dual rises. It stops where all sums are
off by at most `aim`, or gives up after `max_passes` passes over the matrix. `approach` finds a feasible matrix nearby,
not the nearest, by steps of the splitting, which get there where the blocks are too few for a quadratic model.

`project_exactly` finds the nearest for small matrices by an active set on dense systems, to the last digits.

References: Qi and Sun (2006), SIAM Journal on Matrix Analysis and Applications 28, for Newton's method on the dual of
a projection; Lawson and Hanson (1974), *Solving Least Squares Problems*, chapter 23, algorithm LDP.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from calibrant import kernels
from calibrant.kernels import SortedColumns, Workspace
from calibrant.numerics import EPS, FloatArray
from calibrant.rank_preserving.column_workers import row_scale, workers_of

#: Multipliers of the row sums, shape (n,), and of the margins, shape (K,).
Multipliers: TypeAlias = tuple[FloatArray, FloatArray]
#: Entries of the matrix above which the dense systems of `project_exactly` take longer than they are worth.
LARGEST_EXACT = 600
#: A step is taken where the dual rises by this share of what its slope promises, after so many halvings at most.
_SUFFICIENT, _MAX_HALVINGS = 1e-4, 12
#: Added to the averages, so that rows that only blocks at 0 hold have a finite multiplier; passes of a step at most.
_RIDGE, _MAX_INNER_PASSES = 1e-9, 200
#: A penalty rises where the sums are off by more than this many times what the objective is.
WEIGHT_OF_OBJECTIVE = 3.0
#: Share of the gap that is allowed which mixing may use up, and shares of the affine point that are mixed in, the least
#: first, where an iteration ends before it has converged.
SHARE_OF_GAP, SHARES_AT_THE_END = 0.7, (0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.6)
#: Iterations before the next attempt at a feasible matrix, as a multiple of those so far: this power of what the gap
#: lacked, and at most, as after an attempt that failed.
_PAUSE_POWER, _LONGEST_PAUSE = 0.4, 1.5
#: Of `make_feasible`: the sums that Newton steps aim at and those that are good enough, as shares of `tol`.
_AIM, _GOOD_ENOUGH = 0.01, 0.5
#: Of `approach`: its steps from check to check, those with the first penalty and all at most; its two penalties.
_STEPS, _NEAR_STEPS, _MAX_STEPS = 25, 250, 2_000
_NEAR, _FEASIBLE = 1e3, 1e6
#: Below this many blocks per row, steps change so many of them that their quadratic model fails: see `project`, which
#: tries even so up to this many rows.
_LEAST_BLOCKS, _FEW_ROWS = 1.05, 5_000


def dual_value(columns: SortedColumns, work: Workspace, multipliers: Multipliers) -> float:
    """Return the least half squared distance from `columns.p` plus the multipliers' terms: a lower bound of the best.

    The blocks of the least matrix, its row sums less one and its column totals are left in `work`.
    """
    half = kernels.minimise_lagrangian(columns, work, *multipliers)
    return half + multiplier_terms(columns, work, multipliers)


def multiplier_terms(
    columns: SortedColumns, work: Workspace, multipliers: Multipliers, *, is_absolute: bool = False
) -> float:
    """Return the multipliers times what the sums in `work` are off; or the sum of the products' sizes.

    A total that has room is off from the end of it that its multiplier pulls to, one that gives from where its cost
    and its multiplier balance.
    """
    row, price = work.row, multipliers[1]
    size = np.abs(price)
    total = price * (work.total - columns.margins) - columns.room * size
    cost = 0.5 * columns.give * size**2
    if is_absolute:
        return _inner(columns.weight, np.abs(multipliers[0]), np.abs(row)) + float(np.abs(total - 2.0 * cost).sum())
    return _inner(columns.weight, multipliers[0], row) + float((total - cost).sum())


class Errors(NamedTuple):
    """How far an iterate and its multipliers are from the optimum, in units of the objective.

    `sums` is what the multipliers make of what the sums are off, `objective` the iterate's Lagrangian less its least
    value, and `gap` the iterate's distance less that value: below 0 where the sums are met too loosely.
    """

    sums: float
    objective: float
    gap: float

    @classmethod
    def of(cls, columns: SortedColumns, work: Workspace, distance: float, multipliers: Multipliers) -> Errors:
        """Return what an iterate of this distance is off by the sums in `work`, before `less` takes the least value."""
        lagrangian = distance + 2.0 * multiplier_terms(columns, work, multipliers)
        return cls(2.0 * multiplier_terms(columns, work, multipliers, is_absolute=True), lagrangian, distance)

    def less(self, bound: float) -> Errors:
        """Return the errors where the Lagrangian's least value is `bound`."""
        return Errors(self.sums, self.objective - bound, self.gap - bound)

    @property
    def is_loose(self) -> bool:
        """Whether the sums are what is off most, so that the penalty should rise."""
        return self.sums > WEIGHT_OF_OBJECTIVE * self.objective


def _inner(weight: FloatArray, a: FloatArray, b: FloatArray) -> float:
    return float(np.einsum("i,i,i->", weight, a, b))


def mix_in(q: FloatArray, columns: SortedColumns, point: tuple[FloatArray, float], share: float) -> None:
    """Mix a share of the affine point, a_j + c P_ij, into sorted columns, in place."""
    constant, slope = point
    for j, p in enumerate(columns.p):
        q[j] *= 1.0 - share
        q[j] += share * np.maximum(constant[j] + slope * p, 0.0)


def make_feasible(
    columns: SortedColumns,
    work: Workspace,
    *,
    tol: float,
    max_passes: int,
    may_step: bool = True,
    room: FloatArray | None = None,
) -> bool:
    """Turn `columns.p` into a feasible matrix, in place: by `project`, or where that fails by `approach` in `room`."""
    good_enough = _GOOD_ENOUGH * tol
    if project(columns, work, aim=_AIM * tol, tol=good_enough, max_passes=max_passes):
        return True
    return may_step and approach(columns, work, tol=good_enough, room=room)


def next_attempt(n_iter: int, *, is_found: bool, gap: float, goal: float) -> float:
    """Return the iteration from which on `make_feasible` is worth its cost again, after it left this gap."""
    lacking = max(gap / goal, 1.0) ** _PAUSE_POWER if is_found else _LONGEST_PAUSE
    return n_iter * min(lacking, _LONGEST_PAUSE)


def project(columns: SortedColumns, work: Workspace, *, aim: float, tol: float, max_passes: int) -> bool:
    """Turn `columns.p` into the feasible matrix nearest to it, in place; return whether it was reached.

    Sums are met to `aim`, or to `tol` after `max_passes`.

    A few Newton steps are enough where most blocks are single rows, that is where the target lies further inside
    the order than outside of the sums. Where there are as few blocks as rows, the sums all but determine the matrix,
    and the method gives up early.
    """
    n_columns, n = columns.p.shape
    unit_scale = 1.0 / np.sqrt(columns.total)
    row_multipliers, column_multipliers = np.zeros(n), np.zeros(n_columns)
    work.reset(columns)
    is_rich = n > _FEW_ROWS and int(columns.n_ties.sum()) >= 2 * n
    value = dual_value(columns, work, (row_multipliers, column_multipliers))
    passes = 1
    while True:
        slack = work.total - columns.margins
        residual = max(float(np.abs(work.row).max()), float(np.abs(slack).max()) * unit_scale**2)
        if residual <= (aim if passes <= max_passes else tol):
            for j, order in enumerate(columns.order):
                columns.p[j] -= row_multipliers[order]
                columns.p[j] -= column_multipliers[j]
            kernels.pool_columns(columns, work, columns.weight, None, columns.p)
            return True
        if passes > max_passes or (is_rich and int(work.n_blocks.sum()) < _LEAST_BLOCKS * n):
            return False
        size = np.sqrt(_inner(columns.weight, work.row, work.row) + np.sum((slack * unit_scale) ** 2))
        accuracy = min(0.1, float(np.sqrt(size)))
        row_step, column_step, n_inner = solve_blocks(columns, work, work.row, slack, accuracy, _MAX_INNER_PASSES)
        rise = _inner(columns.weight, work.row, row_step) + float(np.sum(slack * column_step))
        passes += n_inner
        row_start, column_start, start, length = row_multipliers, column_multipliers, value, 1.0
        for _ in range(_MAX_HALVINGS):
            row_multipliers = row_start + length * row_step
            column_multipliers = column_start + length * column_step
            value = dual_value(columns, work, (row_multipliers, column_multipliers))
            passes += 1
            slack = (work.total - columns.margins) * unit_scale
            after = np.sqrt(_inner(columns.weight, work.row, work.row) + np.sum(slack**2))
            if value >= start + _SUFFICIENT * length * rise or after < 0.5 * size:
                break
            length *= 0.5
        else:
            return False


def approach(columns: SortedColumns, work: Workspace, *, tol: float, room: FloatArray | None = None) -> bool:
    """Turn `columns.p` into a feasible matrix near it, in place, by steps of the splitting; say whether that worked.

    `room` is memory of the shape of `columns.p` to work in. What it held comes back in single precision.

    The first steps go towards the nearest one. Then the penalty is so high that distance no longer counts, only the
    sums and the order: the steps end in a matrix that has both, in a tenth of the steps that the nearest takes. They
    do where as few blocks as rows are left too, as long as some of the affine point is mixed in.
    """
    penalty = _NEAR * row_scale(columns)
    work.reset(columns)
    held = None if room is None else room.astype(np.float32)
    state = np.empty_like(columns.p) if room is None else room
    state[:] = columns.p
    is_there = _step_there(columns, work, state, penalty, tol)
    if held is not None:
        state[:] = held
    return is_there


def _step_there(columns: SortedColumns, work: Workspace, state: FloatArray, penalty: FloatArray, tol: float) -> bool:
    """Take the steps of `approach` from a state; `columns.p` is overwritten where they get there."""
    move = np.empty_like(state)
    with workers_of(columns, work) as workers:
        for n_steps in range(0, _MAX_STEPS, _STEPS):
            if n_steps == _NEAR_STEPS:
                penalty *= _FEASIBLE / _NEAR
                state -= move
                state *= _NEAR / _FEASIBLE
                state += move
            workers.take_steps(state, move, penalty, None, _STEPS)
            workers.pool(state, penalty, None, move)
            kernels.measure_columns(columns, move, work.row, work.total)
            off = float(np.abs(work.total - columns.margins).max()) / columns.total
            if max(float(np.abs(work.row).max()), off) <= tol:
                columns.p[:] = move
                return True
    return False


def solve_blocks(
    columns: SortedColumns, work: Workspace, row: FloatArray, total: FloatArray, accuracy: float, max_passes: int
) -> tuple[FloatArray, FloatArray, int]:
    """Return multipliers whose averages over the blocks in `work` sum to `row` and `total`, and the passes this took.

    By conjugate gradients, to `accuracy` as a share of the right-hand side. Vectors hold the multipliers of the rows
    and then those of the columns, which are scaled to the size of the former.
    """
    n, weight = row.size, columns.weight

    def inner(a: FloatArray, b: FloatArray) -> float:
        return _inner(weight, a[:n], b[:n]) + float((a[n:] * b[n:]).sum())

    unit_scale = 1.0 / np.sqrt(columns.total)
    residual = np.concatenate((row, total * unit_scale))
    step = np.zeros_like(residual)
    image = np.empty_like(residual)
    rows, totals = image[:n], np.empty(total.size)
    kernels.block_shares(columns, work, rows, totals)
    scale = np.concatenate((rows, totals * unit_scale**2))
    scale += _RIDGE
    direction = residual / scale
    product = first = inner(residual, direction)
    n_inner = 0
    while n_inner < max_passes and product > accuracy**2 * first:
        kernels.average_blocks(columns, work, direction[:n], direction[n:] * unit_scale, rows, totals)
        n_inner += 1
        image[n:] = totals * unit_scale
        image[:n] += np.multiply(direction[:n], _RIDGE, out=work.level[1])  # the other worker's scratch
        image[n:] += _RIDGE * direction[n:]
        curvature = inner(direction, image)
        if curvature <= EPS * product:
            break
        length = product / curvature
        image *= length
        residual -= image
        step += np.multiply(direction, length, out=image)
        scaled = np.divide(residual, scale, out=image)
        before, product = product, inner(residual, scaled)
        direction *= product / before
        direction += scaled
    return step[:n], unit_scale * step[n:], n_inner


def project_exactly(columns: SortedColumns) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Return the nearest sorted columns and the multipliers of row sums and margins, or None where this fails.

    Ties have to be equal. What comes back is a proposal: whoever takes it up measures and bounds it.

    The unknowns are the levels of the ties, the sums are met by moving in their null space from the matrix of equal
    rows, and what is left is a least-distance problem, which non-negative least squares solves by its active set.
    """
    from scipy.linalg import lstsq, null_space
    from scipy.optimize import nnls

    sums, order, mass, mean, start = _dense_system(columns)
    root = np.sqrt(mass)
    basis = null_space(sums / root)
    target, origin = root * mean, root * start
    middle = origin + basis @ (basis.T @ (target - origin))
    system = np.vstack((((order / root) @ basis).T, -(order / root) @ middle))
    last_axis = np.append(np.zeros(basis.shape[1]), 1.0)
    try:
        found, _ = nnls(system, last_axis, maxiter=50 * len(order))
    except RuntimeError:  # its active set came back to one that it had before
        return None
    residual = system @ found - last_axis
    if residual[-1] == 0.0:
        return None
    x = (middle - basis @ (residual[:-1] / residual[-1])) / root
    force = order.T @ (found / -residual[-1]) - mass * (x - mean)
    multiplier, *_ = lstsq(sums.T, force)
    n = columns.weight.size
    levels = np.split(x, np.cumsum(columns.n_ties)[:-1])
    rising = [np.maximum(np.maximum.accumulate(level), 0.0) for level in levels]
    q = np.stack([np.repeat(level, np.diff(columns.edges(j))) for j, level in enumerate(rising)])
    return q, multiplier[:n] / columns.weight, multiplier[n:]


def _dense_system(columns: SortedColumns) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the sums and the order as rows over ties, and of the ties their weight, mean and level in equal rows."""
    n_columns, n = columns.p.shape
    n_ties = int(columns.n_ties.sum())
    sums, order = np.zeros((n + n_columns, n_ties)), np.eye(n_ties)
    mass, mean, start = np.empty(n_ties), np.empty(n_ties), np.empty(n_ties)
    end = 0
    for j, count in enumerate(columns.n_ties):
        edges, ties = columns.edges(j), np.arange(end, end + count)
        rows = columns.order[j]
        sums[rows, np.repeat(ties, np.diff(edges))] = 1.0
        mass[ties] = np.add.reduceat(columns.weight[rows], edges[:-1])
        mean[ties] = columns.p[j, edges[:-1]]
        sums[n + j, ties] = mass[ties]
        start[ties] = columns.margins[j] / columns.total
        order[ties[1:], ties[:-1]] = -1.0
        end += count
    return sums, order, mass, mean, start
