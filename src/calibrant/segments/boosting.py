"""Gradient boosting by LightGBM from given margins, and its trees as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.errors import MissingPackageError
from calibrant.maps import TreesMap
from calibrant.numerics import LARGEST, BoolArray, FloatArray
from calibrant.segments.binning import MISSING, Binning

#: What is fitted: probabilities of one class of two, of all classes, or means of numbers.
Task: TypeAlias = Literal["binary", "classes", "mean"]
_OBJECTIVES = {"binary": "cross_entropy", "classes": "multiclass", "mean": "regression"}
_METRICS = {"binary": "cross_entropy", "classes": "multi_logloss", "mean": "l2"}
#: Share of the columns that a split chooses among, drawn at random, and how many they are at least.
_COLUMNS_OF_SPLIT, _LEAST_COLUMNS = 0.5, 4
#: Draws of columns for the first split of a tree, until one of them can be split.
_MOST_DRAWS = 20
#: Values of a fit from which a second thread saves more than it costs.
_THREADED_FROM = 4_000_000


@dataclass(frozen=True, slots=True)
class Size:
    """How large trees are, how far each goes, and how hard its leaves are pulled to nothing."""

    leaves: int
    rate: float
    least_rows: int
    pull: float


@dataclass(frozen=True, eq=False)
class BoostingRows:
    """Rows as boosting takes them: bin codes, margins to begin with, targets and weights."""

    task: Task
    codes: npt.NDArray[np.uint8]
    margins: FloatArray
    target: FloatArray
    weight: FloatArray | None
    categories: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.codes.shape[0])

    @property
    def n_outputs(self) -> int:
        """Number of margins of a row."""
        return 1 if self.margins.ndim == 1 else self.margins.shape[1]

    @property
    def params(self) -> dict[str, Any]:
        """What LightGBM is told of the rows, whatever grows on them."""
        return {
            "max_bin": 255,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1 if self.codes.size < _THREADED_FROM else 0,
            "verbosity": -1,
        }

    @cached_property
    def dataset(self) -> Any:
        """All rows as LightGBM holds them: made once, for parts are copies of it."""
        made = import_lightgbm().Dataset(
            self.numbers(slice(None)),
            self.target,
            weight=self.weight,
            init_score=self.margins.reshape(-1, order="F"),
            categorical_feature=list(self.categories),
            params=self.params,
            free_raw_data=True,
        )
        return made.construct()

    def numbers(self, at: BoolArray | slice) -> npt.NDArray[np.float32]:
        """Return the codes of some rows as LightGBM takes them: NaN where a value is missing."""
        codes = self.codes[at]
        out: npt.NDArray[np.float32] = codes.astype(np.float32)
        out[codes == MISSING] = np.nan
        return out


def import_lightgbm() -> Any:
    """Return the package that finds trees, or say how to install it."""
    try:
        import lightgbm
    except ImportError:
        raise MissingPackageError("segments are found by LightGBM: pip install 'calibrant[segments]'") from None
    return lightgbm


class Boosting:
    """A boosted sum of trees that grows round by round, on all rows or on those that a mask says."""

    def __init__(
        self,
        rows: BoostingRows,
        size: Size,
        *,
        seed: int,
        fitted: BoolArray | None = None,
        n_threads: int | None = None,
    ) -> None:
        self._objective, self._n_outputs = _OBJECTIVES[rows.task], rows.n_outputs
        params = rows.params | {
            "objective": self._objective,
            "metric": _METRICS[rows.task],
            "num_leaves": size.leaves,
            "learning_rate": size.rate,
            "min_data_in_leaf": size.least_rows,
            "lambda_l2": size.pull,
            "feature_fraction_bynode": max(_COLUMNS_OF_SPLIT, min(1.0, _LEAST_COLUMNS / rows.codes.shape[1])),
            "boost_from_average": False,
            "seed": seed,
        }
        params |= {"num_class": rows.n_outputs} if rows.task == "classes" else {}
        params |= {} if n_threads is None else {"num_threads": n_threads}
        self._rows, self._params = rows, params
        train = rows.dataset if fitted is None else self._part(fitted)
        self._booster = import_lightgbm().Booster(params, train)

    def watch(self, held_out: BoolArray) -> None:
        """Measure the loss on other rows after each round."""
        self._booster.add_valid(self._part(held_out), "held out")

    def grow(self) -> bool:
        """Add one round; return whether there was nothing to split, whichever columns were drawn."""
        return all(self._booster.update() for _ in range(_MOST_DRAWS))

    def loss(self) -> float:
        """Return the mean loss on the rows that are watched; of numbers half the squared error."""
        found = float(self._booster.eval_valid()[0][2])
        return 0.5 * found if self._objective == "regression" else found

    def margins(self, at: BoolArray, n_rounds: int) -> FloatArray:
        """Return what the first rounds add to the margins of some rows."""
        made = self._booster.predict(self._rows.numbers(at), raw_score=True, num_iteration=n_rounds)
        return np.asarray(made, dtype=np.float64)

    def trees(self, binning: Binning, n_rounds: int, share: float) -> TreesMap:
        """Return a share of the trees of the first rounds, with the real thresholds of numbers."""
        dumped = self._booster.dump_model(num_iteration=n_rounds)
        return _as_map([tree["tree_structure"] for tree in dumped["tree_info"]], binning, self._n_outputs, share)

    def _part(self, kept: BoolArray) -> Any:
        return self._rows.dataset.subset(np.flatnonzero(kept), params=self._params).construct()


def _as_map(structures: Sequence[dict[str, Any]], binning: Binning, n_outputs: int, share: float) -> TreesMap:
    """Return trees as arrays, each node after its parent, with a share of their leaves' values."""
    nodes = _Nodes(binning, share)
    kept = [(t, nodes.add(each)) for t, each in enumerate(structures) if "split_feature" in each or each["leaf_value"]]
    if not kept:
        kept = [(0, nodes.add({"leaf_value": 0.0}))]
    made = {
        "roots": [root for _, root in kept],
        "outputs": [t % n_outputs for t, _ in kept],
        "columns": nodes.columns,
        "left": nodes.left,
        "right": nodes.right,
        "missing_left": nodes.missing_left,
        "set_sizes": nodes.set_sizes,
        "set_codes": nodes.set_codes,
    }
    arrays = {name: np.array(values, dtype=np.int64) for name, values in made.items()}
    return TreesMap(len(binning.edges), n_outputs, values=np.array(nodes.values), **arrays)


