"""Matrix scaling is the penalised optimum that its docstring states, and finds a confusion that temperature can't."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

import calibrant as cb
from calibrant.maps import BetaMap, LogisticMap, SoftmaxMap


def draw(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) * 2.0
    mixed = 0.6 * z + 0.5 * z[:, [1, 0, 2]] * [1, 0, 0] + [0.4, 0.0, -0.4]
    return z, (mixed + rng.gumbel(size=(n, 3))).argmax(axis=1), rng.exponential(size=n)


def test_map_is_the_stated_optimum():
    z, y, w = draw()
    s, k = 0.7, 3
    fitted = cb.MatrixScalingCalibrator(penalty=s, input="logit").fit(z, y, sample_weight=w)
    beta = cb.TemperatureCalibrator(input="logit").fit(z, y, sample_weight=w).inverse_temperature_
    x = beta * (z - z.mean(axis=1, keepdims=True))

    def objective(theta):
        deviation, b = theta[:9].reshape(3, 3), theta[9:]
        logs = log_softmax(x @ (np.eye(3) + deviation).T + b, axis=1)
        diagonal = np.diag(deviation)
        rest = (deviation**2).sum() - (diagonal**2).sum()
        penalty = k * (b**2).sum() + 3 * k * (diagonal**2).sum() + 3 * k**1.5 * rest
        return -(w * logs[np.arange(y.size), y]).sum() + 0.5 * s * penalty

    theta = minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-7}).x
    wanted = np.exp(log_softmax(x @ (np.eye(3) + theta[:9].reshape(3, 3)).T + theta[9:], axis=1))
    np.testing.assert_allclose(fitted.predict_proba(z), wanted, atol=1e-5)
    assert isinstance(fitted.map_, SoftmaxMap)
    assert fitted.map_.weight.shape == (3, 3)
    assert fitted.penalty_ == s


def test_nearly_no_penalty_is_statsmodels_multinomial_logit():
    from statsmodels.discrete.discrete_model import MNLogit

    z, y, _ = draw()
    fitted = cb.MatrixScalingCalibrator(penalty=1e-7, input="logit").fit(z, y)
    columns = np.column_stack((np.ones(y.size), z[:, 1:] - z[:, :1]))  # all that a shift of rows leaves
    reference = MNLogit(y, columns).fit(method="newton", disp=False, maxiter=100)
    np.testing.assert_allclose(fitted.predict_proba(z), reference.predict(columns), atol=1e-6)


def test_a_confusion_of_classes_is_found():
    z, y, _ = draw(3000)
    new, truth, _ = draw(20_000, seed=1)
    losses = {}
    for kind in (cb.TemperatureCalibrator, cb.VectorScalingCalibrator, cb.MatrixScalingCalibrator):
        q = kind(input="logit").fit(z, y).predict_proba(new)
        losses[kind.name] = -np.log(q[np.arange(truth.size), truth]).mean()
    assert losses["matrix"] < losses["vector"] - 0.01 < losses["temperature"] - 0.02


def test_the_chosen_penalty_is_larger_where_temperature_is_all_there_is_to_find():
    z, y, _ = draw(1000)
    rng = np.random.default_rng(2)
    only = (0.6 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    found = cb.MatrixScalingCalibrator(input="logit").fit(z, y).penalty_
    assert cb.MatrixScalingCalibrator(input="logit").fit(z, only).penalty_ > 10.0 * found


def test_more_parameters_than_a_hessian_is_made_of_get_the_prior_median():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 30))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    assert cb.MatrixScalingCalibrator(input="logit").fit(z, y, classes=range(30)).penalty_ == 2.0


@pytest.mark.parametrize("kind", [cb.MatrixScalingCalibrator, cb.VectorScalingCalibrator])
def test_two_classes_have_a_slope_and_an_intercept(kind):
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 0.9, 4000)
    z = np.log(p) - np.log1p(-p)
    y = rng.random(4000) < 1.0 / (1.0 + np.exp(-0.5 * z - 0.8))
    fitted = kind().fit(p, y).map_
    assert isinstance(fitted, BetaMap)
    assert fitted.a == fitted.b == pytest.approx(0.5, abs=0.05)
    assert fitted.c == pytest.approx(0.8, abs=0.1)
    of_logits = kind(input="logit").fit(z, y).map_
    assert isinstance(of_logits, LogisticMap)
    assert (of_logits.slope, of_logits.intercept) == pytest.approx((fitted.a, fitted.c), abs=1e-6)
