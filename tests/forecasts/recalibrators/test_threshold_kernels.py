"""The search loops against brute force, and the state against what it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from calibrant.forecasts.packed_maps import PackedMaps
from calibrant.forecasts.recalibrators.grid_state import GridState
from calibrant.forecasts.recalibrators.level_maps import empirical_map, smooth_map
from calibrant.forecasts.recalibrators.search_state import SearchState
from fixture_rows import misspecified
from hypothesis import given
from hypothesis import strategies as st

from calibrant import kernels
from calibrant.forecasts.recalibrated import ChainRows

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


def official_error(u: Array, is_left: Any) -> float:
    sides = (np.sort(u[is_left]), np.sort(u[~is_left]))
    return sum(float(np.abs(s - np.linspace(0.0, 1.0, s.size)).mean()) for s in sides)


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("n", [60, 400, 2_500])
def test_the_search_of_the_paper_is_brute_force_round_after_round(n: int, decimals: int | None) -> None:
    forecast, y = misspecified(n, 4)
    y = y if decimals is None else np.round(y, decimals)
    state = GridState(forecast, y, np.quantile(y, np.linspace(0.2, 0.8, 6)))
    least = n // 10
    for _ in range(8):
        best = (-1.0, -1, -1.0)
        for k in range(6):
            for alpha in ALPHAS:
                is_left = state._values[k] <= alpha
                if min(is_left.sum(), (~is_left).sum()) > least:
                    best = max(best, (official_error(state.level, is_left), -k, -alpha))
        found = state.greatest(ALPHAS, float(least))
        assert found is not None
        k, alpha, error = found
        assert error == pytest.approx(best[0], abs=1e-12)
        side = state.sides(k, alpha)
        assert official_error(state.level, side == 0) == pytest.approx(best[0], abs=1e-12)
        state.push(side, *(empirical_map(state.level[side == s], np.ones((side == s).sum())) for s in (0, 1)))


@given(st.integers(0, 1_000), st.integers(4, 300))
def test_bounds_of_the_search_hold_what_is_measured(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    level, values = rng.beta(*rng.choice([0.3, 1.0, 3.0], 2), n), rng.random((3, n))
    level = np.round(level, int(rng.integers(1, 9)))
    by_level = np.argsort(level, kind="stable").astype(np.int32)
    start = np.unique(np.concatenate(([0, n], rng.integers(0, n, 6)))).astype(np.int64)
    block = np.empty(n, dtype=np.uint16)
    block[by_level] = np.repeat(np.arange(start.size - 1), np.diff(start))
    lower, upper = np.empty((3, 20)), np.empty((3, 20))
    kernels.bound_splits(values, level, block, level[by_level], start, ALPHAS, 1.0, lower, upper)
    k, a = np.nonzero(upper >= 0.0)
    error = np.empty(k.size)
    kernels.measure_splits(values, level[by_level], by_level, k.astype(np.int64), ALPHAS[a], error)
    assert (lower[k, a] <= error + 1e-12).all()
    assert (error <= upper[k, a] + 1e-12).all()
    expected = [official_error(level, values[i] <= ALPHAS[j]) for i, j in zip(k, a, strict=True)]
    np.testing.assert_allclose(error, expected, atol=1e-12)


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


@given(st.integers(0, 1_000), st.sampled_from([3, 40, 900]), st.sampled_from([1.0, 1e-9]))
def test_maps_are_those_of_numpy_and_pulling_inverts_pushing(seed: int, n_knots: int, spread: float) -> None:
    rng = np.random.default_rng(seed)

    def knots() -> Array:
        inner = np.unique(np.round(rng.random(n_knots), 6)) * spread * 0.999 + 1e-13
        return np.concatenate(([0.0], inner, [1.0]))

    maps = []
    for _ in range(4):
        x, y = knots(), knots()
        m = min(x.size, y.size) - 1
        maps.append((np.append(x[:m], 1.0), np.append(y[:m], 1.0)))
    rows = ChainRows(PackedMaps.pack(maps), rng.integers(0, 4, (70, 3)).astype(np.int32))
    for n_points in (1, 30):  # looked up, and walked along
        levels = np.column_stack((np.zeros(70), np.ones(70), rng.random((70, n_points)), rng.random((70, 3)) * spread))
        expected, log_slope = levels.copy(), np.zeros(levels.shape)
        for i in range(70):
            for j in rows.chosen[i]:
                x, y = maps[j]
                piece = np.minimum(np.searchsorted(x, expected[i], side="right") - 1, x.size - 2)
                log_slope[i] += np.log(np.diff(y) / np.diff(x))[piece]
                expected[i] = np.interp(expected[i], x, y)
        there = rows.push(levels)
        np.testing.assert_allclose(there, expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(rows.log_slope(levels), log_slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rows.push(rows.pull(there)), there, rtol=1e-9, atol=1e-9)
