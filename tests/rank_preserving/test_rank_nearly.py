"""Orders that may be broken: the whole problem against outside solvers, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact_matrices import least_cost_at_a_price, nearest, pairs_in_order

from calibrant.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from calibrant.rank_preserving import EpsilonSlack, LambdaPenalty, solve


def small_problem(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and margins far enough for the nearest matrix to break the order by .1 or more, if it may."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(3, 0.5), 6)
    P[4] = P[1]
    margins = P.sum(axis=0) * np.exp(rng.normal(size=3))
    return P, margins * 6.0 / margins.sum()


def worst_violation(P: np.ndarray, Q: np.ndarray) -> float:
    """Return the largest order violation, over all pairs."""
    return max(float(Q[a, j] - Q[b, j]) for j, a, b in pairs_in_order(P))


@pytest.mark.parametrize("eps", [0.001, 0.02, 0.1, 1.0])
@pytest.mark.parametrize("method", ["admm", "dykstra"])
def test_slack_reaches_the_optimum_of_an_exact_solver(method: str, eps: float) -> None:
    for seed in range(10):
        P, margins = small_problem(seed)
        result = solve(P, margins, nearly=EpsilonSlack(eps), method=method, gap_tol=1e-7, max_iter=20_000)  # type: ignore[arg-type]
        best = float(((nearest(P, margins, slack=eps) - P) ** 2).sum())
        assert result.converged
        assert result.method == method
        assert result.bound <= best * (1.0 + 1e-9) + 1e-14
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert result.rank_residual <= eps + 1e-12
        np.testing.assert_allclose(result.Q.sum(axis=0), margins, rtol=0, atol=1e-9)
        np.testing.assert_allclose(result.Q.sum(axis=1), 1.0, rtol=0, atol=1e-9)
        assert result.Q.min() >= 0.0


def test_dykstra_takes_weights_ties_and_margins_of_0_within_a_slack() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        P = rng.multinomial(4, np.full(3, 1.0 / 3.0), 8) / 4.0
        weight = rng.integers(1, 4, 8).astype(float)
        margins = weight @ P * np.exp(1.2 * rng.normal(size=3)) + 0.01
        margins[0] *= seed % 3 > 0
        margins *= weight.sum() / margins.sum()
        result = solve(P, margins, nearly=EpsilonSlack(0.05), method="dykstra", sample_weight=weight, gap_tol=1e-7)
        best = weight @ ((nearest(P, margins, weight=weight, slack=0.05) - P) ** 2).sum(axis=1)
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert result.Q.min() >= 0.0
        np.testing.assert_allclose(weight @ result.Q, margins, rtol=0, atol=1e-8)


@pytest.mark.parametrize("pairs", ["neighbours", "all"])
@pytest.mark.parametrize("lam", [1e10, 1e12, 1e15, 1e18, 1e300])
def test_prices_that_rounding_would_decide_keep_the_order(lam: float, pairs: str) -> None:
    P, margins = np.array([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]]), [1.2, 1.8]
    dear, strict = (solve(P, margins, nearly=LambdaPenalty(price, pairs)) for price in (lam, math.inf))  # type: ignore[arg-type]
    assert dear.converged
    assert dear.nearly == LambdaPenalty(lam, pairs)  # type: ignore[arg-type]
    assert -1e-6 < dear.gap < 1e-3
    np.testing.assert_allclose(dear.Q, strict.Q, rtol=0, atol=1e-4)


def test_a_price_is_high_or_low_by_the_weight_of_rows() -> None:
    P, margins = small_problem(0)
    one = solve(P, margins, nearly=LambdaPenalty(0.05))
    heavy = solve(P, margins * 1e13, nearly=LambdaPenalty(5e11), sample_weight=np.full(6, 1e13))
    assert one.rank_residual > 0.005
    assert heavy.converged
    np.testing.assert_allclose(heavy.Q, one.Q, rtol=0, atol=1e-3)


def test_a_bound_above_a_feasible_objective_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.rank_preserving.nearly._HIGHEST_PRICE", math.inf)
    P = np.array([[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]])
    with pytest.warns(ConvergenceWarning, match="The bound lies above a feasible objective"):
        found = solve(P, [1.2, 1.8], nearly=LambdaPenalty(1e18), max_iter=200)
    assert not found.converged


@pytest.mark.parametrize("nearly", [EpsilonSlack(0.03), LambdaPenalty(0.05), LambdaPenalty(0.0), None])
def test_rank_residual_is_the_largest_violation_there_is_allowed_or_not(
    nearly: EpsilonSlack | LambdaPenalty | None,
) -> None:
    P, margins = small_problem(3)
    result = solve(P, margins, nearly=nearly)
    assert result.converged
    assert result.nearly == nearly
    assert result.rank_residual == pytest.approx(worst_violation(P, result.Q), abs=1e-15)
    assert (result.rank_residual > 0.01) == (nearly is not None)
    by_group = solve(P, {0: margins}, groups=np.zeros(6), nearly=nearly)
    assert (by_group.rank_residual, by_group.nearly) == (result.rank_residual, nearly)


@pytest.mark.parametrize("eps", [0.001, 0.02, 0.1])
def test_slack_of_small_problems_is_exact_as_it_comes(eps: float) -> None:
    for seed in range(20, 30):
        P, margins = small_problem(seed)
        best = float(((nearest(P, margins, slack=eps) - P) ** 2).sum())
        assert solve(P, margins, nearly=EpsilonSlack(eps)).objective == pytest.approx(best, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("pairs", ["neighbours", "all"])
@pytest.mark.parametrize("lam", [0.0, 0.001, 0.03, 0.3, 5.0])
def test_price_reaches_the_optimum_of_an_interior_point(lam: float, pairs: str) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet(np.ones(3), 7)
        if pairs == "all" and seed % 2:
            P = rng.multinomial(4, np.full(3, 1.0 / 3.0), 7) / 4.0
        weight = rng.integers(1, 4, 7).astype(float) if seed % 3 else np.ones(7)
        margins = weight @ P * np.exp(0.7 * rng.normal(size=3)) + 0.01
        margins *= weight.sum() / margins.sum()
        result = solve(P, margins, nearly=LambdaPenalty(lam, pairs), sample_weight=weight)  # type: ignore[arg-type]
        best = least_cost_at_a_price(P, margins, lam, pairs, weight=weight)
        assert result.converged
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-9)
        assert result.bound <= best * (1.0 + 1e-7) + 1e-9
        np.testing.assert_allclose(weight @ result.Q, margins, rtol=0, atol=1e-8)


@pytest.mark.parametrize("lam", [0.0, 0.003, 0.05])
def test_penalty_of_the_specification_minimises_its_objective(lam: float) -> None:
    """1/2 sum (Q - P)^2 + lambda sum max(Q_a - Q_b, 0) over all pairs with P_a <= P_b, by an interior point."""
    for seed in range(6):
        P, margins = small_problem(seed)
        Q = solve(P, margins, nearly=LambdaPenalty.of_specification(lam)).Q
        violations = sum(max(float(Q[a, j] - Q[b, j]), 0.0) for j, a, b in pairs_in_order(P))
        value = 0.5 * ((Q - P) ** 2).sum() + lam * violations
        best = least_cost_at_a_price(P, margins, lam, "all", share=0.5)
        assert value == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert LambdaPenalty.of_specification(lam) == LambdaPenalty(2.0 * lam, pairs="all")


@pytest.mark.parametrize("pairs", ["neighbours", "all"])
def test_ends_of_the_price_are_the_strict_and_the_margin_only_answer_with_ties_too(pairs: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        P = rng.multinomial(5, np.full(3, 1.0 / 3.0), 9) / 5.0
        margins = P.sum(axis=0) * np.exp(0.6 * rng.normal(size=3)) + 0.01
        margins *= 9.0 / margins.sum()
        free = solve(P, margins, nearly=LambdaPenalty(0.0, pairs), gap_tol=1e-9, max_iter=20_000)  # type: ignore[arg-type]
        by_qp = nearest(P, margins, slack=1.0)
        assert free.objective == pytest.approx(float(((by_qp - P) ** 2).sum()), rel=1e-8, abs=1e-12)
        np.testing.assert_allclose(free.Q, by_qp, rtol=0, atol=1e-4)
        dear = solve(P, margins, nearly=LambdaPenalty(100.0, pairs), gap_tol=1e-7, max_iter=50_000)  # type: ignore[arg-type]
        strict = nearest(P, margins)
        assert dear.objective == pytest.approx(float(((strict - P) ** 2).sum()), rel=1e-6, abs=1e-10)
        np.testing.assert_allclose(dear.Q, strict, rtol=0, atol=1e-3)


@pytest.mark.parametrize("nearly", [EpsilonSlack(0.03), LambdaPenalty(0.05), LambdaPenalty(0.01, "all")])
def test_weight_two_is_two_rows(nearly: EpsilonSlack | LambdaPenalty) -> None:
    P = np.random.default_rng(4).dirichlet(np.ones(3), 12)
    weight = np.array([2.0, 1.0, 3.0] * 4)
    copies = np.repeat(np.arange(12), weight.astype(int))
    margins = weight @ P * [0.6, 1.0, 1.6]
    margins *= weight.sum() / margins.sum()
    one = solve(P, margins, nearly=nearly, sample_weight=weight, gap_tol=1e-9, max_iter=20_000)
    two = solve(P[copies], margins, nearly=nearly, gap_tol=1e-9, max_iter=20_000)
    assert one.objective == pytest.approx(two.objective, rel=1e-7)
    np.testing.assert_allclose(one.Q[copies], two.Q, rtol=0, atol=1e-4)


def test_ends_of_the_slack_are_the_strict_and_the_margin_only_answer() -> None:
    P, margins = small_problem(3)
    strict = solve(P, margins, gap_tol=1e-8, max_iter=50_000)
    strictly = (EpsilonSlack(0.0), LambdaPenalty(math.inf), LambdaPenalty(math.inf, "all"))
    for nearly in (*strictly, EpsilonSlack(1e-9), LambdaPenalty(1e6), LambdaPenalty(1e6, "all")):
        answer = solve(P, margins, nearly=nearly, gap_tol=1e-6, max_iter=50_000)
        assert answer.objective == pytest.approx(strict.objective, rel=3e-6)
    ends = [solve(P, margins, nearly=nearly, gap_tol=1e-8) for nearly in (EpsilonSlack(1.0), LambdaPenalty(0.0))]
    np.testing.assert_allclose(ends[0].Q[[0, 1, 2, 3, 5]], ends[1].Q[[0, 1, 2, 3, 5]], rtol=0, atol=1e-4)
    assert ends[0].objective < strict.objective


def test_more_slack_is_never_worse() -> None:
    rng = np.random.default_rng(7)
    P = rng.dirichlet(np.ones(4), 300)
    margins = P.sum(axis=0) * np.array([0.5, 1.0, 1.5, 1.2])
    margins *= 300 / margins.sum()
    results = [solve(P, margins, nearly=EpsilonSlack(eps)) for eps in (0.001, 0.01, 0.05, 0.2)]
    assert all(result.converged for result in results)
    objectives = [result.objective for result in results]
    assert objectives == sorted(objectives, reverse=True)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: EpsilonSlack(-0.1), InvalidInputError, r"eps=-0.1 is "),
        (lambda: EpsilonSlack(math.inf), InvalidInputError, "eps=inf is "),
        (lambda: LambdaPenalty(math.nan), InvalidInputError, "lam=nan is "),
        (lambda: LambdaPenalty("1"), InvalidTypeError, "lam='1' is not a number"),
        (lambda: LambdaPenalty(1.0, "every"), InvalidInputError, "unknown value of pairs: 'every'"),
        (lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=0.1), InvalidTypeError, "nearly=0.1 is no slack. Pass Epsilon"),
        (
            lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=LambdaPenalty(0.1), method="dykstra"),
            InvalidInputError,
            r"nearly=LambdaPenalty\(lam=0.1, .* is a price, and method=\"dykstra\" projects, which takes a limit",
        ),
        (
            lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=EpsilonSlack(0.1), method="adaptive"),
            InvalidInputError,
            'goes with method="admm" and ties="equal", and EpsilonSlack with method="dykstra" too. Leave method, ties',
        ),
        (
            lambda: solve([[0.5, 0.5]], [0.5, 0.5], nearly=EpsilonSlack(0.1), ties="free"),
            InvalidInputError,
            'goes with method="admm" and ties="equal"',
        ),
        (lambda: LambdaPenalty.of_specification(-1.0), InvalidInputError, "lam=-1.0 is "),
    ],
)
def test_a_slack_that_is_none_is_named(make, kind, text: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(kind, match=text):
        make()
