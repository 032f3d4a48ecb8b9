"""Penalised softmax regression: derivatives, optima of SciPy, scikit-learn and statsmodels, and the evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

import calibrant
from calibrant import softmax_fit
from calibrant.errors import ConvergenceWarning
from calibrant.softmax_fit import MatrixProblem, VectorProblem, fit_softmax, minimise

KINDS = {"matrix": MatrixProblem, "vector": VectorProblem}
every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def draw(n=300, k=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, k)) * 1.5
    codes = (0.7 * x + 0.4 * x[:, ::-1] + rng.gumbel(size=(n, k))).argmax(axis=1)
    return x, codes, rng.exponential(size=n)


def problem(kind, n=300, k=4, seed=0, penalty=3.0):
    x, codes, weight = draw(n, k, seed)
    shape = (2, k) if kind is VectorProblem else (k, k + 1)
    rng = np.random.default_rng(seed + 1)
    return kind(x, codes, weight / weight.sum(), rng.normal(size=shape), penalty / n * rng.uniform(0.5, 2.0, shape))


def loss(p, theta):
    """The objective, as its docstring has it."""
    w, b = (theta[:, :-1], theta[:, -1]) if isinstance(p, MatrixProblem) else (np.diag(theta[0]), theta[1])
    logs = log_softmax(p.x @ w.T + b, axis=1)
    data = -(p.weight * logs[np.arange(p.codes.size), p.codes]).sum()
    return data + 0.5 * (p.penalty * (theta - p.centre) ** 2).sum()


def slopes(function, theta, h=1e-6):
    out = np.empty((theta.size, np.size(function(theta))))
    for i in range(theta.size):
        step = np.zeros(theta.size)
        step[i] = h
        step = step.reshape(theta.shape)
        out[i] = np.ravel((function(theta + step) - function(theta - step)) / (2.0 * h))
    return out


@every
def test_loss_gradient_and_hessian_are_those_of_the_objective(kind):
    p = problem(kind)
    theta = np.random.default_rng(5).normal(size=p.centre.shape)
    value, gradient = p.value_gradient(theta)
    assert value == pytest.approx(loss(p, theta), rel=1e-12)
    np.testing.assert_allclose(gradient.ravel(), slopes(lambda t: loss(p, t), theta)[:, 0], atol=1e-8)
    hessian = slopes(lambda t: p.value_gradient(t)[1], theta)
    np.testing.assert_allclose(p.hessian(theta), hessian, atol=1e-8)


@every
def test_the_inverse_for_many_parameters_is_of_blocks_with_the_diagonal_and_the_intercepts_of_the_hessian(kind):
    p = problem(kind)
    theta = np.random.default_rng(5).normal(size=p.centre.shape)
    solve, hessian = p.near_inverse(theta), p.hessian(theta)
    near = np.linalg.inv([solve(each.reshape(theta.shape)).ravel() for each in np.eye(theta.size)])
    label = np.broadcast_to(np.expand_dims(np.arange(p.x.shape[1]), p.axis), theta.shape).ravel()
    np.testing.assert_allclose(np.diag(near), np.diag(hessian), rtol=1e-5)
    np.testing.assert_allclose(near[label[:, None] != label], 0.0, atol=1e-12)
    for k in range(p.x.shape[1]):
        own = np.flatnonzero(label == k)
        np.testing.assert_allclose(near[own[-1], own], hessian[own[-1], own], rtol=1e-5)


def test_classes_of_different_frequency_take_few_passes(monkeypatch):
    """Whose columns lie far from 0 where the class is likely: with the diagonal of the Hessian alone it took 50."""
    rng = np.random.default_rng(1)
    z = rng.normal(size=(5_000, 30)) * 1.5 + rng.normal(size=30) * 0.7
    p = softmax(z, axis=1)
    y = np.minimum((p.cumsum(axis=1) < rng.uniform(size=(5_000, 1))).sum(axis=1), 29)
    passes, evaluate = [], MatrixProblem.value_gradient
    monkeypatch.setattr(MatrixProblem, "value_gradient", lambda p, theta: passes.append(1) or evaluate(p, theta))
    calibrant.MatrixScalingCalibrator().fit(softmax(2.0 * z, axis=1), y)
    assert len(passes) <= 15


@every
def test_optimum_is_that_of_scipy(kind):
    p = problem(kind)
    found = minimise(p, p.centre, what="test")
    shape = p.centre.shape
    other = minimize(lambda t: loss(p, t.reshape(shape)), np.zeros(found.size), method="BFGS", options={"gtol": 1e-9})
    assert loss(p, found) <= other.fun + 1e-14
    np.testing.assert_allclose(found.ravel(), other.x, atol=1e-4)
    assert np.abs(p.value_gradient(found)[1]).max() < 1e-10


@every
def test_many_rows_and_many_parameters_reach_the_optimum_of_newton(kind, monkeypatch):
    p = problem(kind, n=5000, k=3)
    newton = minimise(p, p.centre, what="test")
    monkeypatch.setattr(softmax_fit, "_HESSIAN_WORK", 1)
    sampled = minimise(p, p.centre, what="test")
    monkeypatch.setattr(softmax_fit, "_DENSE", 0)
    blocks = minimise(p, p.centre, what="test")
    assert not np.array_equal(sampled, newton)  # they went other ways
    assert not np.array_equal(blocks, newton)
    wanted = softmax(p.logits(p.x, newton), axis=0)
    np.testing.assert_allclose(softmax(p.logits(p.x, sampled), axis=0), wanted, atol=2e-5)
    np.testing.assert_allclose(softmax(p.logits(p.x, blocks), axis=0), wanted, atol=2e-5)


def test_ridge_is_scikit_learns_multinomial_regression():
    from sklearn.linear_model import LogisticRegression

    x, codes, weight = draw(500, 3)
    penalty = np.full((3, 4), 2.0)
    penalty[:, -1] = 0.0
    p = MatrixProblem(x, codes, weight / weight.sum(), np.zeros((3, 4)), penalty / weight.sum())
    theta = minimise(p, p.centre, what="test")
    reference = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x, codes, sample_weight=weight)
    np.testing.assert_allclose(theta[:, :-1], reference.coef_, atol=1e-5)
    np.testing.assert_allclose(theta[:, -1] - theta[:, -1].mean(), reference.intercept_, atol=1e-5)


def test_unpenalised_is_statsmodels_multinomial_logit():
    from statsmodels.discrete.discrete_model import MNLogit

    x, codes, _ = draw(500, 3)
    p = MatrixProblem(x, codes, np.full(500, 1 / 500), np.zeros((3, 4)), np.zeros((3, 4)))
    theta = minimise(p, p.centre, what="test")
    reference = MNLogit(codes, np.column_stack((x, np.ones(500)))).fit(method="newton", disp=False, maxiter=100)
    np.testing.assert_allclose((theta[1:] - theta[0]).T, reference.params, atol=1e-6)


@every
def test_evidence_strength_maximises_the_laplace_evidence_with_its_prior(kind):
    """At the strength it settles on, the posterior mean of log s by a grid of full refits is the same."""
    p = problem(kind, n=400, k=3, penalty=400.0)
    total = 400.0

    def log_posterior(s):
        refit = replace(p, penalty=s * p.penalty / total)
        theta = minimise(refit, p.centre, what="test")
        sign, size = np.linalg.slogdet(total * refit.hessian(theta))
        assert sign > 0
        prior = -0.5 * ((np.log(s) - np.log(2.0)) / 1.5) ** 2
        return -total * loss(refit, theta) + 0.5 * p.penalty.size * np.log(s) - 0.5 * size + prior

    logs = np.linspace(-5.0, 6.5, 47)
    heights = np.array([log_posterior(s) for s in np.exp(logs)])
    share = np.exp(heights - heights.max())
    strength = fit_softmax(p, total, None, what="test").penalty
    assert np.log(strength) == pytest.approx((share * logs).sum() / share.sum(), abs=0.1)


@every
def test_given_strength_is_kept(kind):
    p = problem(kind, penalty=300.0)
    found = fit_softmax(p, 300.0, 0.7, what="test")
    assert found.penalty == 0.7
    wanted = minimise(replace(p, penalty=0.7 * p.penalty / 300.0), p.centre, what="test")
    np.testing.assert_allclose(found.theta, wanted, atol=1e-9)


@every
def test_a_fit_that_starts_from_one_to_other_rows_ends_at_the_same_optimum(kind):
    """Whatever the start, and however unlike its Hessian is."""
    p = problem(kind, n=400, penalty=300.0)
    wanted = fit_softmax(p, 300.0, 0.7, what="test").theta
    for other in (problem(kind, n=300, penalty=300.0), problem(kind, seed=3, penalty=30.0)):
        near = fit_softmax(other, 300.0, None, what="test")
        np.testing.assert_allclose(fit_softmax(p, 300.0, 0.7, what="test", near=near).theta, wanted, atol=1e-8)


def test_a_fit_that_stops_short_says_so(monkeypatch):
    monkeypatch.setattr(softmax_fit, "_MAX_ITER", 1)
    p = problem(MatrixProblem, penalty=1e-6)
    with pytest.warns(ConvergenceWarning, match=r"matrix fit: Newton decrement .* > tol 1e-08 after 1 iterations"):
        minimise(p, p.centre, what="matrix fit")


def test_a_singular_hessian_is_solved():
    """Columns that are the same, and weights so far apart that one row is all there is."""
    x, codes, _ = draw(50, 3)
    x[:, 2] = x[:, 1]
    weight = np.full(50, 1e-300)
    weight[7] = 1.0
    p = MatrixProblem(x, codes, weight, np.zeros((3, 4)), np.full((3, 4), 1e-300))
    assert np.isfinite(minimise(p, p.centre, what="test")).all()
