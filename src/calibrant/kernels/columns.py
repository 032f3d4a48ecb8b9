"""Loops over a matrix whose columns are kept sorted (`column_arrays.SortedColumns`).

* `pool_columns` finds for each column the nearest one that rises and is not negative, by pooling adjacent violators;
  with a relaxed rule the nearest column is that of `relaxed_order`.
* `take_steps` takes as many steps as it is told of the over-relaxed Douglas-Rachford splitting between such columns
  and matrices with the right sums.
* `minimise_lagrangian`, `average_blocks` and `block_shares` are the value of the dual of the projection, its Hessian,
  and the diagonal of that.

Sums run in one fixed order, whatever the number of threads: same input, same bits.

References: Best and Chakravarti (1990), Mathematical Programming 47, for pooling; Eckstein and Bertsekas (1992),
Mathematical Programming 55, for the splitting.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.column_arrays import (
    RELAXATION,
    ROW,
    SHARE,
    SUM,
    WEIGHT,
    Rule,
    SortedColumns,
    SplittingArrays,
    Workspace,
)
from calibrant.kernels.pav import push_block
from calibrant.kernels.relaxed_order import fit_relaxed, merge_sort
from calibrant.numerics import FloatArray


@compiled
def _mean(value: FloatArray, weights: FloatArray, a: int, e: int) -> tuple[float, float]:
    """Return the mean of the places from `a` to `e`, and their weight."""
    weight = total = 0.0
    for k in range(a, e):
        weight += weights[k]
        total += weights[k] * value[k]
    return total / weight, weight


@compiled
def _pool(columns: SortedColumns, work: Workspace, j: int, worker: int, value: FloatArray) -> None:
    """Pool `value`, one column, under the worker's `weights`, which the stack of blocks overwrites from below.

    The blocks of column j are brought up to date. A former block whose own pooling leaves it whole enters as one item,
    any other as its ties: the answer is the same, the work is less.
    """
    tie, block = columns.tie[min(j, columns.tie.shape[0] - 1)], work.block[j]
    level, first, weights = work.level[worker], work.first[worker], work.weights[worker]
    top = -1
    for b in range(work.n_blocks[j]):
        a, e = tie[block[b]], tie[block[b + 1]]
        if block[b + 1] == block[b] + 1 and e == a + 1:
            top = push_block(level, weights, first, top, value[a], weights[a], block[b])
            continue
        mean, weight = _mean(value, weights, a, e)
        is_whole = True
        excess = 0.0
        for t in range(block[b], block[b + 1] - 1):
            for k in range(tie[t], tie[t + 1]):
                excess += weights[k] * (value[k] - mean)
            if excess < 0.0:
                is_whole = False
                break
        if is_whole:
            top = push_block(level, weights, first, top, mean, weight, block[b])
            continue
        for t in range(block[b], block[b + 1]):
            mean, weight = _mean(value, weights, tie[t], tie[t + 1])
            top = push_block(level, weights, first, top, mean, weight, t)
    end = block[work.n_blocks[j]]
    for b in range(top + 1):
        block[b] = first[b]
    block[top + 1] = end
    work.n_blocks[j] = top + 1


@compiled
def _sort_free(columns: SortedColumns, j: int, value: FloatArray) -> None:
    """Sort the places of equal probabilities that may separate by `value`, and order and p of column j alike."""
    order, p = columns.order[j], columns.p[j]
    for r in range(columns.free_start[j], columns.free_start[j + 1]):
        a, e = columns.free[r, 0], columns.free[r, 1]
        k = a + 1
        while k < e and value[k - 1] <= value[k]:
            k += 1
        if k >= e:
            continue
        by = np.arange(a, e)
        merge_sort(by, value, None)
        rows, before, values = order[a:e].copy(), p[a:e].copy(), value[a:e].copy()
        for k in range(e - a):
            order[a + k], p[a + k], value[a + k] = rows[by[k] - a], before[by[k] - a], values[by[k] - a]


@compiled
def _pass(
    columns: SortedColumns,
    work: Workspace,
    splitting: SplittingArrays,
    rule: Rule | None,
    worker: int,
    is_first: bool,
    is_last: bool,
) -> None:
    """Finish the last step of the splitting and take the first half of the next one, in one worker's columns.

    A worker has every `n_workers`-th column, its own table of the rows and its own scratch, so workers may run at the
    same time. The second half of a step waits for the next one: each pass then reads the rows of a column twice and
    not three times, and these reads are what a pass costs where rows are many.
    """
    p, order, state, move, column = columns.p, columns.order, splitting.state, splitting.move, splitting.column
    rows, weights, level = splitting.rows[worker], work.weights[worker], work.level[worker]
    n_columns, n = p.shape
    rows[:, SUM] = 0.0
    for j in range(worker, n_columns, splitting.rows.shape[0]):
        for k in range(n):
            i = order[j, k]
            share = rows[i, SHARE]
            if not is_first:
                state[j, k] += RELAXATION * (move[j, k] - rows[i, ROW] - column[j] * share)
            weights[k] = rows[i, WEIGHT] * (1.0 / share - 1.0)
        if is_last:
            continue
        if columns.free_start[j + 1] > columns.free_start[j]:
            _sort_free(columns, j, state[j])
            for k in range(n):
                weights[k] = rows[order[j, k], WEIGHT] * (1.0 / rows[order[j, k], SHARE] - 1.0)
        tie = columns.tie[min(j, columns.tie.shape[0] - 1)]
        if rule is None:
            _pool(columns, work, j, worker, state[j])
        else:
            fit_relaxed(state[j], weights, tie[: columns.n_ties[j] + 1], rule, level)
        block = work.block[j]
        total = -columns.margins[j]
        b = -1
        end = 0
        q = 0.0
        for k in range(n):
            if k == end:  # the next block; of a relaxed order the next place, as its levels are by place
                b += 1
                q = max(level[b], 0.0)
                if rule is None:
                    end = tie[block[b + 1]]
                else:
                    end = k + 1
            i = order[j, k]
            weight, share = rows[i, WEIGHT], rows[i, SHARE]
            x = share * p[j, k] + (1.0 - share) * (2.0 * q - state[j, k])
            rows[i, SUM] += x
            total += weight * x
            move[j, k] = x - q
        column[j] = total


@compiled
def join_workers(columns: SortedColumns, splitting: SplittingArrays) -> None:
    """Turn what the workers summed into the moves of the row sums and the multipliers of the margins."""
    rows, column = splitting.rows, splitting.column
    n_workers, n = rows.shape[:2]
    spread = common = 0.0
    for i in range(n):
        excess = -1.0
        for worker in range(n_workers):
            excess += rows[worker, i, SUM]
        excess /= column.size
        for worker in range(n_workers):
            rows[worker, i, ROW] = excess
        weight = rows[0, i, WEIGHT]
        common += weight * excess
        spread += weight * rows[0, i, SHARE]
    for j in range(column.size):
        column[j] -= common
    splitting.mean[0] = 0.0
    if columns.room.max() > 0.0 or columns.give.max() > 0.0:
        _meet_roughly(columns, column, splitting.mean, spread)
    else:
        for j in range(column.size):
            column[j] /= spread


@compiled
def _rough_mean(columns: SortedColumns, excess: FloatArray, spread: float, c: float, out: FloatArray) -> float:
    """Write the multipliers of totals with room for the constant `c`; return what this lacks of their mean."""
    mean = 0.0
    for j in range(excess.size):
        moved = excess[j] + c
        off = abs(moved) - columns.room[j]
        out[j] = 0.0 if off <= 0.0 else (off if moved > 0.0 else -off) / (spread + columns.give[j])
        mean += out[j] / excess.size
    return c / spread - mean


@compiled
def _meet_roughly(columns: SortedColumns, column: FloatArray, mean: FloatArray, spread: float) -> None:
    """Turn what totals are off by into multipliers less their mean, where they need not be met to the last digit.

    With e_j off by, total j moves by spread (v_j - mean v) and has to end within its room, at an end of which v_j is
    not 0, or at give_j v_j beyond it. So v_j is e_j + c, drawn to 0 by the room, over spread + give_j, where c is
    spread times the mean of v: the root of a rising function.
    """
    excess, multipliers = column.copy(), np.empty_like(column)
    largest = 0.0
    for j in range(excess.size):
        largest = max(largest, abs(excess[j]) + columns.room[j])
    low, high = -largest - spread, largest + spread
    for _ in range(200):
        if _rough_mean(columns, excess, spread, low, multipliers) <= 0.0:
            break
        low *= 2.0
    for _ in range(200):
        if _rough_mean(columns, excess, spread, high, multipliers) >= 0.0:
            break
        high *= 2.0
    for _ in range(200):
        c = 0.5 * (low + high)
        if c in (low, high):
            break
        if _rough_mean(columns, excess, spread, c, multipliers) < 0.0:
            low = c
        else:
            high = c
    _rough_mean(columns, excess, spread, high, multipliers)
    mean[0] = multipliers.mean()
    for j in range(excess.size):
        column[j] = multipliers[j] - mean[0]


@compiled
def take_steps(
    columns: SortedColumns,
    work: Workspace,
    splitting: SplittingArrays,
    rule: Rule | None,
    passes: tuple[int, int, int],
    worker: int,
) -> None:
    """Make the passes from the first to before the second of `passes`, where the third one is the last of a run.

    A run of s steps has passes 0 to s: the first only begins a step, the last only finishes one. Worker -1 stands for
    all, one after the other, joined after each pass; a single one leaves the joining to the caller.
    """
    first, end, last = passes
    for number in range(first, end):
        for other in range(splitting.rows.shape[0]):
            if worker in (-1, other):
                _pass(columns, work, splitting, rule, other, number == 0, number == last)
        if worker == -1 and number < last:
            join_workers(columns, splitting)


@compiled
def pool_columns(
    columns: SortedColumns, work: Workspace, by_row: FloatArray, rule: Rule | None, out: FloatArray
) -> None:
    """Write the columns nearest to `columns.p` under the weights `by_row` to `out`, which may be `columns.p`."""
    weights, level = work.weights[0], work.level[0]
    for j in range(columns.p.shape[0]):
        for k in range(columns.p.shape[1]):
            weights[k] = by_row[columns.order[j, k]]
        tie = columns.tie[min(j, columns.tie.shape[0] - 1)]
        if rule is None:
            _pool(columns, work, j, 0, columns.p[j])
            block = work.block[j]
            for b in range(work.n_blocks[j]):
                out[j, tie[block[b]] : tie[block[b + 1]]] = max(level[b], 0.0)
        else:
            fit_relaxed(columns.p[j], weights, tie[: columns.n_ties[j] + 1], rule, level)
            out[j] = level


@compiled
def measure_columns(columns: SortedColumns, q: FloatArray, row: FloatArray, total: FloatArray) -> float:
    """Return the weighted squared distance of `q` from `columns.p`; write row sums less one and column totals."""
    p, order, weight = columns.p, columns.order, columns.weight
    n_columns, n = q.shape
    row[:] = -1.0
    distance = 0.0
    for j in range(n_columns):
        s = d = 0.0
        for k in range(n):
            i = order[j, k]
            x = q[j, k]
            row[i] += x
            s += weight[i] * x
            d += weight[i] * (x - p[j, k]) ** 2
        total[j] = s
        distance += d
    return distance


@compiled
def minimise_lagrangian(
    columns: SortedColumns, work: Workspace, row_multipliers: FloatArray, column_multipliers: FloatArray
) -> float:
    """Pool each column of p less the multipliers of its rows and its own; return half the weighted distance from p.

    That is where the Lagrangian is smallest. Leaves the blocks, how many of them lie at 0, the row sums less one and
    the column totals in `work`. Equal probabilities that may separate are sorted on the way.
    """
    p, order, weight = columns.p, columns.order, columns.weight
    weights, level, row = work.weights[0], work.level[0], work.row
    value = work.level[1]  # the other worker's scratch, which is free outside of steps
    n_columns, n = p.shape
    row[:] = -1.0
    distance = 0.0
    for j in range(n_columns):
        for k in range(n):
            value[k] = p[j, k] - row_multipliers[order[j, k]] - column_multipliers[j]
        _sort_free(columns, j, value)
        for k in range(n):
            weights[k] = weight[order[j, k]]
        _pool(columns, work, j, 0, value)
        tie, block = columns.tie[min(j, columns.tie.shape[0] - 1)], work.block[j]
        s = d = 0.0
        work.n_zero[j] = 0
        for b in range(work.n_blocks[j]):
            q = max(level[b], 0.0)
            work.n_zero[j] += q == 0.0
            for k in range(tie[block[b]], tie[block[b + 1]]):
                w = weight[order[j, k]]
                row[order[j, k]] += q
                s += w * q
                d += w * (q - p[j, k]) ** 2
        work.total[j] = s
        distance += d
    return 0.5 * distance


@compiled
def average_blocks(
    columns: SortedColumns,
    work: Workspace,
    row_multipliers: FloatArray,
    column_multipliers: FloatArray,
    row: FloatArray,
    total: FloatArray,
) -> None:
    """Average the multipliers over the blocks above 0 of each column; sum the averages by row and by column."""
    order, weight = columns.order, columns.weight
    row[:] = 0.0
    for j in range(order.shape[0]):
        tie, block = columns.tie[min(j, columns.tie.shape[0] - 1)], work.block[j]
        s = 0.0
        for b in range(work.n_zero[j], work.n_blocks[j]):
            a = tie[block[b]]
            e = tie[block[b + 1]]
            if e == a + 1:
                i = order[j, a]
                x = row_multipliers[i] + column_multipliers[j]
                row[i] += x
                s += weight[i] * x
                continue
            mass = x = 0.0
            for k in range(a, e):
                i = order[j, k]
                mass += weight[i]
                x += weight[i] * row_multipliers[i]
            x = x / mass + column_multipliers[j]
            s += mass * x
            for k in range(a, e):
                row[order[j, k]] += x
        total[j] = s


@compiled
def block_shares(columns: SortedColumns, work: Workspace, share: FloatArray, total: FloatArray) -> None:
    """Write, by row, the sum of its shares of the blocks above 0 that hold it; by column, their weight."""
    order, weight = columns.order, columns.weight
    share[:] = 0.0
    for j in range(order.shape[0]):
        tie, block = columns.tie[min(j, columns.tie.shape[0] - 1)], work.block[j]
        s = 0.0
        for b in range(work.n_zero[j], work.n_blocks[j]):
            mass = 0.0
            for k in range(tie[block[b]], tie[block[b + 1]]):
                mass += weight[order[j, k]]
            s += mass
            for k in range(tie[block[b]], tie[block[b + 1]]):
                i = order[j, k]
                share[i] += weight[i] / mass
        total[j] = s
