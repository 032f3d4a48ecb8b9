"""Vector scaling is the penalised optimum that its docstring states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

import calibrant as cb

SLOPES = np.array([0.2, 0.5, 0.8, 1.2])
BIAS = np.array([1.0, 0.3, -0.3, -1.0])


def draw(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 4)) * 2.0
    truth = (z - z.mean(axis=1, keepdims=True)) * SLOPES + BIAS
    return z, (truth + rng.gumbel(size=(n, 4))).argmax(axis=1), rng.exponential(size=n)


def test_map_is_the_stated_optimum():
    z, y, w = draw()
    s, k = 0.7, 4
    fitted = cb.VectorScalingCalibrator(penalty=s, input="logit").fit(z, y, sample_weight=w)
    beta = cb.TemperatureCalibrator(input="logit").fit(z, y, sample_weight=w).inverse_temperature_
    x = beta * (z - z.mean(axis=1, keepdims=True))

    def objective(theta):
        d, b = theta[:k], theta[k:]
        logs = log_softmax((1.0 + d) * x + b, axis=1)
        penalty = k * (b**2).sum() + 3 * k * (d**2).sum()
        return -(w * logs[np.arange(y.size), y]).sum() + 0.5 * s * penalty

    theta = minimize(objective, np.zeros(2 * k), method="BFGS", options={"gtol": 1e-7}).x
    wanted = np.exp(log_softmax((1.0 + theta[:k]) * x + theta[k:], axis=1))
    np.testing.assert_allclose(fitted.predict_proba(z), wanted, atol=1e-5)


def test_slopes_and_intercepts_of_the_classes_are_found():
    z, y, _ = draw(60_000)
    fitted = cb.VectorScalingCalibrator(input="logit").fit(z, y)
    weight, bias = fitted.map_.weight, fitted.map_.bias
    slopes = weight.diagonal() / 0.75  # the centring leaves 1 - 1 / K of a slope on the diagonal
    np.testing.assert_allclose(weight, slopes[:, None] * (np.eye(4) - 0.25), atol=1e-12)
    np.testing.assert_allclose(slopes, SLOPES, atol=0.03)
    np.testing.assert_allclose(bias - bias.mean(), BIAS, atol=0.05)


def test_probabilities_with_zeros_are_moved_inward():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(3), 300).round(1)
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(3, p=0.8 * row + 0.2 / 3) for row in p])
    q = cb.VectorScalingCalibrator().fit(p, y).predict_proba(p)
    assert (p == 0.0).any()
    assert q.min() > 0.0


def test_raw_scores_are_taken_as_logits():
    z, y, _ = draw()
    from_scores = cb.VectorScalingCalibrator(input="score").fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(from_scores, cb.VectorScalingCalibrator(input="logit").fit(z, y).predict_proba(z))
    assert from_scores.sum(axis=1) == pytest.approx(1.0)
