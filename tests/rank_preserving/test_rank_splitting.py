"""The splittings: two workers that share the columns, thresholds of simplices, and penalties by row."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.rank_preserving import EpsilonSlack, Nearly, column_workers, solve, splitting


def draw(seed: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    margins = P.sum(axis=0) * np.exp(0.8 * rng.normal(size=k))
    return P, margins * n / margins.sum()


@pytest.mark.parametrize("nearly", [None, EpsilonSlack(0.01)])
def test_workers_at_the_same_time_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, nearly: Nearly | None) -> None:
    P, margins = draw(5, 700, 5)
    monkeypatch.setattr(column_workers.os, "cpu_count", lambda: 2)
    answers = []
    for least in (0, 10**9):
        monkeypatch.setattr(column_workers, "_WORTH_A_THREAD", least)
        result = solve(P, margins, gap_tol=1e-3, nearly=nearly)
        answers.append((result.n_iter, result.bound, result.Q.tobytes()))
    assert answers[0] == answers[1]


def test_thresholds_leave_what_the_rows_shall_sum_to() -> None:
    rng = np.random.default_rng(1)
    falling = np.sort(rng.normal(size=(50, 7)), axis=1)[:, ::-1]
    weight, total = rng.uniform(0.5, 2.0, (50, 7)), rng.uniform(0.1, 3.0, (50, 1))
    threshold = splitting.simplex_thresholds(falling, weight, total)
    left = weight * np.maximum(falling - threshold[:, None], 0.0)
    np.testing.assert_allclose(left.sum(axis=1), total[:, 0], rtol=1e-13)


@pytest.mark.slow
def test_a_penalty_for_each_row_saves_iterations() -> None:
    P, margins = draw(8, 5_000, 3)
    one = solve(P, margins, method="admm", gap_tol=1e-3)
    by_row = solve(P, margins, gap_tol=1e-3)
    assert by_row.converged
    assert by_row.n_iter < 0.8 * one.n_iter
