"""Penalised logistic regression on a rising piecewise linear function: an interior-point method on banded systems.

What is minimised: sum_i (weight_i softplus(f_i) - target_i f_i) + penalty / 2 sum_j (s_{j+1} - s_j)^2 over values at
the knots that don't fall; f_i is the value at row i, linear between knots, and s_j the slope between two knots.
Steps: each rise between neighbouring knots has a multiplier; one Newton step solves the optimality conditions with the
products rise x multiplier set to a small goal: a tenth of what they are, and less after steps that were not cut. Every
row touches two neighbouring knots and every penalty three, so the system has two bands beside the diagonal and is
solved in linear time. Steps are cut where a rise or a multiplier would reach zero. It stops where the sum of these
products and the largest gradient are below the tolerance, or where rounding keeps them from falling.

Source: Wright (1997), Primal-dual interior-point methods, chapter 1, for a strictly convex smooth loss.
"""

from __future__ import annotations

import numpy as np

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray, IntArray


@compiled
def factor_bands(bands: FloatArray) -> None:
    """Turn the lower bands of a positive definite matrix with two off-diagonals into its L D L' factors.

    `bands[k, j]` is entry (j + k, j): on return D in row 0 and the unit triangle L in rows 1 and 2. A pivot that
    rounding makes zero or negative gets the size of the rounding.
    """
    n = bands.shape[1]
    diagonal, below, second = bands[0], bands[1], bands[2]  # rows compile faster than the whole
    least, next_least = 1e-16 * diagonal[0], 1e-16 * diagonal[min(1, n - 1)]
    for j in range(n):
        d = max(diagonal[j], least)
        diagonal[j] = d
        one, two = below[j], second[j]
        least = next_least
        if j + 1 < n:
            diagonal[j + 1] -= one * one / d
            below[j + 1] -= one * two / d
        if j + 2 < n:
            next_least = 1e-16 * diagonal[j + 2]
            diagonal[j + 2] -= two * two / d
        below[j] = one / d
        second[j] = two / d


@compiled
def solve_bands(factors: FloatArray, x: FloatArray) -> None:
    """Solve L D L' x = b in place, b given in `x`."""
    n = x.size
    diagonal, below, second = factors[0], factors[1], factors[2]
    for j in range(n):
        if j + 1 < n:
            x[j + 1] -= below[j] * x[j]
        if j + 2 < n:
            x[j + 2] -= second[j] * x[j]
    for j in range(n - 1, -1, -1):
        value = x[j] / diagonal[j]
        if j + 1 < n:
            value -= below[j] * x[j + 1]
        if j + 2 < n:
            value -= second[j] * x[j + 2]
        x[j] = value


@compiled
def inverse_bands(factors: FloatArray, out: FloatArray) -> None:
    """Write the diagonal and the two lower bands of the inverse of L D L' (Hutchinson and de Hoog, 1985)."""
    n = factors.shape[1]
    diagonal, below, second = factors[0], factors[1], factors[2]
    out_diagonal, out_below, out_second = out[0], out[1], out[2]
    next0 = next1 = next2 = 0.0  # the diagonal and the band below it at j + 1, the diagonal at j + 2
    for j in range(n - 1, -1, -1):
        one, two = below[j], second[j]
        first_off = -one * next0 - two * next1
        second_off = -one * next1 - two * next2
        out_below[j], out_second[j] = first_off, second_off
        next2 = next0
        next0 = 1.0 / diagonal[j] - one * first_off - two * second_off
        next1 = first_off
        out_diagonal[j] = next0


