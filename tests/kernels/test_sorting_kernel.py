"""Sorting of keys and what it makes of sorted ones, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from calibrant import kernels
from calibrant.summary import sort_keys

KEYS = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 40) | st.integers(2**63, 2**63 + 5), min_size=1, max_size=80)
SCORES = st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 0.5]), min_size=1)


def radix_sorted(keys, n_ignored=0):
    keys, scratch = keys.copy(), np.empty_like(keys)
    place = kernels.radix_sort(keys, scratch, n_ignored)
    return [keys, scratch, None][place]


@settings(max_examples=200, deadline=None)
@given(KEYS)
def test_any_keys_are_sorted(values):
    keys = np.array(values, np.uint64)
    found = radix_sorted(keys)
    if found is not None:
        np.testing.assert_array_equal(found, np.sort(keys))
    np.testing.assert_array_equal(sort_keys(keys.copy()), np.sort(keys))


@pytest.mark.parametrize("kind", ["random", "few", "sorted", "falling", "floats", "one"])
def test_many_keys_of_any_kind_are_sorted(kind):
    rng = np.random.default_rng(0)
    n = 70_000
    keys = {
        "random": lambda: rng.integers(0, 2**63, n, dtype=np.uint64) * np.uint64(2),
        "few": lambda: rng.integers(0, 50, n).astype(np.uint64),
        "sorted": lambda: np.arange(n, dtype=np.uint64),
        "falling": lambda: np.arange(n, dtype=np.uint64)[::-1].copy(),
        "floats": lambda: rng.random(n).view(np.uint64),
        "one": lambda: np.full(n, 7, np.uint64),
    }[kind]()
    np.testing.assert_array_equal(radix_sorted(keys), np.sort(keys))


def test_bits_that_need_not_decide_may_come_in_any_order():
    keys = np.random.default_rng(0).integers(0, 2**20, 5000, dtype=np.uint64)
    found = radix_sorted(keys, n_ignored=1)
    np.testing.assert_array_equal(found >> np.uint64(1), np.sort(keys >> np.uint64(1)))
    np.testing.assert_array_equal(np.sort(found), np.sort(keys))


def test_keys_that_agree_in_the_bytes_that_are_counted_are_handed_back_unsorted():
    keys = np.append(np.arange(5000, dtype=np.uint64)[::-1], np.uint64(2**63))
    copy, scratch = keys.copy(), np.empty_like(keys)
    assert kernels.radix_sort(copy, scratch, 0) == 2
    np.testing.assert_array_equal(np.sort(copy), np.sort(keys))


@settings(max_examples=100, deadline=None)
@given(SCORES, st.integers(0, 2**32 - 1))
def test_packed_scores_of_both_signs_rise_with_the_scores_in_each_part(values, seed):
    s = np.array(values) + 0.0
    label = np.random.default_rng(seed).integers(0, 2, s.size).astype(np.uint8)
    n_negative = int((s < 0.0).sum())
    keys = np.empty(s.size, np.uint64)
    kernels.pack_signed(s.view(np.uint64), label, n_negative, keys)
    for part, scores in ((keys[:n_negative], s[s < 0.0]), (keys[n_negative:], s[s >= 0.0])):
        order = np.argsort(part >> np.uint64(1), kind="stable")
        assert (np.diff(scores[order]) >= 0.0).all()
    np.testing.assert_array_equal(np.sort(keys & np.uint64(1)), np.sort(label))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60))
def test_runs_of_sorted_keys_are_counted(values):
    keys = np.sort(np.array(values, np.uint64))
    distinct, count = np.unique(keys >> np.uint64(1), return_counts=True)
    assert kernels.count_distinct(keys, -1) == distinct.size
    codes, n, positives = np.empty(distinct.size, np.uint64), np.empty(distinct.size), np.empty(distinct.size)
    kernels.run_lengths(keys, -1, codes, n, positives)
    np.testing.assert_array_equal(codes, distinct)
    np.testing.assert_array_equal(n, count)
    odd = keys[keys % np.uint64(2) == 1] >> np.uint64(1)
    np.testing.assert_array_equal(positives, [(odd == code).sum() for code in distinct])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.floats(-3, 3)), min_size=1, max_size=50))
def test_weights_of_equal_neighbours_are_summed_and_rows_without_weight_left_out(rows):
    s, signed = (np.array(column, float) for column in zip(*sorted(rows), strict=True))
    out = np.empty((4, s.size))
    m = kernels.weighted_runs(s, signed, out)
    distinct = np.unique(s[signed != 0.0])
    np.testing.assert_array_equal(out[0, :m], distinct)
    for value, column in zip(distinct, out[1:, :m].T, strict=True):
        own = signed[s == value]
        np.testing.assert_allclose(column, [np.abs(own).sum(), (own**2).sum(), own[own > 0].sum()], atol=1e-12)


def test_a_nearly_sorted_order_is_finished_and_a_reversed_one_is_given_up():
    s = np.random.default_rng(0).random(2000).round(2)
    stable = np.argsort(s, kind="stable")
    order = stable.copy()
    order[10], order[14] = order[14], order[10]
    assert kernels.finish_order(s, order)
    np.testing.assert_array_equal(s[order], np.sort(s))
    assert not kernels.finish_order(s, stable[::-1].copy())
