"""Sums of trees: each row walks from the root of every tree to a leaf."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

Int32Array = npt.NDArray[np.int32]


class TreeNodes(NamedTuple):
    """The nodes of trees, tree by tree: `roots` and `outputs` have an entry for each tree, the others for each node.

    A leaf has the column -1, and its value in `threshold`. The right child of a node comes next after its left one. A
    node with `first_word` from 0 on holds a set of codes, which are bits of `words`, 64 to a word.
    """

    outputs: Int32Array
    roots: Int32Array
    column: Int32Array
    threshold: FloatArray
    left: Int32Array
    missing_left: npt.NDArray[np.bool_]
    first_word: Int32Array
    words: npt.NDArray[np.uint64]


@compiled
def _place_in_set(v: float, first: int) -> np.int64:
    """Return which bit of all words says whether a code is in the set of a node; any bit for what is no code."""
    code = np.int64(v) if (first >= 0) & (v == v) else np.int64(0)
    return np.int64(max(first, 0) << 6) + code


@compiled
def _goes_left(v: float, limit: float, is_set: bool, in_set: bool, if_missing: bool) -> bool:
    """Say whether a value goes left at a node: without a branch, which the processor would guess wrong."""
    is_left = in_set if is_set else v <= limit
    return is_left if v == v else if_missing


@compiled
def sum_trees(values: FloatArray, nodes: TreeNodes, out: FloatArray) -> None:
    """Add the leaf of each tree that each row of `values` falls into to its output.

    The rows of a block walk down a tree side by side, a step of each at a time, so that the processor needn't end one
    row's step to begin the next one's. Rows that have reached a leaf leave the list. All begin at the root, whose
    figures are read once.
    """
    outputs, roots, column, threshold, left, missing_left, first_word, words = nodes
    n, block = values.shape[0], 256
    walking, at = np.empty(block, np.int32), np.empty(block, np.int32)
    for start in range(0, n, block):
        size = min(block, n - start)
        for t in range(roots.size):
            root, k, n_left = roots[t], outputs[t], 0
            c = column[root]
            if c < 0:
                at[:size] = root
            else:
                limit, first, if_missing, child = threshold[root], first_word[root], missing_left[root], left[root]
                for i in range(size):
                    v = values[start + i, c]
                    in_set = False
                    if words.size > 0:
                        place = _place_in_set(v, first)
                        in_set = (words[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) != 0
                    node = child + (1 - np.int32(_goes_left(v, limit, first >= 0, in_set, if_missing)))
                    at[i] = node
                    walking[n_left] = i
                    n_left += column[node] >= 0
            while n_left > 0:
                n_inner = 0
                for j in range(n_left):
                    i = walking[j]
                    node = at[i]
                    v, first = values[start + i, column[node]], first_word[node]
                    in_set = False
                    if words.size > 0:
                        place = _place_in_set(v, first)
                        in_set = (words[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) != 0
                    is_left = _goes_left(v, threshold[node], first >= 0, in_set, missing_left[node])
                    node = left[node] + (1 - np.int32(is_left))
                    at[i] = node
                    walking[n_inner] = i
                    n_inner += column[node] >= 0
                n_left = n_inner
            for i in range(size):
                out[start + i, k] += threshold[at[i]]
