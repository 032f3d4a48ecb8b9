"""Venn-Abers: isotonic regression with one more object, for all scores at which it can be added, in linear time.

The cumulative sum diagram plots the positives among the first k ties against their weight; isotonic regression is the
slope of its lower convex hull. An object added after tie i moves the points to its right. The fit at the object is the
slope of the bridge: the line below both the hull of the points to the left and the hull of the moved points to the
right. Both ends of the bridge only move to the right as the object does, so that one pass finds all fits.

Source: Vovk, Petej and Fedorova (2015), Large-scale probabilistic predictors with and without guarantees of validity,
NeurIPS, section 2; here one pass serves for either label of the object.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray


@compiled
def sum_diagram(weight: FloatArray, positives: FloatArray, points: FloatArray, following: IntArray) -> None:
    """Write the cumulative sum diagram of sorted ties, and the hulls of its points from each one on.

    Row k of `points`, shape (m + 1, 4), holds weight and positives of the first k ties, each as a sum and what its
    rounding has lost: differences of rows are then exact to rounding however large the sums. `following[k]` is the
    vertex after k of the lower hull of the points k, ..., m.
    """
    m = weight.size
    for j in range(4):
        points[0, j] = 0.0
    for k in range(m):
        for j, added in ((0, weight[k]), (2, positives[k])):
            before = points[k, j]
            total = before + added
            kept = total - before
            points[k + 1, j] = total
            points[k + 1, j + 1] = points[k, j + 1] + ((before - (total - kept)) + (added - kept))
    following[m] = m
    for k in range(m - 1, -1, -1):
        end = k + 1
        w, p = _between(points, k, end)
        while end < m:
            next_w, next_p = _between(points, end, following[end])
            if next_p * w > p * next_w:
                break
            end = following[end]
            w, p = _between(points, k, end)
        following[k] = end


@compiled
def added_levels(points: FloatArray, following: IntArray, label: float, start: IntArray, level: FloatArray) -> int:
    """Fit each tie with an object of weight one and this label added to it; return the number of distinct fits.

    Fits rise from tie to tie: `level[j]` is that of the ties from `start[j]` to before `start[j + 1]`.
    """
    m = following.size - 1
    vertex = np.empty(m + 1, np.int64)  # hull of the points from the bridge's left end up to the object
    left = 0
    top = -1
    right = n_levels = 0
    for i in range(m):
        while top > left:
            w, p = _between(points, vertex[top - 1], vertex[top])
            next_w, next_p = _between(points, vertex[top], i)
            if next_p * w > p * next_w:
                break
            top -= 1
        top += 1
        vertex[top] = i
        right = max(right, i + 1)
        w, p = _with_object(points, vertex[left], right, label)
        while True:
            while right < m:
                next_w, next_p = _between(points, right, following[right])
                if next_p * w > p * next_w:
                    break
                right = following[right]
                w, p = _with_object(points, vertex[left], right, label)
            if left == top:
                break
            first_w, first_p = _between(points, vertex[left], vertex[left + 1])
            rest_w, rest_p = _with_object(points, vertex[left + 1], right, label)
            if first_p * rest_w >= rest_p * first_w:
                break
            left += 1
            w, p = rest_w, rest_p
        fit = min(p / w, 1.0)
        if n_levels == 0 or fit > level[n_levels - 1]:
            start[n_levels] = i
            level[n_levels] = fit
            n_levels += 1
    return n_levels


@compiled
def _between(points: FloatArray, k: int, end: int) -> tuple[float, float]:
    """Return weight and positives of the ties k, ..., end - 1."""
    weight = (points[end, 0] - points[k, 0]) + (points[end, 1] - points[k, 1])
    return weight, (points[end, 2] - points[k, 2]) + (points[end, 3] - points[k, 3])


@compiled
def _with_object(points: FloatArray, k: int, end: int, label: float) -> tuple[float, float]:
    """Return weight and positives of the ties k, ..., end - 1 and the added object."""
    weight, positives = _between(points, k, end)
    return weight + 1.0, positives + label
