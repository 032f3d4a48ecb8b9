"""The bundle of a run as one ONNX model: from features to the probabilities that the run is judged by.

Trees of all libraries become the arrays of ONNX's TreeEnsembleRegressor, with their thresholds in double precision:
XGBoost's and CatBoost's of features rounded to single precision, as these libraries read them. What the trees add up to
is rounded to single precision by that operator; all that follows (softmax, class weights, calibrators, the average of
several models) is in double.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError, MissingPackageError
from calibrant.maps import softmax_formula
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.persistence import OPSET, OUTPUT, OnnxBuilder, make_model, write_whole
from calibrant.phrases import listed
from calibrant.terms import Term
from calibrant.training.model_base import Model

INPUT = "X"
_DOMAIN = "ai.onnx.ml"
_OPSETS = {"": OPSET, _DOMAIN: 3}
#: Probabilities within this of a step of a calibrator count as lying on it: so far may trees in ONNX be off.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree as arrays, a number per node; node 0 is the root.

    Attributes
    ----------
    feature : ndarray of shape (m,)
    threshold : ndarray of shape (m,)
    if_true, if_false : ndarray of shape (m,)
        Where a row goes next.
    is_leaf : ndarray of shape (m,)
    missing_is_true : ndarray of shape (m,)
        Whether a missing feature counts as one that passes the test.
    value : ndarray of shape (m, k)
        What a leaf adds to each of the `targets`.
    targets : sequence of int
    """

    feature: IntArray
    threshold: FloatArray
    if_true: IntArray
    if_false: IntArray
    is_leaf: BoolArray
    missing_is_true: BoolArray
    value: FloatArray
    targets: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees whose leaves add up to a margin for each class, or for the second of two alone.

    `test` is what a feature has to pass at a node: "LT", "LEQ" or "GT" its threshold.
    """

    trees: Sequence[Tree]
    base: FloatArray
    test: str
    is_single: bool = False


def bundle_to_onnx(bundle: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Return the bundle of a run as an ONNX model, and write it to a file if one is named.

    Parameters
    ----------
    bundle : Bundle
        Of models of xgboost, lightgbm, catboost, hist_gradient_boosting or logistic.
    path : path-like, optional
        Where to write the model, whole or not at all.

    Returns
    -------
    onnx.ModelProto
        Its input `X` holds the features in the order of ``bundle.features``, shape (n, d), in float64; its output
        `probabilities` has shape (n, K). Names of features and classes are in its metadata.

    Raises
    ------
    InvalidInputError
        If a model or a calibrator has no form in ONNX.
    MissingPackageError
        If onnx is not installed.
    OSError
        If the file can't be written.

    Notes
    -----
    Probabilities differ from those of `Bundle.predict_proba` by less than 1e-6, as trees are added up in another order
    and precision; of a calibrator with steps a row that lies on one may get the next step's.
    """
    try:
        import onnx
    except ImportError:
        raise MissingPackageError("ONNX models are built by onnx: pip install 'calibrant[onnx]'") from None
    n_features, n_classes = len(bundle.features), bundle.classes.size
    b = OnnxBuilder(n_classes)
    b.rounding = _ROUNDING
    X = b.node("Cast", b.tensor(INPUT), to=onnx.TensorProto.DOUBLE)
    found = []
    for member in bundle.members:
        member.calibrator.check_exportable()
        raw = _probabilities(b, X, member.model, n_classes)
        found.append(member.calibrator.usable_formula(b, raw, n_classes))
    mean = b.weighted_total(found, np.ones(len(found))) / float(len(found)) if len(found) > 1 else found[0]
    b.output(mean, OUTPUT, "float64", shape=[-1, n_classes])
    ends: dict[str, list[Any]] = {INPUT: ["n", n_features], OUTPUT: ["n", n_classes]}
    given, made = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, shape) for name, shape in ends.items()
    )
    model = make_model(b, "calibrant_Bundle", [given], [made], _OPSETS)
    facts = {"features": list(bundle.features), "classes": bundle.classes.tolist(), "run": bundle.run_id}
    onnx.helper.set_model_props(model, {name: json.dumps(value) for name, value in facts.items()})
    if path is not None:
        write_whole(Path(path), model.SerializeToString(deterministic=True))
    return model


def check_model_name(name: str) -> None:
    """Refuse a model that has no form in ONNX, before it is read."""
    if name != "logistic" and name not in _FORESTS:
        raise _no_form(name)


def _no_form(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"a model {name!r} has no form in ONNX here: {listed(['logistic', *_FORESTS])} have. Export the model by its "
        "own library, and its checkpoints/calibrator.json by calibrant export."
    )


