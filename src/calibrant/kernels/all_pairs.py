"""Columns whose falls cost between all pairs of entries: the nearest ones, and what their falls sum to."""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.kernels.columns import PlaceArray
from calibrant.numerics import FloatArray


@compiled
def _pool(value: FloatArray, weight: FloatArray, level: FloatArray, mass: FloatArray, first: PlaceArray) -> None:
    """Make `value` rise: the nearest rising column under the weights."""
    top = -1
    for k in range(value.size):
        mean, w, start = value[k], weight[k], k
        while top >= 0 and level[top] >= mean:
            total = mass[top] + w
            mean = (level[top] * mass[top] + mean * w) / total
            w = total
            start = first[top]
            top -= 1
        top += 1
        level[top], mass[top], first[top] = mean, w, start
    end = value.size
    for b in range(top, -1, -1):
        value[first[b] : end] = level[b]
        end = first[b]


@compiled
def rise_at_a_price_of_all_pairs(
    value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int, price: float, out: FloatArray
) -> None:
    """Write the non-negative column of least 1/2 sum_i weight_i (value_i - out_i)^2 + price x its falls.

    The falls are weight_a weight_b (out_a - out_b) of all pairs where a should lie no higher than b, and does.

    A fall is half of a distance and half of a difference. Differences sum to something linear: a shift of each entry.
    Distances of all pairs keep whatever order the shifted entries have, and in that order they are linear too: a
    second shift and pooling. Pairs of a unit cost their whole distance, and its other half goes first, by itself.
    """
    n = value.size
    level, mass, first = np.empty(n), np.empty(n), np.empty(n, dtype=np.int32)
    total = weight.sum()
    # from where on no fall is worth it: dearer ones would only cost digits
    enough = total * (value.max() - value.min()) / weight.min() ** 2
    half = 0.5 * min(price, enough)
    moved = value.copy()
    lead = np.empty(n)  # weight that shall lie below an entry, less what shall lie above
    below = 0.0
    for u in range(n_units):
        a, e = unit[u], unit[u + 1]
        own = 0.0
        for k in range(a, e):
            own += weight[k]
        lead[a:e] = below + own + below - total
        if e > a + 1:
            by = a + np.argsort(value[a:e], kind="mergesort")
            inside, inside_weight = moved[by], weight[by]
            lower = 0.0
            for k in range(e - a):
                inside[k] -= half * (lower + inside_weight[k] + lower - own)
                lower += inside_weight[k]
            _pool(inside, inside_weight, level, mass, first)
            moved[by] = inside
        below += own
    by = np.argsort(moved + half * lead, kind="mergesort")
    shifted, sorted_weight = moved[by], weight[by]
    below = 0.0
    for k in range(n):
        w = sorted_weight[k]
        shifted[k] += half * (lead[by[k]] - (below + w + below - total))
        below += w
    _pool(shifted, sorted_weight, level, mass, first)
    for k in range(n):
        out[by[k]] = max(shifted[k], 0.0)


@compiled
def falls_of_all_pairs(value: FloatArray, weight: FloatArray, unit: PlaceArray, n_units: int) -> float:
    """Return the sum of weight_a weight_b (value_a - value_b) over the pairs where a should lie no higher, and does."""
    n = value.size
    x, w = value.copy(), weight.copy()
    falls = 0.0
    for u in range(n_units):
        a, e = unit[u], unit[u + 1]
        if e > a + 1:
            by = a + np.argsort(x[a:e], kind="mergesort")
            x[a:e], w[a:e] = x[by], w[by]
            own = 0.0
            for k in range(a, e):
                own += w[k]
            lower = 0.0
            for k in range(a, e - 1):
                lower += w[k]
                falls += (x[k + 1] - x[k]) * lower * (own - lower)
    other, other_weight = np.empty(n), np.empty(n)
    width = 1
    while width < n:  # merge sort, which meets each entry with the sorted ones that should lie below it
        for a in range(0, n, 2 * width):
            middle, e = min(a + width, n), min(a + 2 * width, n)
            higher = 0.0
            mass = 0.0
            for k in range(a, middle):
                higher += w[k] * x[k]
                mass += w[k]
            i = a
            j = middle
            for k in range(a, e):
                if i < middle and (j >= e or x[i] <= x[j]):
                    higher -= w[i] * x[i]
                    mass -= w[i]
                    other[k], other_weight[k] = x[i], w[i]
                    i += 1
                else:
                    if i < middle:
                        falls += w[j] * (higher - mass * x[j])
                    other[k], other_weight[k] = x[j], w[j]
                    j += 1
        x, other = other, x
        w, other_weight = other_weight, w
        width *= 2
    return falls
