"""Labels that overlap in time: which ones do, what they are worth, and a bootstrap that keeps them together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant.dependence import block_draws, block_length, cluster_folds, effective_rows, overlapping, time_blocks

LABELS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), min_size=1, max_size=25)


@settings(max_examples=100, deadline=None)
@given(LABELS)
def test_uniqueness_is_the_mean_share_of_the_open_labels(labels):
    start = np.array([s for s, _ in labels])
    end = start + np.array([length for _, length in labels])
    moments = np.unique(start)
    n_open = np.array([((start <= m) & (end >= m)).sum() for m in moments])
    wanted = sum(np.mean(1.0 / n_open[(moments >= s) & (moments <= e)]) for s, e in zip(start, end, strict=True))
    assert effective_rows(start, end) == pytest.approx(wanted)


@settings(max_examples=100, deadline=None)
@given(LABELS, st.integers(0, 5), st.data())
def test_labels_overlap_rows_held_out_where_they_overlap_one_of_them(labels, embargo, data):
    start = np.array([s for s, _ in labels])
    end = start + np.array([length for _, length in labels])
    held_out = np.array(data.draw(st.lists(st.integers(0, start.size - 1), min_size=1, unique=True)))
    for asked, span in ((None, 0), (embargo, embargo)):
        wanted = [any(s <= end[b] + span and e >= start[b] for b in held_out) for s, e in zip(start, end, strict=True)]
        assert overlapping(start, end, held_out, asked).tolist() == wanted


@pytest.mark.parametrize(("length", "wanted"), [(0, 1), (1, 4), (5, 20), (50, 100)])
def test_blocks_are_four_labels_long_and_at_least_ten(length, wanted):
    time = np.arange(1000)
    assert block_length(time, time + length) == wanted


@pytest.mark.parametrize(("n", "block"), [(7, 3), (12, 4), (10, 1), (9, 9), (5, 50)])
def test_draws_are_means_of_circular_blocks(n, block):
    table = np.random.default_rng(0).normal(size=(n, 2))
    draws = block_draws(table, block, 2000, np.random.default_rng(1))
    size = min(block, n)
    circular = np.vstack((table, table))
    n_blocks = -(-n // size)
    last = n - (n_blocks - 1) * size
    rng = np.random.default_rng(1)
    starts = rng.integers(0, n, (2000, n_blocks))
    for draw, at in zip(draws[:50], starts, strict=False):
        rows = [circular[at[0] : at[0] + last], *(circular[s : s + size] for s in at[1:])]
        np.testing.assert_allclose(draw, np.vstack(rows).mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(draws.mean(axis=0), table.mean(axis=0), atol=0.1)  # each row is drawn equally often


def test_one_cluster_of_many_rows_fills_a_fold_alone():
    cluster = np.append(np.zeros(50, int), np.arange(1, 51))
    folds = cluster_folds(np.zeros(100, int), cluster, 2, seed=0)
    assert np.unique(folds[:50]).size == 1
    assert np.bincount(folds).tolist() == [50, 50]


def test_blocks_in_time_follow_equal_times_by_row():
    assert time_blocks(np.array([3, 1, 1, 2]), 2).tolist() == [1, 0, 0, 1]