def _probabilities(b: OnnxBuilder, X: Term, model: Model, n_classes: int) -> Term:
    """Return what a model says of features, a column for each class."""
    if model.name == "logistic":
        margins = _logistic(b, X, model, n_classes)
    elif model.name in _FORESTS:
        margins = _added_up(b, X, _FORESTS[model.name](model, n_classes))
    else:
        raise _no_form(model.name)
    if n_classes == 2 and model.name in ("logistic", "hist_gradient_boosting"):
        q = b.expit(margins)
        return b.columns([1.0 - q, q])
    return softmax_formula(b, margins)


def _logistic(b: OnnxBuilder, X: Term, model: Model, n_classes: int) -> Term:
    scaler, logistic = (step for _, step in model.model_.steps)
    _check_classes(logistic.classes_, n_classes)
    z = (X - b.number(scaler.mean_)) / b.number(scaler.scale_)
    return b.linear(z, logistic.coef_) + b.number(logistic.intercept_)


def _added_up(b: OnnxBuilder, X: Term, forest: Forest) -> Term:
    """Return the margins of a forest: what its operator adds up, and the base."""
    onnx, types = b.onnx, b.onnx.TensorProto
    if forest.is_single:
        X = b.node("Cast", b.node("Cast", X, to=types.FLOAT), to=types.DOUBLE)
    trees, sizes = forest.trees, [tree.feature.size for tree in forest.trees]
    node_ids = np.concatenate([np.arange(size) for size in sizes])
    is_leaf = np.concatenate([tree.is_leaf for tree in trees])
    leaves = [
        (t, node, k) for t, tree in enumerate(trees) for node in np.flatnonzero(tree.is_leaf) for k in tree.targets
    ]
    weights = np.concatenate([tree.value[tree.is_leaf].ravel() for tree in trees])

    def joined(name: str) -> list[int]:
        return [int(value) for value in np.concatenate([getattr(tree, name) for tree in trees])]

    def doubles(name: str, values: FloatArray) -> Any:
        return onnx.numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float64), name)

    threshold = np.where(is_leaf, 0.0, np.concatenate([tree.threshold for tree in trees]))
    margins = b.node(
        "TreeEnsembleRegressor",
        X,
        domain=_DOMAIN,
        n_targets=forest.base.size,
        nodes_treeids=np.repeat(np.arange(len(trees)), sizes).tolist(),
        nodes_nodeids=node_ids.tolist(),
        nodes_featureids=joined("feature"),
        nodes_modes=["LEAF" if leaf else f"BRANCH_{forest.test}" for leaf in is_leaf],
        nodes_values_as_tensor=doubles("thresholds", threshold),
        nodes_truenodeids=joined("if_true"),
        nodes_falsenodeids=joined("if_false"),
        nodes_missing_value_tracks_true=joined("missing_is_true"),
        target_treeids=[t for t, _, _ in leaves],
        target_nodeids=[int(node) for _, node, _ in leaves],
        target_ids=[int(k) for _, _, k in leaves],
        target_weights_as_tensor=doubles("weights", weights),
    )
    return b.node("Cast", margins, to=types.DOUBLE) + b.number(forest.base)


def _of_xgboost(model: Model, n_classes: int) -> Forest:
    learner = json.loads(bytes(model.model_.save_raw("json")))["learner"]
    booster, objective = learner["gradient_booster"], learner["objective"]["name"]
    if (booster["name"], objective) != ("gbtree", "multi:softprob"):
        _refuse(f"the booster {booster['name']!r} with the objective {objective!r}")
    base = np.asarray(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float64)
    trees = []
    for tree, target in zip(booster["model"]["trees"], booster["model"]["tree_info"], strict=True):
        if any(tree["split_type"]) or int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
            _refuse("splits by category, or a leaf with several values")
        left, values = np.array(tree["left_children"]), np.array(tree["split_conditions"], dtype=np.float32)
        is_leaf = left == -1
        trees.append(
            Tree(
                feature=np.array(tree["split_indices"]),
                threshold=values.astype(np.float64),
                if_true=np.where(is_leaf, 0, left),
                if_false=np.where(is_leaf, 0, tree["right_children"]),
                is_leaf=is_leaf,
                missing_is_true=np.array(tree["default_left"], dtype=bool),
                value=values.astype(np.float64)[:, None],
                targets=[int(target)],
            )
        )
    return Forest(trees, np.broadcast_to(base, n_classes), "LT", is_single=True)


