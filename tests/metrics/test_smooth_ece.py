"""Smooth calibration error: equal to its definition by quadrature, and what follows from the definition."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from hypothesis import given, strategies as st
from metric_data import draw_binary, draw_classes, draw_weights
from scipy.fft import dct
from scipy.optimize import brentq

import calibrant as cb
from calibrant.metrics import calibration_in_the_large, smooth_ece
from calibrant.metrics.estimates import Column
from calibrant.metrics.smooth_ece import _gap_values, _series, smooth_ece_estimate

ROWS = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=30,
)


def by_quadrature(y, p, w=None, n=1000):
    """Solve E(s) = s with the kernel's mirror images written out, by the midpoint rule."""
    w = np.ones(len(p)) if w is None else w
    at, group = np.unique(p, return_inverse=True)
    gap = np.bincount(group, w * (p - y)) / w.sum()
    t = (np.arange(n) + 0.5) / n

    def error(s):
        total = np.zeros(n)
        for k in range(-2, 3):
            for image in (at + 2 * k, 2 * k - at):
                total += np.exp(-0.5 * ((t[:, None] - image) / s) ** 2) @ gap
        return np.abs(total).mean() / (s * np.sqrt(2 * np.pi))

    return brentq(lambda s: error(s) - s, 1e-3, 1.0, xtol=1e-9)


@pytest.mark.parametrize("case", ["few", "skewed", "ties", "weighted", "ends", "certain"])
def test_it_equals_its_definition_by_quadrature(case):
    rng = np.random.default_rng(4)
    y, p = draw_binary(300, decimals=2 if case == "ties" else None)
    w = draw_weights(300) if case == "weighted" else None
    if case == "few":
        y, p = y[:5], p[:5]
    if case == "skewed":
        p = p**4
    if case == "ends":
        p = rng.choice([0.0, 0.3, 1.0], 300)
    if case == "certain":
        p = rng.choice([0.0, 1.0], 300)
    assert smooth_ece(y, p, sample_weight=w, classes=[0, 1]) == pytest.approx(by_quadrature(y, p, w), rel=1e-4)


@pytest.mark.slow
def test_fine_kernels_are_resolved():
    rng = np.random.default_rng(0)
    p = rng.choice(np.linspace(0.001, 0.02, 40), 3000)
    y = rng.random(3000) < p
    expected = by_quadrature(y, p, n=10_000)
    assert expected < 0.005
    assert smooth_ece(y, p) == pytest.approx(expected, rel=2e-3)


@given(rows=ROWS)
def test_it_lies_between_the_gap_of_the_whole_and_the_mean_absolute_gap(rows):
    p, y, w = (np.array(column) for column in zip(*rows, strict=True))
    value = smooth_ece(y, p, sample_weight=w)
    assert abs(calibration_in_the_large(y, p, sample_weight=w)) <= value + 1e-6
    assert value <= np.average(np.abs(p - y), weights=w) + 1e-6


def test_gap_of_one_sign_is_its_mean():
    assert smooth_ece([1, 1, 1], [0.2, 0.5, 0.8]) == pytest.approx(0.5)
    assert smooth_ece([0, 0], [0.0, 1.0]) == pytest.approx(0.5)
    assert smooth_ece([0, 1], [0.0, 1.0]) == 0.0
    assert smooth_ece([1, 0], [0.0, 1.0]) > 0.2


def test_small_moves_of_the_probabilities_move_it_little_where_a_binned_error_jumps():
    y = np.arange(1000) % 2
    p = np.where(y == 1, 0.5 + 1e-9, 0.5 - 1e-9)
    assert cb.metrics.ece(y, p, n_bins=2) == pytest.approx(0.5)
    assert smooth_ece(y, p) < 1e-4
    y, p = draw_binary(500)
    moved = np.clip(p + 1e-4 * np.sin(np.arange(500)), 0, 1)
    assert smooth_ece(y, moved) == pytest.approx(smooth_ece(y, p), abs=2e-4)


def test_label_flip_changes_nothing():
    y, p = draw_binary(500)
    assert smooth_ece(1 - y, 1 - p) == pytest.approx(smooth_ece(y, p), abs=1e-7)


