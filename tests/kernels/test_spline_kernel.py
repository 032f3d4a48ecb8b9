"""The spline's banded systems against dense ones, and its optimality conditions checked from outside."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solveh_banded

from calibrant import kernels
from calibrant.kernels.spline import factor_bands, inverse_bands, solve_bands
from calibrant.numerics import expit


def test_banded_systems_equal_dense_ones():
    rng = np.random.default_rng(0)
    root = np.tril(np.triu(rng.normal(size=(12, 12)), -2)) + 4.0 * np.eye(12)
    matrix = root @ root.T
    bands = np.array([np.append(np.diag(matrix, -k), np.zeros(k)) for k in range(3)])
    b = rng.normal(size=12)
    factors, x, inverse = bands.copy(), b.copy(), np.empty((3, 12))
    factor_bands(factors)
    solve_bands(factors, x)
    inverse_bands(factors, inverse)
    np.testing.assert_allclose(x, solveh_banded(bands, b, lower=True), rtol=1e-10)
    dense = np.linalg.inv(matrix)
    for k in range(3):
        np.testing.assert_allclose(inverse[k, : 12 - k], np.diag(dense, -k), rtol=1e-9)


@pytest.mark.parametrize("penalty", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("n_knots", [3, 8, 40])
def test_the_curve_meets_the_conditions_of_an_optimum(penalty, n_knots):
    """The gradient is a sum of multipliers, none negative, of rises that are held at zero."""
    rng = np.random.default_rng(0)
    knots = np.sort(rng.normal(size=n_knots))
    u = np.sort(rng.uniform(knots[0], knots[-1], 300))
    rows = np.vstack((np.full(300, 1 / 300), (rng.random(300) < expit(np.sin(3.0 * u))) / 300 * 0.98 + 0.01 / 300))
    left = np.clip(np.searchsorted(knots, u, side="right") - 1, 0, n_knots - 2)
    share = (u - knots[left]) / np.diff(knots)[left]
    curve, inverse = np.linspace(-1.0, 1.0, n_knots), np.empty((3, n_knots))
    measure, n_iter = kernels.fit_rising_curve(left, share, rows, np.diff(knots), penalty, 1e-10, 200, curve, inverse)
    assert measure <= 1e-8
    assert n_iter < 100
    hats = np.array([np.interp(u, knots, row) for row in np.eye(n_knots)]).T
    bends = np.diff(np.diff(np.eye(n_knots), axis=0) / np.diff(knots)[:, None], axis=0)
    gradient = hats.T @ (rows[0] * expit(hats @ curve) - rows[1]) + penalty * bends.T @ (bends @ curve)
    multipliers = -np.cumsum(gradient)[:-1]  # of the rises between neighbouring knots
    assert abs(gradient.sum()) < 1e-8
    assert (np.diff(curve) > 0.0).all()
    assert multipliers.min() > -1e-7
    assert np.abs(multipliers * np.diff(curve)).max() < 1e-7
