"""The searches of threshold recalibration against brute force, and the state against the rows that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from calibrant import kernels
from calibrant.forecasts import GaussianForecast, Outcomes
from calibrant.forecasts.level_maps import Knots, PackedMaps, empirical_map, smooth_map
from calibrant.forecasts.recalibrators.rounds import Paper, Regularised, Split, State

Array = np.ndarray[Any, np.dtype[np.float64]]
ALPHAS = np.linspace(0.05, 0.95, 20)


def state_of(n: int, seed: int, n_thresholds: int = 6, decimals: int | None = None, *, is_weighted: bool) -> State:
    """Return the state of rows whose forecasts are too narrow above zero and too wide below."""
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    y = mean + std * rng.normal(size=n) * np.where(mean > 0.0, 1.7, 0.6)
    y = y if decimals is None else np.round(y, decimals)
    weight = np.random.default_rng(seed).integers(1, 4, n).astype(np.float64) if is_weighted else None
    return State(Outcomes(GaussianForecast(mean, std), y, weight), np.quantile(y, np.linspace(0.2, 0.8, n_thresholds)))


def regularised(least: float, n_cuts: int | None) -> Regularised:
    return Regularised(least, n_cuts, n_knots=20, pseudo_counts=20.0, learning_rate=0.3)


def exact_distance(u: Array, weight: Array) -> float:
    """Integrate (F - c)^2 over the pieces between levels."""
    order = np.argsort(u)
    height = np.concatenate(([0.0], np.cumsum(weight[order]) / weight.sum()))
    start, end = np.concatenate(([0.0], u[order])), np.concatenate((u[order], [1.0]))
    return float(np.sum(((end - height) ** 3 - (start - height) ** 3) / 3.0))


@pytest.mark.parametrize("decimals", [None, 1])
def test_the_search_over_all_cuts_is_brute_force(decimals: int | None) -> None:
    state = state_of(400, 1, decimals=decimals, is_weighted=decimals is not None)
    values, order = state.values[:-1], state.order[:-1]
    w, u, least = state.weight, state.level, 20.0
    best = -1.0
    for k in range(len(values)):
        for r in range(399):
            left, right = order[k, : r + 1], order[k, r + 1 :]
            sizes = w[left].sum(), w[right].sum()
            if values[k, r] == values[k, r + 1] or min(sizes) < least:
                continue
            sides = (s * exact_distance(u[rows], w[rows]) for s, rows in zip(sizes, (left, right), strict=True))
            best = max(best, sum(sides) / w.sum())
    split = regularised(least, None).find(state)
    assert split is not None
    assert split.error**2 == pytest.approx(best, abs=1e-12)


def test_the_search_over_some_cuts_comes_close_to_all() -> None:
    state = state_of(3_000, 2, is_weighted=False)
    found = [regularised(100.0, n).find(state) for n in (None, 64)]
    exact, coarse = (split.error**2 for split in found if split is not None)
    assert 0.97 * exact < coarse < 1.001 * exact


@pytest.mark.parametrize("rule", [regularised(150.1, None), regularised(150.1, 16), Paper(ALPHAS, 150.0)])
def test_no_split_is_found_where_none_leaves_enough_rows(rule: Paper | Regularised) -> None:
    assert rule.find(state_of(300, 3, is_weighted=False)) is None


def official_error(u: Array, is_left: Any) -> float:
    sides = (np.sort(u[is_left]), np.sort(u[~is_left]))
    return sum(float(np.abs(s - np.linspace(0.0, 1.0, s.size)).mean()) for s in sides)


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("n", [60, 400, 2_500])
def test_the_search_of_the_paper_is_brute_force_round_after_round(n: int, decimals: int | None) -> None:
    state = state_of(n, 4, decimals=decimals, is_weighted=False)
    least = n // 10
    for _ in range(8):
        best = (-1.0, 0, 0.0)
        for k in range(6):
            for alpha in ALPHAS:
                is_left = by_row(state, k) <= alpha
                if min(is_left.sum(), (~is_left).sum()) > least:
                    best = max(best, (official_error(state.level, is_left), -k, -alpha))
        split = Paper(ALPHAS, float(least)).find(state)
        assert split is not None
        assert split == (-best[1], -best[2], pytest.approx(best[0], abs=1e-12))
        side = state.side(split)
        assert official_error(state.level, side == 0) == pytest.approx(best[0], abs=1e-12)
        maps = [empirical_map(state.level[side == s], np.ones((side == s).sum())) for s in (0, 1)]
        state.apply(side, PackedMaps.pack(maps))


@given(st.integers(0, 1_000), st.integers(4, 300))
def test_the_search_of_the_paper_misses_no_split_by_its_bounds(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    table = np.vstack((rng.random((3, n)), rng.beta(*rng.choice([0.3, 1.0, 3.0], 2), n)))
    table[-1] = np.round(table[-1], int(rng.integers(1, 9)))
    order = np.argsort(table, axis=1, kind="stable").astype(np.int32)
    k, a, error = kernels.search_grid(np.take_along_axis(table, order, axis=1), order, ALPHAS, 1.0)
    expected = -np.ones((3, ALPHAS.size))
    for i, j in np.ndindex(expected.shape):
        is_left = table[i] <= ALPHAS[j]
        if min(is_left.sum(), (~is_left).sum()) > 1:
            expected[i, j] = official_error(table[-1], is_left)
    assert error == pytest.approx(expected.max(), abs=1e-12)
    assert error < 0.0 or expected[k, a] == pytest.approx(error, abs=1e-12)


def by_row(state: State, k: int) -> Array:
    """Return a line of the state in the order of the rows."""
    values = np.empty(state.level.size)
    values[state.order[k]] = state.values[k]
    return values


@given(st.integers(0, 1_000), st.integers(1, 200))
def test_the_state_stays_sorted_and_stands_for_the_mapped_rows(seed: int, n: int) -> None:
    state = state_of(n, seed, 3, decimals=1, is_weighted=True)
    before = [by_row(state, k) for k in range(4)]
    side = np.random.default_rng(seed).integers(0, 2, n).astype(np.uint8)
    maps: list[Knots] = [
        smooth_map(np.append(state.level[side == s], 0.3), np.ones((side == s).sum() + 1), 9, 5.0) for s in (0, 1)
    ]
    state.apply(side, PackedMaps.pack(maps))
    assert (np.diff(state.values, axis=1) >= 0.0).all()
    np.testing.assert_array_equal(state.level, by_row(state, 3))
    for k in range(4):
        assert np.array_equal(np.sort(state.order[k]), np.arange(n))
        expected = np.where(side, np.interp(before[k], *maps[1]), np.interp(before[k], *maps[0]))
        np.testing.assert_allclose(by_row(state, k), expected)


def test_rows_of_equal_levels_keep_the_left_side_first() -> None:
    state = state_of(40, 5, 2, decimals=0, is_weighted=False)
    state.values[:], state.level[:] = 0.5, 0.5
    side = np.random.default_rng(5).integers(0, 2, 40).astype(np.uint8)
    state.apply(side, PackedMaps.pack([(np.array([0.0, 1.0]), np.array([0.0, 1.0]))] * 2))
    assert (np.diff(side[state.order].astype(int), axis=1) >= 0).all()
    assert state.side(Split(0, 0.5, 0.0)).sum() == 0
