"""The active set that finishes small problems, the two lanes that share the columns, and tables of units."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import nearest

from calibrant.rank_preserving import lanes, solve
from calibrant.rank_preserving.exact import solve_exactly
from calibrant.rank_preserving.problem import check_problem


def draw(seed: int, n: int, k: int, *, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.exp(spread * rng.normal(size=(n, k)))
    P = z / z.sum(axis=1, keepdims=True)
    margins = P.sum(axis=0) * np.exp(0.8 * rng.normal(size=k))
    return P, margins * n / margins.sum()


@pytest.mark.parametrize("seed", range(12))
def test_what_one_iteration_leaves_open_the_active_set_closes(seed: int) -> None:
    P, margins = draw(seed, 4 + 3 * seed, 2 + seed % 3, spread=3.0)
    if seed % 2:
        P[1] = P[0]  # ties, which stay equal
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(P))
    margins *= weight.sum() / margins.sum()
    result = solve(P, margins, sample_weight=weight, gap_tol=1e-9, max_iter=1)
    assert result.converged
    assert result.n_iter <= 1
    assert max(result.row_residual, result.margin_residual) <= 1e-11
    if P.size <= 60:
        best = weight @ ((nearest(P, margins, weight=weight) - P) ** 2).sum(axis=1)
        assert result.objective == pytest.approx(best, rel=1e-8)


def test_conditions_of_karush_kuhn_and_tucker_hold_at_the_exact_answer() -> None:
    P, margins = draw(3, 40, 3, spread=2.0)
    problem = check_problem(P, margins)
    found = solve_exactly(problem)
    assert found is not None
    q, lift, shift = found
    for j, order in enumerate(problem.order):
        force = problem.p[j] - q[j] - lift[order] - shift[j]  # what holds the order and the signs up
        pressure = np.cumsum(force[::-1])[::-1]
        assert pressure.max() <= 1e-10  # no pull apart, none below 0
        rise = np.diff(q[j], prepend=0.0)
        np.testing.assert_allclose(pressure * rise, 0.0, rtol=0, atol=1e-10)


def test_lanes_at_the_same_time_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    P, margins = draw(5, 700, 5)
    monkeypatch.setattr(lanes.os, "cpu_count", lambda: 2)
    answers = []
    for least in (0, 10**9):
        monkeypatch.setattr(lanes, "_WORTH_A_THREAD", least)
        result = solve(P, margins, gap_tol=1e-3)
        answers.append((result.n_iter, result.bound, result.Q.tobytes()))
    assert answers[0] == answers[1]


def test_units_take_one_row_unless_there_are_ties() -> None:
    P, margins = draw(6, 30, 3)
    assert check_problem(P, margins).unit.shape == (1, 31)
    P[3] = P[4]
    tied = check_problem(P, margins)
    assert tied.unit.shape == (3, 31)
    assert [tied.edges(j)[-1] for j in range(3)] == [30, 30, 30]
    assert tied.n_units.tolist() == [29, 29, 29]
