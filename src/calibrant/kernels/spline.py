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
    rounding = 1e-16 * bands[0]
    for j in range(n):
        d = max(bands[0, j], rounding[j])
        bands[0, j] = d
        one, two = bands[1, j], bands[2, j]
        if j + 1 < n:
            bands[0, j + 1] -= one * one / d
            bands[1, j + 1] -= one * two / d
        if j + 2 < n:
            bands[0, j + 2] -= two * two / d
        bands[1, j] = one / d
        bands[2, j] = two / d


@compiled
def solve_bands(factors: FloatArray, x: FloatArray) -> None:
    """Solve L D L' x = b in place, b given in `x`."""
    n = x.size
    for j in range(n):
        if j + 1 < n:
            x[j + 1] -= factors[1, j] * x[j]
        if j + 2 < n:
            x[j + 2] -= factors[2, j] * x[j]
    for j in range(n - 1, -1, -1):
        x[j] /= factors[0, j]
        if j + 1 < n:
            x[j] -= factors[1, j] * x[j + 1]
        if j + 2 < n:
            x[j] -= factors[2, j] * x[j + 2]


@compiled
def inverse_bands(factors: FloatArray, out: FloatArray) -> None:
    """Write the diagonal and the two lower bands of the inverse of L D L' (Hutchinson and de Hoog, 1985)."""
    n = factors.shape[1]
    for j in range(n - 1, -1, -1):
        one, two = factors[1, j], factors[2, j]
        next0 = out[0, j + 1] if j + 1 < n else 0.0
        next1 = out[1, j + 1] if j + 2 < n else 0.0
        next2 = out[0, j + 2] if j + 2 < n else 0.0
        out[1, j] = -one * next0 - two * next1
        out[2, j] = -one * next1 - two * next2
        out[0, j] = 1.0 / factors[0, j] - one * out[1, j] - two * out[2, j]


@compiled
def fit_line(u: FloatArray, rows: FloatArray, line: FloatArray) -> None:
    """Improve `line`, a slope and an intercept, by Newton's method on the logistic loss; steps are halved.

    `rows` holds weights, which sum to one, and targets of the rows. It stops where a step gains nothing more that
    float64 shows.
    """
    value, g0, g1, h00, h01, h11 = _line_derivatives(u, rows, line[0], line[1])
    for _ in range(100):
        determinant = h00 * h11 - h01 * h01
        if not determinant > 1e-14 * h00 * h11:
            return
        step0, step1 = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
        decrement = g0 * step0 + g1 * step1
        share = 1.0
        while True:
            tried = _line_derivatives(u, rows, line[0] - share * step0, line[1] - share * step1)
            if tried[0] <= value - 1e-4 * share * decrement:
                break
            share *= 0.5
            if share < 1e-3 or decrement < 1e-12:
                return
        line[0] -= share * step0
        line[1] -= share * step1
        value, g0, g1, h00, h01, h11 = tried


@compiled
def _line_derivatives(
    u: FloatArray, rows: FloatArray, slope: float, intercept: float
) -> tuple[float, float, float, float, float, float]:
    """Return the logistic loss of a line, its gradient and its Hessian."""
    value = g0 = g1 = h00 = h01 = h11 = 0.0
    for i in range(u.size):
        x, w, t = u[i], rows[0, i], rows[1, i]
        f = slope * x + intercept
        e = np.exp(-abs(f))
        q = (1.0 if f >= 0.0 else e) / (1.0 + e)
        value += w * (max(f, 0.0) + np.log1p(e)) - t * f
        r = w * q - t
        v = w * (e / ((1.0 + e) * (1.0 + e)))
        g0 += r * x
        g1 += r
        h00 += v * x * x
        h01 += v * x
        h11 += v
    return value, g0, g1, h00, h01, h11


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
    rise = np.empty(k - 1)
    multiplier = np.full(k - 1, 1e-2 / k)
    gradient, step = np.empty(k), np.empty(k)
    bands = np.empty((3, k))
    for j in range(k - 1):
        rise[j] = curve[j + 1] - curve[j]
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
            bands[0, j] += ratio
            bands[0, j + 1] += ratio
            bands[1, j] -= ratio
            step[j] -= goal / rise[j]
            step[j + 1] += goal / rise[j]
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
            d = step[j + 1] - step[j]
            if d < 0.0:
                length = min(length, -0.99 * rise[j] / d)
            move = (goal - multiplier[j] * d) / rise[j] - multiplier[j]
            if move < 0.0:
                dual_length = min(dual_length, -0.99 * multiplier[j] / move)
        centring = 0.1 if min(length, dual_length) < 0.9 else 0.01
        for j in range(k - 1):
            d = step[j + 1] - step[j]
            multiplier[j] += dual_length * ((goal - multiplier[j] * d) / rise[j] - multiplier[j])
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
    for j in range(k):
        gradient[j] = bands[0, j] = bands[1, j] = bands[2, j] = 0.0
    for i in range(share.size):
        a = left[i]
        t = share[i]
        f = (1.0 - t) * curve[a] + t * curve[a + 1]
        e = np.exp(-abs(f))
        share_of_one = 1.0 / (1.0 + e)
        r = rows[0, i] * (share_of_one if f >= 0.0 else e * share_of_one) - rows[1, i]
        v = rows[0, i] * (e * share_of_one * share_of_one)
        gradient[a] += (1.0 - t) * r
        gradient[a + 1] += t * r
        bands[0, a] += (1.0 - t) * (1.0 - t) * v
        bands[1, a] += (1.0 - t) * t * v
        bands[0, a + 1] += t * t * v
    for j in range(k - 2):
        first, second = 1.0 / gap[j], 1.0 / gap[j + 1]
        both = first + second
        bend = penalty * (second * rise[j + 1] - first * rise[j])
        gradient[j] += first * bend
        gradient[j + 1] -= both * bend
        gradient[j + 2] += second * bend
        bands[0, j] += penalty * first * first
        bands[1, j] -= penalty * first * both
        bands[2, j] += penalty * first * second
        bands[0, j + 1] += penalty * both * both
        bands[1, j + 1] -= penalty * second * both
        bands[0, j + 2] += penalty * second * second
