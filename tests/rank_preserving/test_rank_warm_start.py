"""The warm start: its multipliers prove a bound of the affine point, and the search from there ends at the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from exact_matrices import nearest

from calibrant.kernels import SortedColumns, Workspace
from calibrant.rank_preserving import solve, splitting
from calibrant.rank_preserving.problem import affine_columns, affine_feasible_point, check_problem, check_rows
from calibrant.rank_preserving.projection import dual_value


def draw(seed: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    margins = P.sum(axis=0) * np.exp(0.8 * rng.normal(size=k))
    return P, margins * n / margins.sum()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start from the affine point however few the rows are."""
    monkeypatch.setattr(splitting, "_LEAST_ROWS", 0)
    monkeypatch.setattr(splitting, "_LEAST_ROWS_PER_SQUARE", 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(60))
def test_search_from_the_affine_point_ends_at_the_optimum(seed: int) -> None:
    P, margins = draw(seed, 8 + seed % 9, 3 + seed % 2)
    rng = np.random.default_rng(seed)
    if seed % 3 == 1:
        P[1] = P[0]
    weight = rng.integers(1, 5, len(P)) / 2.0 if seed % 2 else np.ones(len(P))
    margins *= weight.sum() / margins.sum()
    ties = "free" if seed % 5 == 4 else "equal"
    result = solve(P, margins, method="adaptive", ties=ties, sample_weight=weight, gap_tol=1e-7, max_iter=100_000)
    best = weight @ ((nearest(P, margins, weight=weight, ties=ties) - P) ** 2).sum(axis=1)
    assert result.converged
    assert result.bound <= best * (1.0 + 1e-9)
    assert result.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_multipliers_prove_most_of_the_affine_point_before_any_iteration(weighted: bool) -> None:
    P, margins = draw(0, 20_000, 3)
    weight = np.random.default_rng(1).integers(1, 4, len(P)).astype(float) if weighted else None
    margins *= (len(P) if weight is None else weight.sum()) / margins.sum()
    columns = check_problem(check_rows(P, weight), margins).columns()
    work, point = Workspace.of(columns), affine_feasible_point(columns)
    start = splitting.affine_start(columns, work, point, max_passes=100)
    assert start is not None
    assert start[2] <= 40
    work.reset(columns)
    bound = 2.0 * dual_value(columns, work, start[:2])
    objective = sum(
        float(columns.weight[order] @ (q - p) ** 2)
        for q, p, order in zip(affine_columns(columns, *point), columns.p, columns.order, strict=True)
    )
    assert 0.85 * objective < bound <= objective


@pytest.mark.slow
def test_search_from_the_affine_point_saves_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    P, margins = draw(0, 20_000, 6)
    from_there = solve(P, margins, gap_tol=1e-3)
    monkeypatch.setattr(splitting, "_LEAST_ROWS", 10**9)
    from_afar = solve(P, margins, gap_tol=1e-3)
    assert from_there.converged
    assert from_afar.converged
    assert from_there.n_iter < 0.7 * from_afar.n_iter


def start_of(P: np.ndarray, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    columns: SortedColumns = check_problem(check_rows(P, None), margins).columns()
    return splitting.affine_start(columns, Workspace.of(columns), affine_feasible_point(columns), max_passes=100)


def test_few_rows_and_margins_that_are_met_start_from_the_probabilities() -> None:
    for P, margins in (draw(3, 900, 3), draw(3, 3_000, 8), draw(3, 5_000, 2)):
        assert start_of(P, margins) is None
    P, _ = draw(3, 5_000, 3)
    assert start_of(P, P.sum(axis=0)) is None


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 1_000, 12_345])
@pytest.mark.parametrize(("width", "rows_per_step"), [(12, 1.0), (12, 30.0), (40, 300.0)])
def test_windows_cover_a_column_once_and_narrow_to_single_rows(count: int, width: int, rows_per_step: float) -> None:
    edges = splitting.windows(count, width, rows_per_step)
    sizes = np.diff(edges)
    assert edges[0] == 0
    assert edges[-1] == count
    assert sizes.min() >= 1
    if count >= 1_000:
        assert sizes[0] == sizes[-1] == 1
        assert sizes.max() <= 2 * width
        narrow = np.count_nonzero(sizes[: sizes.size // 2] < width)
        np.testing.assert_array_equal(sizes[:narrow], sizes[::-1][:narrow])
        assert (np.diff(sizes[:narrow]) >= 0).all()
