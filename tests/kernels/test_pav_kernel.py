"""Pool adjacent violators against exact rationals and SciPy."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import isotonic_regression

from calibrant import kernels


def blocks_of(pairs):
    """Pool pairs of weight and positives in exact arithmetic, equal rates too; return the blocks' pairs and ends."""
    stack: list[tuple[Fraction, Fraction, int]] = []
    for i, (w, p) in enumerate(pairs):
        stack.append((Fraction(w), Fraction(p), i + 1))
        while len(stack) > 1 and stack[-2][1] * stack[-1][0] >= stack[-1][1] * stack[-2][0]:
            w1, p1, end = stack.pop()
            w0, p0, _ = stack.pop()
            stack.append((w0 + w1, p0 + p1, end))
    return stack


TIES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=60).map(
    lambda ties: [(w, min(p, w)) for w, p in ties]
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(TIES)
def test_blocks_of_weighted_ties_are_those_of_exact_arithmetic(ties):
    w, p = (np.array(column, float) for column in zip(*ties, strict=True))
    weight, positives, end = np.empty(w.size), np.empty(w.size), np.empty(w.size, np.int64)
    top = kernels.pool_weighted(w, p, weight, positives, end)
    exact = blocks_of(ties)
    assert [(float(a), float(b), e) for a, b, e in exact] == list(
        zip(weight[:top].tolist(), positives[:top].tolist(), end[:top].tolist(), strict=True)
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 10.0), st.floats(0.0, 1.0)), min_size=1, max_size=60))
def test_fit_of_any_weights_is_that_of_scipy(ties):
    w, rate = (np.array(column) for column in zip(*ties, strict=True))
    weight, positives, end = np.empty(w.size), np.empty(w.size), np.empty(w.size, np.int64)
    top = kernels.pool_weighted(w, w * rate, weight, positives, end)
    fit = np.repeat(positives[:top] / weight[:top], np.diff(end[:top], prepend=0))
    np.testing.assert_allclose(fit, isotonic_regression(rate, weights=w).x, atol=1e-12)
    assert (np.diff(positives[:top] / weight[:top]) > 0.0).all()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), min_size=1, max_size=80))
def test_blocks_of_packed_rows_are_those_of_their_ties(rows):
    keys = np.sort(np.array([(score << 8) + label for score, label in rows], np.uint64))
    scores = np.unique(keys >> np.uint64(1))
    ties = [((keys >> np.uint64(1) == s).sum(), (keys == np.uint64(2) * s + np.uint64(1)).sum()) for s in scores]
    count, positives, end = (np.empty(keys.size, np.int64) for _ in range(3))
    top = kernels.pool_keys(keys, -1, count, positives, end)
    exact = blocks_of([(int(n), int(p)) for n, p in ties])
    assert count[:top].tolist() == [int(n) for n, _, _ in exact]
    assert positives[:top].tolist() == [int(p) for _, p, _ in exact]
    assert end[:top].tolist() == np.cumsum(count[:top]).tolist()