def test_many_rows_have_the_error_of_the_same_rows_once():
    y, p = draw_binary(1000)
    assert smooth_ece(np.tile(y, 80), np.tile(p, 80)) == pytest.approx(smooth_ece(y, p), abs=1e-5)


def test_k_columns_are_judged_by_the_top_label():
    y, P = draw_classes(400)
    assert smooth_ece(y, P) == pytest.approx(smooth_ece(P.argmax(axis=1) == y, P.max(axis=1)))


def test_noise_of_perfect_probabilities_falls_as_the_cube_root():
    def mean_error(n):
        rng = np.random.default_rng(0)
        draws = []
        for _ in range(20):
            p = rng.random(n)
            draws.append(smooth_ece(rng.random(n) < p, p))
        return np.mean(draws)

    assert mean_error(500) / mean_error(4000) == pytest.approx(2.0, rel=0.2)


@pytest.mark.slow
def test_interval_covers_the_error_of_perfect_and_of_wrong_probabilities():
    p_all = (np.arange(40_000) + 0.5) / 40_000
    # E(s) of the gap p/2 - 1/4, by the series of the kernel: a fixed point of the population
    gap = 0.5 * p_all - 0.25

    def population(s):
        wave = np.arange(1, 400, 2)
        series = (-1.0 / (np.pi * wave) ** 2 * np.exp(-0.5 * (np.pi * wave * s) ** 2)) * 2
        t = (np.arange(2000) + 0.5) / 2000
        return np.abs(np.cos(np.pi * t[:, None] * wave) @ series).mean()

    assert population(1e-3) == pytest.approx(np.abs(gap).mean(), abs=1e-3)
    truth = brentq(lambda s: population(s) - s, 1e-3, 1)
    hits = {0.0: 0, truth: 0}
    for i in range(100):
        rng = np.random.default_rng(i)
        p = rng.random(400)
        for goal, rate in ((0.0, p), (truth, 0.25 + 0.5 * p)):
            summary = cb.ScoreSummary.from_arrays(p, rng.random(400) < rate)
            estimate = smooth_ece_estimate(Column(summary, 400, 0.95, rng=np.random.default_rng(i)))
            hits[goal] += estimate.low <= goal <= estimate.high
    assert min(hits.values()) >= 90


@pytest.fixture
def niamey():
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip("CALIBRANT_DATA doesn't name a folder with scores/niamey_precip_2016.csv")
    return pyarrow.csv.read_csv(Path(folder) / "scores" / "niamey_precip_2016.csv")


@pytest.mark.parametrize(("forecaster", "known"), [("Logistic", 0.0560), ("EMOS", 0.0595), ("EPC", 0.0583)])
def test_niamey_forecasts_have_the_error_known_from_relplot(niamey, forecaster, known):
    # relplot looks at widths of whole 1/1024 on a mesh, hence the tolerance
    assert smooth_ece(niamey["obs"], niamey[forecaster]) == pytest.approx(known, abs=3e-4)


def test_niamey_ensemble_has_the_error_known_from_relplot_if_rows_at_the_ends_count_half(niamey):
    y, p = niamey["obs"].to_numpy(), niamey["ENS"].to_numpy()
    half_at_ends = np.where((p == 0.0) | (p == 1.0), 0.5, 1.0)
    assert smooth_ece(y, p, sample_weight=half_at_ends) == pytest.approx(0.2050, abs=5e-4)
    assert smooth_ece(y, p) == pytest.approx(by_quadrature(y, p), rel=1e-5)
    assert smooth_ece(y, p) == pytest.approx(0.2107, abs=5e-5)


@pytest.mark.parametrize("kept", [1, 1024, 8192, 8193, 8194, 16384])
def test_the_cosine_series_is_scipy_s(kept):
    y, p = draw_binary(500)
    ordered = _gap_values(cb.ScoreSummary.from_arrays(p, y).tied(), 1 << 14)
    n = ordered.size
    points = np.empty(n)
    points[::2], points[1::2] = ordered[: n // 2], ordered[n // 2 :][::-1]
    expected = 0.5 * dct(points, type=2)[:kept]
    np.testing.assert_allclose(_series(np.fft.rfft(ordered), kept), expected, rtol=0, atol=1e-15)
