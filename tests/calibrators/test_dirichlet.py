"""Dirichlet calibration is the penalised optimum over logarithms, exact for Dirichlet scores, and beta's for two."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import dirichlet

import calibrant as cb
from calibrant.maps import SoftmaxMap

ALPHAS = np.array([[3.0, 1.0, 0.8], [1.0, 2.5, 1.2], [0.7, 1.5, 2.0]])
SHARES = np.array([0.5, 0.3, 0.2])


def draw(n=400, seed=0):
    """Scores whose distribution within each class is a Dirichlet one."""
    rng = np.random.default_rng(seed)
    y = rng.choice(3, size=n, p=SHARES)
    return np.array([rng.dirichlet(ALPHAS[c]) for c in y]), y, rng.exponential(size=n)


def test_map_is_the_stated_optimum():
    p, y, w = draw()
    s, k = 0.7, 3
    fitted = cb.DirichletCalibrator(penalty=s).fit(p, y, sample_weight=w)
    assert isinstance(fitted.map_, SoftmaxMap)
    beta = cb.TemperatureCalibrator().fit(p, y, sample_weight=w).inverse_temperature_
    logs = np.log(np.maximum(p, fitted.map_.clip))
    x = beta * (logs - np.average(logs.mean(axis=1), weights=w))

    def objective(theta):
        deviation, b = theta[:9].reshape(3, 3), theta[9:]
        logs = log_softmax(x @ (np.eye(3) + deviation).T + b, axis=1)
        diagonal = np.diag(deviation)
        rest = (deviation**2).sum() - (diagonal**2).sum()
        penalty = k * (b**2).sum() + 3 * k * (diagonal**2).sum() + 3 * k**1.5 * rest
        return -(w * logs[np.arange(y.size), y]).sum() + 0.5 * s * penalty

    theta = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-7}).x
    wanted = np.exp(log_softmax(x @ (np.eye(3) + theta[:9].reshape(3, 3)).T + theta[9:], axis=1))
    np.testing.assert_allclose(fitted.predict_proba(p), wanted, atol=1e-5)


@pytest.mark.slow
def test_scores_of_dirichlet_classes_get_their_posterior():
    p, y, _ = draw(30_000)
    density = np.column_stack([s * dirichlet.pdf(p.T, a) for s, a in zip(SHARES, ALPHAS, strict=True)])
    posterior = density / density.sum(axis=1, keepdims=True)
    off = np.abs(cb.DirichletCalibrator().fit(p, y).predict_proba(p) - posterior).mean()
    centred = np.abs(cb.MatrixScalingCalibrator().fit(p, y).predict_proba(p) - posterior).mean()
    assert off < 0.004 < 0.006 < centred


def test_two_classes_are_beta_calibration():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p**2
    fitted, beta = cb.DirichletCalibrator().fit(p, y), cb.BetaCalibrator().fit(p, y)
    assert fitted.map_ == beta.map_
    assert not hasattr(fitted, "penalty_")


def test_the_strength_of_a_fit_to_three_classes_goes_with_a_fit_to_two():
    p, y, _ = draw()
    fitted = cb.DirichletCalibrator().fit(p, y)
    assert fitted.penalty_ > 0.0
    assert not hasattr(fitted.fit(p[:, 0], y == 0), "penalty_")
