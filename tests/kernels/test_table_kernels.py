"""Sums over bins and cells, lookups in tables, and rows times a matrix: the compiled loops against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant import kernels

UNIT = st.lists(st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.1, 0.3, 0.5, 0.7]), min_size=1, max_size=60)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=100, deadline=None)
@given(values=UNIT, n_bins=st.integers(1, 30))
def test_rows_are_added_to_the_bin_whose_upper_edge_they_do_not_exceed(weighted, values, n_bins):
    s = np.array(values)
    rng = np.random.default_rng(0)
    positive, w = rng.random(s.size) < 0.5, rng.random(s.size) + 0.1
    edges, sums = np.linspace(0.0, 1.0, n_bins + 1), np.zeros((n_bins, 6))
    sums[:, 4], sums[:, 5] = np.inf, -np.inf
    kernels.sum_bins(s, positive, w if weighted else np.empty(0), edges, sums)
    own = np.clip(np.searchsorted(edges, s, side="left") - 1, 0, n_bins - 1)
    w = w if weighted else np.ones(s.size)
    for b in range(n_bins):
        at = own == b
        wanted = [w[at].sum(), (w[at] ** 2).sum(), w[at & positive].sum(), (w[at] * s[at]).sum()]
        np.testing.assert_allclose(sums[b, :4], wanted, atol=1e-12)
        assert sums[b, 4:].tolist() == ([s[at].min(), s[at].max()] if at.any() else [np.inf, -np.inf])
    rows, is_wanted = np.empty(s.size, np.int64), np.arange(n_bins) % 2 == 0
    found = rows[: kernels.rows_in_bins(s, edges, is_wanted, rows)]
    np.testing.assert_array_equal(found, np.flatnonzero(is_wanted[own]))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_gathered_into_cells_of_equal_width(weighted):
    rng = np.random.default_rng(0)
    x, t, w = rng.normal(size=5000), rng.random(5000), rng.random(5000)
    low, scale, n = float(x.min()), 64 / float(np.ptp(x)), 64
    sums = np.zeros((n, 6))
    kernels.sum_cells(x, w if weighted else np.empty(0), t, low, scale, sums)
    cell = np.minimum(((x - low) * scale).astype(np.int64), n - 1)
    w, u = w if weighted else np.ones(x.size), (x - low) * scale - cell - 0.5
    for column, values in enumerate((w, w * u, w * u**2, w * u**3, t, t * u)):
        np.testing.assert_allclose(sums[:, column], np.bincount(cell, values, minlength=n), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=60, deadline=None)
@given(values=UNIT, edges=st.lists(st.floats(0.0, 1.0), max_size=9, unique=True).map(sorted))
def test_rows_between_any_edges_are_added(weighted, values, edges):
    s, inner, n_cells = np.array(values), np.array(edges), 16
    rng = np.random.default_rng(0)
    positive, w = rng.random(s.size) < 0.5, rng.random(s.size)
    start = np.searchsorted((inner * n_cells).astype(np.int64), np.arange(n_cells + 2))
    sums = np.zeros((inner.size + 1, 4))
    kernels.sum_between(s, positive, w if weighted else np.empty(0), inner, start, float(n_cells), sums)
    own, w = np.searchsorted(inner, s, side="left"), w if weighted else np.ones(s.size)
    for column, of_row in enumerate((w, w * w, w * positive, w * s)):
        np.testing.assert_allclose(sums[:, column], np.bincount(own, of_row, minlength=inner.size + 1), atol=1e-12)


def test_rows_of_fine_bins_are_counted_and_those_of_wanted_ones_written():
    s = np.random.default_rng(0).random(3000)
    counts = np.zeros(33, np.int64)
    kernels.count_fine_bins(s, 32.0, counts)
    cell = (s * 32.0).astype(np.int64)
    np.testing.assert_array_equal(counts, np.bincount(cell, minlength=33))
    is_wanted = np.arange(33) % 5 == 0
    found = np.empty(s.size)
    n = kernels.scores_in_fine_bins(s, 32.0, is_wanted, found)
    np.testing.assert_array_equal(found[:n], s[is_wanted[cell]])


def slots(table, n_slots):
    scale = n_slots / (table[-1] - table[0])
    slot = np.minimum(((table - table[0]) * scale).astype(np.int64), n_slots - 1)
    return np.searchsorted(slot, np.arange(n_slots + 1)).astype(np.int32), scale


@pytest.mark.parametrize("n_slots", [1, 7, 500])
@pytest.mark.parametrize("unit", [1.0, 0.5])
def test_values_are_interpolated_and_stepped_whatever_the_slots(n_slots, unit):
    rng = np.random.default_rng(1)
    x, y = np.unique(rng.random(200) ** 3), rng.random(200)
    values = np.concatenate((x, rng.uniform(-0.1, 1.1, 3000)))
    starts, scale = slots(x, n_slots)
    out = np.empty(values.size)
    kernels.interpolate(values, x, y, 1.0 / np.diff(unit * x), unit, starts, scale, out)
    np.testing.assert_allclose(out, np.interp(values, x, y), atol=1e-12)
    levels = np.append(y, 0.5)
    kernels.take_step(values, x, levels, starts, scale, out)
    np.testing.assert_array_equal(out, levels[np.searchsorted(x, values, side="left")])


def test_rows_times_a_matrix_have_the_same_bits_in_any_batch():
    rng = np.random.default_rng(0)
    z, columns = rng.normal(size=(300, 17)), rng.normal(size=(17, 9))
    out = np.zeros((300, 9))
    kernels.multiply_rows(z, columns, out)
    np.testing.assert_allclose(out, z @ columns, atol=1e-12)
    for i in (0, 150, 299):
        alone = np.zeros((1, 9))
        kernels.multiply_rows(z[i : i + 1], columns, alone)
        np.testing.assert_array_equal(alone[0], out[i])
