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
def sum_trees(values: FloatArray, nodes: TreeNodes, out: FloatArray) -> None:
    """Add the leaf of each tree that each row of `values` falls into to its output.

    Nodes without a set send what is not above their threshold to the left, without a branch, which the processor would
    guess wrong.
    """
    outputs, roots, column, threshold, left, missing_left, first_word, words = nodes
    n, block = values.shape[0], 128
    for start in range(0, n, block):
        stop = min(start + block, n)
        for t in range(roots.size):
            root, k = roots[t], outputs[t]
            for i in range(start, stop):
                node = root
                c = column[node]
                while c >= 0:
                    v = values[i, c]
                    first = first_word[node]
                    if first < 0:
                        is_left = (v <= threshold[node]) | (missing_left[node] & (v != v))
                    elif v != v:
                        is_left = missing_left[node]
                    else:
                        code = np.int64(v)
                        is_left = ((words[first + (code >> 6)] >> np.uint64(code & 63)) & np.uint64(1)) != 0
                    node = left[node] + (1 - np.int32(is_left))
                    c = column[node]
                out[i, k] += threshold[node]
