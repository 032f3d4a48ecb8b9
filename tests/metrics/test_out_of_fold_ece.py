"""The ECE of new rows, from rows calibrated out of fold."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.metrics import ece, ece_of_new_rows
from calibrant.rows import Rows


def draw(n=400, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.3, 1.0, n)
    return q, rng.random(n) < q, np.arange(n) % 5


def test_a_map_that_no_fold_moves_has_the_error_of_its_bins():
    q, right, fold = draw()
    found = ece_of_new_rows(Rows.of_positives(q, right), np.tile(q, (5, 1)), q, fold, n_bins=10)
    assert found == pytest.approx(ece(right, q, n_bins=10), rel=1e-12)


def test_a_fitted_mean_has_the_error_that_it_shows_on_new_rows():
    """One bin, whose probability is the rate of the other folds: on new rows the gap is sqrt(2 / pi) sqrt(2 v / n)."""
    n, rng = 500, np.random.default_rng(1)
    fold, found, pooled = np.arange(n) % 25, [], []  # with few folds the covariance of one bin is too uncertain
    for _ in range(400):
        right = rng.random(n) < 0.85
        by_fit = np.repeat([[right[fold != f].mean()] for f in range(25)], n, axis=1)
        top = Rows.of_positives(by_fit[fold, np.arange(n)], right)
        found.append(ece_of_new_rows(top, by_fit, np.full(n, right.mean()), fold, n_bins=1))
        pooled.append(ece(right, top.scores, n_bins=1))
    assert np.mean(found) == pytest.approx(np.sqrt(4.0 / np.pi * 0.85 * 0.15 / n), rel=0.1)
    assert max(pooled) < 1e-12


def test_equal_weights_change_nothing():
    q, right, fold = draw()
    by_fit = np.clip(q + np.random.default_rng(2).normal(0.0, 0.02, (5, 1)), 0.0, 1.0)
    one, two = (
        ece_of_new_rows(Rows.of_positives(q, right, w), by_fit, q, fold, n_bins=10)
        for w in (None, np.full(q.size, 2.0))
    )
    assert two == pytest.approx(one, rel=1e-12)
