"""Sums of trees as plain arrays: what gradient boosting finds, without the library that found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from calibrant import kernels
from calibrant.document_field import DocumentField
from calibrant.maps.base import Map
from calibrant.numerics import LARGEST, BoolArray, FloatArray, IntArray
from calibrant.phrases import count
from calibrant.terms import Builder, Term

#: Levels of a category at most, so that a set of them is four words of 64 bits.
MOST_LEVELS = 256
_WORDS = MOST_LEVELS // 64
#: What documents may hold: a tree deeper than this is no tree of ours, and SQL would nest as deeply.
MOST_NODES, MOST_DEPTH = 500_000, 64
#: Rows times trees from which the compiled loop is worth loading; and those that walk side by side without it.
_COMPILED_FROM, _WALKING = 50_000, 500_000
#: Words and edges of a column that the compiled loop looks up at most.
_MOST_SETS, _MOST_EDGES = 1 << 24, 60_000
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
        out = np.zeros((scores.shape[0], self.n_outputs))
        is_many = scores.shape[0] * self.n_trees >= _COMPILED_FROM and kernels.can_compile()
        tables = _kept(self, _TABLES, _tables) if is_many else None
        if tables is None:
            _walk(scores, _kept(self, _NODES, _Nodes.of), out)
        else:
            kernels.sum_trees(np.array(scores, order="C", copy=None), tables, out)
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


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """The nodes of trees one tree after the other, of each level by level: a right child next after the left one.

    A leaf has the column -1, and its value in `threshold`. A node with `first_word` from 0 on holds a set of codes,
    which are bits of `words`, 64 to a word.
    """

    outputs: IntArray
    roots: IntArray
    column: IntArray
    threshold: FloatArray
    left: IntArray
    missing_left: BoolArray
    first_word: IntArray
    words: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, trees: TreesMap) -> Self:
        """Bring the nodes of trees into that order."""
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
        ints = (trees.outputs, place[trees.roots], trees.columns[order])
        missing_left = trees.missing_left[order].astype(np.bool_)
        left = place[trees.left[order]]
        return cls(*ints, trees.values[order], left, missing_left, first_word[order], words)

    def leaves_below(self, own: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return which leaves of its tree are below each node, as bits; `own` holds the bit of each leaf."""
        below, levels = own.copy(), [self.roots]
        while (inner := levels[-1][self.column[levels[-1]] >= 0]).size:
            levels.append(np.concatenate((self.left[inner], self.left[inner] + 1)))
        for level in levels[::-1]:
            inner = level[self.column[level] >= 0]
            below[inner] = below[self.left[inner]] | below[self.left[inner] + 1]
        return below

    def goes_left(self, at: IntArray, edges: FloatArray) -> BoolArray:
        """Return whether each code of a column goes left at nodes that look at it: of edges, or of levels."""
        if self.first_word[at[0]] >= 0:
            words = self.words.reshape(-1, _WORDS)[self.first_word[at] // _WORDS]
            is_left = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : edges.size].astype(np.bool_)
            is_left = np.pad(is_left, ((0, 0), (0, 1)))  # no set holds what is no level
        else:
            is_left = np.arange(edges.size + 1) <= np.searchsorted(edges, self.threshold[at])[:, None]
        return np.column_stack((is_left, self.missing_left[at]))


@dataclass(frozen=True, slots=True, eq=False)
class _ColumnSets:
    """What the codes of one column leave of the trees that look at it: a row of `sets` for each of `of_tree`."""

    column: int
    by_level: bool
    edges: FloatArray
    of_tree: IntArray
    sets: npt.NDArray[np.uint64]


def _tables(trees: TreesMap) -> kernels.TreeTables | None:
    """Return what the compiled loop looks up; None of trees that are too large for it."""
    nodes = _kept(trees, _NODES, _Nodes.of)
    is_leaf = nodes.column < 0
    n_before: IntArray = np.cumsum(is_leaf) - is_leaf
    tree = np.searchsorted(nodes.roots, np.arange(is_leaf.size), side="right") - 1
    rank: IntArray = (n_before - n_before[nodes.roots][tree])[is_leaf]
    if rank.max() >= kernels.MOST_LEAVES:
        return None
    below = np.zeros(is_leaf.size, np.uint64)
    below[is_leaf] = np.uint64(1) << rank.astype(np.uint64)
    leaves = np.zeros((trees.n_trees, kernels.MOST_LEAVES))
    leaves[tree[is_leaf], rank] = nodes.threshold[is_leaf]
    found = _column_sets(nodes, tree, nodes.leaves_below(below))
    return None if found is None else _joined(trees, found, leaves)


