"""Rounds of threshold recalibration: the search for the worst split, and the maps of a round put to work.

The state that the loops share has a line per threshold y0_k and a last one for the levels u_i of the outcomes. Line k
of `values` holds the probabilities h_i(y0_k) of all rows in rising order, and line k of `order` the rows that they
belong to. A cut after position r of a line puts the rows `order[k, : r + 1]` on the left and the others on the right.
A search returns the split with the greatest error:

- `search_all_cuts`, `search_some_cuts`: sum over sides of (mass of the side) int_0^1 (F_side(c) - c)^2 dc, the
  Cramer-von Mises distance of the side's levels from uniform. A walk along a line updates sums from cut to cut.
- `search_grid`: the error of Sahoo, Zhao, Chen and Ermon (2021) over a grid of alphas, as their code computes it. Upper
  bounds of all splits come from counts; the splits are then measured, highest bound first, until no bound is higher.

`map_state` maps both sides and merges them, so that no line is sorted twice.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled, compiled_with
from calibrant.kernels.level_maps import RowArray, inside
from calibrant.numerics import FloatArray

SideArray = npt.NDArray[np.uint8]
#: Bins of levels that `search_some_cuts` counts rows in, a power of two so that their ends are exact.
_N_BINS = 64
_BIN_WIDTH = 1.0 / _N_BINS
#: Bins of neighbouring levels in `search_grid`, by the root of the number of rows: as narrow as a level's noise.
_BINS_PER_ROOT = 4.0
_MOST_BINS = 1_024
#: Rounding of the bounds' sums: a split whose bound is this close below the best error is measured too.
_BOUND_ROUNDING = 1e-9
#: Keeps the quotient of two zeros a number.
_SMALLEST = 1e-300


@compiled
def search_all_cuts(
    values: FloatArray,
    order: RowArray,
    level: FloatArray,
    weight: FloatArray,
    least: float,
    rank: RowArray,
    with_all: FloatArray,
    sums: tuple[float, float, float],
    tree: FloatArray,
) -> tuple[int, int, float]:
    """Return threshold, number of rows on the left and distance of the worst split over all cuts; -1 if there is none.

    Both sides hold a weight of at least `least`. int F^2 = 1 - S / W^2 with S = sum_ij w_i w_j max(u_i, u_j), which
    a Fenwick tree over the ranks of the levels adds up row by row. `rank` is that of each row's level, `with_all`, by
    rank, the sum over all rows j of w_j max(u, u_j), and `sums` are those of all w, w_i with_all_i and w (1 - u^2).
    `tree` is room for 2 n + 2 numbers: a loop that makes arrays, or takes them in tuples, compiles for longer.
    """
    n_thresholds, n = values.shape[0] - 1, values.shape[1]
    total, pairs, squares = sums
    best, best_k, best_cut = -1.0, 0, 0
    for k in range(n_thresholds):
        for j in range(2 * (n + 1)):
            tree[j] = 0.0
        left = left_u = left_pairs = left_all = 0.0
        for r in range(n - 1):
            i = order[k, r]
            node = rank[i] + 1
            u = level[i]
            w = weight[i]
            under = under_u = 0.0
            j = node
            while j > 0:
                under += tree[2 * j]
                under_u += tree[2 * j + 1]
                j -= j & -j
            left_pairs += w * (w * u + 2.0 * (u * under + (left_u - under_u)))
            left_all += w * with_all[node - 1]
            left += w
            left_u += w * u
            right = total - left
            if right < least:
                break
            j = node
            while j <= n:
                tree[2 * j] += w
                tree[2 * j + 1] += w * u
                j += j & -j
            if left < least or values[k, r] == values[k, r + 1]:
                continue
            right_pairs = pairs - 2.0 * left_all + left_pairs
            distance = 4.0 / 3.0 - (left_pairs / left + right_pairs / right + squares) / total
            if distance > best:
                best, best_k, best_cut = distance, k, r + 1
    return best_k, best_cut, best


@compiled
def search_some_cuts(
    values: FloatArray, order: RowArray, level: FloatArray, weight: FloatArray, n_cuts: int, least: float
) -> tuple[int, int, float]:
    """Return what `search_all_cuts` does, over `n_cuts` cuts of equal weight, with the levels counted in bins.

    Within a bin F - c is taken to be a straight line, so that its square integrates exactly.
    """
    n_thresholds, n = values.shape[0] - 1, values.shape[1]
    bin_of = np.empty(n, np.uint8)
    mass = np.zeros(_N_BINS)
    for i in range(n):
        bin_of[i] = np.uint8(min(level[i] * _N_BINS, _N_BINS - 1.0))
        mass[bin_of[i]] += weight[i]
    total = 0.0
    for b in range(_N_BINS):
        total += mass[b]
    best, best_k, best_cut = -1.0, 0, 0
    for k in range(n_thresholds):
        count = np.zeros(_N_BINS)
        left = 0.0
        following = total / n_cuts
        for r in range(n - 1):
            i = order[k, r]
            count[bin_of[i]] += weight[i]
            left += weight[i]
            right = total - left
            if right < least:
                break
            if left < following or left < least or values[k, r] == values[k, r + 1]:
                continue
            while following <= left:
                following += total / n_cuts
            distance = _binned_distance(count, mass, left, right) / total
            if distance > best:
                best, best_k, best_cut = distance, k, r + 1
    return best_k, best_cut, best


@compiled
def _binned_distance(count: FloatArray, mass: FloatArray, left: float, right: float) -> float:
    """Return the distance of both sides, times the total weight; `count` is the left side's weight in each bin."""
    distance = on_left = on_right = before = left_before = right_before = 0.0
    for b in range(_N_BINS):
        on_left += count[b]
        on_right += mass[b] - count[b]
        c = (b + 1.0) * _BIN_WIDTH
        left_here = on_left / left - c
        right_here = on_right / right - c
        width = (c - before) / 3.0
        distance += (left_before * (left_before + left_here) + left_here * left_here) * width * left
        distance += (right_before * (right_before + right_here) + right_here * right_here) * width * right
        before, left_before, right_before = c, left_here, right_here
    return distance


