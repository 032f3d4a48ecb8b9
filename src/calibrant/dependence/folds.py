"""Assignment of rows to folds, so that no row is calibrated by a map that was fitted to it.

`codes` is the class of each row and `cluster` its cluster, as whole numbers from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.numerics import IntArray


def stratified_folds(codes: npt.NDArray[np.integer[Any]], n_folds: int, seed: int) -> IntArray:
    """Return the fold, 0 to `n_folds` - 1, of each row, with each class spread evenly over the folds.

    The rows of each class are shuffled and put into the folds in turn; the next class goes on where the last one ended,
    so that fold sizes differ by one at most. The same seed gives the same folds.
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(codes.size)
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    folds = np.empty(codes.size, dtype=np.int64)
    folds[by_class] = np.arange(codes.size) % n_folds
    return folds


def stratified_blocks(codes: npt.NDArray[np.integer[Any]], n_folds: int) -> IntArray:
    """Return the fold, 0 to `n_folds` - 1, of each row, each class cut into consecutive parts.

    These are the folds of scikit-learn's StratifiedKFold without a shuffle: their sizes differ by one at most, and so
    do the parts of a class.
    """
    counts = np.bincount(codes)
    present = np.flatnonzero(counts)
    first = np.full(counts.size, codes.size)
    first[codes[::-1]] = np.arange(codes.size)[::-1]
    present = present[np.argsort(first[present])]  # classes in the order of their first rows
    folds = np.empty(codes.size, dtype=np.int64)
    fold, start = np.arange(n_folds), 0
    for k in present:  # sizes as if rows went into the folds in turn; the next class goes on where the last one ended
        in_all, more = divmod(int(counts[k]), n_folds)
        folds[codes == k] = np.repeat(fold, in_all + ((fold - start) % n_folds < more))
        start += more
    return folds


def cluster_folds(codes: npt.NDArray[np.integer[Any]], cluster: IntArray, n_folds: int, seed: int) -> IntArray:
    """Return the fold, 0 to `n_folds` - 1, of each row, where no cluster is in two folds.

    Clusters are assigned from the largest to the smallest, equal ones in random order. Each goes into the fold where it
    adds least to the sum over the classes of the squared shares of their rows, which is least where shares are equal.
    """
    n_clusters, n_classes = int(cluster.max()) + 1, int(codes.max()) + 1
    counts = np.bincount(cluster * n_classes + codes, minlength=n_clusters * n_classes).reshape(n_clusters, n_classes)
    share = np.maximum(counts.sum(axis=0), 1)
    order = np.random.default_rng(seed).permutation(n_clusters)
    order = order[np.argsort(-counts[order].sum(axis=1), kind="stable")]
    held = np.zeros((n_folds, n_classes))
    fold_of = np.empty(n_clusters, dtype=np.int64)
    for c in order:
        grown = held + counts[c] / share
        fold_of[c] = np.argmin(np.square(grown).sum(axis=1) - np.square(held).sum(axis=1))
        held[fold_of[c]] = grown[fold_of[c]]
    return fold_of[cluster]


def time_blocks(time: npt.NDArray[Any], n_folds: int) -> IntArray:
    """Return the fold, 0 to `n_folds` - 1, of each row: consecutive parts in the order of time, of near-equal size."""
    folds = np.empty(time.size, dtype=np.int64)
    for fold, block in enumerate(np.array_split(np.argsort(time, kind="stable"), n_folds)):
        folds[block] = fold
    return folds
