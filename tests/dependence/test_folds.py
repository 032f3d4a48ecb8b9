"""Folds: stratified, balanced, seeded."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import assume, given, strategies as st
from sklearn.model_selection import StratifiedKFold

from calibrant.dependence import stratified_blocks, stratified_folds


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


@given(st.lists(st.integers(0, 4), min_size=6, max_size=60), st.integers(2, 6))
def test_blocks_are_the_folds_of_scikit_learn(labels: list[int], n_folds: int) -> None:
    codes = np.unique(labels, return_inverse=True)[1]
    assume(np.bincount(codes).max() >= n_folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rare classes
        expected = [test.tolist() for _, test in StratifiedKFold(n_folds).split(codes, codes)]
    folds = stratified_blocks(codes, n_folds)
    assert [np.flatnonzero(folds == fold).tolist() for fold in range(n_folds)] == expected
