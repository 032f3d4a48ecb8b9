"""Mimic's bins against the original procedure written down plainly: every pass over all bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant import kernels

TIES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=60).map(
    lambda ties: [(float(w), float(min(p, w))) for w, p in ties]
)


def filled(scores, weight, positives, least):
    bins, start = [], 0
    while start < len(scores):
        end, p = start, 0.0
        while end < len(scores) and p < least:
            p += positives[end]
            end += 1
        w = sum(weight[start:end])
        bins.append((start, w, p, float(np.average(scores[start:end], weights=weight[start:end]))))
        start = end
    return bins


def merged_once(bins):
    """Merge each bin with its right neighbour while its rate is greater, from left to right."""
    out = []
    rest = [list(each) for each in bins]
    while rest:
        own = rest.pop(0)
        while rest and own[1] / own[0] > rest[0][1] / rest[0][0]:
            other = rest.pop(0)
            total = own[0] + other[0]
            own[2] = (own[0] * own[2] + other[0] * other[2]) / total
            own[3] = 0.5 * own[3] + 0.5 * other[3]
            own[0], own[1] = total, own[1] + other[1]
        out.append(own)
    return out


@settings(max_examples=150, deadline=None)
@given(TIES, st.integers(1, 5))
def test_bins_are_filled_until_they_hold_enough_positives(ties, least):
    weight, positives = (np.array(column) for column in zip(*ties, strict=True))
    scores = np.sort(np.random.default_rng(0).normal(size=weight.size))
    first, bins = np.empty(weight.size, np.int64), np.empty((4, weight.size))
    n = kernels.fill_bins(scores, weight, positives, float(least), first, bins)
    wanted = filled(scores, weight, positives, least)
    assert first[:n].tolist() == [start for start, *_ in wanted]
    np.testing.assert_allclose(bins[:3, :n].T, [each[1:] for each in wanted], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(bins[2, :n], bins[3, :n])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(TIES, st.integers(1, 3))
def test_each_pass_merges_what_the_original_merges(ties, n_passes):
    weight, positives = (np.array(column) for column in zip(*ties, strict=True))
    n = weight.size
    score = np.linspace(0.0, 1.0, n)
    bins, is_kept = np.vstack((weight, positives, score, score)), np.ones(n, dtype=bool)
    beside = np.vstack((np.arange(-1, n - 1), np.arange(1, n + 1)))
    work, n_work = np.arange(n - 1), n - 1
    wanted = [[*column] for column in bins.T.tolist()]
    while n_work:
        n_work = kernels.merge_bins(bins, is_kept, beside, work, n_work, n_passes)
        for _ in range(n_passes):
            wanted = merged_once(wanted)
        np.testing.assert_allclose(bins[:, is_kept].T, wanted, rtol=1e-12)
    assert merged_once(wanted) == wanted


def test_all_passes_together_take_linear_time():
    """A low rate at the right end moves down bin by bin: passes over all bins would take hours."""
    n = 400_000
    weight, positives = np.ones(n), np.linspace(0.5, 1.0, n)
    positives[-1] = 0.0
    bins = np.vstack((weight, positives, positives, positives))
    is_kept, beside = np.ones(n, dtype=bool), np.vstack((np.arange(-1, n - 1), np.arange(1, n + 1)))
    assert kernels.merge_bins(bins, is_kept, beside, np.arange(n - 1), n - 1, 10 * n) == 0
    assert (np.diff(bins[1, is_kept] / bins[0, is_kept]) >= 0.0).all()


@pytest.mark.parametrize("boundary", [1e308, 1e-308])
def test_means_of_scores_at_the_ends_of_float64_stay_inside_their_bin(boundary):
    scores, one = np.array([-boundary, 0.0, boundary]), np.ones(3)
    first, bins = np.empty(3, np.int64), np.empty((4, 3))
    assert kernels.fill_bins(scores, one, np.array([0.0, 0.0, 1.0]), 1.0, first, bins) == 1
    assert -boundary <= bins[2, 0] <= boundary
