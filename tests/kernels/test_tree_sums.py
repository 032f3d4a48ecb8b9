"""The loop over trees: compiled and in Python it gives the same bits, those of a walk row by row."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.maps import TreesMap


def forest(rng: np.random.Generator, n_trees: int, n_columns: int, n_outputs: int) -> TreesMap:
    """Return random trees, of which the last column holds codes and the others numbers."""
    lists: dict[str, list] = {name: [] for name in ("columns", "values", "left", "right", "missing_left", "sizes")}
    codes: list[int] = []

    def add(depth: int) -> int:
        at = len(lists["columns"])
        is_leaf = depth == 0 or rng.random() < 0.2
        column = -1 if is_leaf else int(rng.integers(n_columns))
        own = sorted(rng.choice(60, rng.integers(1, 20), replace=False).tolist()) if column == n_columns - 1 else []
        row = (column, 0.0 if own else float(rng.normal()), -1, -1, int(rng.integers(2)) * (not is_leaf), len(own))
        for name, value in zip(lists, row, strict=True):
            lists[name].append(value)
        codes.extend(own)
        if not is_leaf:
            lists["left"][at] = add(depth - 1)
            lists["right"][at] = add(depth - 1)
        return at

    roots = [add(5) for _ in range(n_trees)]
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
