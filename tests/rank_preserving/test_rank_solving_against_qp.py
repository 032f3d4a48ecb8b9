"""Small problems of every kind against an exact solver of quadratic programmes, and the conditions of the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import nearest, order_rows, sum_rows
from hypothesis import given, strategies as st
from scipy.optimize import nnls

from calibrant.errors import InvalidInputError
from calibrant.rank_preserving import RankPreservingResult, solve

METHODS = ("auto", "adaptive", "admm", "dykstra")
KINDS = ("feasible", "near", "far", "tight", "ties", "zeros", "sharp")


def draw(seed: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a small matrix and margins of one kind."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 10)), int(rng.integers(2, 5))
    P = rng.dirichlet(np.ones(k), n)
    if kind == "ties":
        P = rng.multinomial(4, np.full(k, 1.0 / k), n) / 4.0
    if kind == "zeros":
        P = np.where(rng.random((n, k)) < 0.4, 0.0, P) + 1e-300
        P /= P.sum(axis=1, keepdims=True)
        P = np.where(P < 1e-200, 0.0, P)
        P /= P.sum(axis=1, keepdims=True)
    if kind == "sharp":
        P = P**3 / (P**3).sum(axis=1, keepdims=True)
    if kind == "feasible":
        return P, P.sum(axis=0)
    margins = P.sum(axis=0) * np.exp(rng.normal(size=k) * (0.05 if kind == "near" else 0.8)) + 1e-3
    if kind == "tight":
        margins[0] = 0.0
    return P, margins * n / margins.sum()


def cost(Q: np.ndarray, P: np.ndarray) -> float:
    return float(((Q - P) ** 2).sum())


def assert_within_tolerance(result: RankPreservingResult, P: np.ndarray, margins: np.ndarray) -> None:
    """Residuals are recomputed from the matrix."""
    Q = result.Q
    assert result.converged
    assert max(result.row_residual, result.margin_residual, result.rank_residual) <= 1e-8
    assert Q.min() >= 0.0
    assert np.abs(Q.sum(axis=1) - 1.0).max() <= 1e-8
    assert np.abs(Q.sum(axis=0) - margins).max() <= 1e-8 * len(P)
    assert (order_rows(P) @ Q.ravel()).min(initial=0.0) >= 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_thirty_problems_of_each_kind_reach_the_optimum_of_the_exact_solver(method: str, kind: str) -> None:
    for seed in range(30):
        P, margins = draw(seed, kind)
        result = solve(P, margins, method=method, gap_tol=5e-7, max_iter=100_000)
        assert_within_tolerance(result, P, margins)
        best = cost(nearest(P, margins), P)
        assert result.objective == pytest.approx(cost(result.Q, P), rel=1e-9, abs=1e-14)
        assert result.objective == pytest.approx(best, rel=1e-6, abs=1e-12)
        assert result.objective - result.gap * result.objective <= best * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_methods_agree_with_each_other(kind: str) -> None:
    """Of a strictly convex problem, objectives within g of the best lie within the root of 2 g from each other."""
    for seed in range(8):
        P, margins = draw(seed, kind)
        results = [solve(P, margins, method=method, gap_tol=5e-7, max_iter=100_000) for method in METHODS]
        room = 2.0 * np.sqrt(2e-6 * results[0].objective + 1e-12)
        for result in results[1:]:
            assert np.linalg.norm(result.Q - results[0].Q) <= room


@given(
    seed=st.integers(0, 10**6),
    fault=st.sampled_from(("short", "long", "negative", "above")),
    kind=st.sampled_from(("margins", "rates")),
)
def test_margins_that_no_matrix_has_are_refused_with_the_column_or_the_sum(seed: int, fault: str, kind: str) -> None:
    P, margins = draw(seed, "far")
    n, k = P.shape
    j = seed % k
    if fault == "negative":
        margins[j] = -0.01 - margins[j]
        text = rf"margins of column {j}: -.* is negative, and no entry of Q may be"
    elif fault == "above":
        margins[:] = 0.0
        margins[j] = n + 0.5
        text = rf"margins of column {j}: .* is above .*, and no entry of Q may be above 1"
    else:
        margins *= 0.99 if fault == "short" else 1.0 + 0.001 * (n - margins.max()) / n
        text = r"margins \((totals|rates)\) sum to .*, and each of the rows to 1"
    options = {"margin_kind": "totals"}
    if kind == "rates":
        margins, options = margins / n, {"margin_kind": "rates"}
    with pytest.raises(InvalidInputError, match=text):
        solve(P, margins, **options)  # type: ignore[arg-type]


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_conditions_of_karush_kuhn_and_tucker(seed: int, kind: str) -> None:
    """Multipliers exist: free ones of the sums, and of one sign for active signs and orders, which balance Q - P."""
    P, margins = draw(seed, kind)
    n, k = P.shape
    result = solve(P, margins, tol=1e-11, gap_tol=1e-11, max_iter=20_000)  # sums off by t move Q by the root of t
    assert result.converged
    q = result.Q.ravel()
    signs_and_orders = np.vstack((np.eye(n * k), order_rows(P)))
    active = signs_and_orders[signs_and_orders @ q <= 1e-7]
    sums = sum_rows(n, k, np.ones(n))
    system = np.vstack((sums, -sums, active)).T
    _, rest = nnls(system, q - P.ravel(), maxiter=10_000)
    assert rest <= 2e-6 * np.sqrt(n * k)


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_no_feasible_matrix_is_nearer(seed: int, kind: str) -> None:
    """Nor is any between it and the answer: the answer's distance, less the proven gap, bounds them all."""
    P, margins = draw(seed, kind)
    result = solve(P, margins, gap_tol=1e-6)
    rng = np.random.default_rng(seed)
    level = np.tile(margins / len(P), P.shape[0]).reshape(P.shape)
    other = nearest(rng.dirichlet(np.ones(P.shape[1])) * 0.3 + 0.7 * P, margins)  # rises wherever P does
    assert (order_rows(P) @ other.ravel()).min(initial=0.0) >= -1e-12
    for feasible in (level, other):
        for share in (1e-3, 0.1, 0.5, 1.0):
            assert cost((1.0 - share) * result.Q + share * feasible, P) >= result.bound - 1e-12


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), method=st.sampled_from(METHODS))
def test_the_answer_is_its_own_answer(seed: int, kind: str, method: str) -> None:
    P, margins = draw(seed, kind)
    Q = solve(P, margins).Q
    Q = Q / Q.sum(axis=1, keepdims=True)
    again = solve(Q, Q.sum(axis=0), method=method)
    np.testing.assert_allclose(again.Q, Q, rtol=0, atol=1e-12)
    assert again.converged
    assert again.n_iter == 0


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), method=st.sampled_from(METHODS))
def test_permuted_rows_and_columns_get_the_permuted_answer(seed: int, kind: str, method: str) -> None:
    P, margins = draw(seed, kind)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(P.shape[0]), rng.permutation(P.shape[1])
    one = solve(P, margins, method=method, gap_tol=1e-6, max_iter=50_000)
    other = solve(P[rows][:, columns], margins[columns], method=method, gap_tol=1e-6, max_iter=50_000)
    assert other.objective == pytest.approx(one.objective, rel=2e-6, abs=1e-12)
    room = 2.0 * np.sqrt(2e-6 * one.objective + 1e-12)
    assert np.linalg.norm(other.Q - one.Q[rows][:, columns]) <= room
