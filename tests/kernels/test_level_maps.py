"""Chains of maps of levels: NumPy's interpolation, slopes, and inverses."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from calibrant.forecasts.level_maps import PackedMaps
from calibrant.forecasts.recalibrated import ChainRows

Array = np.ndarray[Any, np.dtype[np.float64]]


@given(st.integers(0, 1_000), st.sampled_from([3, 40, 900]), st.sampled_from([1.0, 1e-9]))
def test_maps_are_those_of_numpy_and_the_inverse_leads_back(seed: int, n_knots: int, spread: float) -> None:
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
        there = rows.apply(levels)
        np.testing.assert_allclose(there, expected, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(rows.log_slope(levels), log_slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rows.apply(rows.invert(there)), there, rtol=1e-9, atol=1e-9)