@compiled
def search_grid(values: FloatArray, order: RowArray, alphas: FloatArray, least: float) -> tuple[int, int, float]:
    """Return threshold, number of the alpha and error of the first worst split of a grid; an error of -1 if none.

    The left side holds the rows with a probability of at most alpha, and each side more than `least` rows. The error
    of a side of m rows is the mean of |u_(i) - i / (m - 1)| over i = 0..m - 1; those of both sides are added.
    """
    n_thresholds, n = values.shape[0] - 1, values.shape[1]
    n_bins = min(max(int(_BINS_PER_ROOT * np.sqrt(n)), 1), _MOST_BINS, n)
    start = np.arange(n_bins + 1) * n // n_bins  # bins of equal numbers of rows, neighbours by level
    rising, by_level = values[n_thresholds], order[n_thresholds]
    low, high = rising[start[:-1]], rising[start[1:] - 1]
    bin_of = np.empty(n, np.uint16)
    level = np.empty(n)
    all_total = np.zeros(n_bins)
    for b in range(n_bins):
        for r in range(start[b], start[b + 1]):
            bin_of[by_level[r]] = b
            level[by_level[r]] = rising[r]
            all_total[b] += rising[r]
    all_count = (start[1:] - start[:-1]).astype(np.float64)
    bound = np.full(n_thresholds * alphas.size, -1.0)
    count, total, before = np.empty(n_bins), np.empty(n_bins), np.empty(n_bins)
    other_count, other_total, other_before = np.empty(n_bins), np.empty(n_bins), np.empty(n_bins)
    for k in range(n_thresholds):
        line, line_rows = values[k], order[k]
        count[:] = 0.0
        total[:] = 0.0
        n_left = 0
        for a in range(alphas.size):
            end = np.searchsorted(line, alphas[a], side="right")
            for r in range(n_left, end):
                i = np.uint32(line_rows[r])
                count[bin_of[i]] += 1.0
                total[bin_of[i]] += level[i]
            n_left = end
            if n_left <= least or n - n_left <= least:
                continue
            rows = 0.0
            for b in range(n_bins):
                before[b] = rows
                rows += count[b]
                other_count[b] = all_count[b] - count[b]
                other_total[b] = all_total[b] - total[b]
                other_before[b] = start[b] - before[b]
            left = _bound_side(count, total, before, float(n_left), low, high)
            right = _bound_side(other_count, other_total, other_before, float(n - n_left), low, high)
            bound[k * alphas.size + a] = left + right
    best, found = -1.0, 0
    side = np.empty(n, np.uint8)
    while True:
        j = int(bound.argmax())
        if bound[j] < max(best - _BOUND_ROUNDING, 0.0):
            return found // alphas.size, found % alphas.size, best
        bound[j] = -1.0
        k = j // alphas.size
        n_left = int(np.searchsorted(values[k], alphas[j % alphas.size], side="right"))
        side[:] = 1
        for r in range(n_left):
            side[order[k, r]] = 0
        error = _split_error(rising, by_level, side, n_left)
        if error > best or (error == best and j < found):
            best, found = error, j


