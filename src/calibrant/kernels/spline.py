"""Penalised logistic regression on a rising piecewise linear function: an interior-point method on banded systems."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

IndexArray = npt.NDArray[np.int64]


@compiled
def factor_bands(bands: FloatArray) -> None:
    """Turn the lower bands of a positive definite matrix with two off-diagonals into its L D L' factors.

    `bands[k, j]` is entry (j + k, j): on return D in row 0 and the unit triangle L in rows 1 and 2. Pivots that
    rounding wipes out are put back to the size of the rounding.
    """
    n = bands.shape[1]
    rounding = 1e-16 * bands[0].copy()
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
def fit_rising_curve(
    left: IndexArray,
    share: FloatArray,
    weight: FloatArray,
    target: FloatArray,
    gap: FloatArray,
    penalty: float,
    tol: float,
    max_iter: int,
    curve: FloatArray,
    inverse: FloatArray,
) -> tuple[float, int]:
    """Fit the values `curve` at the knots; return the last duality measure and the number of iterations.

    Minimises sum_i (weight_i softplus(f_i) - target_i f_i) + penalty / 2 sum_j (s_{j+1} - s_j)^2 over values that
    don't fall, where f_i = (1 - share_i) curve[left_i] + share_i curve[left_i + 1] and s_j is the slope over
    `gap[j]`. The weights sum to one; `curve` holds a strictly rising start.

    Takes primal-dual interior-point steps, each the solution of one banded system, down to `tol` or to where rounding
    leaves nothing to gain. `inverse` gets the bands of the inverse of the last system's matrix, in which a rise that
    is held at zero is stiff.
    """
    k = curve.size
    n = weight.size
    rise = np.empty(k - 1)
    price = np.empty(k - 1)
    gradient = np.empty(k)
    step = np.empty(k)
    bands = np.empty((3, k))
    for j in range(k - 1):
        rise[j] = curve[j + 1] - curve[j]
    price[:] = 1e-2 / k
    before = np.inf
    measure = np.inf
    for n_iter in range(1, max_iter + 1):
        gradient[:] = 0.0
        bands[:] = 0.0
        for i in range(n):
            a = left[i]
            t = share[i]
            f = (1.0 - t) * curve[a] + t * curve[a + 1]
            e = np.exp(-abs(f))
            q = (1.0 if f >= 0.0 else e) / (1.0 + e)
            r = weight[i] * q - target[i]
            v = weight[i] * (e / ((1.0 + e) * (1.0 + e)))
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
        gap_left = 0.0
        dual = 0.0
        for j in range(k - 1):
            gap_left += rise[j] * price[j]
        for j in range(k):
            g = gradient[j]
            if j > 0:
                g -= price[j - 1]
            if j < k - 1:
                g += price[j]
            dual = max(dual, abs(g))
        measure = max(gap_left, dual)
        goal = 0.1 * max(gap_left, tol) / (k - 1)
        for j in range(k - 1):
            ratio = price[j] / rise[j]
            bands[0, j] += ratio
            bands[0, j + 1] += ratio
            bands[1, j] -= ratio
        step[:] = -gradient
        for j in range(k - 1):
            step[j] -= goal / rise[j]
            step[j + 1] += goal / rise[j]
        factor_bands(bands)
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
        if largest > reach:
            length = reach / largest
        dual_length = 1.0
        for j in range(k - 1):
            d = step[j + 1] - step[j]
            if d < 0.0:
                length = min(length, -0.99 * rise[j] / d)
            move = (goal - price[j] * d) / rise[j] - price[j]
            if move < 0.0:
                dual_length = min(dual_length, -0.99 * price[j] / move)
        for j in range(k - 1):
            d = step[j + 1] - step[j]
            price[j] += dual_length * ((goal - price[j] * d) / rise[j] - price[j])
        for j in range(k):
            curve[j] += length * step[j]
        for j in range(k - 1):
            rise[j] += length * (step[j + 1] - step[j])
    inverse_bands(bands, inverse)
    return measure, max_iter
