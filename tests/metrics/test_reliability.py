"""Reliability curves: which event they show, what their bins are, and how often calibrated ones stay in their band."""

from __future__ import annotations

import numpy as np
import pytest
from metric_data import draw_binary, draw_classes, draw_weights
from scipy import stats

import calibrant as cb
from calibrant.errors import UnknownNameError
from calibrant.metrics import reliability_curve


def test_curve_of_k_columns_shows_the_top_label_or_the_class_asked_for():
    y, P = draw_classes(400)
    names = np.array(["a", "b", "c"])[y]
    top = reliability_curve(names, P)
    expected = reliability_curve(P.argmax(axis=1) == y, P.max(axis=1))
    np.testing.assert_array_equal(top.x, expected.x)
    np.testing.assert_array_equal(top.y, expected.y)
    one = reliability_curve(names, P, class_label="b", label="class b")
    expected = reliability_curve(y == 1, P[:, 1])
    np.testing.assert_array_equal(one.y, expected.y)
    assert one.label == "class b"


def test_isotonic_curve_shows_the_pooled_blocks():
    y, p = draw_binary(300)
    curve = reliability_curve(y, p, strategy="isotonic")
    blocks = cb.ScoreSummary.from_arrays(p, y).isotonic_blocks()
    np.testing.assert_array_equal(curve.y, blocks.rate)
    np.testing.assert_array_equal(curve.edges, np.column_stack((blocks.first, blocks.last)))
    assert (curve.strategy, curve.level) == ("isotonic", 0.95)


def test_quantile_bins_have_near_equal_weight_and_keep_ties_whole():
    y, p = draw_binary(1000)
    curve = reliability_curve(y, p, n_bins=8)
    assert np.ptp(curve.n) <= 1
    tied = reliability_curve([0, 1, 0, 1, 1], [0.1, 0.3, 0.3, 0.3, 0.9], n_bins=5)
    np.testing.assert_array_equal(tied.n, [1, 3, 1])
    np.testing.assert_allclose(tied.edges, [[0, 0.2], [0.2, 0.6], [0.6, 1]])


def test_empty_bins_are_dropped():
    curve = reliability_curve([0, 1], [0.05, 0.95], n_bins=10, strategy="uniform")
    np.testing.assert_allclose(curve.edges, [[0.0, 0.1], [0.9, 1.0]])


def test_intervals_follow_the_effective_number_of_rows_and_not_the_scale_of_weights():
    y, p = draw_binary(200)
    plain = reliability_curve(y, p)
    heavy = reliability_curve(y, p, sample_weight=np.full(200, 50.0))
    np.testing.assert_allclose((heavy.low, heavy.high), (plain.low, plain.high))
    w = draw_weights(200)
    uneven = reliability_curve(y, p, sample_weight=w, n_bins=1)
    size = w.sum() ** 2 / (w**2).sum()
    z2 = 1.959963984540054**2
    r = uneven.y[0]
    assert (uneven.low[0] - r) ** 2 == pytest.approx(z2 * uneven.low[0] * (1 - uneven.low[0]) / size)
    assert (uneven.high[0] - r) ** 2 == pytest.approx(z2 * uneven.high[0] * (1 - uneven.high[0]) / size)


def test_interval_of_a_rate_of_zero_or_one_touches_it_and_has_a_width():
    curve = reliability_curve([0, 0, 1, 1], [0.1, 0.1, 0.9, 0.9], n_bins=2)
    assert curve.low[0] == 0.0 < curve.high[0]
    assert curve.high[1] == 1.0 > curve.low[1]


def test_there_is_no_band_unless_asked_for():
    curve = reliability_curve(*draw_binary(100))
    assert curve.band_low is None
    assert curve.band_high is None


def test_band_of_one_probability_is_the_binomial_quantile():
    curve = reliability_curve([0, 1] * 100, [0.3] * 200, n_bins=1, band="consistency", level=0.9)
    expected = stats.binom.ppf([0.05, 0.95], 200, 0.3) / 200
    assert (curve.band_low[0], curve.band_high[0]) == pytest.approx(expected, abs=0.0101)


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("n", [600, 20_000])
def test_band_of_bins_has_the_spread_of_bernoulli_sums(strategy, n):
    y, p = draw_binary(n)
    curve = reliability_curve(y, p, strategy=strategy, band="consistency", n_bins=6)
    edges = curve.edges
    for b in range(6):
        held = (p > edges[b, 0]) & (p <= edges[b, 1])
        error = np.sqrt(np.sum(p[held] * (1 - p[held]))) / held.sum()
        for end, sign in ((curve.band_low[b], -1), (curve.band_high[b], 1)):
            step = 1.0 / held.sum()  # a rate comes in whole rows
            assert end - curve.x[b] == pytest.approx(sign * 1.96 * error, abs=0.2 * error + step)