def _column_sets(nodes: _Nodes, tree: IntArray, below: npt.NDArray[np.uint64]) -> list[_ColumnSets] | None:
    """Return the sets of each column, numbers and levels apart; None where they are too many."""
    key = np.where(nodes.column < 0, -1, 2 * nodes.column + (nodes.first_word >= 0))
    found: list[_ColumnSets] = []
    n_sets = 0
    for each in np.unique(key[key >= 0]).tolist():
        at = np.flatnonzero(key == each)
        edges = np.arange(float(MOST_LEVELS)) if each % 2 else np.unique(nodes.threshold[at])
        n_sets += at.size * (edges.size + 2)
        if n_sets > _MOST_SETS or edges.size > _MOST_EDGES:
            return None
        left, right = below[nodes.left[at], None], below[nodes.left[at] + 1, None]
        lost = np.where(nodes.goes_left(at, edges), right, left)
        first = np.flatnonzero(np.diff(tree[at], prepend=-1))
        of_tree = tree[at[first]]
        kept = below[nodes.roots[of_tree], None] & ~np.bitwise_or.reduceat(lost, first, axis=0)
        found.append(_ColumnSets(each // 2, each % 2 == 1, edges, of_tree, kept))
    return found


def _joined(trees: TreesMap, columns: list[_ColumnSets], leaves: FloatArray) -> kernels.TreeTables:
    """Return the sets of all columns one after the other, and where those of each tree are."""
    n_codes, n_pairs = [each.sets.shape[1] for each in columns], [each.of_tree.size for each in columns]
    width = np.repeat(n_codes, n_pairs).astype(np.int64)
    pair_tree = np.concatenate([np.empty(0, np.int64), *(each.of_tree for each in columns)])
    by_tree = np.argsort(pair_tree, kind="stable")
    ints = {
        "outputs": trees.outputs,
        "first_pair": np.searchsorted(pair_tree[by_tree], np.arange(trees.n_trees + 1)),
        "pair_column": np.repeat(np.arange(len(columns)), n_pairs)[by_tree],
        "columns": [each.column for each in columns],
        "n_codes": n_codes,
        "first_edge": np.cumsum([0, *(each.edges.size for each in columns)])[:-1],
    }
    return kernels.TreeTables(
        **{name: np.asarray(each, dtype=np.int32) for name, each in ints.items()},
        place=(np.cumsum(width) - width)[by_tree],
        sets=np.concatenate([np.empty(0, np.uint64), *(each.sets.ravel() for each in columns)]),
        leaves=np.ascontiguousarray(leaves[:, kernels.BIT_OF_BEGINNING]),
        by_level=np.array([each.by_level for each in columns], dtype=np.bool_),
        edges=np.concatenate([np.empty(0), *(each.edges for each in columns)]),
    )


_Made = TypeVar("_Made")
#: What trees that have been applied are applied by: it takes longer to make than a few rows take.
_NODES: WeakKeyDictionary[TreesMap, _Nodes] = WeakKeyDictionary()
_TABLES: WeakKeyDictionary[TreesMap, kernels.TreeTables | None] = WeakKeyDictionary()


def _kept(trees: TreesMap, made: WeakKeyDictionary[TreesMap, _Made], make: Callable[[TreesMap], _Made]) -> _Made:
    """Return what was made of these trees before, or make it."""
    if trees not in made:
        made[trees] = make(trees)
    return made[trees]


def _walk(values: FloatArray, nodes: _Nodes, out: FloatArray) -> None:
    """Do in NumPy what the compiled loop does, the same bits: one step of some rows in all trees at a time."""
    n_rows = max(_WALKING // nodes.roots.size, 1)
    for start in range(0, values.shape[0], n_rows):
        _walk_block(values[start : start + n_rows], nodes, out[start : start + n_rows])


def _walk_block(values: FloatArray, nodes: _Nodes, out: FloatArray) -> None:
    """Walk all of these rows down all trees, and add up the leaves."""
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
            is_level = is_set & (v >= 0.0) & (v < MOST_LEVELS)
            code = np.where(is_level, v, 0.0).astype(np.int64)
            word = nodes.words[np.where(is_set, first + (code >> 6), 0)]
            in_set = is_level & ((word >> (code & 63).astype(np.uint64)) & np.uint64(1) != 0)
            is_left = np.where(is_set, in_set, is_left)
        is_left = np.where(is_missing, nodes.missing_left[at], is_left)
        at = np.where(is_inner, nodes.left[at] + ~is_left, at)
    for t, k in enumerate(nodes.outputs.tolist()):
        out[:, k] += nodes.threshold[at[:, t]]
