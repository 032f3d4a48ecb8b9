"""The nearest columns where an order may be broken: within a slack, or at a price for each violation.

Each minimises 1/2 sum_i weight_i (value_i - q_i)^2 over q >= 0, exactly and in one go, for a column sorted by what it
shall follow, whose ties start at `edges`; at a price, plus the price times the violations.

* Within a slack no entry lies more than the slack below one that comes before it or is tied with it.
* Between neighbours, violations are those from the highest entry of a tie to the lowest of the next where that lies
  below it, and from the highest to the lowest within each tie.
* Of all pairs, they are the sum of weight_a weight_b (q_a - q_b) where a should lie no higher than b, and does.

References: Johnson (2013), *A dynamic programming algorithm for the fused lasso and L0-segmentation*, Journal of
Computational and Graphical Statistics 22(2); Tibshirani, Hoefling and Tibshirani (2011), Technometrics 53(1).
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.column_arrays import NEIGHBOURS, SLACK, PlaceArray, Rule
from calibrant.kernels.pav import push_block
from calibrant.numerics import FloatArray, IntArray


@compiled
def fit_relaxed(value: FloatArray, weight: FloatArray, edges: PlaceArray, rule: Rule, out: FloatArray) -> None:
    """Write the nearest column that the rule allows, or that costs least with the rule's price."""
    kind, amount = rule
    if kind == SLACK:
        _within_slack(value, weight, edges, amount, out)
    elif kind == NEIGHBOURS:
        _at_price_of_neighbours(value, weight, edges, amount, out)
    else:
        _at_price_of_pairs(value, weight, edges, amount, out)


@compiled
def merge_sort(by: IntArray, value: FloatArray, weight: FloatArray | None) -> float:
    """Sort the places `by` in the rising order of their values, equal ones as they come.

    With weights, return the sum of weight_a weight_b (value_a - value_b) over the pairs where a comes before b and
    lies above it. NumPy's own stable sort takes seconds to compile.
    """
    n = by.size
    source, target = by, np.empty(n, np.int64)
    violations = 0.0
    width = 1
    while width < n:
        for a in range(0, n, 2 * width):
            middle, e = min(a + width, n), min(a + 2 * width, n)
            if middle == e or value[source[middle - 1]] <= value[source[middle]]:  # in order as they are
                target[a:e] = source[a:e]
                continue
            higher = 0.0  # of the entries of the first half that are still to come
            mass = 0.0
            if weight is not None:
                for k in range(a, middle):
                    higher += weight[source[k]] * value[source[k]]
                    mass += weight[source[k]]
            i = a
            j = middle
            for k in range(a, e):
                if i < middle and (j >= e or value[source[i]] <= value[source[j]]):
                    place = source[i]
                    i += 1
                    if weight is not None:
                        higher -= weight[place] * value[place]
                        mass -= weight[place]
                else:
                    place = source[j]
                    j += 1
                    if weight is not None:
                        violations += (i < middle) * weight[place] * (higher - mass * value[place])
                target[k] = place
        source, target = target, source
        width *= 2
    by[:] = source
    return violations


