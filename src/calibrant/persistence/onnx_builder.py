"""Formulas as nodes of an ONNX graph, in float64 and in the standard operators alone.

A term is the name of a tensor of shape (n, 1), or (n, K) for K classes, and each operation a node. Steps and pieces
are found by bisection: log2 of their number nodes, each of which gathers one cut for every row and compares it, so
that ties and steps are exact. The multiplier of coupling by likelihood is found by halving its bracket in a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.numerics import ROW_SUM_TOLERANCE, TINY, FloatArray
from calibrant.terms import Builder, Operation, Term, knot_pieces

FloatType: TypeAlias = Literal["float64", "float32"]
#: Of 2022: what runtimes have had for years.
OPSET = 17
IR_VERSION = 8
_NODES: dict[Operation, str] = {
    "+": "Add",
    "-": "Sub",
    "*": "Mul",
    "/": "Div",
    "<": "Less",
    "<=": "LessOrEqual",
    ">": "Greater",
    ">=": "GreaterOrEqual",
    "case": "Where",
    "least": "Min",
    "greatest": "Max",
    "abs": "Abs",
    "ln": "Log",
    "exp": "Exp",
}
#: Halvings that leave nothing of a bracket of length one.
_HALVINGS = 64


class OnnxBuilder(Builder):
    """Writes terms as nodes of a graph whose scores have `n_columns` columns: K, or 1 for one score."""

    def __init__(self, n_columns: int) -> None:
        import onnx

        self.n_columns = n_columns
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
        """Return the knot beside s where s is within rounding of it."""
        if self.rounding == 0.0 or knots.size == 0:
            return s
        at = self._count(s, knots, "Less")
        beside = [self._constant(np.append(knots[:1], knots)), self._constant(np.append(knots, knots[-1:]))]
        low, high = (self.node("Gather", each, at) for each in beside)
        knot = self.choose(self.abs(s - low) <= self.abs(high - s), low, high)
        reach = self.rounding * self.greatest(self.abs(s), self.number(1.0))
        return self.choose(self.abs(s - knot) <= reach, knot, s)

    def couple_likeliest(self, rates: Term) -> Term:
        """Return the coupled distributions: the multiplier of each row is found by halving its bracket."""
        k = self.n_columns
        total = self.total(rates)
        nothing = self.number(0.0)
        low = self.choose(total > 1.0, 1.0 - 2.0 * total, nothing)
        high = self.choose(total < 1.0, self.number(k / (k - 1.0)), nothing)
        low, high = self._halve(rates, low, high, _HALVINGS + k.bit_length())
        p = self._at_multiplier(rates, 0.5 * (low + high))
        return p / self.total(p)

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
        """Return numbers where the condition holds, else NaN."""
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

    def doubles(self, name: str, *, shape: Sequence[int]) -> Term:
        """Return a tensor of some type as float64 of another shape."""
        as_double = self.node("Cast", self.tensor(name), to=self.onnx.TensorProto.DOUBLE)
        return self.node("Reshape", as_double, self.whole(shape))

    def output(self, a: Term, name: str, kind: FloatType, *, shape: Sequence[int]) -> None:
        """Name a term as an output of the graph, of a type and shape."""
        shaped = self.node("Reshape", a, self.whole(shape))
        to = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.nodes.append(self.onnx.helper.make_node("Cast", [shaped.payload], [name], to=to))

    def _name(self, what: str) -> str:
        self._n_names += 1
        return f"{what}_{self._n_names}"

    def _constant(self, value: npt.NDArray[Any]) -> Term:
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = name = self._name("constant")
            self.initializers.append(self.onnx.numpy_helper.from_array(value, name))
        return self.tensor(self._constants[key])

    def _count(self, s: Term, cuts: FloatArray, comparison: Literal["Less", "LessOrEqual"]) -> Term:
        """Return how many of the sorted cuts are below s, or not above it, by bisection: exact, and few nodes."""
        size = 1 << int(cuts.size).bit_length()
        padded = self._constant(np.concatenate((cuts, np.full(size - 1 - cuts.size, np.inf))))
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
        kinds: tuple[tuple[int, list[int | None]], ...] = (
            (types.INT64, []),
            (types.BOOL, []),
            (types.DOUBLE, [None, 1]),
            (types.DOUBLE, [None, 1]),
        )
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
