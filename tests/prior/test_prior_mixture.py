"""Shares of components: the optimum, its certificate, and derivatives by differences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st
from prior_data import even

from calibrant.prior.mixture import Mixture, maximise


@given(st.integers(2, 5), st.integers(1, 40), st.integers(0, 10_000))
def test_gap_bounds_what_any_other_rates_can_gain(k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = rng.dirichlet(np.full(k, 0.3), n).T + 1e-12
    problem = Mixture(columns, np.full(n, 1.0 / n))
    for max_iter in (0, 1, 6, 100):
        found = maximise(problem, even(k), tol=1e-10, max_iter=max_iter)
        others = rng.dirichlet(np.full(k, 0.5), 50)
        assert max(problem.value(other) for other in others) <= found.value + found.gap + 1e-12
    assert found.gap <= 1e-10


def test_derivatives_are_those_of_differences() -> None:
    rng = np.random.default_rng(0)
    weight = rng.random(30)
    problem = Mixture(rng.random((4, 30)) + 0.1, weight / weight.sum())
    u, h = rng.dirichlet(np.ones(4)), 1e-5
    steps = h * np.eye(4)
    slopes = [(problem.value(u + step) - problem.value(u - step)) / (2.0 * h) for step in steps]
    np.testing.assert_allclose(problem.gradient(u), slopes, rtol=1e-8)
    bends = [(problem.gradient(u + step) - problem.gradient(u - step)) / (2.0 * h) for step in steps]
    np.testing.assert_allclose(problem.curvature(u), -np.array(bends), rtol=1e-6)


def test_shares_within_a_basis_are_the_best_of_those() -> None:
    rng = np.random.default_rng(1)
    problem = Mixture(rng.random((3, 50)), np.full(50, 0.02))
    basis = np.array([[0.4, 0.4], [0.6, 0.0], [0.0, 0.6]])  # the first share is held at 0.4
    v = maximise(problem, even(2), tol=1e-12, max_iter=100, basis=basis).shares
    tried = [problem.value(basis @ np.array([a, 1.0 - a])) for a in np.linspace(0.0, 1.0, 1_001)]
    assert problem.value(basis @ v) >= max(tried) - 1e-12
