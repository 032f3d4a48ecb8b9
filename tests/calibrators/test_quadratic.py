"""The quadratic calibrator is the constrained optimum, whatever the unit of the scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import calibrant as cb
from calibrant.maps import QuadraticMap
from calibrant.numerics import expit

RATES = {
    "bent up": lambda z: expit(0.5 * z + 0.3 * z * z),
    "bent down": lambda z: expit(1.5 * z - 0.2 * z * z),
    "valley": lambda z: expit(0.5 * z * z - 1.0),
    "hill": lambda z: expit(1.0 - 0.5 * z * z),
    "reversed": lambda z: expit(-z),
    "noise": lambda z: np.full(z.size, 0.3),
}


def draw(rate, n=800, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0.2, 1.5, n)
    return z, rng.random(n) < RATES[rate](z), rng.exponential(size=n)


def targets(y, w):
    n1, n0 = w[y].sum(), w[~y].sum()
    return np.where(y, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))


def loss(f, y, w):
    return np.average(np.logaddexp(0, f) - targets(y, w) * f, weights=w)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_is_the_constrained_optimum(rate, weighted):
    """Against SLSQP with the two slope constraints."""
    z, y, w = draw(rate)
    w = w if weighted else np.ones(z.size)
    X = np.column_stack((np.ones_like(z), z, z * z))
    ends = np.array([[0.0, 1.0, 2.0 * z.min()], [0.0, 1.0, 2.0 * z.max()]])
    theirs = minimize(
        lambda theta: loss(X @ theta, y, w),
        np.array([0.0, 1.0, 0.0]),
        jac=lambda theta: np.average((expit(X @ theta) - targets(y, w))[:, None] * X, axis=0, weights=w),
        constraints={"type": "ineq", "fun": lambda theta: ends @ theta, "jac": lambda _: ends},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert (ends @ theirs.x >= -1e-9).all()
    q = cb.QuadraticCalibrator(input="score").fit(z, y, sample_weight=w).predict_proba(z)
    assert loss(np.log(q / (1 - q)), y, w) <= theirs.fun + 1e-9
    np.testing.assert_allclose(q, expit(X @ theirs.x), atol=2e-4)


@pytest.mark.filterwarnings("ignore:the scores run against the labels")
@pytest.mark.parametrize("rate", RATES)
def test_curve_does_not_fall_and_is_flat_outside_the_data(rate):
    z, y, _ = draw(rate)
    fitted = cb.QuadraticCalibrator(input="score").fit(z, y)
    q = fitted.predict_proba(np.linspace(z.min(), z.max(), 5001))
    assert (np.diff(q) >= 0.0).all()
    outside = fitted.predict_proba([z.min() - 9.0, z.max() + 9.0])
    np.testing.assert_array_equal(outside, fitted.predict_proba([z.min(), z.max()]))


def test_scores_that_run_against_the_labels_give_a_constant():
    z, y, _ = draw("reversed")
    with pytest.warns(cb.errors.DataWarning, match="run against the labels"):
        q = cb.QuadraticCalibrator(input="score").fit(z, y).predict_proba(z)
    assert np.ptp(q) == 0.0
    assert q[0] == pytest.approx(targets(y, np.ones(z.size)).mean(), abs=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_unit_and_origin_of_the_scores_do_not_matter(shift, scale):
    z, y, _ = draw("bent up")
    plain = cb.QuadraticCalibrator(input="score").fit(z, y).predict_proba(z)
    moved = (z + shift) * scale
    np.testing.assert_allclose(
        cb.QuadraticCalibrator(input="score").fit(moved, y).predict_proba(moved), plain, atol=1e-8
    )


def test_probabilities_enter_as_their_logits():
    z, y, _ = draw("bent up")
    on_p = cb.QuadraticCalibrator().fit(expit(z), y).predict_proba(expit(z))
    on_z = cb.QuadraticCalibrator(input="logit").fit(z, y).predict_proba(z)
    np.testing.assert_allclose(on_p, on_z, atol=1e-9)


def test_two_distinct_scores_get_the_line_of_platt():
    z = np.repeat([-1.0, 2.0], 50)
    y = np.arange(100) % 5 < np.where(z > 0, 3, 1)
    q = cb.QuadraticCalibrator(input="score").fit(z, y)
    assert isinstance(q.map_, QuadraticMap)
    assert q.map_.b == 0.0
    platt = cb.SigmoidCalibrator(input="score").fit(z, y)
    np.testing.assert_allclose(q.predict_proba([-1.0, 2.0]), platt.predict_proba([-1.0, 2.0]), atol=1e-9)


def test_separable_scores_stay_inside():
    z = np.linspace(-1.0, 1.0, 40)
    q = cb.QuadraticCalibrator(input="score").fit(z, z > 0.0).predict_proba(z)
    assert 0.0 < q.min() < 0.05
    assert 0.95 < q.max() < 1.0
