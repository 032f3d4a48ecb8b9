"""to_onnx: a fitted calibrator as an ONNX model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant._version import __version__
from calibrant.errors import MissingPackageError, unknown_name
from calibrant.fitted import Fitted
from calibrant.persistence.documents import check_fitted
from calibrant.persistence.files import write_whole
from calibrant.persistence.onnx_builder import IR_VERSION, OPSET, FloatType, OnnxBuilder

FLOAT_TYPES: tuple[FloatType, ...] = ("float64", "float32")
INPUT, OUTPUT = "scores", "probabilities"


def to_onnx(
    calibrator: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    dtype: FloatType = "float64",
    n_columns: int | None = None,
) -> Any:
    """Return a fitted calibrator as an ONNX model, and write it to a file if one is named.

    Parameters
    ----------
    calibrator : fitted calibrator or CalibratedClassifierCV
        Of the latter the classifiers are exported too, by skl2onnx.
    path : str or path-like, optional
        Where to write the model, whole or not at all.
    dtype : {"float64", "float32"}
        Type of the input and of the output. What lies between is computed in float64.
    n_columns : int, optional
        1 (the default) or 2 for a calibrator of two classes: the score of the positive class, or those of both.

    Returns
    -------
    model : onnx.ModelProto
        Its input `scores` has shape (n,) or (n, K), its output `probabilities` the same. Of a CalibratedClassifierCV,
        the input is `X`, shape (n, n_features), and the output has one column per class.

    Raises
    ------
    NotFittedError
        If the calibrator has not been fitted.
    MissingPackageError
        If onnx is not installed, or skl2onnx for a CalibratedClassifierCV.
    CalibrantError
        If an argument can't be used, or a classifier has no form in ONNX.
    OSError
        If the file can't be written.

    Notes
    -----
    What `predict_proba` refuses becomes NaN: a score that is NaN, infinite or, where they are probabilities, outside
    [0, 1], and a row of probabilities whose sum is not within 0.01 of one.

    Steps and knots are found by bisection in float64, so ties and steps are exact: float32 scores give what
    `predict_proba` gives of them, rounded to float32 at the end, also where knots lie closer than float32 can tell.
    Only standard operators of opset 17 are used.

    Examples
    --------
    >>> import calibrant as cb
    >>> calibrator = cb.SigmoidCalibrator(input="score").fit([-2.0, -1.0, 0.5, 1.0], [0, 1, 0, 1])
    >>> model = cb.persistence.to_onnx(calibrator)
    >>> [value.name for value in (*model.graph.input, *model.graph.output)]
    ['scores', 'probabilities']
    """
    if dtype not in FLOAT_TYPES:
        raise unknown_name("dtype", dtype, FLOAT_TYPES)
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise MissingPackageError("ONNX models are built by onnx: pip install 'calibrant[onnx]'") from None
    if hasattr(calibrator, "onnx_model"):  # a classifier, which is exported with what it calibrates
        model = calibrator.onnx_model(dtype)
    else:
        fitted = check_fitted(calibrator, Fitted, "export")
        model = _graph_of(fitted, dtype, n_columns)
    if path is not None:
        write_whole(Path(path), model.SerializeToString(deterministic=True))
    return model


def make_model(b: OnnxBuilder, name: str, inputs: list[Any], outputs: list[Any], opsets: dict[str, int]) -> Any:
    """Return the checked model of a builder's nodes."""
    import onnx

    used = _inputs_of(b.nodes)
    initializers = [each for each in b.initializers if each.name in used]
    graph = onnx.helper.make_graph(b.nodes, name, inputs, outputs, initializers)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    model.producer_name, model.producer_version = "calibrant", __version__
    onnx.checker.check_model(model)
    return model


def _inputs_of(nodes: Sequence[Any]) -> set[str]:
    """Return the names of all tensors that nodes read, in their loops too."""
    own = {name for node in nodes for name in node.input}
    inner = [_inputs_of(a.g.node) for node in nodes for a in node.attribute if a.HasField("g")]
    return own.union(*inner)


def _graph_of(calibrator: Fitted, dtype: FloatType, n_columns: int | None) -> Any:
    import numpy as np
    import onnx

    calibrator.check_exportable()
    width = calibrator.widths[0] if n_columns is None else n_columns
    if n_columns is not None:
        calibrator.check_width(n_columns, f"a model of n_columns={n_columns!r:.20}")
    b = OnnxBuilder(width)
    shape: list[Any] = ["n"] if width == 1 else ["n", width]
    flat = [-1] if width == 1 else [-1, width]
    q = calibrator.usable_formula(b, b.doubles(INPUT, shape=[-1, width]), width)
    b.output(q, OUTPUT, dtype, shape=flat)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [onnx.helper.make_tensor_value_info(name, kind, shape) for name in (INPUT, OUTPUT)]
    return make_model(b, f"calibrant_{type(calibrator).__name__}", ends[:1], ends[1:], {"": OPSET})
