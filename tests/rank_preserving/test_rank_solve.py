"""The solvers against an outside reference, against each other, and against the laws of the problem."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import nearest
from hypothesis import given, strategies as st

from calibrant.errors import ConvergenceWarning
from calibrant.rank_preserving import Progress, solve

METHODS = ("adaptive", "admm", "dykstra")


def draw(seed: int, n: int, k: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and margins of one kind of problem."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    if kind == "ties":
        P = (
            np.diff(np.sort(np.column_stack((np.zeros(n), rng.integers(0, 5, (n, k - 1)), np.full(n, 4)))), axis=1)
            / 4.0
        )
    if kind == "sharp":
        z = np.exp(3.0 * rng.normal(size=(n, k)))
        P = z / z.sum(axis=1, keepdims=True)
    margins = P.sum(axis=0) * np.exp(rng.normal(size=k) * (0.05 if kind == "near" else 0.8))
    if kind == "tight":
        margins[0] = 0.0
    return P, margins * n / margins.sum()


def assert_feasible(Q: np.ndarray, P: np.ndarray, margins: np.ndarray, weight: np.ndarray | None = None) -> None:
    w = np.ones(len(P)) if weight is None else weight
    assert Q.min() >= 0.0
    np.testing.assert_allclose(Q.sum(axis=1), 1.0, rtol=0, atol=1e-8)
    np.testing.assert_allclose(w @ Q, margins, rtol=0, atol=1e-8 * w.sum())
    for j in range(P.shape[1]):
        rising = np.argsort(P[:, j], kind="stable")
        assert (np.diff(Q[rising, j]) >= 0.0).all()


def distance(Q: np.ndarray, P: np.ndarray, weight: np.ndarray | None = None) -> float:
    return float((((Q - P) ** 2).sum(axis=1) * (1.0 if weight is None else weight)).sum())


@pytest.mark.parametrize("kind", ["far", "near", "ties", "sharp", "tight"])
def test_optimum_of_small_problems_is_that_of_an_exact_solver(kind: str) -> None:
    for seed in range(40):
        n, k = 3 + seed % 7, 2 + seed % 3
        P, margins = draw(seed, n, k, kind)
        result = solve(P, margins, gap_tol=1e-7, max_iter=100_000)
        assert_feasible(result.Q, P, margins)
        best = distance(nearest(P, margins), P)
        assert result.objective == pytest.approx(distance(result.Q, P), rel=1e-9, abs=1e-14)
        assert result.objective <= best * (1.0 + 1e-6) + 1e-12
        assert result.bound <= best * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ties", ["equal", "free"])
def test_every_method_reaches_the_optimum_with_weights_and_either_way_with_ties(method: str, ties: str) -> None:
    for seed in range(6):
        P, _ = draw(seed, 7, 3, "ties")
        weight = np.random.default_rng(seed).integers(1, 5, 7) / 2.0
        margins = weight @ P * np.array([0.6, 1.0, 1.7])
        margins *= weight.sum() / margins.sum()
        result = solve(P, margins, method=method, ties=ties, sample_weight=weight, gap_tol=1e-5, max_iter=50_000)
        best = distance(nearest(P, margins, weight=weight, ties=ties), P, weight)
        assert result.converged
        assert result.rank_residual == 0.0
        assert result.bound <= best * (1.0 + 1e-9)
        assert best * (1.0 - 1e-8) <= result.objective <= best * (1.0 + 1.1e-5)
        np.testing.assert_allclose(weight @ result.Q, margins, rtol=0, atol=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(2, 60), k=st.integers(2, 5))
def test_the_gap_is_proven_and_the_matrix_feasible(seed: int, n: int, k: int) -> None:
    kind = ("far", "near", "ties", "sharp", "tight")[seed % 5]
    P, margins = draw(seed, n, k, kind)
    result = solve(P, margins, gap_tol=1e-3, max_iter=20_000)
    assert result.converged
    assert_feasible(result.Q, P, margins)
    assert result.objective - result.bound <= 1e-3 * max(result.objective, n * k * 1e-16)
    for j in range(k):  # equal entries of P are equal in Q
        for value in np.unique(P[:, j]):
            assert np.ptp(result.Q[P[:, j] == value, j]) == 0.0


@pytest.mark.parametrize("method", METHODS)
def test_a_feasible_matrix_is_its_own_answer(method: str) -> None:
    P, _ = draw(1, 50, 4, "far")
    result = solve(P, P.sum(axis=0), method=method)
    np.testing.assert_allclose(result.Q, P, rtol=0, atol=1e-12)
    assert result.converged
    assert result.n_iter == 0


def test_rows_and_columns_in_another_order_get_the_same_answer() -> None:
    P, margins = draw(3, 40, 4, "far")
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(40), rng.permutation(4)
    one = solve(P, margins, gap_tol=1e-9, max_iter=100_000).Q
    other = solve(P[rows][:, columns], margins[columns], gap_tol=1e-9, max_iter=100_000).Q
    np.testing.assert_allclose(other, one[rows][:, columns], rtol=0, atol=2e-5)


def test_weight_two_is_two_rows_and_weight_zero_none() -> None:
    P, margins = draw(4, 20, 3, "far")
    weight = np.array([2.0, 1.0, 0.0, 1.0] * 5)
    copies = np.repeat(np.arange(20), weight.astype(int))
    total = margins * weight.sum() / 20.0
    weighted = solve(P, total, sample_weight=weight, gap_tol=1e-9, max_iter=100_000)
    repeated = solve(P[copies], total, gap_tol=1e-9, max_iter=100_000)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-8)
    np.testing.assert_allclose(weighted.Q[copies], repeated.Q, rtol=0, atol=2e-5)
    assert np.isnan(weighted.Q[weight == 0.0]).all()


def test_same_input_gives_the_same_bits() -> None:
    P, margins = draw(5, 300, 3, "near")
    assert np.array_equal(solve(P, margins).Q, solve(P, margins).Q)


@pytest.mark.parametrize("method", METHODS)
def test_an_early_stop_is_feasible_and_says_so(method: str) -> None:
    P, margins = draw(6, 2_000, 3, "near")
    with pytest.warns(ConvergenceWarning, match=rf"{method} stopped after 40 iterations with a gap of .* is feasible"):
        result = solve(P, margins, method=method, max_iter=40, gap_tol=1e-6)
    assert not result.converged
    assert 1e-6 < result.gap < 1.0
    assert_feasible(result.Q, P, margins)


def test_bounds_rise_and_the_callback_sees_every_look() -> None:
    P, margins = draw(7, 500, 3, "far")
    seen: list[Progress] = []
    result = solve(P, margins, callback=seen.append)
    assert tuple(seen) == result.history
    bounds = [look.bound for look in seen]
    assert bounds == sorted(bounds)
    assert seen[-1].n_iter == result.n_iter
    assert all(look.bound <= result.objective for look in seen)


def test_a_penalty_for_each_row_saves_iterations() -> None:
    P, margins = draw(8, 5_000, 3, "far")
    one = solve(P, margins, method="admm", gap_tol=1e-3)
    by_row = solve(P, margins, gap_tol=1e-3)
    assert by_row.converged
    assert by_row.n_iter < 0.8 * one.n_iter
