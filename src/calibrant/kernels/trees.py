"""Sums of trees: which leaf of each tree a row falls into, without a walk down it.

A split takes the leaves of one of its sides from a row. So what a value of a column leaves of a tree is a set of
leaves, which can be looked up, and the one leaf that is in the sets of all columns is the row's. A set of at most 64
leaves is the bits of a word. Lucchese et al. (2015, *QuickScorer*, SIGIR) find the leaf by a set for each split that
fails; here those of a column are joined before there is a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.kernels._jit import compiled
from calibrant.numerics import FloatArray

Int32Array = npt.NDArray[np.int32]
#: Leaves of a tree at most.
MOST_LEAVES = 64
#: A word with one bit set, times this, begins with six bits that say which: those of a de Bruijn sequence.
_SEQUENCE = np.uint64(0x03F79D71B4CB0A89)
#: For each beginning, the bit that is set.
BIT_OF_BEGINNING = np.argsort((np.uint64(1) << np.arange(64, dtype=np.uint64)) * _SEQUENCE >> np.uint64(58))
_BEGINNING = np.uint64(58)
#: Rows whose codes are held at a time: those of a few columns stay in the fastest memory.
_ROWS = 512


class TreeTables(NamedTuple):
    """What is left of each tree by the codes of columns.

    The code of a number is how many edges of its column are below it, that of a level is the level; what is no level
    has the code after theirs, and a missing value the last one of its column. `n_codes` says how many codes a column
    has, and `first_edge` where its `edges` begin. `sets` holds a word for each code of each pair of a tree and a column
    that it looks at: `place` says where those of a pair begin, `pair_column` which of `columns` it is of, `first_pair`
    where the pairs of a tree begin. `leaves` has a row for each tree, its leaves in the order of `BIT_OF_BEGINNING`.
    """

    outputs: Int32Array
    first_pair: Int32Array
    pair_column: Int32Array
    place: npt.NDArray[np.int64]
    sets: npt.NDArray[np.uint64]
    leaves: FloatArray
    columns: Int32Array
    by_level: npt.NDArray[np.bool_]
    n_codes: Int32Array
    first_edge: Int32Array
    edges: FloatArray


@compiled
def sum_trees(values: FloatArray, tables: TreeTables, out: FloatArray) -> None:
    """Add the leaf of each tree that each row of `values` falls into to its output."""
    outputs, first_pair, pair_column, place, sets, leaves, columns, by_level, n_codes, first_edge, edges = tables
    codes = np.empty((columns.size, _ROWS), np.uint16)
    left = np.empty(_ROWS, np.uint64)
    for start in range(0, values.shape[0], _ROWS):
        size = min(_ROWS, values.shape[0] - start)
        for a in range(columns.size):
            c, missing, first, n_edges = columns[a], np.uint16(n_codes[a] - 1), first_edge[a], n_codes[a] - 2
            if by_level[a]:
                for i in range(size):
                    v = values[start + i, c]
                    code = np.uint16(v) if (v >= 0.0) & (v < n_edges) else np.uint16(n_edges)
                    codes[a, i] = code if v == v else missing
            else:
                for i in range(size):
                    v, at, length = values[start + i, c], first, n_edges
                    while length > 1:
                        half = length >> 1
                        at += half if edges[at + half - 1] < v else 0
                        length -= half
                    at += 1 if edges[at] < v else 0
                    codes[a, i] = np.uint16(at - first) if v == v else missing
        for t in range(outputs.size):
            first, last, k = first_pair[t], first_pair[t + 1], outputs[t]
            left[:size] = np.uint64(1) if first == last else ~np.uint64(0)
            for pair in range(first, last):
                own, at_code = codes[pair_column[pair]], sets[place[pair] :]
                for i in range(size):
                    left[i] &= at_code[own[i]]
            leaf = leaves[t]
            for i in range(size):
                out[start + i, k] += leaf[(left[i] * _SEQUENCE) >> _BEGINNING]
