"""The best weights on the simplex, against SLSQP and against accelerated descent."""

import numpy as np
import pytest
from scipy.optimize import minimize

from calibrant.calibrators.auto_weights import newton_on_simplex, quadratic_on_simplex
from calibrant.numerics import project_simplex


def descend(gradient, start, *, step, tol, max_iter):
    """Minimise on the simplex by accelerated projected gradients (Beck and Teboulle 2009, section 4)."""
    found, ahead, momentum = start, start, 1.0
    for _ in range(max_iter):
        moved = project_simplex(ahead - step * gradient(ahead))
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        change = moved - found
        ahead = moved + (momentum - 1.0) / following * change
        found, momentum = moved, following
        if np.abs(change).max() < tol:
            break
    return found


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_descent_on_the_simplex_ends_where_slsqp_does(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    hessian, linear = root @ root.T + 0.1 * np.eye(n), 3.0 * rng.normal(size=n)
    step = 1.0 / np.linalg.eigvalsh(hessian)[-1]
    start = np.full(n, 1.0 / n)
    found = descend(lambda x: hessian @ x + linear, start, step=step, tol=1e-12, max_iter=10_000)
    theirs = minimize(
        lambda x: 0.5 * x @ hessian @ x + linear @ x,
        start,
        jac=lambda x: hessian @ x + linear,
        bounds=[(0.0, None)] * n,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(found, theirs.x, atol=1e-6)
    exact = quadratic_on_simplex(hessian, linear, start)
    np.testing.assert_allclose(exact, found, atol=1e-9)
    np.testing.assert_allclose(quadratic_on_simplex(hessian, linear, np.eye(n)[0]), exact, atol=1e-9)  # from a corner


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_newton_on_the_simplex_ends_where_descent_does(n):
    """Of a function far from a parabola: a sum of exponentials."""
    rng = np.random.default_rng(n)
    root = rng.normal(size=(3 * n, n))

    def gradient(x):
        return root.T @ np.exp(2.0 * root @ x) + x

    found = newton_on_simplex(
        lambda x: 0.5 * float(np.exp(2.0 * root @ x).sum() + x @ x),
        lambda x: (gradient(x), 2.0 * (root.T * np.exp(2.0 * root @ x)) @ root + np.eye(n)),
        np.full(n, 1.0 / n),
        least_gain=1e-12,
    )
    step = 0.2 / (1.0 + 2.0 * np.linalg.norm(root, 2) ** 2 * np.exp(2.0 * np.abs(root).max()))
    wanted = descend(gradient, found, step=step, tol=1e-15, max_iter=2_000)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert found.sum() == pytest.approx(1.0)