def _of_lightgbm(model: Model, n_classes: int) -> Forest:
    document = model.model_.dump_model(num_iteration=model.n_rounds_)
    objective = document["objective"].partition(" ")[0]
    if objective != "multiclass" or document["average_output"] or document["num_class"] != n_classes:
        _refuse(f"the objective {objective!r}, or trees that are averaged")
    trees = []
    for number, tree in enumerate(document["tree_info"]):
        nodes: list[dict[str, Any]] = []
        children: list[tuple[int, int]] = []
        waiting = [tree["tree_structure"]]
        while waiting:  # children come after their parents, in the order in which they are met
            node = waiting.pop(0)
            nodes.append(node)
            if "leaf_value" in node:
                children.append((0, 0))
                continue
            if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
                _refuse("splits by category, or a zero that counts as missing")
            first = len(nodes) + len(waiting)
            children.append((first, first + 1))
            waiting += [node["left_child"], node["right_child"]]
        if any("leaf_coeff" in node for node in nodes):
            _refuse("leaves with a linear model")
        threshold = np.array([node.get("threshold", 0.0) for node in nodes])
        missing = [
            bool(node["default_left"]) if node.get("missing_type") == "NaN" else node.get("threshold", 0.0) >= 0.0
            for node in nodes  # where nothing was missing in training, a missing value counts as 0
        ]
        trees.append(
            Tree(
                feature=np.array([node.get("split_feature", 0) for node in nodes]),
                threshold=threshold,
                if_true=np.array([left for left, _ in children]),
                if_false=np.array([right for _, right in children]),
                is_leaf=np.array(["leaf_value" in node for node in nodes]),
                missing_is_true=np.array(missing),
                value=np.array([[node.get("leaf_value", 0.0)] for node in nodes]),
                targets=[number % n_classes],
            )
        )
    return Forest(trees, np.zeros(n_classes), "LEQ")


def _of_catboost(model: Model, n_classes: int) -> Forest:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.model_.save_model(str(path), format="json")
        document = json.loads(path.read_text("utf-8"))
    if "oblivious_trees" not in document or document["features_info"].get("categorical_features"):
        _refuse("trees that are not symmetric, or splits by category")
    place = {each["feature_index"]: each["flat_feature_index"] for each in document["features_info"]["float_features"]}
    is_above = {
        each["feature_index"]: each.get("nan_value_treatment") == "AsTrue"
        for each in document["features_info"]["float_features"]
    }
    scale, base = document["scale_and_bias"]
    trees = []
    for tree in document["oblivious_trees"]:
        splits = tree["splits"] or []
        depth = len(splits)
        level = np.concatenate([np.full(2**j, j) for j in range(depth + 1)])
        node, is_leaf = np.arange(level.size), level == depth
        split = [splits[j] if j < depth else None for j in level]
        # the leaf's number has bit j set where the split of level j is passed
        leaf = np.zeros(level.size, dtype=np.int64)
        for i in range(2**depth - 1):
            leaf[2 * i + 1], leaf[2 * i + 2] = leaf[i], leaf[i] + 2 ** level[i]
        feature = [0 if one is None else one["float_feature_index"] for one in split]
        values = np.asarray(tree["leaf_values"]).reshape(2**depth, n_classes) * scale
        trees.append(
            Tree(
                feature=np.array([place.get(index, 0) for index in feature]),
                threshold=np.array(
                    [0.0 if one is None else np.float32(one["border"]) for one in split], dtype=np.float64
                ),
                if_true=np.where(is_leaf, 0, 2 * node + 2),
                if_false=np.where(is_leaf, 0, 2 * node + 1),
                is_leaf=is_leaf,
                missing_is_true=np.array([is_above.get(index, False) for index in feature]),
                value=np.where(is_leaf[:, None], values[np.where(is_leaf, leaf, 0)], 0.0),
                targets=range(n_classes),
            )
        )
    return Forest(trees, np.broadcast_to(np.asarray(base, dtype=np.float64), n_classes), "GT", is_single=True)


def _of_hist_gradient_boosting(model: Model, n_classes: int) -> Forest:
    fitted = model.model_
    _check_classes(fitted.classes_, n_classes)
    trees = []
    for target, predictor in chain.from_iterable(enumerate(step) for step in fitted._predictors):
        nodes = predictor.nodes
        if nodes["is_categorical"].any():
            _refuse("splits by category")
        trees.append(
            Tree(
                feature=nodes["feature_idx"].astype(np.int64),
                threshold=nodes["num_threshold"],
                if_true=nodes["left"].astype(np.int64),
                if_false=nodes["right"].astype(np.int64),
                is_leaf=nodes["is_leaf"].astype(bool),
                missing_is_true=nodes["missing_go_to_left"].astype(bool),
                value=nodes["value"][:, None],
                targets=[target],
            )
        )
    return Forest(trees, np.asarray(fitted._baseline_prediction, dtype=np.float64).ravel(), "LEQ")


def _check_classes(classes: npt.NDArray[Any], n_classes: int) -> None:
    if classes.size != n_classes:
        _refuse(f"training rows of {classes.size} of {n_classes} classes")


def _refuse(what: str) -> None:
    raise InvalidInputError(
        f"a model with {what} has no form in ONNX here. Export it by its own library, and its checkpoints/"
        "calibrator.json by calibrant export."
    )


_FORESTS: dict[str, Callable[[Model, int], Forest]] = {
    "xgboost": _of_xgboost,
    "lightgbm": _of_lightgbm,
    "catboost": _of_catboost,
    "hist_gradient_boosting": _of_hist_gradient_boosting,
}
