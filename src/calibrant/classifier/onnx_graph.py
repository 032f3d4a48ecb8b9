"""A calibrated classifier as one ONNX graph: its classifiers, their calibrators, and the mean of the pairs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant.calibrators import Calibrator
from calibrant.classifier.pairs import CalibratedPair
from calibrant.errors import DataWarning, InvalidInputError, MissingPackageError
from calibrant.maps import softmax_formula
from calibrant.persistence import OPSET, OUTPUT, FloatType, OnnxBuilder, make_model
from calibrant.terms import Term

INPUT = "X"
_OPSETS = {"": OPSET, "ai.onnx.ml": 3}
_TREES = ("TreeEnsemble",)
#: Operators that compute in float32, whatever their inputs are.
_SINGLE = (*_TREES, "SVM")
#: Scores of the exported classifier within this of a knot count as the knot, which they were when it was fitted.
_ROUNDING = {"float64": 1e-12, "float32": 1e-6}


def classifier_to_onnx(classifier: Any, dtype: FloatType) -> Any:
    """Return a fitted CalibratedClassifierCV as an ONNX model of features, shape (n, n_features)."""
    import onnx

    check_is_fitted(classifier)
    pairs = classifier.calibrated_classifiers_
    for pair in pairs:
        _check_pair(pair)
    n_classes = len(classifier.classes_)
    b = OnnxBuilder(1 if n_classes == 2 else n_classes)
    raw: dict[int, tuple[Term, float]] = {}
    outputs = []
    for pair in pairs:
        if id(pair.estimator) not in raw:
            raw[id(pair.estimator)] = _classifier_output(b, pair, f"classifier_{len(raw)}_")
        scores, b.rounding = raw[id(pair.estimator)]
        outputs.append(_calibrated(b, pair, scores, n_classes))
    mean = b.weighted_total(outputs, np.ones(len(outputs))) / float(len(outputs)) if len(outputs) > 1 else outputs[0]
    b.output(mean, OUTPUT, dtype, shape=[-1, n_classes])
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = {INPUT: ["n", classifier.n_features_in_], OUTPUT: ["n", n_classes]}
    given, made = (onnx.helper.make_tensor_value_info(name, kind, shape) for name, shape in ends.items())
    return make_model(b, "calibrant_CalibratedClassifierCV", [given], [made], _OPSETS)


def _check_pair(pair: Any) -> None:
    if not isinstance(pair, CalibratedPair):
        raise InvalidInputError(
            "a CalibratedClassifierCV of several labels per row can't be exported. Export the calibrator of each "
            "pair, calibrators_, and the classifier by itself."
        )
    if not isinstance(pair.calibrator, Calibrator) or not pair.classes.size == pair.known.size == pair.fitted.size:
        what = "a scikit-learn regressor" if pair.calibrator is not None else "rows of one class"
        if isinstance(pair.calibrator, Calibrator):
            what = f"rows of {pair.fitted.size} of {pair.classes.size} classes"
        raise InvalidInputError(
            f"a pair was calibrated by {what}, which has no form in ONNX. Fit with a calibrator of calibrant on rows "
            "of all classes."
        )


def _calibrated(b: OnnxBuilder, pair: CalibratedPair, raw: Term, n_classes: int) -> Term:
    values = b.clip(raw, 0.0, 1.0) if pair.method.response == "predict_proba" else raw
    if n_classes == 2 and pair.method.is_squashed:
        values = b.expit(values)
    elif pair.method.is_squashed:
        values = softmax_formula(b, values)
    assert isinstance(pair.calibrator, Calibrator)  # noqa: S101 - for the type checker: `_check_pair` has looked
    q = pair.calibrator.usable_formula(b, values, b.n_columns)
    return b.columns([1.0 - q, q]) if n_classes == 2 else q


def _classifier_output(b: OnnxBuilder, pair: CalibratedPair, prefix: str) -> tuple[Term, float]:
    """Add a classifier to the graph; return its scores, of the second class alone of two, and how far they may be off.

    A score that is off by its last bit may lie on the other side of a step.
    """
    import onnx

    estimator = pair.estimator.estimator if isinstance(pair.estimator, FrozenEstimator) else pair.estimator
    model, kind = _converted(estimator, pair.method.response)
    features = b.node("Cast", b.tensor(INPUT), to=kind)
    graph = onnx.compose.add_prefix(model, prefix).graph
    names = {each.name for each in graph.initializer}
    given = next(each.name for each in graph.input if each.name not in names)
    b.nodes.append(onnx.helper.make_node("Identity", [features.payload], [given]))
    b.nodes.extend(graph.node)
    b.initializers.extend(graph.initializer)
    found = graph.output[1]
    dims = found.type.tensor_type.shape.dim
    scores = b.node("Cast", b.tensor(found.name), to=onnx.TensorProto.DOUBLE)
    if pair.classes.size == 2 and len(dims) == 2:
        scores = b.column(scores, 1)
    shaped = b.node("Reshape", scores, b.whole([-1, b.n_columns]))
    is_double = found.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    if is_double and not _has_nodes(graph, _SINGLE):
        return shaped, _ROUNDING["float64"]
    _warn_of_steps(pair, type(_last_step(estimator)).__name__)
    return shaped, _ROUNDING["float32"]


def _warn_of_steps(pair: CalibratedPair, name: str) -> None:
    """Say that scores in single precision may come to lie on the other side of a step."""
    if isinstance(pair.calibrator, Calibrator) and pair.calibrator.map_.has_steps:
        warnings.warn(
            f"ONNX computes the scores of {name} in float32, and the {type(pair.calibrator).__name__} has "
            "steps: scores within 1e-6 of one count as lying on it, and some rows may get the next step's "
            "probability. Compare on your own rows, or fit a smooth calibrator such as 'sigmoid', 'beta' or 'spline'.",
            DataWarning,
            stacklevel=6,
        )


def _converted(estimator: Any, response: str) -> tuple[Any, int]:
    """Return a classifier as an ONNX model, and the type of its features: float64 if it can be."""
    import onnx

    try:
        import skl2onnx
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    except ImportError:
        message = "scikit-learn's classifiers are exported by skl2onnx: pip install 'calibrant[onnx]'"
        raise MissingPackageError(message) from None
    last = _last_step(estimator)
    options: dict[str, bool] = {} if type(last).__name__ == "LinearSVC" else {"zipmap": False}
    if response == "decision_function":
        options["raw_scores"] = True
    problem: Exception | None = None
    for tensor, kind in ((DoubleTensorType, onnx.TensorProto.DOUBLE), (FloatTensorType, onnx.TensorProto.FLOAT)):
        try:
            model = skl2onnx.to_onnx(
                estimator,
                initial_types=[(INPUT, tensor([None, estimator.n_features_in_]))],
                options={id(last): options},
                target_opset=_OPSETS,
            )
            if kind == onnx.TensorProto.DOUBLE and last is estimator and _has_nodes(model.graph, _TREES):
                continue  # scikit-learn's trees read features as float32
        except Exception as error:  # of many kinds; the next type may do
            problem = error
        else:
            return model, kind
    raise InvalidInputError(
        f"{type(last).__name__}.{response} can't be exported: skl2onnx says {str(problem).strip()[:200]!r}. Export the "
        "calibrators by themselves, calibrators_, or take a classifier or a method that it knows."
    ) from problem


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if hasattr(estimator, "steps") else estimator


def _has_nodes(graph: Any, kinds: tuple[str, ...]) -> bool:
    return any(node.op_type.startswith(kinds) for node in graph.node)
