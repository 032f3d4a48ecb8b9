"""Orders that may be broken: the columns' projections, and the whole problem, against outside solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_matrices import nearest
from scipy.optimize import minimize

from calibrant import kernels
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, solve

UNITS = np.array([0, 1, 2, 4, 5, 6, 7, 9, 10], dtype=np.int32)  # ten places, two pairs of which are one unit each


def test_column_with_slack_is_nearest_under_weights() -> None:
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(8), np.diff(UNITS))
    falls = [(a, b) for a in range(10) for b in range(10) if a != b and unit[a] <= unit[b]]
    high, low = np.array(falls).T
    for slack in (0.0, 0.1, 0.5, 5.0):
        value, weight = rng.normal(0.3, 0.5, 10), rng.uniform(0.5, 3.0, 10)
        out = np.empty(10)
        kernels.rise_with_slack(value, weight, UNITS, 8, slack, out)
        best = minimize(
            lambda q, v=value, w=weight: 0.5 * w @ (q - v) ** 2,
            np.full(10, 0.3),
            jac=lambda q, v=value, w=weight: w * (q - v),
            bounds=[(0.0, None)] * 10,
            constraints=[{"type": "ineq", "fun": lambda q, s=slack: q[low] - q[high] + s}],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1_000},
        )
        np.testing.assert_allclose(out, best.x, rtol=0, atol=2e-6)
        assert (out[high] - out[low]).max() <= slack + 1e-15


def test_column_at_a_price_is_nearest_under_weights() -> None:
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(8), np.diff(UNITS))
    for price in (0.0, 0.05, 0.4, 50.0):
        value, weight = rng.normal(0.3, 0.5, 10), rng.uniform(0.5, 3.0, 10)
        out = np.empty(10)
        kernels.rise_at_a_price(value, weight, UNITS, 8, price, out)

        def cost(x: np.ndarray, v: np.ndarray = value, w: np.ndarray = weight, p: float = price) -> float:
            return float(0.5 * w @ (x[:8][unit] - v) ** 2 + p * x[8:].sum())

        best = minimize(
            cost,
            np.append(np.full(8, 0.3), np.ones(7)),
            jac=lambda x, v=value, w=weight, p=price: np.append(
                np.bincount(unit, w * (x[:8][unit] - v)), np.full(7, p)
            ),
            bounds=[(0.0, None)] * 15,
            constraints=[{"type": "ineq", "fun": lambda x: x[8:] + x[1:8] - x[:7]}],
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1_000},
        )
        np.testing.assert_allclose(out, best.x[:8][unit], rtol=0, atol=5e-6)


def small_problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), 6)
    P[4] = P[1]
    margins = P.sum(axis=0) * np.exp(0.5 * rng.normal(size=3))
    return P, margins * 6.0 / margins.sum()


@pytest.mark.parametrize("eps", [0.001, 0.02, 0.1, 1.0])
def test_slack_reaches_the_optimum_of_non_negative_least_squares(eps: float) -> None:
    for seed in range(10):
        P, margins = small_problem(seed)
        result = solve(P, margins, nearly=EpsilonSlack(eps), gap_tol=1e-7, max_iter=20_000)
        best = float(((nearest(P, margins, slack=eps) - P) ** 2).sum())
        assert result.bound <= best * (1.0 + 1e-9) + 1e-14
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert result.rank_residual <= 1e-12
        np.testing.assert_allclose(result.Q.sum(axis=0), margins, rtol=0, atol=1e-9)
        np.testing.assert_allclose(result.Q.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        assert result.Q.min() >= 0.0


@pytest.mark.parametrize("lam", [0.01, 0.1, 1.0])
def test_price_reaches_the_optimum_of_a_general_solver(lam: float) -> None:
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(3), 6)
    margins = np.array([2.5, 1.5, 2.0])
    result = solve(P, margins, nearly=LambdaPenalty(lam), gap_tol=1e-8, max_iter=20_000)
    order = np.argsort(P, axis=0)

    def cost(x: np.ndarray) -> float:
        return float(((x[:18] - P.ravel()) ** 2).sum() + lam * x[18:].sum())

    def falls(x: np.ndarray) -> np.ndarray:
        q = np.take_along_axis(x[:18].reshape(6, 3), order, axis=0)
        return (x[18:].reshape(5, 3) - q[:-1] + q[1:]).ravel()

    def sums(x: np.ndarray) -> np.ndarray:
        q = x[:18].reshape(6, 3)
        return np.concatenate((q.sum(axis=1) - 1.0, q.sum(axis=0)[:2] - margins[:2]))

    start = np.concatenate((np.tile(margins / 6.0, 6), np.ones(15)))
    constraints = [{"type": "ineq", "fun": falls}, {"type": "eq", "fun": sums}]
    best = minimize(
        cost, start, bounds=[(0.0, None)] * 33, constraints=constraints, options={"ftol": 1e-14, "maxiter": 2_000}
    )
    assert result.objective == pytest.approx(best.fun, rel=1e-6)
    np.testing.assert_allclose(result.Q, best.x[:18].reshape(6, 3), rtol=0, atol=1e-3)


def test_ends_of_the_slack_are_the_strict_and_the_margin_only_answer() -> None:
    P, margins = small_problem(5)
    strict = solve(P, margins, gap_tol=1e-8, max_iter=50_000)
    for nearly in (EpsilonSlack(0.0), LambdaPenalty(math.inf), EpsilonSlack(1e-9), LambdaPenalty(1e6)):
        answer = solve(P, margins, nearly=nearly, gap_tol=1e-6, max_iter=50_000)
        assert answer.objective == pytest.approx(strict.objective, rel=3e-6)
    ends = [solve(P, margins, nearly=nearly, gap_tol=1e-8) for nearly in (EpsilonSlack(1.0), LambdaPenalty(0.0))]
    np.testing.assert_allclose(ends[0].Q[[0, 1, 2, 3, 5]], ends[1].Q[[0, 1, 2, 3, 5]], rtol=0, atol=1e-4)
    assert ends[0].objective < strict.objective


def test_more_slack_is_never_worse() -> None:
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.ones(4), 300)
    margins = P.sum(axis=0) * np.array([0.5, 1.0, 1.5, 1.2])
    results = [solve(P, margins, nearly=EpsilonSlack(eps), on_mismatch="rescale") for eps in (0.001, 0.01, 0.05, 0.2)]
    assert all(result.converged for result in results)
    objectives = [result.objective for result in results]
    assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: EpsilonSlack(-0.1), InvalidInputError, "eps=-0.1 is not a number of at least 0. Pass one such as"),
        (lambda: EpsilonSlack(math.inf), InvalidInputError, "eps=inf is not a number of at least 0"),
        (lambda: LambdaPenalty(math.nan), InvalidInputError, "lam=nan is not a number of at least 0"),
        (lambda: LambdaPenalty("1"), InvalidTypeError, "lam='1' is not a number"),
        (lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=0.1), InvalidTypeError, "nearly=0.1 is no slack. Pass Epsilon"),
        (
            lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=EpsilonSlack(0.1), method="dykstra"),
            InvalidInputError,
            'goes with method="admm" and ties="equal" alone',
        ),
    ],
)
def test_a_slack_that_is_none_is_named(make, kind, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=text):
        make()
