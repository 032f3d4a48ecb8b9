"""Passes over a matrix whose columns are kept sorted: pooled columns, one step of the splitting, block averages.

Columns are rows of the arrays here, each in the rising order of the probabilities it came from: `order[j, k]` is the
row of the matrix at place k of column j. Equal probabilities may form one unit: unit u of column j covers the places
`unit[j, u]` to `unit[j, u + 1]`, and a block is a run of units; `unit` has a single row where each place is a unit of
its own. Sums run in one fixed order, whatever the number of threads: same input, same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray

PlaceArray = npt.NDArray[np.int32]

#: Columns of the table of rows that a pass reads at random: one memory access brings all of them.
PENALTY, WEIGHT, ROW, SUM = 0, 1, 2, 3


@compiled
def _push(
    level: FloatArray, mass: FloatArray, first: PlaceArray, top: int, mean: float, weight: float, place: int
) -> int:
    """Put a block on the stack, pooled with those before it that lie no lower; return the new top."""
    while top >= 0 and level[top] >= mean:
        total = mass[top] + weight
        mean = (level[top] * mass[top] + mean * weight) / total
        weight = total
        place = first[top]
        top -= 1
    top += 1
    level[top] = mean
    mass[top] = weight
    first[top] = place
    return top


@compiled
def _pool(
    value: FloatArray,
    weights: FloatArray,
    unit: PlaceArray,
    block: PlaceArray,
    n_blocks: int,
    level: FloatArray,
    mass: FloatArray,
    first: PlaceArray,
) -> int:
    """Pool one column under the weights of its places, from the blocks that held before; return their number.

    `block` holds the first unit of each block and is brought up to date. A former block whose own pooling leaves it
    whole enters as one item, any other as its units: the answer is the same, the work is less.
    """
    top = -1
    for b in range(n_blocks):
        a = unit[block[b]]
        e = unit[block[b + 1]]
        if block[b + 1] == block[b] + 1 and e == a + 1:
            top = _push(level, mass, first, top, value[a], weights[a], block[b])
            continue
        weight = 0.0
        total = 0.0
        for k in range(a, e):
            w = weights[k]
            weight += w
            total += w * value[k]
        mean = total / weight
        is_whole = True
        excess = 0.0
        for u in range(block[b], block[b + 1] - 1):
            for k in range(unit[u], unit[u + 1]):
                excess += weights[k] * (value[k] - mean)
            if excess < 0.0:
                is_whole = False
                break
        if is_whole:
            top = _push(level, mass, first, top, mean, weight, block[b])
            continue
        for u in range(block[b], block[b + 1]):
            weight = 0.0
            total = 0.0
            for k in range(unit[u], unit[u + 1]):
                w = weights[k]
                weight += w
                total += w * value[k]
            top = _push(level, mass, first, top, total / weight, weight, u)
    end = block[n_blocks]
    for b in range(top + 1):
        block[b] = first[b]
    block[top + 1] = end
    return top + 1


@compiled
def _sort_runs(value: FloatArray, order: PlaceArray, other: FloatArray, runs: IntArray) -> None:
    """Sort the places of each run of equal probabilities by `value`, and `order` and `other` with them."""
    for r in range(runs.shape[0]):
        a = runs[r, 0]
        e = runs[r, 1]
        is_rising = True
        for k in range(a, e - 1):
            if value[k] > value[k + 1]:
                is_rising = False
                break
        if not is_rising:
            by = np.argsort(value[a:e], kind="mergesort")
            value[a:e] = value[a:e][by]
            order[a:e] = order[a:e][by]
            other[a:e] = other[a:e][by]


@compiled
def step_lane(
    p: FloatArray,
    order: PlaceArray,
    unit: PlaceArray,
    runs: IntArray,
    run_start: IntArray,
    margins: FloatArray,
    lane: int,
    n_lanes: int,
    rows: FloatArray,
    relaxation: float,
    is_first: bool,
    is_last: bool,
    state: FloatArray,
    move: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    level: FloatArray,
    mass: FloatArray,
    first: PlaceArray,
    weights: FloatArray,
    shift: FloatArray,
) -> None:
    """Finish the last step of the splitting and take the first half of the next one, in every `n_lanes`-th column.

    `rows` and the four arrays of one column are this lane's own: lanes may run at the same time.
    """
    n_columns, n = p.shape
    rows[:, SUM] = 0.0
    for j in range(lane, n_columns, n_lanes):
        start = unit[min(j, unit.shape[0] - 1)]
        for k in range(n):
            i = order[j, k]
            penalty = rows[i, PENALTY]
            if not is_first:
                share = rows[i, WEIGHT] / (rows[i, WEIGHT] + penalty)
                state[j, k] += relaxation * (move[j, k] - rows[i, ROW] - shift[j] * share)
            weights[k] = penalty
        if is_last:
            continue
        if run_start[j + 1] > run_start[j]:
            _sort_runs(state[j], order[j], p[j], runs[run_start[j] : run_start[j + 1]])
            for k in range(n):
                weights[k] = rows[order[j, k], PENALTY]
        count = _pool(state[j], weights, start, block[j], n_blocks[j], level, mass, first)
        n_blocks[j] = count
        total = -margins[j]
        for b in range(count):
            q = max(level[b], 0.0)
            for k in range(start[block[j, b]], start[block[j, b + 1]]):
                i = order[j, k]
                weight = rows[i, WEIGHT]
                share = weight / (weight + weights[k])
                x = share * p[j, k] + (1.0 - share) * (2.0 * q - state[j, k])
                rows[i, SUM] += x
                total += weight * x
                move[j, k] = x - q
        shift[j] = total


@compiled
def join_lanes(rows: FloatArray, shift: FloatArray) -> None:
    """Turn what the lanes summed into the moves of the row sums and of the margins."""
    n_lanes, n = rows.shape[:2]
    spread = 0.0
    common = 0.0
    for i in range(n):
        excess = -1.0
        for lane in range(n_lanes):
            excess += rows[lane, i, SUM]
        excess /= shift.size
        for lane in range(n_lanes):
            rows[lane, i, ROW] = excess
        weight = rows[0, i, WEIGHT]
        common += weight * excess
        spread += weight**2 / (weight + rows[0, i, PENALTY])
    for j in range(shift.size):
        shift[j] = (shift[j] - common) / spread


@compiled
def split_steps(
    p: FloatArray,
    order: PlaceArray,
    unit: PlaceArray,
    runs: IntArray,
    run_start: IntArray,
    margins: FloatArray,
    rows: FloatArray,
    relaxation: float,
    n_steps: int,
    state: FloatArray,
    move: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    level: FloatArray,
    mass: FloatArray,
    first: PlaceArray,
    weights: FloatArray,
    shift: FloatArray,
) -> None:
    """Take steps of the over-relaxed Douglas-Rachford splitting, a penalty for each row, one lane after the other.

    The second half of a step waits for the next one, so that each pass reads the rows of a column twice and not three
    times: these reads are what a pass costs where rows are many.
    """
    n_lanes = rows.shape[0]
    for step in range(n_steps + 1):
        for lane in range(n_lanes):
            step_lane(
                p,
                order,
                unit,
                runs,
                run_start,
                margins,
                lane,
                n_lanes,
                rows[lane],
                relaxation,
                step == 0,
                step == n_steps,
                state,
                move,
                block,
                n_blocks,
                level[lane],
                mass[lane],
                first[lane],
                weights[lane],
                shift,
            )
        if step < n_steps:
            join_lanes(rows, shift)


@compiled
def pool_columns(
    value: FloatArray,
    order: PlaceArray,
    unit: PlaceArray,
    by_row: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    level: FloatArray,
    mass: FloatArray,
    first: PlaceArray,
    weights: FloatArray,
    out: FloatArray,
) -> None:
    """Write the non-negative rising columns that are nearest under the weights `by_row` to `out`."""
    for j in range(value.shape[0]):
        start = unit[min(j, unit.shape[0] - 1)]
        for k in range(value.shape[1]):
            weights[k] = by_row[order[j, k]]
        count = _pool(value[j], weights, start, block[j], n_blocks[j], level, mass, first)
        n_blocks[j] = count
        for b in range(count):
            out[j, start[block[j, b]] : start[block[j, b + 1]]] = max(level[b], 0.0)


@compiled
def measure_columns(
    q: FloatArray, p: FloatArray, order: PlaceArray, weight: FloatArray, row: FloatArray, total: FloatArray
) -> float:
    """Return the weighted squared distance of `q` from `p`; write the row sums less one and the column totals."""
    n_columns, n = q.shape
    row[:] = -1.0
    distance = 0.0
    for j in range(n_columns):
        s = 0.0
        d = 0.0
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
def pool_shifted(
    p: FloatArray,
    order: PlaceArray,
    unit: PlaceArray,
    runs: IntArray,
    run_start: IntArray,
    by_row: FloatArray,
    lift: FloatArray,
    shift: FloatArray,
    value: FloatArray,
    weights: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    n_zero: IntArray,
    level: FloatArray,
    mass: FloatArray,
    first: PlaceArray,
    row: FloatArray,
    total: FloatArray,
) -> float:
    """Pool each column of `p` less the multipliers of its rows and its own, and return half the weighted distance.

    That is where the Lagrangian is smallest. Writes the blocks and how many of each column's lie at 0, where they
    would be negative, the row sums less one and the column totals.
    """
    n_columns, n = p.shape
    row[:] = -1.0
    distance = 0.0
    for j in range(n_columns):
        start = unit[min(j, unit.shape[0] - 1)]
        for k in range(n):
            value[k] = p[j, k] - lift[order[j, k]] - shift[j]
        _sort_runs(value, order[j], p[j], runs[run_start[j] : run_start[j + 1]])
        for k in range(n):
            weights[k] = by_row[order[j, k]]
        count = _pool(value, weights, start, block[j], n_blocks[j], level, mass, first)
        n_blocks[j] = count
        s = 0.0
        d = 0.0
        n_zero[j] = 0
        for b in range(count):
            q = max(level[b], 0.0)
            n_zero[j] += q == 0.0
            for k in range(start[block[j, b]], start[block[j, b + 1]]):
                w = weights[k]
                row[order[j, k]] += q
                s += w * q
                d += w * (q - p[j, k]) ** 2
        total[j] = s
        distance += d
    return 0.5 * distance


@compiled
def average_blocks(
    order: PlaceArray,
    unit: PlaceArray,
    by_row: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    n_zero: IntArray,
    lift: FloatArray,
    shift: FloatArray,
    row: FloatArray,
    total: FloatArray,
) -> None:
    """Average `lift` + `shift` over the blocks above 0 of each column, and sum the averages by row and by column."""
    row[:] = 0.0
    for j in range(order.shape[0]):
        start = unit[min(j, unit.shape[0] - 1)]
        s = 0.0
        for b in range(n_zero[j], n_blocks[j]):
            a = start[block[j, b]]
            e = start[block[j, b + 1]]
            if e == a + 1:
                i = order[j, a]
                x = lift[i] + shift[j]
                row[i] += x
                s += by_row[i] * x
                continue
            weight = 0.0
            x = 0.0
            for k in range(a, e):
                i = order[j, k]
                weight += by_row[i]
                x += by_row[i] * lift[i]
            x = x / weight + shift[j]
            s += weight * x
            for k in range(a, e):
                row[order[j, k]] += x
        total[j] = s


@compiled
def block_shares(
    order: PlaceArray,
    unit: PlaceArray,
    by_row: FloatArray,
    block: PlaceArray,
    n_blocks: IntArray,
    n_zero: IntArray,
    share: FloatArray,
    total: FloatArray,
) -> None:
    """Write, by row, the sum of its shares of the blocks above 0 that hold it; by column, their weight."""
    share[:] = 0.0
    for j in range(order.shape[0]):
        start = unit[min(j, unit.shape[0] - 1)]
        s = 0.0
        for b in range(n_zero[j], n_blocks[j]):
            weight = 0.0
            for k in range(start[block[j, b]], start[block[j, b + 1]]):
                weight += by_row[order[j, k]]
            s += weight
            for k in range(start[block[j, b]], start[block[j, b + 1]]):
                i = order[j, k]
                share[i] += by_row[i] / weight
        total[j] = s