def test_uneven_weights_widen_the_band():
    y, p = draw_binary(4000)
    even = reliability_curve(y, p, band="consistency", n_bins=5)
    w = np.where(np.arange(4000) % 10 == 0, 1.0, 1e-3)
    uneven = reliability_curve(y, p, band="consistency", n_bins=5, sample_weight=w)
    ratio = (uneven.band_high - uneven.band_low) / (even.band_high - even.band_low)
    assert ((ratio > 2.3) & (ratio < 4.2)).all()  # 10 times fewer rows: sqrt(10) times wider
    scaled = reliability_curve(y, p, band="consistency", n_bins=5, sample_weight=np.full(4000, 9.0))
    np.testing.assert_allclose(scaled.band_low, even.band_low, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["quantile", "uniform", "isotonic"])
def test_curves_of_calibrated_probabilities_stay_inside_and_others_leave(strategy):
    inside, places, outside = 0, 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        p = rng.random(300)
        curve = reliability_curve(rng.random(300) < p, p, strategy=strategy, band="consistency", rng=seed)
        inside += ((curve.band_low <= curve.y) & (curve.y <= curve.band_high)).sum()
        places += curve.y.size
        wrong = reliability_curve(rng.random(300) < 0.3 + 0.4 * p, p, strategy=strategy, band="consistency", rng=seed)
        outside += ((wrong.y < wrong.band_low) | (wrong.y > wrong.band_high)).sum() > 0
    assert inside / places >= 0.9
    assert outside >= 27


def clustered_rows(seed):
    """Return outcomes, calibrated probabilities and clusters of 10 rows with near scores and outcomes that agree."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(200), 10)
    common = rng.normal(size=200)[cluster] * 0.6**0.5 + rng.normal(size=2000) * 0.4**0.5
    p = rng.uniform(0.1, 0.8, 200)[cluster] + rng.uniform(-0.001, 0.001, 2000)
    return common < stats.norm.ppf(p), p, cluster


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
@pytest.mark.parametrize("decimals", [None, 2])
def test_clusters_widen_the_band_as_they_widen_the_bars(strategy, decimals):
    """Also where no two scores are equal, so that each is worth less than one row."""
    y, p, cluster = clustered_rows(0)
    p = p if decimals is None else p.round(decimals)
    alone = reliability_curve(y, p, strategy=strategy, band="consistency")
    together = reliability_curve(y, p, strategy=strategy, band="consistency", cluster=cluster)
    bars = np.mean(together.high - together.low) / np.mean(alone.high - alone.low)
    band = np.mean(together.band_high - together.band_low) / np.mean(alone.band_high - alone.band_low)
    assert bars > 1.4
    assert band == pytest.approx(bars, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["quantile", "uniform", "isotonic"])
def test_curves_of_calibrated_clusters_stay_inside(strategy):
    """Of 100 draws 95 to 96% did; .64 to .79 where each distinct score was drawn as a whole row."""
    inside, places = 0, 0
    for seed in range(20):
        y, p, cluster = clustered_rows(seed)
        curve = reliability_curve(y, p, strategy=strategy, band="consistency", cluster=cluster, rng=seed)
        inside += ((curve.band_low <= curve.y) & (curve.y <= curve.band_high)).sum()
        places += curve.y.size
    assert 0.92 <= inside / places <= 0.99


def test_isotonic_band_rises_and_holds_the_mean_probability():
    y, p = draw_binary(5000, power=1.0)
    curve = reliability_curve(y, p, strategy="isotonic", band="consistency", level=0.99)
    assert (np.diff(curve.band_low) >= 0).all()
    assert (np.diff(curve.band_high) >= 0).all()
    inner = slice(2, -2)
    assert ((curve.band_low <= curve.x) & (curve.x <= curve.band_high))[inner].all()


def test_same_seed_gives_the_same_band():
    y, p = draw_binary(200)
    w = draw_weights(200)
    first, again, other = (
        reliability_curve(y, p, sample_weight=w, band="consistency", rng=seed).band_low for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_unknown_band_is_refused():
    with pytest.raises(UnknownNameError, match=r"unknown value of band: 'consistent'\. Did you mean 'consistency'\?"):
        reliability_curve([0, 1], [0.2, 0.7], band="consistent")
