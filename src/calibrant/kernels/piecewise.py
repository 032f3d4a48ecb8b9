"""CDFs of many rows, evaluated, inverted and scored: straight lines between knots with exponential tails, or steps.

A CDF of the first kind has the knots (`y`, `heights`); below the first knot and above the last, `scales` holds the
scales of the exponential tails, 0 where the rest of the probability sits on the knot itself. A CDF of the second kind
jumps at sorted samples, up to each of which `shares` of the probability lies. Points, levels, places and heights of
knots, and shares may have one row for all rows of the answer. The CRPS, int (F(t) - 1{y <= t})^2 dt, is exact: a sum
of integrals of squares of straight lines, of constants, and of exponentials.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray


@compiled
def _row(table: FloatArray, i: int) -> FloatArray:
    """Return row i of a table, or its only one."""
    row: FloatArray = table[i if table.shape[0] > 1 else 0]
    return row


@compiled
def _count(knots: FloatArray, t: float, is_below: bool) -> int:
    """Count the knots at or below t, of sorted ones, or those below it."""
    low, high = 0, knots.size
    while low < high:
        middle = (low + high) >> 1
        if knots[middle] < t or (knots[middle] == t and not is_below):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _beyond(outside: float, mass: float, scale: float) -> float:
    """Return how much of the `mass` of a tail lies farther out than `outside`."""
    return mass * math.exp(-outside / scale) if scale > 0.0 else 0.0


@compiled
def _reach(share: float, scale: float) -> float:
    """Return how far out this share of the mass of a tail begins: where `_beyond` leaves it."""
    if scale == 0.0:
        return 0.0
    return -scale * math.log(share) if share > 0.0 else math.inf


@compiled
def _between(v: float, a: float, b: float, f: float, g: float) -> float:
    """Interpolate linearly: f at a to g at b, never beyond."""
    value = f + (g - f) * ((v - a) / (b - a))
    return min(max(value, f), g)


@compiled
def piecewise_cdf(
    points: FloatArray, y: FloatArray, heights: FloatArray, scales: FloatArray, is_below: bool
) -> FloatArray:
    """Return P(Y <= t), or P(Y < t), of each row at each point t."""
    out = np.empty((scales.shape[0], points.shape[1]))
    last = y.shape[1] - 1
    for i in range(out.shape[0]):
        knots, f, at = _row(y, i), _row(heights, i), _row(points, i)
        for j in range(out.shape[1]):
            t = at[j]
            k = _count(knots, t, is_below)
            if k == 0:
                out[i, j] = _beyond(knots[0] - t, f[0], scales[i, 0])
            elif k > last:
                out[i, j] = 1.0 - _beyond(t - knots[last], 1.0 - f[last], scales[i, 1])
            else:
                out[i, j] = _between(t, knots[k - 1], knots[k], f[k - 1], f[k])
    return out


@compiled
def piecewise_quantiles(u: FloatArray, y: FloatArray, heights: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the least t with P(Y <= t) >= u, of each row at each level u; at 0 where the support begins."""
    out = np.empty((scales.shape[0], u.shape[1]))
    last = y.shape[1] - 1
    for i in range(out.shape[0]):
        knots, f, at = _row(y, i), _row(heights, i), _row(u, i)
        for j in range(out.shape[1]):
            v = at[j]
            if v <= f[0] and f[0] > 0.0:
                out[i, j] = knots[0] - _reach(v / f[0], scales[i, 0])
            elif v <= 0.0:
                out[i, j] = knots[_count(f, 0.0, False) - 1]
            elif v > f[last]:
                out[i, j] = knots[last] + _reach((1.0 - v) / (1.0 - f[last]), scales[i, 1])
            else:
                k = _count(f, v, True)
                out[i, j] = knots[0] if k == 0 else _between(v, f[k - 1], f[k], knots[k - 1], knots[k])
    return out


