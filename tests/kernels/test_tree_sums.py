"""Sums of trees: looked up by the compiled loop and walked in NumPy they have the same bits, those of a walk by row."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.maps import TreesMap
from calibrant.maps.trees import _Nodes, _tables, _walk


def forest(
    rng: np.random.Generator, n_trees: int, n_columns: int, n_outputs: int, depth: int = 5, steps: int | None = None
) -> TreesMap:
    """Return random trees, of which the last column holds codes and the others numbers.

    Of trees of many leaves, or of numbers with more thresholds than a code has room for, nothing can be looked up.
    """
    lists: dict[str, list] = {name: [] for name in ("columns", "values", "left", "right", "missing_left", "sizes")}
    codes: list[int] = []

    def add(depth: int) -> int:
        at = len(lists["columns"])
        is_leaf = depth == 0 or rng.random() < 0.2
        column = -1 if is_leaf else int(rng.integers(n_columns))
        own = sorted(rng.choice(60, rng.integers(1, 20), replace=False).tolist()) if column == n_columns - 1 else []
        row = (
            column,
            0.0 if own else float(rng.normal() if steps is None else rng.integers(steps)),
            -1,
            -1,
            int(rng.integers(2)) * (not is_leaf),
            len(own),
        )
        for name, value in zip(lists, row, strict=True):
            lists[name].append(value)
        codes.extend(own)
        if not is_leaf:
            lists["left"][at] = add(depth - 1)
            lists["right"][at] = add(depth - 1)
        return at

    roots = [add(depth) for _ in range(n_trees)]
    outputs = np.arange(n_trees) % n_outputs
    whole = {name: np.array(lists[name], dtype=np.int64) for name in lists if name != "values"}
    return TreesMap(
        n_columns,
        n_outputs,
        np.array(roots),
        outputs,
        whole["columns"],
        np.array(lists["values"]),
        whole["left"],
        whole["right"],
        whole["missing_left"],
        whole["sizes"],
        np.array(codes, dtype=np.int64),
    )


def walked(trees: TreesMap, row: np.ndarray) -> np.ndarray:
    """Walk one row through every tree, node by node."""
    out, sets = np.zeros(trees.n_outputs), trees.sets()
    for root, k in zip(trees.roots.tolist(), trees.outputs.tolist(), strict=True):
        node = root
        while trees.columns[node] >= 0:
            value = row[trees.columns[node]]
            if np.isnan(value):
                is_left = bool(trees.missing_left[node])
            elif sets[node]:
                is_left = int(value) in sets[node]
            else:
                is_left = value <= trees.values[node]
            node = int(trees.left[node] if is_left else trees.right[node])
        out[k] += trees.values[node]
    return out


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_rows", [7, 30_000])
def test_all_walks_give_the_same_bits(n_outputs: int, n_rows: int) -> None:
    rng = np.random.default_rng(n_rows + n_outputs)
    trees = forest(rng, 12, 4, n_outputs)
    values = np.column_stack([rng.normal(size=(n_rows, 3)), rng.integers(0, 60, n_rows)])
    values[rng.random(values.shape) < 0.1] = np.nan
    found = trees.apply(values).reshape(n_rows, n_outputs)
    some = range(0, n_rows, max(1, n_rows // 50))
    np.testing.assert_array_equal(found[list(some)], [walked(trees, values[i]) for i in some])


@pytest.mark.parametrize(("depth", "is_looked_up"), [(0, True), (1, True), (6, True), (9, False)])
def test_trees_of_any_size_are_summed(depth: int, is_looked_up: bool) -> None:
    """A single leaf, two, 64, and more than a word has bits; thresholds that many splits share, and rows on them."""
    rng = np.random.default_rng(depth)
    trees = forest(rng, 40, 3, 2, depth, steps=5)
    assert (_tables(trees) is not None) == is_looked_up
    values = rng.integers(-1, 6, (4_000, 3)).astype(float)
    values[:, 2] = rng.choice([0.0, 3.0, 59.0, 63.0, 64.0, 255.0], 4_000)
    values[rng.random(values.shape) < 0.1] = np.nan
    found = trees.apply(values)
    some = range(0, 4_000, 80)
    np.testing.assert_array_equal(found[list(some)], [walked(trees, values[i]) for i in some])


def test_what_is_no_level_is_in_no_set() -> None:
    trees = forest(np.random.default_rng(3), 30, 1, 1)
    odd = np.tile([[-1.0], [256.0], [1e9], [np.inf]], (500, 1))
    assert np.unique(trees.apply(odd)).tolist() == np.unique(trees.apply(odd[:4])).tolist()
    assert trees.apply(odd)[0] == walked(trees, np.array([200.0]))[0], "of which no set here holds the code"


def test_tables_that_would_be_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = forest(np.random.default_rng(5), 20, 3, 1)
    monkeypatch.setattr("calibrant.maps.trees._MOST_SETS", 1_000)
    assert _tables(trees) is None
    monkeypatch.undo()
    monkeypatch.setattr("calibrant.maps.trees._WALKING", 100)
    values = np.random.default_rng(6).normal(size=(3_000, 3))
    values[:, 2] = 3.0
    looked_up, walking = trees.apply(values), np.zeros((3_000, 1))
    _walk(values, _Nodes.of(trees), walking)
    assert looked_up.tobytes() == walking[:, 0].tobytes()
