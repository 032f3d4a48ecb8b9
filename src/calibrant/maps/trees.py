"""Sums of trees as plain arrays: what gradient boosting finds, without the library that found it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.maps.base import Map
from calibrant.numerics import LARGEST, FloatArray, IntArray
from calibrant.phrases import count
from calibrant.terms import Builder, Term

#: Levels of a category at most, so that a set of them is four words of 64 bits.
MOST_LEVELS = 256
_WORDS = MOST_LEVELS // 64
#: What documents may hold: a tree deeper than this is no tree of ours, and SQL would nest as deeply.
MOST_NODES, MOST_DEPTH = 500_000, 64
#: Rows times trees from which the compiled loop is worth loading.
_COMPILED_FROM = 50_000
_LEAF = -1


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TreesMap(Map):
    """The sum of the leaves that a row of columns falls into, one leaf of each tree.

    Nodes are numbered over all trees, a child after its parent. Node j is a leaf where `columns[j]` is -1, of the value
    `values[j]`. Else a row goes to `left[j]` where its value of that column is at most `values[j]`, or, where
    `set_sizes[j]` is above 0, is one of the next so many codes of `set_codes`; to `right[j]` otherwise; and where it is
    missing (NaN), to the left if `missing_left[j]` is 1. Tree t begins at node `roots[t]`, and adds to output
    `outputs[t]`.
    """

    kind: ClassVar[str] = "trees"
    n_columns: int
    n_outputs: int
    roots: IntArray
    outputs: IntArray
    columns: IntArray
    values: FloatArray
    left: IntArray
    right: IntArray
    missing_left: IntArray
    set_sizes: IntArray
    set_codes: IntArray

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.roots.size

    @property
    def used_columns(self) -> list[int]:
        """The columns that some split looks at, rising."""
        return np.unique(self.columns[self.columns >= 0]).tolist()  # type: ignore[no-any-return]

    def apply(self, scores: FloatArray) -> FloatArray:
        """Return the sums of rows of columns, shape (n,), or (n, K) of K outputs."""
        nodes = _ARRAYS.get(self)
        if nodes is None:
            _ARRAYS[self] = nodes = _node_arrays(self)
        out = np.zeros((scores.shape[0], self.n_outputs))
        if scores.shape[0] * self.n_trees >= _COMPILED_FROM and kernels.can_compile():
            kernels.sum_trees(np.array(scores, order="C", copy=None), nodes, out)
        else:
            _walk(scores, nodes, out)
        return out[:, 0] if self.n_outputs == 1 else out

    def sets(self) -> list[list[int]]:
        """Return the codes of each node's set, empty where it has none."""
        ends = np.cumsum(self.set_sizes)
        return [self.set_codes[end - size : end].tolist() for size, end in zip(self.set_sizes, ends, strict=True)]

    def formula(self, b: Builder, s: Term) -> Term:
        return b.trees({j: b.column(s, j) for j in self.used_columns}, self)

    def describe(self, classes: Sequence[Any]) -> list[str]:  # noqa: ARG002
        n_leaves = int((self.columns < 0).sum())
        return [f"sum of {count(self.n_trees, 'tree')} with {n_leaves:,} leaves"]

    @classmethod
    def from_fields(cls, parts: dict[str, DocumentField]) -> Self:
        """Return trees whose every node is reached in one way, whose numbers are finite, and whose sets are sets."""
        n_columns = parts["n_columns"].integer(minimum=1, maximum=100_000)
        n_outputs = parts["n_outputs"].integer(minimum=1, maximum=100_000)
        values = parts["values"].numbers()
        n = values.size
        if n > MOST_NODES:
            parts["values"].refuse(f"holds more than {MOST_NODES:,} nodes")
        roots = parts["roots"].integers(minimum=0, maximum=n - 1)
        outputs = parts["outputs"].integers(minimum=0, maximum=n_outputs - 1)
        _check_size(outputs, roots.size, parts["outputs"], "tree")
        highest = {"columns": n_columns - 1, "left": n - 1, "right": n - 1, "missing_left": 1, "set_sizes": MOST_LEVELS}
        arrays = {}
        for name, high in highest.items():
            low = 0 if name in ("missing_left", "set_sizes") else _LEAF
            arrays[name] = parts[name].integers(minimum=low, maximum=high)
            _check_size(arrays[name], n, parts[name], "node")
        codes = parts["set_codes"].integers(minimum=0, maximum=MOST_LEVELS - 1, shortest=0)
        made = cls(n_columns, n_outputs, roots, outputs, values=values, set_codes=codes, **arrays)
        _check_nodes(made, parts)
        return made


def _check_size(found: IntArray, n: int, field: DocumentField, each: str) -> None:
    if found.size != n:
        field.refuse(f"does not go with {count(n, each)}: one number each is needed")