class _Nodes:
    """Collects the nodes of LightGBM's trees."""

    def __init__(self, binning: Binning, share: float) -> None:
        self.binning = binning
        self.share = share
        self.columns: list[int] = []
        self.values: list[float] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.missing_left: list[int] = []
        self.set_sizes: list[int] = []
        self.set_codes: list[int] = []

    def add(self, structure: dict[str, Any]) -> int:
        """Add a tree, depth first, and return its root."""
        root, waiting = len(self.columns), [(structure, -1, self.left)]
        while waiting:
            node, parent, side = waiting.pop()
            at = len(self.columns)
            if parent >= 0:
                side[parent] = at
            self._add_node(node)
            if "split_feature" in node:
                waiting += [(node["right_child"], at, self.right), (node["left_child"], at, self.left)]
        return root

    def _add_node(self, node: dict[str, Any]) -> None:
        column, codes, value, missing_left = -1, [], self.share * float(node.get("leaf_value", 0.0)), False
        if "split_feature" in node:
            column = int(node["split_feature"])
            edges = self.binning.edges[column]
            if edges is None:
                codes = sorted(int(code) for code in str(node["threshold"]).split("||"))
                value = 0.0
            else:
                # above the last bin: what is there goes left, what is missing right
                threshold = float(node["threshold"])
                value = float(edges[int(threshold)]) if threshold < edges.size else LARGEST
                missing_left = _sends_missing_left(node)
        self.columns.append(column)
        self.values.append(value)
        self.left.append(-1)
        self.right.append(-1)
        self.missing_left.append(int(missing_left))
        self.set_sizes.append(len(codes))
        self.set_codes += codes


def _sends_missing_left(node: dict[str, Any]) -> bool:
    """Say where rows without a value go: where the fit saw none, with most of its rows."""
    if node["missing_type"] == "NaN":
        return bool(node["default_left"])
    left, right = (_n_rows(node[f"{side}_child"]) for side in ("left", "right"))
    return left >= right


def _n_rows(node: dict[str, Any]) -> int:
    return int(node.get("internal_count", node.get("leaf_count", 0)))
