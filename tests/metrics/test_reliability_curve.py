"""Reliability curves: which event they show, and what their bins are."""

from __future__ import annotations

import numpy as np
import pytest
from metric_data import draw_binary, draw_classes, draw_weights

import calibrant as cb
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
