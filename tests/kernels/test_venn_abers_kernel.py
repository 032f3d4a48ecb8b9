"""Venn-Abers against isotonic regression fitted anew for every tie and label, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant import kernels
from calibrant.calibrators.venn_abers import _sums_before

TIES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=16).map(
    lambda ties: [(w, min(p, w)) for w, p in ties]
)


def fit_at(ties, i, label):
    """Return the isotonic fit at tie i with an object of weight one and this label in it: a minimum of maxima."""
    rows = [(Fraction(w + (j == i)), Fraction(p + label * (j == i))) for j, (w, p) in enumerate(ties)]

    def mean(low, high):
        return sum(p for _, p in rows[low : high + 1]) / sum(w for w, _ in rows[low : high + 1])

    return max(min(mean(low, high) for high in range(i, len(rows))) for low in range(i + 1))


@pytest.mark.slow
@pytest.mark.parametrize("label", [0, 1])
@settings(max_examples=80, deadline=None)
@given(ties=TIES)
def test_fits_are_those_of_a_refit_for_each_tie(label, ties):
    w, p = (np.array(column, float) for column in zip(*ties, strict=True))
    points, (following, vertex) = (*_sums_before(w), *_sums_before(p)), np.empty((2, w.size + 1), np.int64)
    kernels.following_vertices(*points, following)
    start, level = np.empty(w.size, np.int64), np.empty(w.size)
    n = kernels.added_levels(*points, following, float(label), vertex, start, level)
    fits = np.repeat(level[:n], np.diff(np.append(start[:n], w.size)))
    assert fits.tolist() == [float(fit_at(ties, i, label)) for i in range(w.size)]
    assert (np.diff(level[:n]) > 0.0).all()


def test_sums_of_the_diagram_keep_what_rounding_loses():
    w = np.tile([1e16, 1.0], 500)
    sums, lost = _sums_before(w)
    difference = (sums[2:] - sums[:-2]) + (lost[2:] - lost[:-2])
    assert (difference == 1e16 + 1.0).all()


def test_following_vertices_are_those_of_the_lower_hull():
    rng = np.random.default_rng(0)
    w = rng.random(40)
    p = w * rng.random(40)
    following = np.empty(41, np.int64)
    kernels.following_vertices(*_sums_before(w), *_sums_before(p), following)
    x, y = np.append(0.0, np.cumsum(w)), np.append(0.0, np.cumsum(p))
    for k in range(40):
        slopes = (y[k + 1 :] - y[k]) / (x[k + 1 :] - x[k])
        assert following[k] == k + 1 + int(slopes.argmin())
