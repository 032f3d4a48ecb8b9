"""Formulas as SQL expressions: what is used more than once becomes a column of an earlier select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.maps import StepMap
from calibrant.numerics import FloatArray
from calibrant.persistence.export.sql_query import Expression, KnotTable, Query
from calibrant.persistence.export.terms import Builder, Comparison, Operator, Term, knot_pieces

#: exp of this stays far inside the range of float64; 1 / (1 + exp) of it is below 1e-304.
_FAR = 700.0
#: Nearer to zero than this, products could leave the range of float64 below.
_NOTHING = 1e-150
_MOST_TERMS = 50
_PIECES_PER_BLOCK = 16


class SqlBuilder(Builder):
    """Terms are tuples of expressions: one, or one for each class.

    Parameters
    ----------
    query : Query
    largest_case : int
        Steps and pieces beyond this number are read from a table instead of a tree of cases.
    """

    def __init__(self, query: Query, largest_case: int) -> None:
        self.query = query
        self.exp = query.exp
        self.largest_case = largest_case

    def number(self, value: float | FloatArray) -> Term:
        return Term(self, tuple(self._number(v) for v in np.atleast_1d(value).tolist()))

    def combine(self, operator: Operator, a: Term, b: Term) -> Term:
        kind = {"+": self.exp.Add, "-": self.exp.Sub, "*": self.exp.Mul, "/": self.exp.Div}[operator]
        return self._each(lambda x, y: self._binary(kind, x, y), a, b)

    def compare(self, comparison: Comparison, a: Term, b: Term) -> Term:
        kinds = {"<": self.exp.LT, "<=": self.exp.LTE, "==": self.exp.EQ, ">": self.exp.GT}
        return self._each(lambda x, y: kinds[comparison](this=self._inner(x), expression=self._inner(y)), a, b)

    def choose(self, condition: Term, yes: Term, no: Term) -> Term:
        return self._each(self._case, condition, yes, no)

    def least(self, a: Term, b: Term) -> Term:
        return self._each(lambda x, y: self._extreme("least", [x, y]), a, b)

    def greatest(self, a: Term, b: Term) -> Term:
        return self._each(lambda x, y: self._extreme("greatest", [x, y]), a, b)

    def ln(self, a: Term) -> Term:
        return self._each(lambda x: self.exp.Ln(this=_use(x)), a)

    def exp_of(self, x: Expression) -> Expression:
        return self.exp.Exp(this=x)

    def exp(self, a: Term) -> Term:  # type: ignore[override]
        return a
