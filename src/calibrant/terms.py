"""What formulas are written in: terms that a builder turns into SQL or into nodes of an ONNX graph.

A map says what it does once, by arithmetic on terms: ``b.expit(self.slope * s + self.intercept)``. The builder decides
what that becomes in its engine.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray

#: What is done to numbers one by one. "case" takes a condition, and the numbers where it holds and where not.
Operation: TypeAlias = Literal[
    "+", "-", "*", "/", "<", "<=", ">", ">=", "case", "least", "greatest", "abs", "ln", "exp"
]


def _operator(operation: Operation, *, is_swapped: bool = False) -> Callable[[Term, Term | float], Term]:
    """Return the method of a term that stands for an operation with another one, or with a number."""

    def apply(self: Term, other: Term | float) -> Term:
        pair = (self, self.term(other))
        return self.builder.each(operation, *(reversed(pair) if is_swapped else pair))

    return apply


class Term:
    """A quantity of every row: one number or condition, or one for each class.

    Terms of one number go with terms of one for each class as columns of a table do in NumPy.
    """

    __slots__ = ("builder", "payload")

    def __init__(self, builder: Builder, payload: Any) -> None:
        self.builder = builder
        self.payload = payload

    __add__, __radd__ = _operator("+"), _operator("+", is_swapped=True)
    __sub__, __rsub__ = _operator("-"), _operator("-", is_swapped=True)
    __mul__, __rmul__ = _operator("*"), _operator("*", is_swapped=True)
    __truediv__ = _operator("/")
    __lt__, __le__ = _operator("<"), _operator("<=")
    __gt__, __ge__ = _operator(">"), _operator(">=")

    def term(self, value: Term | float) -> Term:
        """Return a term as it is, and a number as a constant."""
        return value if isinstance(value, Term) else self.builder.number(value)


class Builder(ABC):
    """Turns formulas into the language of an engine."""

    @abstractmethod
    def number(self, value: float | FloatArray) -> Term:
        """Return a constant, or one for each class."""

    @abstractmethod
    def each(self, operation: Operation, *terms: Term) -> Term:
        """Return an operation on the numbers of each row, and of each class where a term has one for each."""

    def choose(self, condition: Term, yes: Term, no: Term) -> Term:
        """Return `yes` where the condition holds, else `no`, which may not be defined there."""
        return self.each("case", condition, yes, no)

    def least(self, a: Term, b: Term) -> Term:
        """Return the smaller one."""
        return self.each("least", a, b)

    def greatest(self, a: Term, b: Term) -> Term:
        """Return the larger one."""
        return self.each("greatest", a, b)

    def abs(self, a: Term) -> Term:
        """Return the size without the sign."""
        return self.each("abs", a)

    def ln(self, a: Term) -> Term:
        """Return the natural logarithm of positive numbers."""
        return self.each("ln", a)

    def exp(self, a: Term) -> Term:
        """Return e to the power of numbers that are not positive."""
        return self.each("exp", a)

    @abstractmethod
    def expit(self, a: Term) -> Term:
        """Return 1 / (1 + exp(-a)) without overflow."""

    @abstractmethod
    def total(self, a: Term) -> Term:
        """Return the sum over the classes."""

    @abstractmethod
    def largest(self, a: Term) -> Term:
        """Return the largest over the classes."""

    @abstractmethod
    def is_first_largest(self, a: Term) -> Term:
        """Return for each class whether it is the first of the classes with the largest number."""

    @abstractmethod
    def column(self, a: Term, k: int) -> Term:
        """Return the number of class k."""

    @abstractmethod
    def columns(self, parts: Sequence[Term]) -> Term:
        """Return one number of each class, from as many terms."""

    @abstractmethod
    def linear(self, a: Term, matrix: FloatArray) -> Term:
        """Return sum_j matrix[k, j] a_j for each class k."""

    @abstractmethod
    def step(self, s: Term, edges: FloatArray, levels: FloatArray) -> Term:
        """Return `levels[j]` for s in (edges[j - 1], edges[j]]; the outer steps are unbounded."""

    @abstractmethod
    def interpolate(self, s: Term, x: FloatArray, y: FloatArray) -> Term:
        """Return y interpolated at s between at least two knots, flat outside them, as `calibrant.maps.tables` does."""

    @abstractmethod
    def couple_likeliest(self, rates: Term) -> Term:
        """Return the distributions that go with one-vs-rest rates, as `calibrant.maps.most_likely` does."""

    @abstractmethod
    def usable(self, scores: Term, low: float, high: float, *, sums_to_one: bool) -> Term:
        """Return the condition that the scores of a row are numbers in [low, high], and sum to one where they must."""

    @abstractmethod
    def only_where(self, condition: Term, a: Term) -> Term:
        """Return numbers where the condition holds, else what stands for a missing number."""

    @abstractmethod
    def feature(self, name: str, levels: npt.NDArray[Any] | None) -> Term:
        """Return a column of features: numbers, or the place in `levels` of each level of a category.

        What is missing, or is none of the levels, is a missing number.
        """

    @abstractmethod
    def trees(self, columns: Mapping[int, Term], trees: Any) -> Term:
        """Return the sums of `trees`, a `calibrant.maps.TreesMap`, of each row of the columns that it uses."""

    def hold(self, a: Term) -> Term:
        """Return the same term, computed once however often it is used."""
        return a

    def hold_within(self, a: Term, low: float, high: float) -> Term:  # noqa: ARG002
        """Return a term that is kept in [low, high] where the engine would fail further out."""
        return a

    def near(self, s: Term, knots: FloatArray) -> Term:  # noqa: ARG002
        """Return s, or the knot beside it where another engine's rounding may have moved s off that knot."""
        return s

    def clip(self, a: Term, low: float, high: float) -> Term:
        """Return the term moved into [low, high]."""
        return self.least(self.greatest(a, self.number(low)), self.number(high))

    def weighted_total(self, parts: Sequence[Term], weights: FloatArray) -> Term:
        """Return the sum of terms, each times its weight."""
        return reduce(operator.add, (float(weight) * part for weight, part in zip(weights, parts, strict=True)))


def knot_pieces(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return the unit, and of each piece between knots the start, the inverse width and the rise, as they are applied.

    The value at s is y + ((unit * s - start) * inverse width) * rise, held at the upper knot's y.
    """
    with np.errstate(over="ignore", divide="ignore"):
        unit = 1.0 if np.isfinite(x[-1] - x[0]) else 0.5  # halves: distances may exceed the range of float64
        inverse_width = 1.0 / np.diff(unit * x)
    inverse_width[np.isinf(inverse_width)] = 0.0  # knots a subnormal apart
    return unit, unit * x[:-1], inverse_width, np.diff(y)
