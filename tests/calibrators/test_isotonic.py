"""Centred isotonic regression: the paper's algorithm in exact rationals, and its strict rise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import calibrant as cb

ROWS = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(1, 5)), min_size=2, max_size=30).filter(
    lambda rows: len({y for _, y, _ in rows}) == 2
)


def centred(rows):
    """Section 3 of Oron and Flournoy (2017) by hand: pool score, rate and weight of violators, equal rates too."""
    blocks = []
    for s in sorted({s for s, _, _ in rows}):
        here = [(y, w) for t, y, w in rows if t == s]
        w = Fraction(sum(w for _, w in here))
        blocks.append((Fraction(s), Fraction(sum(w for y, w in here if y)) / w, w))
        while len(blocks) > 1 and blocks[-2][1] >= blocks[-1][1]:
            (s2, r2, w2), (s1, r1, w1) = blocks.pop(), blocks.pop()
            w12 = w1 + w2
            blocks.append(((s1 * w1 + s2 * w2) / w12, (r1 * w1 + r2 * w2) / w12, w12))
    return [float(s) for s, _, _ in blocks], [float(r) for _, r, _ in blocks]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(ROWS)
def test_knots_are_those_of_the_paper_s_algorithm_in_exact_rationals(rows):
    scores, y, weight = zip(*rows, strict=True)
    fitted = cb.CenteredIsotonicCalibrator(input="score").fit(scores, y, sample_weight=weight).map_
    x, rate = centred(rows)
    np.testing.assert_allclose(fitted.x, x, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(fitted.y, rate, rtol=1e-14)


def test_outputs_rise_strictly_between_the_centres():
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    fitted = cb.CenteredIsotonicCalibrator().fit(p, rng.random(2000) < p)
    inside = np.sort(p[(p > fitted.map_.x[0]) & (p < fitted.map_.x[-1])])
    assert inside.size > 1800
    assert (np.diff(fitted.predict_proba(inside)) > 0.0).all()


def test_outputs_are_flat_outside_the_outer_centres():
    fitted = cb.CenteredIsotonicCalibrator().fit([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [1, 0, 0, 1, 1, 0])
    assert fitted.predict_proba([0.0, 0.1, 7 / 30, 23 / 30, 0.9, 1.0]) == pytest.approx([1 / 3] * 3 + [2 / 3] * 3)


def test_blocks_keep_the_rates_of_isotonic_regression():
    rng = np.random.default_rng(1)
    p = rng.random(500)
    y = rng.random(500) < p**2
    isotonic = cb.IsotonicCalibrator().fit(p, y).map_
    np.testing.assert_array_equal(cb.CenteredIsotonicCalibrator().fit(p, y).map_.y, np.unique(isotonic.y))


def test_bounded_outputs_stay_off_zero_and_one():
    p = np.linspace(0.0, 1.0, 10)
    q = cb.CenteredIsotonicCalibrator(bounded=True).fit(p, p > 0.5).predict_proba(p)
    assert (q.min(), q.max()) == (1 / 12, 11 / 12)


@pytest.mark.parametrize("scores", [[-1.7e308, -1e308, 1e308, 1.7e308], [0.0, 5e-324, 1e-323, 1.5e-323]])
def test_extreme_scores_have_centres_within_their_blocks(scores):
    fitted = cb.CenteredIsotonicCalibrator(input="score").fit(scores, [1, 0, 1, 0]).map_
    assert np.isfinite(fitted.x).all()
    assert (fitted.x >= scores[0]).all()
    assert (fitted.x <= scores[-1]).all()


def test_separated_classes_interpolate_between_their_middles():
    fitted = cb.CenteredIsotonicCalibrator().fit([0.1, 0.2, 0.7, 0.8], [0, 0, 1, 1])
    assert fitted.predict_proba([0.15, 0.45, 0.75]) == pytest.approx([0.0, 0.5, 1.0])