@compiled_with(fastmath={"reassoc"}, error_model="numpy")
def _bound_side(
    count: FloatArray, total: FloatArray, before: FloatArray, m: float, low: FloatArray, high: FloatArray
) -> float:
    """Return what the error of a side of m rows is at most; levels of a bin lie in [low, high].

    Of the c rows of a bin, whose differences sum to S and lie in [-down, up], the sum of the sizes is |S| plus twice
    the lesser of the positive and the negative part, of which one is at most c up down / (up + down).
    """
    step = 1.0 / max(m - 1.0, 1.0)
    sure = unsure = 0.0
    for b in range(count.size):
        c = count[b]
        start = before[b] * step
        end = start + (c - 1.0) * step
        sure += abs(total[b] - c * 0.5 * (start + end))
        up = high[b] - start
        down = end - low[b]
        up = up if up > 0.0 else 0.0
        down = down if down > 0.0 else 0.0
        c = c if c > 1.0 else 0.0
        unsure += c * up * down / (up + down + _SMALLEST)
    return (sure + 2.0 * unsure) / m


@compiled
def _split_error(rising: FloatArray, by_level: RowArray, side: SideArray, n_left: int) -> float:
    """Return the error of a split of the paper, exactly."""
    n = rising.size
    step_left, step_right = 1.0 / max(n_left - 1.0, 1.0), 1.0 / max(n - n_left - 1.0, 1.0)
    at_left = 0
    left, right = 0.0, 0.0
    for r in range(n):
        is_left = 1 - int(side[by_level[r]])
        off_left = abs(rising[r] - at_left * step_left)
        off_right = abs(rising[r] - (r - at_left) * step_right)
        left += off_left if is_left else 0.0
        right += 0.0 if is_left else off_right
        at_left += is_left
    return left / max(n_left, 1) + right / max(n - n_left, 1)


@compiled
def map_state(
    values: FloatArray,
    order: RowArray,
    side: SideArray,
    knots: FloatArray,
    second: int,
    n_left: int,
    rows: RowArray,
    mapped: FloatArray,
) -> None:
    """Map each line of the state by the map of each row's `side`, in place, and put it in order again by one merge.

    The maps rise, which leaves each side of a line in order. Their `knots` are those of `level_maps`, of which `second`
    is the first of the map of side 1; a line rises, so that each map is walked along once. `rows` and `mapped` are room
    for n + 4 items: the `n_left` of side 0, then side 1, with infinities before and after each.
    """
    at, height, slope = knots[0], knots[1], knots[2]
    n = side.size
    one = np.uint32(1)
    mapped[0] = mapped[n_left + 2] = -np.inf
    mapped[n_left + 1] = mapped[n + 3] = np.inf
    for k in range(values.shape[0]):
        line, line_rows = values[k], order[k]
        a, b = one, np.uint32(n_left + 3)
        p, q = np.uint32(0), np.uint32(second)
        for r in range(n):  # without branches that nobody could predict
            i = np.uint32(line_rows[r])
            s = np.uint32(side[i])
            v = inside(line[r])
            j = q if s else p
            while at[j + one] <= v:
                j = np.uint32(j + one)
            p, q = (p, j) if s else (j, q)
            to = np.uint32(a + s * (b - a))
            u, most = slope[j] * (v - at[j]) + height[j], height[j + one]
            mapped[to] = u if u < most else most  # `min` and `max` compile for longer
            rows[to] = i
            a, b = np.uint32(a + one - s), np.uint32(b + s)
        a, b = one, np.uint32(n_left + 3)
        y, z = np.uint32(n_left), np.uint32(n + 2)
        for r in range((n + 1) // 2):  # from both ends at once, which neither waits for
            u, v = mapped[a], mapped[b]
            takes_left = np.uint32(u <= v)
            line[r] = u if takes_left else v
            line_rows[r] = rows[np.uint32(b + takes_left * (a - b))]
            a, b = np.uint32(a + takes_left), np.uint32(b + one - takes_left)
            u, v = mapped[y], mapped[z]
            takes_left = np.uint32(u > v)
            line[n - 1 - r] = u if takes_left else v
            line_rows[n - 1 - r] = rows[np.uint32(z + takes_left * (y - z))]
            y, z = np.uint32(y - takes_left), np.uint32(z - one + takes_left)
