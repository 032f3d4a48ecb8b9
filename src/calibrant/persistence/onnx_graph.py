"""to_onnx: a fitted calibrator as an ONNX model, in float64 and in the standard operators alone.

A term of a formula is the name of a tensor of shape (n, 1), or (n, K) for K classes, and each operation a node. Steps
and pieces are found by bisection: log2 of their number nodes, each of which gathers one cut for every row and compares
it, so that ties and steps are exact. The multiplier of coupling by likelihood is found by halving its bracket.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from calibrant._version import __version__
from calibrant.applicable import Applicable
from calibrant.errors import InvalidInputError, MissingPackageError, unknown_name
from calibrant.numerics import LARGEST, ROW_SUM_TOLERANCE, TINY, FloatArray
from calibrant.persistence.documents import check_fitted
from calibrant.persistence.files import write_whole
from calibrant.phrases import has_half_pair
from calibrant.terms import Builder, Operation, Term, knot_pieces
from calibrant.validation import check_integer

FloatType: TypeAlias = Literal["float64", "float32"]
FLOAT_TYPES: tuple[FloatType, ...] = get_args(FloatType)
INPUT, OUTPUT = "scores", "probabilities"
#: Of 2022: what runtimes have had for years.
OPSET = 17
IR_VERSION = 8
_NODES: dict[str, str] = (
    {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "abs": "Abs", "ln": "Log", "exp": "Exp"}
    | {"<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual"}
    | {"least": "Min", "greatest": "Max", "case": "Where"}
)
#: What holds trees and encoders of text: the operators for learned models, of 2024.
_ML, _ML_OPSET = "ai.onnx.ml", 5
#: Comparisons of nodes of trees.
_IS_AT_MOST, _IS_MEMBER = 0, 6
#: Halvings that leave nothing of a bracket of length one.
_HALVINGS = 64


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
        Its input `scores` has shape (n,) or (n, K), its output `probabilities` the same, which is called `predictions`
        of a calibrator of numbers. What was fitted to features
        has an input of shape (n,) for each that it needs, under the name of the column: text where the levels are text,
        else float64, whatever `dtype` is. Of a CalibratedClassifierCV,
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
    A float64 score that is rounded to float32 before may come to lie beyond a step. The classifiers of a
    CalibratedClassifierCV are computed as ONNX has them, which is float32 for trees and support vector machines:
    probabilities of smooth calibrators then differ by some 1e-6, those of steep ones by more, and next to a step by as
    much as the step. A DataWarning says so where there are steps.

    Only standard operators of opset 17 are used; for segments also those of opset 5 of ``ai.onnx.ml``, of 2024, such as
    TreeEnsemble in float64. Of a feature, NaN, infinity and a level that the fit has not seen are missing values, and
    so is any text that is no level. Whole-number levels from 2**53 on are refused.

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
        model = _graph_of(check_fitted(calibrator, Applicable, "export"), dtype, n_columns)
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


def _graph_of(calibrator: Applicable, dtype: FloatType, n_columns: int | None) -> Any:
    import onnx

    calibrator.check_exportable()
    width = calibrator.widths[0] if n_columns is None else n_columns
    if n_columns is not None:
        check_integer("n_columns", n_columns, minimum=1)
        calibrator.check_width(n_columns, f"a model of n_columns={n_columns!r:.20}")
    b = OnnxBuilder(width, calibrator.feature_names, output=calibrator.makes)
    shape: list[Any] = ["n"] if width == 1 else ["n", width]
    flat = [-1] if width == 1 else [-1, width]
    scores = b.node("Cast", b.tensor(INPUT), to=onnx.TensorProto.DOUBLE)
    q = calibrator.usable_formula(b, b.node("Reshape", scores, b.whole([-1, width])), width)
    b.output(q, calibrator.makes, dtype, shape=flat)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [onnx.helper.make_tensor_value_info(name, kind, shape) for name in (INPUT, calibrator.makes)]
    inputs = [ends[0], *(b.feature_inputs[name] for name in calibrator.feature_names)]
    return make_model(b, f"calibrant_{type(calibrator).__name__}", inputs, ends[1:], b.opsets)


def _check_names(features: Sequence[str], output: str) -> frozenset[str]:
    """Return the names of features, or refuse one that no input can have."""
    for name in features:
        if name in (INPUT, output):
            raise InvalidInputError(
                f"a feature has the name {name!r}, which the model has for its {name}. Fit to a column of another name."
            )
        if not name or has_half_pair(name):
            raise InvalidInputError(f"a feature has the name {name!r}, which no input can have. Rename the column.")
    return frozenset(features)


class OnnxBuilder(Builder):
    """Writes terms as nodes of a graph whose scores have `n_columns` columns: K, or 1 for one score.

    `features` are names that inputs have, so that no tensor between gets one.
    """

    def __init__(self, n_columns: int, features: Sequence[str] = (), *, output: str = OUTPUT) -> None:
        import onnx

        self.n_columns = n_columns
        #: The inputs of features that formulas have asked for, and the operators that they need.
        self.feature_inputs: dict[str, Any] = {}
        self.opsets = {"": OPSET}
        self._taken = _check_names(features, output)
        #: How far, relative to what is above 1, scores may have been moved by rounding.
        self.rounding = 0.0
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._n_names = 0

    # --- the operations of formulas ------------------------------------------------------------------------------

    def number(self, value: float | FloatArray) -> Term:
        return self._constant(np.asarray(value, dtype=np.float64))

    def each(self, operation: Operation, *terms: Term) -> Term:
        return self.node(_NODES[operation], *terms)

    def expit(self, a: Term) -> Term:
        e = self.exp(self.node("Neg", self.abs(a)))
        return self.choose(a < 0.0, e, self.number(1.0)) / (1.0 + e)

    def total(self, a: Term) -> Term:
        return self.node("ReduceSum", a, self.whole([1]), keepdims=1)

    def largest(self, a: Term) -> Term:
        return self.node("ReduceMax", a, axes=[1], keepdims=1)

    def is_first_largest(self, a: Term) -> Term:
        first = self.node("ArgMax", a, axis=1, keepdims=1)
        return self.node("Equal", first, self._constant(np.arange(self.n_columns)))

    def column(self, a: Term, k: int) -> Term:
        return self.node("Gather", a, self.whole([k]), axis=1)

    def columns(self, parts: Sequence[Term]) -> Term:
        return self.node("Concat", *parts, axis=1)

    def linear(self, a: Term, matrix: FloatArray) -> Term:
        return self.node("MatMul", a, self._constant(np.ascontiguousarray(matrix.T)))

    def step(self, s: Term, edges: FloatArray, levels: FloatArray) -> Term:
        return self.node("Gather", self._constant(levels), self._count(s, edges, "Less"))

    def interpolate(self, s: Term, x: FloatArray, y: FloatArray) -> Term:
        unit, *pieces = knot_pieces(x, y)
        at = self._count(s, x[1:-1], "LessOrEqual")
        read = [self.node("Gather", self._constant(each), at) for each in (*pieces, y[:-1], y[1:])]
        start, inverse_width, rise, left, right = read
        value = left + (((s if unit == 1.0 else unit * s) - start) * inverse_width) * rise
        if (pieces[2] < 0.0).any():
            value = self.choose(rise > 0.0, self.least(value, right), self.greatest(value, right))
        else:
            value = self.least(value, right)
        value = self.choose(s < float(x[-1]), value, self.number(float(y[-1])))
        return self.choose(s > float(x[0]), value, self.number(float(y[0])))

    def near(self, s: Term, knots: FloatArray) -> Term:
        if self.rounding == 0.0 or knots.size == 0:
            return s
        at = self._count(s, knots, "Less")
        beside = [self._constant(np.append(knots[:1], knots)), self._constant(np.append(knots, knots[-1:]))]
        low, high = (self.node("Gather", each, at) for each in beside)
        knot = self.choose(self.abs(s - low) <= self.abs(high - s), low, high)
        reach = self.rounding * self.greatest(self.abs(s), self.number(1.0))
        return self.choose(self.abs(s - knot) <= reach, knot, s)

    def couple_likeliest(self, rates: Term) -> Term:
        k = self.n_columns
        total = self.total(rates)
        nothing = self.number(0.0)
        low = self.choose(total > 1.0, 1.0 - 2.0 * total, nothing)
        high = self.choose(total < 1.0, self.number(k / (k - 1.0)), nothing)
        low, high = self._halve(rates, low, high, _HALVINGS + k.bit_length())
        p = self._at_multiplier(rates, 0.5 * (low + high))
        return p / self.total(p)

    # --- features and trees --------------------------------------------------------------------------------------

    def feature(self, name: str, levels: npt.NDArray[Any] | None) -> Term:
        types = self.onnx.TensorProto
        is_text = levels is not None and levels.dtype.kind == "O"
        kind = types.STRING if is_text else types.DOUBLE
        self.feature_inputs[name] = self.onnx.helper.make_tensor_value_info(name, kind, ["n"])
        given, column, missing = self.tensor(name), self.whole([-1, 1]), self.number(np.nan)
        if levels is not None and is_text:
            self.opsets[_ML] = _ML_OPSET
            known = levels.tolist() or [""]
            codes = np.arange(len(known)) if levels.size else [np.nan]
            texts = {"keys_strings": known, "values_floats": np.array(codes, dtype=np.float32).tolist()}
            code = self.node("LabelEncoder", given, domain=_ML, default_float=np.nan, **texts)
            return self.node("Reshape", self.node("Cast", code, to=types.DOUBLE), column)
        x = self.node("Reshape", given, column)
        if levels is None:
            return self.choose(self.abs(x) <= LARGEST, x, missing)
        numbers = levels.astype(np.float64)
        at = self._count(x, numbers, "Less")
        level = self.node("Gather", self._constant(np.append(numbers, np.nan)), at)
        return self.choose(self.node("Equal", level, x), self.node("Cast", at, to=types.DOUBLE), missing)

    def trees(self, columns: Mapping[int, Term], trees: Any) -> Term:
        is_leaf = trees.columns < 0
        inner, leaves, bare = np.flatnonzero(~is_leaf), np.flatnonzero(is_leaf), is_leaf[trees.roots]
        constant = np.bincount(trees.outputs[bare], trees.values[trees.roots[bare]], trees.n_outputs).astype(np.float64)
        if inner.size == 0:
            return self.number(constant)
        self.opsets[_ML] = _ML_OPSET
        output = np.zeros(is_leaf.size, dtype=np.int64)
        output[trees.roots] = trees.outputs
        for node in inner.tolist():  # parents come first
            output[trees.left[node]] = output[trees.right[node]] = output[node]
        place = np.where(is_leaf, np.cumsum(is_leaf), np.cumsum(~is_leaf)) - 1
        is_set = trees.set_sizes[inner] > 0
        members = [np.append(codes, np.nan) for codes in trees.sets() if codes]
        tensors = {
            "nodes_modes": np.where(is_set, _IS_MEMBER, _IS_AT_MOST).astype(np.uint8),
            "nodes_splits": trees.values[inner],
            "leaf_weights": trees.values[leaves],
            **({"membership_values": np.concatenate(members)} if members else {}),
        }
        whole = {
            "tree_roots": place[trees.roots[~bare]],
            "nodes_featureids": np.searchsorted(sorted(columns), trees.columns[inner]),
            "nodes_truenodeids": place[trees.left[inner]],
            "nodes_trueleafs": is_leaf[trees.left[inner]],
            "nodes_falsenodeids": place[trees.right[inner]],
            "nodes_falseleafs": is_leaf[trees.right[inner]],
            "nodes_missing_value_tracks_true": trees.missing_left[inner],
            "leaf_targetids": output[leaves],
        }
        x = self.node("Concat", *(columns[j] for j in sorted(columns)), axis=1)
        total = self.node(
            "TreeEnsemble",
            x,
            domain=_ML,
            n_targets=trees.n_outputs,
            **{name: self.onnx.numpy_helper.from_array(values, name) for name, values in tensors.items()},
            **{name: values.astype(np.int64).tolist() for name, values in whole.items()},
        )
        return total + self.number(constant) if constant.any() else total

    # --- rows that can be used -----------------------------------------------------------------------------------

    def usable(self, scores: Term, low: float, high: float, *, sums_to_one: bool) -> Term:
        is_within = self.node("And", scores >= low, scores <= high)
        count = self.total(self.node("Cast", is_within, to=self.onnx.TensorProto.DOUBLE))
        is_usable = count > self.n_columns - 0.5
        if sums_to_one:
            gap = self.abs(self.total(scores) - 1.0)
            is_usable = self.node("And", is_usable, gap <= ROW_SUM_TOLERANCE)
        return is_usable

    def only_where(self, condition: Term, a: Term) -> Term:
        return self.choose(condition, a, self.number(np.nan))

    # --- graphs --------------------------------------------------------------------------------------------------

    def node(self, operator: str, *inputs: Term, **attributes: Any) -> Term:
        """Add a node and return its output."""
        name = self._name(operator)
        self.nodes.append(self.onnx.helper.make_node(operator, [term.payload for term in inputs], [name], **attributes))
        return Term(self, name)

    def whole(self, values: Sequence[int]) -> Term:
        """Return whole numbers, such as a shape."""
        return self._constant(np.array(values, dtype=np.int64))

    def tensor(self, name: str) -> Term:
        """Return a tensor that is there, such as an input."""
        return Term(self, name)

    def output(self, a: Term, name: str, kind: FloatType, *, shape: Sequence[int]) -> None:
        """Name a term as an output of the graph, of a type and shape."""
        shaped = self.node("Reshape", a, self.whole(shape))
        to = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.nodes.append(self.onnx.helper.make_node("Cast", [shaped.payload], [name], to=to))

    def _name(self, what: str) -> str:
        self._n_names += 1
        name = f"{what}_{self._n_names}"
        return self._name(what) if name in self._taken else name

    def _constant(self, value: npt.NDArray[Any]) -> Term:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = name = self._name("constant")
            self.initializers.append(self.onnx.numpy_helper.from_array(value, name))
        return self.tensor(self._constants[key])

    def _count(self, s: Term, cuts: FloatArray, comparison: Literal["Less", "LessOrEqual"]) -> Term:
        """Return how many of the sorted cuts are below s, or not above it, by bisection: exact, and few nodes."""
        size = 1 << int(cuts.size).bit_length()
        padded = self._constant(np.concatenate((cuts, np.full(size - 1 - cuts.size, np.nan))))  # below nothing
        count = self.node("Cast", s < s, to=self.onnx.TensorProto.INT64)  # zeros, of NaN too
        half = size // 2
        while half:
            cut = self.node("Gather", padded, self.node("Add", count, self._constant(np.array(half - 1))))
            is_below = self.node("Cast", self.node(comparison, cut, s), to=self.onnx.TensorProto.INT64)
            count = self.node("Add", count, self.node("Mul", is_below, self._constant(np.array(half))))
            half //= 2
        return count

    # --- coupling by likelihood ----------------------------------------------------------------------------------

    def _halve(self, rates: Term, low: Term, high: Term, n_times: int) -> tuple[Term, Term]:
        """Return the bracket of the multiplier after halving it so often, in a loop."""
        helper, types = self.onnx.helper, self.onnx.TensorProto
        names = [self._name(what) for what in ("turn", "going", "low", "high")]
        outer, self.nodes = self.nodes, []
        below, above = self.tensor(names[2]), self.tensor(names[3])
        middle = 0.5 * (below + above)
        is_high = self.total(self._at_multiplier(rates, middle)) > 1.0
        ends = [self.choose(is_high, below, middle), self.choose(is_high, middle, above)]
        going = self.node("Identity", self.tensor(names[1]))
        bound = (types.DOUBLE, [None, 1])
        kinds: tuple[tuple[int, list[Any]], ...] = ((types.INT64, []), (types.BOOL, []), bound, bound)
        inputs = [helper.make_tensor_value_info(name, *kind) for name, kind in zip(names, kinds, strict=True)]
        results = [going, *ends]
        outputs = [helper.make_tensor_value_info(r.payload, *kind) for r, kind in zip(results, kinds[1:], strict=True)]
        body = helper.make_graph(self.nodes, self._name("halve"), inputs, outputs)
        self.nodes = outer
        found = [self._name("low"), self._name("high")]
        given = [self._constant(np.array(n_times)), self._constant(np.array(True)), low, high]
        self.nodes.append(helper.make_node("Loop", [term.payload for term in given], found, body=body))
        return self.tensor(found[0]), self.tensor(found[1])

    def _at_multiplier(self, rates: Term, mu: Term) -> Term:
        """Return p for the multiplier of each row: `calibrant.maps.coupling` has the same root."""
        is_above = mu > 0.0
        away = self.choose(is_above, 1.0 - mu, 1.0 + mu)
        side = self.choose(is_above, rates, 1.0 - rates)
        root = self.node("Sqrt", away * away + 4.0 * self.abs(mu) * side)
        below = 2.0 * rates / self.greatest(1.0 - mu + root, self.number(TINY))
        above = (mu - 1.0 + root) / (2.0 * self.greatest(mu, self.number(0.5)))
        return self.least(self.choose(mu <= 1.0, below, above), self.number(1.0))
