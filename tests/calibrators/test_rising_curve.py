"""Curves of a rising spline: their optimality conditions and the inverses of their systems, checked from outside."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.calibrators.rising_curve import CurveProblem, Place, _factored, _solved, fit_rising_curves
from calibrant.numerics import expit

PENALTIES = np.array([1e-4, 0.01, 1.0])


def problem(n_knots, penalties=PENALTIES, n=300, seed=0):
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.normal(size=n_knots))
    u = np.sort(rng.uniform(knots[0], knots[-1], n))
    weight = np.full(n, 1.0 / n)
    target = weight * (0.98 * (rng.random(n) < expit(np.sin(3.0 * u))) + 0.01)
    start = np.linspace(-1.0, 1.0, n_knots)
    return knots, u, CurveProblem(Place.of(u, knots), weight, target, np.diff(knots), penalties, start)


def fit(n_knots, penalties=PENALTIES):
    return fit_rising_curves([problem(n_knots, penalties)[2]])[0]


@pytest.mark.parametrize("n_knots", [3, 8, 40])
def test_curves_meet_the_conditions_of_an_optimum(n_knots):
    """The gradient is a sum of multipliers, none negative, of rises that are held at zero."""
    knots, u, asked = problem(n_knots)
    weight, target = asked.weight, asked.target
    (found,) = fit_rising_curves([asked])
    hats = np.array([np.interp(u, knots, row) for row in np.eye(n_knots)]).T
    bends = np.diff(np.diff(np.eye(n_knots), axis=0) / np.diff(knots)[:, None], axis=0)
    assert (found.measure <= 1e-8).all()
    assert (found.n_iter < 100).all()
    for penalty, curve in zip(PENALTIES, found.values, strict=True):
        gradient = hats.T @ (weight * expit(hats @ curve) - target) + penalty * bends.T @ (bends @ curve)
        multipliers = -np.cumsum(gradient)[:-1]  # of the rises between neighbouring knots
        assert abs(gradient.sum()) < 1e-8
        assert (np.diff(curve) > 0.0).all()
        assert multipliers.min() > -1e-7
        assert np.abs(multipliers * np.diff(curve)).max() < 1e-7


def test_curves_that_are_fitted_together_are_those_fitted_alone():
    together = fit(40)
    for j in range(PENALTIES.size):
        alone = fit(40, PENALTIES[j : j + 1])
        assert alone.n_iter[0] == together.n_iter[j]
        np.testing.assert_allclose(alone.values[0], together.values[j], rtol=1e-12)
        np.testing.assert_allclose(alone.inverse[0], together.inverse[j], rtol=1e-9)


@pytest.mark.parametrize("at_once", [1, 1 << 30])
def test_problems_that_are_fitted_together_are_those_fitted_alone(monkeypatch, at_once):
    """Of unequal numbers of knots, rows and penalties, some knots without rows between them."""
    monkeypatch.setattr("calibrant.calibrators.rising_curve._MOST_TOGETHER", at_once)
    asked = [
        problem(n_knots, PENALTIES[: 1 + seed % 3], n, seed)[2]
        for seed, (n_knots, n) in enumerate([(40, 300), (3, 80), (40, 10), (12, 2), (7, 301)])
    ]
    for one, found in zip(asked, fit_rising_curves(asked), strict=True):
        (alone,) = fit_rising_curves([one])
        assert found.values.shape == (one.penalty.size, one.start.size)
        np.testing.assert_array_equal(alone.n_iter, found.n_iter)
        np.testing.assert_allclose(alone.values, found.values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(alone.inverse, found.inverse, rtol=1e-4)  # stiff by noise where rises are zero
        np.testing.assert_allclose(alone.measure, found.measure, atol=1e-12)


def test_the_inverse_is_that_of_the_penalised_hessian_where_no_rise_is_held():
    """With a penalty under which all rises are far from zero, against a dense inverse."""
    penalty = np.array([1e3])
    rng = np.random.default_rng(0)
    knots = np.linspace(-2.0, 2.0, 12)
    u = np.sort(rng.uniform(-2.0, 2.0, 300))
    weight = np.full(300, 1 / 300)
    target = weight * expit(2.0 * u)
    asked = CurveProblem(Place.of(u, knots), weight, target, np.diff(knots), penalty, knots.copy())
    (found,) = fit_rising_curves([asked])
    hats = np.array([np.interp(u, knots, row) for row in np.eye(12)]).T
    bends = np.diff(np.diff(np.eye(12), axis=0) / np.diff(knots)[:, None], axis=0)
    q = expit(hats @ found.values[0])
    dense = np.linalg.inv((hats.T * (weight * q * (1.0 - q))) @ hats + penalty * bends.T @ bends)
    np.testing.assert_allclose(found.inverse[0, 0], np.diag(dense), rtol=1e-6)
    np.testing.assert_allclose(found.inverse[0, 1, :-1], np.diag(dense, 1), rtol=1e-6)


def test_systems_that_rounding_makes_indefinite_are_lifted_alone():
    sound = np.array([[2.0, -1.0, 0.0], [2.0, -1.0, 0.0], [2.0, 0.0, 0.0]])
    singular = np.array([[1.0, -1.0, 0.0], [2.0, -1.0, 0.0], [1.0 - 1e-15, 0.0, 0.0]])  # below zero by rounding
    factors = _factored(np.array([sound, singular, sound]))
    np.testing.assert_array_equal(factors[0], factors[2])
    x = _solved(factors[0], np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(x, 1.0, rtol=1e-14)
    assert np.isfinite(factors).all()


def test_a_curve_whose_numbers_are_not_finite_spoils_no_other():
    found, alone = fit(40, np.array([np.nan, 0.01])), fit(40, np.array([0.01]))
    assert np.isnan(found.measure[0])
    assert found.n_iter[0] == 1
    np.testing.assert_allclose(found.values[1], alone.values[0], rtol=1e-12)