def _check_nodes(trees: TreesMap, parts: dict[str, DocumentField]) -> None:
    """Refuse what is no forest: cycles, nodes of two parents or none, depths without end, and wrong sets."""
    n, is_leaf = trees.values.size, trees.columns == _LEAF
    at = np.arange(n)
    for name, child in (("left", trees.left), ("right", trees.right)):
        if (child[is_leaf] != _LEAF).any():
            parts[name].refuse("gives a leaf a child")
        if (child <= at)[~is_leaf].any():
            parts[name].refuse("has a child that does not come after its parent")
    inner = np.flatnonzero(~is_leaf)
    reached = np.concatenate((trees.roots, trees.left[inner], trees.right[inner]))
    if (np.bincount(reached, minlength=n) != 1).any():
        parts["left"].refuse("has nodes that are reached in two ways, or in none")
    level, depth = trees.roots, 0
    while (level := level[~is_leaf[level]]).size:
        level, depth = np.concatenate((trees.left[level], trees.right[level])), depth + 1
        if depth > MOST_DEPTH:
            parts["left"].refuse(f"makes trees deeper than {MOST_DEPTH}")
    if (trees.set_sizes[is_leaf] > 0).any() or int(trees.set_sizes.sum()) != trees.set_codes.size:
        parts["set_sizes"].refuse("does not go with set_codes and columns")
    of_node = np.repeat(at, trees.set_sizes)
    if ((np.diff(trees.set_codes) <= 0) & (np.diff(of_node) == 0)).any():
        parts["set_codes"].refuse("holds a set whose codes don't rise")
    largest = np.abs(trees.values[is_leaf]).max()
    if not float(largest) * trees.n_trees < LARGEST:
        parts["values"].refuse("has leaves whose sum float64 can't hold")


def _node_arrays(trees: TreesMap) -> kernels.TreeNodes:
    """Return the nodes in the order of the compiled loop: of each tree level by level."""
    tree = np.zeros(trees.columns.size, dtype=np.int64)
    tree[trees.roots] = np.arange(trees.n_trees)
    levels = [trees.roots]
    while (inner := levels[-1][trees.columns[levels[-1]] >= 0]).size:
        levels.append(np.stack((trees.left[inner], trees.right[inner]), axis=1).ravel())
        tree[levels[-1]] = np.repeat(tree[inner], 2)
    order = np.concatenate(levels)
    order = order[np.argsort(tree[order], kind="stable")]
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    is_set = trees.set_sizes > 0
    first_word = np.where(is_set, (np.cumsum(is_set) - 1) * _WORDS, -1)
    words = np.zeros(int(is_set.sum()) * _WORDS, np.uint64)
    of_code = np.repeat(first_word, trees.set_sizes) + (trees.set_codes >> 6)
    np.bitwise_or.at(words, of_code, np.uint64(1) << (trees.set_codes & 63).astype(np.uint64))
    ints = (trees.outputs, place[trees.roots], trees.columns[order], place[trees.left[order]], first_word[order])
    outputs, roots, column, left, first = (each.astype(np.int32) for each in ints)
    missing_left = trees.missing_left[order].astype(np.bool_)
    return kernels.TreeNodes(outputs, roots, column, trees.values[order], left, missing_left, first, words)


#: The arrays of trees that have been applied: they take longer to make than a few rows take.
_ARRAYS: WeakKeyDictionary[TreesMap, kernels.TreeNodes] = WeakKeyDictionary()


def _walk(values: FloatArray, nodes: kernels.TreeNodes, out: FloatArray) -> None:
    """Do in NumPy what the compiled loop does: one step of all rows in all trees at a time, the same bits."""
    rows = np.arange(values.shape[0])[:, None]
    at = np.repeat(nodes.roots[None, :], values.shape[0], axis=0)
    has_sets = nodes.words.size > 0
    while (is_inner := (column := nodes.column[at]) >= 0).any():
        v = values[rows, column]
        is_missing = np.isnan(v)
        is_left = v <= nodes.threshold[at]
        if has_sets:
            first = nodes.first_word[at]
            is_set = first >= 0
            code = np.where(is_set & ~is_missing, v, 0.0).astype(np.int64)
            word = nodes.words[np.where(is_set, first + (code >> 6), 0)]
            is_left = np.where(is_set, (word >> (code & 63).astype(np.uint64)) & np.uint64(1) != 0, is_left)
        is_left = np.where(is_missing, nodes.missing_left[at], is_left)
        at = np.where(is_inner, nodes.left[at] + ~is_left, at)
    for t, k in enumerate(nodes.outputs.tolist()):
        out[:, k] += nodes.threshold[at[:, t]]
