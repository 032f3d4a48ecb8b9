"""Venn-Abers: isotonic regression with one more object, for all scores at which it can be added, in linear time.

The cumulative sum diagram plots the positives among the first k ties against their weight; isotonic regression is the
slope of its lower convex hull. An object added after tie i moves the points to its right. The fit at the object is the
slope of the bridge: the line below both the hull of the points to the left and the hull of the moved points to the
right. Both ends of the bridge only move to the right as the object does, so that one pass finds all fits.

Source: Vovk, Petej and Fedorova (2015), Large-scale probabilistic predictors with and without guarantees of validity,
NeurIPS, section 2; here one pass serves for either label of the object.
"""

from __future__ import annotations

from calibrant.kernels._jit import compiled, interpreted
from calibrant.numerics import FloatArray, IntArray


@interpreted
def following_vertices(
    weight: FloatArray, lost_weight: FloatArray, positives: FloatArray, lost_positives: FloatArray, following: IntArray
) -> None:
    """Write the vertex after each point of the diagram, of the lower hull of this point and those to its right.

    Point k has the weight and the positives of the first k ties, each as a sum and what its rounding has lost:
    differences of points are then exact to rounding however large the sums.
    """
    m = len(following) - 1
    following[m] = m
    for k in range(m - 1, -1, -1):
        end = k + 1
        w, p = _between(weight, lost_weight, positives, lost_positives, k, end)
        while end < m:
            after = following[end]
            next_w, next_p = _between(weight, lost_weight, positives, lost_positives, end, after)
            if next_p * w > p * next_w:
                break
            end = after
            w, p = _between(weight, lost_weight, positives, lost_positives, k, end)
        following[k] = end


@interpreted
def added_levels(
    weight: FloatArray,
    lost_weight: FloatArray,
    positives: FloatArray,
    lost_positives: FloatArray,
    following: IntArray,
    label: float,
    vertex: IntArray,
    start: IntArray,
    level: FloatArray,
) -> int:
    """Fit each tie with an object of weight one and this label added to it; return the number of distinct fits.

    Fits rise from tie to tie: `level[j]` is that of the ties from `start[j]` to before `start[j + 1]`. `vertex` has
    room for the hull of the points from the bridge's left end up to the object.
    """
    m = len(following) - 1
    left = 0
    top = -1
    right = n_levels = 0
    for i in range(m):
        while top > left:
            w, p = _between(weight, lost_weight, positives, lost_positives, vertex[top - 1], vertex[top])
            next_w, next_p = _between(weight, lost_weight, positives, lost_positives, vertex[top], i)
            if next_p * w > p * next_w:
                break
            top -= 1
        top += 1
        vertex[top] = i
        right = max(right, i + 1)
        w, p = _between(weight, lost_weight, positives, lost_positives, vertex[left], right)
        while True:
            while right < m:
                next_w, next_p = _between(weight, lost_weight, positives, lost_positives, right, following[right])
                if next_p * (w + 1.0) > (p + label) * next_w:
                    break
                right = following[right]
                w, p = _between(weight, lost_weight, positives, lost_positives, vertex[left], right)
            if left == top:
                break
            second = vertex[left + 1]
            first_w, first_p = _between(weight, lost_weight, positives, lost_positives, vertex[left], second)
            rest_w, rest_p = _between(weight, lost_weight, positives, lost_positives, second, right)
            if first_p * (rest_w + 1.0) >= (rest_p + label) * first_w:
                break
            left += 1
            w, p = rest_w, rest_p
        fit = min((p + label) / (w + 1.0), 1.0)
        if n_levels == 0 or fit > level[n_levels - 1]:
            start[n_levels] = i
            level[n_levels] = fit
            n_levels += 1
    return n_levels


@compiled
def _between(
    weight: FloatArray, lost_weight: FloatArray, positives: FloatArray, lost_positives: FloatArray, k: int, end: int
) -> tuple[float, float]:
    """Return weight and positives of the ties k, ..., end - 1."""
    w = (weight[end] - weight[k]) + (lost_weight[end] - lost_weight[k])
    return w, (positives[end] - positives[k]) + (lost_positives[end] - lost_positives[k])