@compiled
def fit_rising_curve(
    left: IntArray,
    share: FloatArray,
    rows: FloatArray,
    gap: FloatArray,
    penalty: float,
    tol: float,
    max_iter: int,
    curve: FloatArray,
    inverse: FloatArray,
) -> tuple[float, int]:
    """Fit the values `curve` at the knots; return the last duality measure and the number of iterations.

    Parameters
    ----------
    left, share : ndarray of shape (n,)
        Row i lies `share[i]` of the way from knot `left[i]` to the next.
    rows : ndarray of shape (2, n)
        Weights, which sum to one, and targets of the rows.
    gap : ndarray of shape (k - 1,)
        Distances of the knots.
    penalty, tol, max_iter : float, float, int
    curve : ndarray of shape (k,)
        A strictly rising start, which the fit overwrites.
    inverse : ndarray of shape (3, k)
        Gets the bands of the inverse of the last system's matrix, in which a rise that is held at zero is stiff.
    """
    k = curve.size
    bands, room = np.empty((3, k)), np.empty((4, k))
    rise, multiplier, gradient, step = room[0], room[1], room[2], room[3]
    diagonal, below = bands[0], bands[1]
    for j in range(k - 1):
        rise[j] = curve[j + 1] - curve[j]
        multiplier[j] = 1e-2 / k
    before = np.inf
    measure = np.inf
    centring = 0.1
    for n_iter in range(1, max_iter + 1):
        _derivatives(left, share, rows, gap, penalty, curve, rise, gradient, bands)
        gap_left = dual = 0.0
        for j in range(k - 1):
            gap_left += rise[j] * multiplier[j]
        for j in range(k):
            g = gradient[j]
            if j > 0:
                g -= multiplier[j - 1]
            if j < k - 1:
                g += multiplier[j]
            dual = max(dual, abs(g))
        measure = max(gap_left, dual)
        goal = centring * max(gap_left, tol) / (k - 1)
        for j in range(k):
            step[j] = -gradient[j]
        for j in range(k - 1):
            ratio = multiplier[j] / rise[j]
            diagonal[j] += ratio
            diagonal[j + 1] += ratio
            below[j] -= ratio
            push = goal / rise[j]
            step[j] -= push
            step[j + 1] += push
        factor_bands(bands)
        # where it stops falling near the tolerance, rounding is what is left
        if measure <= tol or (measure <= 1e2 * tol and measure > 0.5 * before):
            inverse_bands(bands, inverse)
            return measure, n_iter
        before = measure
        solve_bands(bands, step)
        length = 1.0
        largest = 0.0
        reach = 4.0
        for j in range(k):
            largest = max(largest, abs(step[j]))
            reach = max(reach, 0.5 * abs(curve[j]))
        if largest > reach:  # logits far from where the loss is nearly a parabola
            length = reach / largest
        dual_length = 1.0
        for j in range(k - 1):
            d, m = step[j + 1] - step[j], multiplier[j]
            if d < 0.0:
                length = min(length, -0.99 * rise[j] / d)
            move = (goal - m * d) / rise[j] - m
            if move < 0.0:
                dual_length = min(dual_length, -0.99 * m / move)
        centring = 0.1 if min(length, dual_length) < 0.9 else 0.01
        for j in range(k - 1):
            d, m = step[j + 1] - step[j], multiplier[j]
            multiplier[j] = m + dual_length * ((goal - m * d) / rise[j] - m)
            rise[j] += length * d
        for j in range(k):
            curve[j] += length * step[j]
    inverse_bands(bands, inverse)
    return measure, max_iter


@compiled
def _derivatives(
    left: IntArray,
    share: FloatArray,
    rows: FloatArray,
    gap: FloatArray,
    penalty: float,
    curve: FloatArray,
    rise: FloatArray,
    gradient: FloatArray,
    bands: FloatArray,
) -> None:
    """Write the gradient and the bands of the Hessian of what is minimised."""
    k = curve.size
    diagonal, below, second = bands[0], bands[1], bands[2]
    weight, target = rows[0], rows[1]
    for j in range(k):
        gradient[j] = diagonal[j] = below[j] = second[j] = 0.0
    for i in range(share.size):
        a = left[i]
        t = share[i]
        s = 1.0 - t
        f = s * curve[a] + t * curve[a + 1]
        e = np.exp(-abs(f))
        share_of_one = 1.0 / (1.0 + e)
        r = weight[i] * (share_of_one if f >= 0.0 else e * share_of_one) - target[i]
        v = weight[i] * (e * share_of_one * share_of_one)
        gradient[a] += s * r
        gradient[a + 1] += t * r
        diagonal[a] += s * s * v
        below[a] += s * t * v
        diagonal[a + 1] += t * t * v
    for j in range(k - 2):
        first, after = 1.0 / gap[j], 1.0 / gap[j + 1]
        both = first + after
        bend = penalty * (after * rise[j + 1] - first * rise[j])
        gradient[j] += first * bend
        gradient[j + 1] -= both * bend
        gradient[j + 2] += after * bend
        diagonal[j] += penalty * first * first
        below[j] -= penalty * first * both
        second[j] += penalty * first * after
        diagonal[j + 1] += penalty * both * both
        below[j + 1] -= penalty * after * both
        diagonal[j + 2] += penalty * after * after
