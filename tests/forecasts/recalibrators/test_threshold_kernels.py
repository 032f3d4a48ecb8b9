"""The search loops against brute force, and the state against what it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fixture_rows import misspecified
from hypothesis import given
from hypothesis import strategies as st

from calibrant import kernels
from calibrant.forecasts.recalibrators.level_maps import smooth_map
from calibrant.forecasts.recalibrators.search_state import SearchState

Array = np.ndarray[Any, np.dtype[np.float64]]
ALPHAS = np.linspace(0.05, 0.95, 20)


def state_of(n: int, seed: int, n_thresholds: int = 6, decimals: int | None = None) -> SearchState:
    forecast, y = misspecified(n, seed)
    weight = np.ones(n) if decimals is None else np.random.default_rng(seed).integers(1, 4, n).astype(np.float64)
    y = y if decimals is None else np.round(y, decimals)
    return SearchState(forecast, y, weight, np.quantile(y, np.linspace(0.2, 0.8, n_thresholds)))


def exact_w1(u: Array, weight: Array) -> float:
    """Integrate |F - c| over the pieces between levels, halved where F crosses c."""
    order = np.argsort(u)
    height = np.concatenate(([0.0], np.cumsum(weight[order]) / weight.sum()))
    start, end = np.concatenate(([0.0], u[order])), np.concatenate((u[order], [1.0]))
    middle = np.clip(height, start, end)
    return float(
        np.sum((height - (start + middle) / 2) * (middle - start) + ((middle + end) / 2 - height) * (end - middle))
    )


def exact_cvm(u: Array, weight: Array) -> float:
    order = np.argsort(u)
    height = np.concatenate(([0.0], np.cumsum(weight[order]) / weight.sum()))
    start, end = np.concatenate(([0.0], u[order])), np.concatenate((u[order], [1.0]))
    return float(np.sum(((end - height) ** 3 - (start - height) ** 3) / 3.0))


def lines(state: SearchState) -> tuple[Array, Any]:
    return state._values[:-1], state._order[:-1]


@pytest.mark.parametrize("decimals", [None, 1])
def test_the_search_over_all_cuts_is_brute_force(decimals: int | None) -> None:
    state = state_of(400, 1, decimals=decimals)
    values, order = lines(state)
    w, u, least = state.weight, state.level, 20.0
    best = -1.0
    for k in range(len(values)):
        for r in range(399):
            left, right = order[k, : r + 1], order[k, r + 1 :]
            sizes = w[left].sum(), w[right].sum()
            if values[k, r] == values[k, r + 1] or min(sizes) < least:
                continue
            sides = (s * exact_cvm(u[rows], w[rows]) for s, rows in zip(sizes, (left, right), strict=True))
            best = max(best, sum(sides) / w.sum())
    assert state.greatest(least, None)[2] == pytest.approx(best, abs=1e-12)


def test_the_search_over_some_cuts_comes_close_to_all() -> None:
    state = state_of(3_000, 2)
    exact, coarse = (state.greatest(100.0, n)[2] for n in (None, 64))
    assert 0.97 * exact < coarse < 1.001 * exact


@pytest.mark.parametrize("by_mass", [False, True])
@pytest.mark.parametrize("decimals", [None, 1])
def test_l1_errors_on_the_grid_are_brute_force(by_mass: bool, decimals: int | None) -> None:
    state = state_of(300, 3, decimals=decimals)
    values, order = lines(state)
    w, u = state.weight, state.level
    found = state.errors_on_grid(ALPHAS, 20.0, by_mass=by_mass)
    for k in range(len(values)):
        for a, alpha in enumerate(ALPHAS):
            is_left = np.empty(300, dtype=bool)
            is_left[order[k]] = values[k] <= alpha
            sizes = w[is_left].sum(), w[~is_left].sum()
            if min(sizes) <= 20.0:
                assert np.isnan(found[k, a])
                continue
            one, other = exact_w1(u[is_left], w[is_left]), exact_w1(u[~is_left], w[~is_left])
            expected = np.average([one, other], weights=sizes) if by_mass else one + other
            assert found[k, a] == pytest.approx(expected, abs=1e-12)


def test_official_errors_are_brute_force() -> None:
    state = state_of(2_500, 4)  # more rows than are taken at a time
    values, order = lines(state)
    found = state.official_errors(ALPHAS, 50.0)
    u = state.level
    for k in range(len(values)):
        for a, alpha in enumerate(ALPHAS):
            is_left = np.empty(2_500, dtype=bool)
            is_left[order[k]] = values[k] <= alpha
            if min(is_left.sum(), (~is_left).sum()) <= 50:
                assert np.isnan(found[k, a])
                continue
            sides = (np.sort(u[is_left]), np.sort(u[~is_left]))
            expected = sum(float(np.abs(s - np.linspace(0.0, 1.0, s.size)).mean()) for s in sides)
            assert found[k, a] == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 1_000), st.integers(20, 200))
def test_the_state_stays_sorted_and_stands_for_the_mapped_rows(seed: int, n: int) -> None:
    state = state_of(n, seed, 3, decimals=1)
    before = np.empty((4, n))
    for k in range(4):
        before[k, state._order[k]] = state._values[k]
    side = np.random.default_rng(seed).integers(0, 2, n).astype(np.uint8)
    maps = [smooth_map(np.append(state.level[side == s], 0.3), np.ones((side == s).sum() + 1), 9, 5.0) for s in (0, 1)]
    state.push(side, *maps)
    assert (np.diff(state._values, axis=1) >= 0.0).all()
    for k in range(4):
        after = np.empty(n)
        after[state._order[k]] = state._values[k]
        assert np.array_equal(np.sort(state._order[k]), np.arange(n))
        np.testing.assert_allclose(
            after, np.where(side, np.interp(before[k], *maps[1]), np.interp(before[k], *maps[0]))
        )


@given(st.integers(0, 1_000))
def test_pulling_inverts_pushing_in_any_order_of_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    knots = [np.concatenate(([0.0], np.sort(rng.random(7)), [1.0])) for _ in range(8)]
    x, y, start = np.concatenate(knots[:4]), np.concatenate(knots[4:]), np.arange(0, 37, 9)
    chosen = rng.integers(0, 4, (5, 3)).astype(np.int32)
    levels = np.column_stack((np.zeros(5), np.ones(5), rng.random((5, 30))))
    there = levels.copy()
    kernels.push_levels(there, chosen, start, x, y)
    expected = levels.copy()
    for i in range(5):
        for j in chosen[i]:
            expected[i] = np.interp(expected[i], knots[j], knots[4 + j])
    np.testing.assert_allclose(there, expected, atol=1e-14)
    kernels.pull_levels(there, chosen, start, x, y)
    np.testing.assert_allclose(there, levels, atol=1e-6)
