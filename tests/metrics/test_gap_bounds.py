"""Bounds of the gaps of groups: no narrower than the exact test, and zero is outside just where its p-value says so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import calibrant as cb
from calibrant.metrics.gap_bounds import gap_bounds


def one_group(p, y, weight=None, level=0.95):
    p, y = np.asarray(p, float), np.asarray(y, bool)
    return gap_bounds(p, y, weight, np.zeros(p.size, np.int64), 1, level)


@pytest.mark.parametrize(
    ("n", "p", "k"), [(1, 0.3, 1), (5, 0.2, 4), (40, 0.1, 11), (40, 0.5, 20), (200, 0.01, 9), (30, 0.4, 0)]
)
def test_p_value_is_at_least_that_of_the_exact_binomial_test(n, p, k):
    bounds = one_group(np.full(n, p), np.arange(n) < k)
    tail = min(binom.cdf(k, n, p), binom.sf(k - 1, n, p))
    assert bounds.p_value[0] >= tail
    assert bounds.p_value[0] <= 40.0 * tail or bounds.p_value[0] == 1.0


@pytest.mark.parametrize(("n", "p", "k"), [(40, 0.1, 11), (40, 0.5, 20), (30, 0.4, 29)])
def test_p_value_and_bounds_are_those_of_the_kullback_leibler_divergence(n, p, k):
    """For equal predictions the log-likelihood ratio is n KL(k/n || p), in closed form."""

    def divergence(q):
        rate = k / n
        return n * (rate * math.log(rate / q) + (1 - rate) * math.log((1 - rate) / (1 - q)))

    bounds = one_group(np.full(n, p), np.arange(n) < k)
    assert bounds.p_value[0] == pytest.approx(min(1.0, 2 * math.exp(-divergence(p))), rel=1e-9)
    for end in (bounds.low[0], bounds.high[0]):
        assert divergence(p - end) == pytest.approx(math.log(2 / 0.05), rel=1e-6)


def test_bounds_exclude_zero_just_where_the_p_value_is_below_the_level():
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        p = rng.beta(1, 3, 30)
        bounds = one_group(p, rng.random(30) < p**0.6)
        is_off = bool(bounds.low[0] > 0 or bounds.high[0] < 0)
        assert is_off == (bounds.p_value[0] < 0.05)
        seen.add(is_off)
    assert seen == {True, False}


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9999])
def test_bounds_at_the_edges_are_finite_and_hold_the_gap(level):
    for p, y in (([0.2] * 9, [0] * 9), ([0.2] * 9, [1] * 9), ([0.0] * 5, [0] * 5), ([1.0, 0.0], [0, 1]), ([0.5], [1])):
        bounds = one_group(p, y, level=level)
        assert -1.0 <= bounds.low[0] <= bounds.gap[0] + 1e-9
        assert bounds.gap[0] - 1e-9 <= bounds.high[0] <= 1.0


def test_scale_of_the_weights_changes_nothing():
    rng = np.random.default_rng(0)
    p, w = rng.random(100), rng.gamma(2.0, 1.0, 100)
    y = rng.random(100) < p
    first, second = one_group(p, y, w), one_group(p, y, 1000 * w)
    np.testing.assert_allclose(
        [first.low, first.high, first.p_value], [second.low, second.high, second.p_value], rtol=1e-6
    )


def test_gaps_of_classes_hold_their_value_and_do_not_go_by_the_order_of_classes():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        p = rng.multinomial(4, [0.5, 0.3, 0.2], 20) / 4  # with zeros and ones
        y = np.array([rng.choice(3, p=0.7 * row + 0.1) for row in p])
        found = cb.evaluate(y, p, classes=[0, 1, 2])
        order = np.array([2, 0, 1])
        turned = cb.evaluate(np.argsort(order)[y], p[:, order], classes=[0, 1, 2])
        assert turned["class_share_gap"].value == pytest.approx(found["class_share_gap"].value, abs=1e-12)
        for name in ("class_gap", "class_share_gap"):
            assert found[name].low <= found[name].value <= found[name].high
