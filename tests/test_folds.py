"""Folds: stratified, balanced, seeded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrant.folds import stratified_folds


@given(st.lists(st.integers(0, 3), min_size=2, max_size=80), st.integers(2, 7), st.integers(0, 3))
def test_each_class_and_all_rows_are_spread_evenly(codes, n_folds, seed):
    codes = np.array(codes)
    folds = stratified_folds(codes, n_folds, seed)
    for rows in (np.ones(codes.size, bool), *(codes == k for k in range(4))):
        sizes = np.bincount(folds[rows], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(folds, stratified_folds(codes, n_folds, seed))


def test_another_seed_gives_other_folds():
    codes = np.arange(100) % 3
    assert (stratified_folds(codes, 5, 0) != stratified_folds(codes, 5, 1)).any()


def test_rows_are_shuffled_within_their_class():
    folds = stratified_folds(np.zeros(1000, int), 5, 0)
    assert abs(np.corrcoef(folds, np.arange(1000) % 5)[0, 1]) < 0.1
    assert len(set(folds[:5].tolist())) < 5 or folds[:5].tolist() != [0, 1, 2, 3, 4]