@compiled
def piecewise_density(points: FloatArray, y: FloatArray, heights: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the density of each row at each point: to the right of a knot, and infinite at an atom."""
    out = np.empty((scales.shape[0], points.shape[1]))
    last = y.shape[1] - 1
    for i in range(out.shape[0]):
        knots, f, at = _row(y, i), _row(heights, i), _row(points, i)
        for j in range(out.shape[1]):
            t = at[j]
            k = _count(knots, t, False)
            low = _count(knots, t, True)
            if low < k and _is_atom(f, low, k, scales[i], last):
                out[i, j] = math.inf
            elif k == 0:
                scale = scales[i, 0]
                out[i, j] = _beyond(knots[0] - t, f[0], scale) / scale if scale > 0.0 else 0.0
            elif k > last:
                scale = scales[i, 1]
                tail = _beyond(t - knots[last], 1.0 - f[last], scale) / scale if scale > 0.0 else 0.0
                at_end = 0 < low <= last and scale == 0.0  # the support ends here: the slope to the left
                out[i, j] = (f[low] - f[low - 1]) / (knots[low] - knots[low - 1]) if at_end else tail
            else:
                out[i, j] = (f[k] - f[k - 1]) / (knots[k] - knots[k - 1])
    return out


@compiled
def _is_atom(f: FloatArray, low: int, k: int, scales: FloatArray, last: int) -> bool:
    """Say whether probability sits where knots low to k - 1 lie."""
    if f[k - 1] > f[low]:
        return True
    return (low == 0 and f[0] > 0.0 and scales[0] == 0.0) or (k > last and f[last] < 1.0 and scales[1] == 0.0)


@compiled
def _square(f: float, g: float, width: float) -> float:
    """Integrate the square of a line from f to g over a width."""
    return width * (f * f + f * g + g * g) / 3.0


@compiled
def piecewise_crps(outcomes: FloatArray, y: FloatArray, heights: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the CRPS of each row, exactly."""
    out = np.empty(outcomes.size)
    last = y.shape[1] - 1
    for i in range(out.size):
        knots, f = _row(y, i), _row(heights, i)
        t = outcomes[i]
        total = _tail_score(knots[0] - t, f[0], scales[i, 0])
        total += _tail_score(t - knots[last], 1.0 - f[last], scales[i, 1])
        for k in range(last):
            a, b, p, q = knots[k], knots[k + 1], f[k], f[k + 1]
            if b <= a:
                continue
            if t >= b:
                total += _square(p, q, b - a)
            elif t <= a:
                total += _square(1.0 - p, 1.0 - q, b - a)
            else:
                middle = _between(t, a, b, p, q)
                total += _square(p, middle, t - a) + _square(1.0 - middle, 1.0 - q, b - t)
        out[i] = total
    return out


@compiled
def _tail_score(outside: float, mass: float, scale: float) -> float:
    """Integrate over a tail that holds `mass`, into which the outcome lies `outside`; not so if that is negative."""
    if outside <= 0.0:
        return 0.5 * scale * mass * mass
    if scale == 0.0:
        return outside
    return outside - 2.0 * scale * (mass - _beyond(outside, mass, scale)) + 0.5 * scale * mass * mass


@compiled
def sample_cdf(points: FloatArray, samples: FloatArray, shares: FloatArray, is_below: bool) -> FloatArray:
    """Return the share of each row's sorted samples at or below each point, or below it.

    `shares` holds, of all rows or of each, the share of the samples up to each.
    """
    out = np.empty((samples.shape[0], points.shape[1]))
    for i in range(out.shape[0]):
        own, at = samples[i], _row(points, i)
        share = _row(shares, i)
        for j in range(out.shape[1]):
            k = _count(own, at[j], is_below)
            out[i, j] = share[k - 1] if k > 0 else 0.0
    return out


@compiled
def sample_quantiles(u: FloatArray, samples: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the least of each row's sorted samples that has a share of at least u, and any at all, up to it."""
    out = np.empty((samples.shape[0], u.shape[1]))
    for i in range(out.shape[0]):
        own, at = samples[i], _row(u, i)
        share = _row(shares, i)
        first = _count(share, 0.0, False)
        for j in range(out.shape[1]):
            out[i, j] = own[max(_count(share, at[j], True), first)]
    return out


@compiled
def sample_crps(outcomes: FloatArray, samples: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the CRPS of the step function at each row's sorted samples, exactly."""
    out = np.empty(outcomes.size)
    last = samples.shape[1] - 1
    for i in range(out.size):
        own, t = samples[i], outcomes[i]
        share = _row(shares, i)
        total = max(own[0] - t, 0.0) + max(t - own[last], 0.0)
        for k in range(last):
            a, b = own[k], own[k + 1]
            below = share[k]
            left = min(max(t - a, 0.0), b - a)
            total += left * below * below + (b - a - left) * (1.0 - below) * (1.0 - below)
        out[i] = total
    return out