@compiled
def _add_knot(
    place: FloatArray, bend: FloatArray, jump: FloatArray, size: int, at: float, more: float, step: float
) -> int:
    """Put a knot on the heap, the farthest first; return the new size."""
    k = size
    while k > 0 and place[(k - 1) // 2] < at:
        parent = (k - 1) // 2
        place[k], bend[k], jump[k] = place[parent], bend[parent], jump[parent]
        k = parent
    place[k], bend[k], jump[k] = at, more, step
    return size + 1


@compiled
def _drop_knot(place: FloatArray, bend: FloatArray, jump: FloatArray, size: int) -> int:
    """Take the farthest knot off the heap; return the new size."""
    size -= 1
    at, more, step = place[size], bend[size], jump[size]
    k = 0
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and place[child + 1] > place[child]:
            child += 1
        if place[child] <= at:
            break
        place[k], bend[k], jump[k] = place[child], bend[child], jump[child]
        k = child
    place[k], bend[k], jump[k] = at, more, step
    return size


@compiled
def _within_slack(value: FloatArray, weight: FloatArray, edges: PlaceArray, slack: float, out: FloatArray) -> None:
    """Write the nearest column within the slack.

    Entries lie between a rising level and that level less the slack. What the ties so far cost, as a function of the
    last level, is convex; its slope is kept as knots, where it bends or jumps, with a line beyond the last. A higher
    level may follow any lower one, so the slope is cut off where it turns positive: that is the tie's best level, and
    the levels are the least of those to come.
    """
    n_ties = edges.size - 1
    size = 0
    capacity = 2 * value.size + n_ties
    place, bend, jump = np.empty(capacity), np.empty(capacity), np.empty(capacity)
    level = np.empty(n_ties)
    for t in range(n_ties):
        tilt = offset = 0.0
        for k in range(edges[t], edges[t + 1]):
            w, z = weight[k], value[k]
            tilt += w
            offset -= w * (slack + z)
            if z > 0.0:
                size = _add_knot(place, bend, jump, size, z, -w, 0.0)
            size = _add_knot(place, bend, jump, size, max(z, 0.0) + slack, w, w * max(-z, 0.0))
        farthest = np.inf
        best = -1.0
        while best < 0.0:
            if size == 0:  # the cost rises from 0 on, or turns before the nearest knot
                best = min(max(-offset / tilt, 0.0), farthest) if tilt > 0.0 else 0.0
                break
            at = place[0]
            if tilt * at + offset < 0.0:
                best = min(max(-offset / tilt, at), farthest) if tilt > 0.0 else farthest
                break
            if tilt * at + offset - jump[0] < 0.0:
                best = at
            offset += bend[0] * at - jump[0]
            tilt -= bend[0]
            size = _drop_knot(place, bend, jump, size)
            farthest = at
        level[t] = best
        size = _add_knot(place, bend, jump, size, best, -tilt, -(tilt * best + offset))
    best = np.inf
    for t in range(n_ties - 1, -1, -1):
        best = min(best, level[t])
        floor = max(best - slack, 0.0)
        for k in range(edges[t], edges[t + 1]):
            out[k] = min(max(value[k], floor), best)


@compiled
def _at_price_of_neighbours(
    value: FloatArray, weight: FloatArray, edges: PlaceArray, price: float, out: FloatArray
) -> None:
    """Write the column of least cost by dynamic programming along one chain.

    Within a tie the answer rises as `value` does, so all of it is one chain in which rises cost inside a tie and
    violations everywhere. The slope of what the entries so far cost is kept as a list of knots, clipped to
    [-price, 0], or to [-price, price] where rises cost as well.
    """
    n = value.size
    by = np.arange(n)
    is_last = np.zeros(n, dtype=np.bool_)
    for t in range(edges.size - 1):
        a, e = edges[t], edges[t + 1]
        if e > a + 1:
            merge_sort(by[a:e], value, None)
        is_last[e - 1] = True
    place, slope, offset = np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
    lower, upper = np.empty(n), np.empty(n)
    left = n
    right = n - 1
    least = 0.0  # the slope before the first knot, and after the last
    most = 0.0
    for k in range(n):
        w = weight[by[k]]
        z = value[by[k]]
        first_slope, first_offset = w, least - w * z
        last_slope, last_offset = -w, w * z - most
        if k == n - 1:  # nothing follows: the best entry is where the slope is 0
            least = most = 0.0
        else:
            least = -price
            most = 0.0 if is_last[k] else price
        low = left
        while low <= right and first_slope * place[low] + first_offset <= least:
            first_slope += slope[low]
            first_offset += offset[low]
            low += 1
        lower[k] = (least - first_offset) / first_slope
        left = low - 1
        high = right
        while high > left and -last_slope * place[high] - last_offset >= most:
            last_slope += slope[high]
            last_offset += offset[high]
            high -= 1
        upper[k] = (most + last_offset) / -last_slope
        right = high + 1
        place[left], slope[left], offset[left] = lower[k], first_slope, first_offset - least
        place[right], slope[right], offset[right] = upper[k], last_slope, last_offset + most
    best = lower[n - 1]
    for k in range(n - 1, -1, -1):
        best = min(max(best, lower[k]), upper[k])
        out[by[k]] = max(best, 0.0)


@compiled
def _make_rise(by: IntArray, value: FloatArray, weight: FloatArray) -> None:
    """Turn the values at the places `by` into the nearest ones that rise along it, by pooling adjacent violators."""
    level, mass, first = np.empty(by.size), np.empty(by.size), np.empty(by.size, np.int32)
    top = -1
    for k in range(by.size):
        top = push_block(level, mass, first, top, value[by[k]], weight[by[k]], k)
    end = by.size
    for b in range(top, -1, -1):
        for k in range(first[b], end):
            value[by[k]] = level[b]
        end = first[b]


@compiled
def _at_price_of_pairs(value: FloatArray, weight: FloatArray, edges: PlaceArray, price: float, out: FloatArray) -> None:
    """Write the column of least cost by two shifts and pooling.

    A violation is half of a distance and half of a difference. Differences sum to something linear: a shift of each
    entry. Distances of all pairs keep whatever order the shifted entries have, and in that order they are linear too:
    a second shift and pooling. Pairs of a tie cost their whole distance, and its other half goes first, by itself.
    """
    n = value.size
    total = weight.sum()
    # from this price on nothing is broken: a higher one would only cost digits
    enough = total * (value.max() - value.min()) / weight.min() ** 2
    half = 0.5 * min(price, enough)
    by = np.arange(n)
    lead = np.empty(n)  # weight that shall lie below an entry, less what shall lie above
    below = 0.0
    for t in range(edges.size - 1):
        inside = by[edges[t] : edges[t + 1]]
        if inside.size > 1:
            merge_sort(inside, value, None)
        own = 0.0
        for k in inside:
            own += weight[k]
        lower = 0.0
        for k in inside:
            lead[k] = below + own + below - total
            out[k] = value[k] - half * (lower + weight[k] + lower - own)
            lower += weight[k]
        if inside.size > 1:
            _make_rise(inside, out, weight)
        below += own
    key = np.empty(n)
    for k in range(n):
        by[k] = k
        key[k] = out[k] + half * lead[k]
    merge_sort(by, key, None)
    below = 0.0
    for k in by:
        out[k] += half * (lead[k] - (below + weight[k] + below - total))
        below += weight[k]
    _make_rise(by, out, weight)
    for k in range(n):
        out[k] = max(out[k], 0.0)


@compiled
def sum_pair_violations(value: FloatArray, weight: FloatArray, edges: PlaceArray) -> float:
    """Return the sum of weight_a weight_b (value_a - value_b) over the pairs where a should lie no higher, and does."""
    by = np.arange(value.size)
    violations = 0.0
    for t in range(edges.size - 1):  # a tie's pairs, both ways: once as they come, once against the sorted order
        inside = by[edges[t] : edges[t + 1]]
        if inside.size > 1:
            merge_sort(inside, value, None)
            violations += merge_sort(inside[::-1].copy(), value, weight)
    return violations + merge_sort(by, value, weight)
