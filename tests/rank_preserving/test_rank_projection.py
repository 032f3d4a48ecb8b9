"""Projections onto the feasible matrices: Newton's method against an outside solver, and the active set."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import nearest

from calibrant.kernels import Workspace
from calibrant.rank_preserving import solve
from calibrant.rank_preserving.problem import check_problem, check_rows, unsorted
from calibrant.rank_preserving.projection import project, project_exactly


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
    columns = check_problem(check_rows(P, None), margins).columns()
    found = project_exactly(columns)
    assert found is not None
    q, row_multipliers, column_multipliers = found
    for j, order in enumerate(columns.order):
        force = (
            columns.p[j] - q[j] - row_multipliers[order] - column_multipliers[j]
        )  # what holds the order and the signs up
        pressure = np.cumsum(force[::-1])[::-1]
        assert pressure.max() <= 1e-10  # no pull apart, none below 0
        rise = np.diff(q[j], prepend=0.0)
        np.testing.assert_allclose(pressure * rise, 0.0, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_projection_is_that_of_the_outside_solver(seed: int) -> None:
    P, margins = draw(seed, 9, 3)
    if seed % 2:
        P[1] = P[0]
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(P))
    margins *= weight.sum() / margins.sum()
    columns = check_problem(check_rows(P, weight), margins).columns()
    target = columns.replace(p=columns.p.copy())
    assert project(target, Workspace.of(columns), aim=1e-12, tol=1e-12, max_passes=5_000)
    np.testing.assert_allclose(unsorted(target.p, columns.order), nearest(P, margins, weight=weight), rtol=0, atol=1e-8)
