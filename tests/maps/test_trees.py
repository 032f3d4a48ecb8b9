"""Sums of trees: a walk by hand, NumPy's, the compiled loop's and LightGBM's give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.maps import TreesMap, trees as of_trees
from calibrant.numerics import FloatArray
from calibrant.segments.binning import Binning
from calibrant.segments.boosting import Boosting, BoostingRows, Size


def grown(seed: int) -> tuple[Any, BoostingRows, FloatArray, TreesMap]:
    """Return trees of LightGBM's on numbers, of which one is only ever missing or not, and a category."""
    rng = np.random.default_rng(seed)
    n = 3_000
    X = rng.normal(size=(n, 4))
    X[:, 2] = rng.integers(0, 90, n)
    X[:, 3] = 1.0
    X[rng.random(X.shape) < 0.1] = np.nan
    z = np.nan_to_num(X[:, 0]) * np.nan_to_num(X[:, 1]) + (np.nan_to_num(X[:, 2]) % 7 == 2) + np.isnan(X[:, 3])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(np.float64)
    binning = Binning.of(X, [False, False, True, False])
    rows = BoostingRows("binary", binning.codes(X), np.zeros(n), y, None, (2,))
    boosting = Boosting(rows, Size(12, 0.1, 5, 1.0), seed=0)
    for _ in range(40):
        boosting.grow()
    return boosting, rows, X, boosting.trees(binning, 40, 1.0)


def by_hand(trees: TreesMap, row: FloatArray) -> float:
    total, sets = 0.0, trees.sets()
    for root in trees.roots.tolist():
        at = root
        while trees.columns[at] >= 0:
            v = row[trees.columns[at]]
            is_left = (
                bool(trees.missing_left[at]) if np.isnan(v) else v in sets[at] if sets[at] else v <= trees.values[at]
            )
            at = int(trees.left[at] if is_left else trees.right[at])
        total += float(trees.values[at])
    return total


@pytest.mark.parametrize("seed", range(2))
def test_all_ways_to_apply_trees_give_the_same_bits(seed: int) -> None:
    boosting, rows, X, trees = grown(seed)
    assert (trees.columns == 3).any(), "a split of what is missing from what is not"
    found = trees.apply(X)
    assert X.shape[0] * trees.n_trees > 50_000, "compiled"
    assert found[:60].tolist() == [by_hand(trees, row) for row in X[:60]]
    few = np.concatenate([trees.apply(X[i : i + 100]) for i in range(0, X.shape[0], 100)])
    assert few.tobytes() == found.tobytes()
    np.testing.assert_allclose(found, boosting.margins(np.ones(rows.n_rows, dtype=bool), 40), rtol=0.0, atol=1e-14)


@pytest.mark.parametrize(("n_rows", "kept"), [(2, of_trees._NODES), (20_000, of_trees._TABLES)])
def test_arrays_are_made_once_and_go_with_their_trees(n_rows: int, kept: Any) -> None:
    trees = grown(0)[3]
    trees.apply(np.zeros((n_rows, 4)))
    known = kept[trees]
    assert known is not None
    trees.apply(np.zeros((n_rows, 4)))
    assert kept[trees] is known
    n_known = len(kept)
    del trees
    assert len(kept) == n_known - 1
