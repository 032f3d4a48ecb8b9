"""Formulas as SQL expressions: what is used more than once becomes a column of an earlier select."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.numerics import ROW_SUM_TOLERANCE, FloatArray
from calibrant.persistence.sql_query import Expression, KnotTable, Query
from calibrant.terms import Builder, Comparison, Operator, Term, knot_pieces

#: Where engines refuse what leaves the range of float64, exp is taken of [-700, 700] only.
_FAR = 700.0
#: There, numbers of the table nearer to zero than this are zero in products.
_NOTHING = 1e-150
_LEAST_SHARE = 1e-280
#: Terms of one sum or arguments of one function.
_MOST_TERMS = 64
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
        from sqlglot import Dialect

        self.query = query
        self.dialect = query.dialect
        self.largest_case = largest_case
        self._sql = query.exp
        self._division = {
            "typed": Dialect.get_or_raise(self.dialect.name).TYPED_DIVISION,
            "safe": Dialect.get_or_raise(self.dialect.name).SAFE_DIVISION,
        }

    # --- the operations of formulas ------------------------------------------------------------------------------

    def number(self, value: float | FloatArray) -> Term:
        """Return a constant, or one for each class."""
        return Term(self, tuple(self.literal(v) for v in np.atleast_1d(value).tolist()))

    def combine(self, operator: Operator, a: Term, b: Term) -> Term:
        """Return the sum, difference, product or quotient."""
        return self._each(lambda x, y: self._arithmetic(operator, x, y), a, b)

    def compare(self, comparison: Comparison, a: Term, b: Term) -> Term:
        """Return a condition."""
        return self._each(lambda x, y: self._comparison(comparison, x, y), a, b)

    def choose(self, condition: Term, yes: Term, no: Term) -> Term:
        """Return a case."""
        return self._each(self.case, condition, yes, no)

    def least(self, a: Term, b: Term) -> Term:
        """Return the smaller one."""
        return self._each(lambda x, y: self._extreme("LEAST", [x, y]), a, b)

    def greatest(self, a: Term, b: Term) -> Term:
        """Return the larger one."""
        return self._each(lambda x, y: self._extreme("GREATEST", [x, y]), a, b)

    def ln(self, a: Term) -> Term:
        """Return the natural logarithm."""
        return self._each(lambda x: self._sql.Ln(this=_use(x)), a)

    def exp(self, a: Term) -> Term:
        """Return e to the power of numbers that are not positive."""
        held = self.greatest(a, self.number(-_FAR)) if self.dialect.is_strict else a
        return self._each(lambda x: self._sql.Exp(this=_use(x)), held)

    def expit(self, a: Term) -> Term:
        """Return 1 / (1 + exp(-a)): infinity gives 0, as it should."""
        held = self.clip(a, -_FAR, _FAR) if self.dialect.is_strict else a
        e = self._each(lambda x: self._sql.Exp(this=self._sql.Neg(this=self._inner(x))), held)
        return self.number(1.0) / (self.number(1.0) + e)

    def total(self, a: Term) -> Term:
        """Return the sum over the classes."""
        parts = list(self.hold(a).payload)
        while len(parts) > _MOST_TERMS:
            parts = [self.query.define(self._sum(chunk)) for chunk in _chunks(parts)]
        return self.hold(Term(self, (self._sum(parts),)))

    def largest(self, a: Term) -> Term:
        """Return the largest over the classes."""
        parts = list(self.hold(a).payload)
        while len(parts) > _MOST_TERMS:
            parts = [self.query.define(self._extreme("GREATEST", chunk)) for chunk in _chunks(parts)]
        return self.hold(Term(self, (self._extreme("GREATEST", parts),)))

    def is_first_largest(self, a: Term) -> Term:
        """Return for each class whether it is the first with the largest number."""
        (top,) = self.largest(a).payload
        ifs = [
            self._sql.If(this=self._sql.GTE(this=_use(p), expression=_use(top)), true=self._integer(k))
            for k, p in enumerate(self.hold(a).payload)
        ]
        first = self.query.define(self._sql.Case(ifs=ifs))
        n = len(a.payload)
        return Term(self, tuple(self._sql.EQ(this=first.copy(), expression=self._integer(k)) for k in range(n)))

    def column(self, a: Term, k: int) -> Term:
        """Return the number of class k."""
        return Term(self, (a.payload[k],))

    def columns(self, parts: Sequence[Term]) -> Term:
        """Return one number of each class."""
        return Term(self, tuple(part.payload[0] for part in parts))

    def linear(self, a: Term, matrix: FloatArray) -> Term:
        """Return sum_j matrix[k, j] a_j for each class k."""
        z = self._in_products(self.hold(a)).payload
        rows = []
        for row in matrix.tolist():
            parts = [self._arithmetic("*", self.literal(w), x) for w, x in zip(row, z, strict=True)]
            while len(parts) > _MOST_TERMS:
                parts = [self.query.define(self._sum(chunk)) for chunk in _chunks(parts)]
            rows.append(self._sum(parts))
        return Term(self, tuple(rows))

    def step(self, s: Term, edges: FloatArray, levels: FloatArray) -> Term:
        """Return the level of the step that s lies in: a tree of cases, or a table."""
        written, cuts = [self.literal(level) for level in levels.tolist()], edges.tolist()
        if not cuts:
            return Term(self, (written[0],))
        (held,) = self.hold(s).payload
        if len(cuts) <= self.largest_case:
            return self.hold(Term(self, (self._tree(held, cuts, written, "<="),)))
        (level,) = self._read(held, edges, [written[1:-1]], is_upper_in=True)
        return Term(self, (self._outside(held, cuts, (written[0], level, written[-1]), ("<=", ">")),))

    def interpolate(self, s: Term, x: FloatArray, y: FloatArray) -> Term:
        """Return y interpolated at s: a tree of cases over the pieces, or a table of them."""
        unit, start, inverse_width, rise = knot_pieces(x, y)
        (held,) = self.hold(s).payload
        (plain,) = self._in_products(Term(self, (held,))).payload
        scaled = plain if unit == 1.0 else self.query.define(self._arithmetic("*", self.literal(unit), plain))
        first, last = self.literal(float(y[0])), self.literal(float(y[-1]))
        if rise.size <= self.largest_case:
            rows = np.column_stack((start, inverse_width, rise, y[:-1], y[1:])).tolist()
            pieces = [
                self._piece(scaled, list(map(self.literal, row)), rises=row[2], least_gap=self._gap(row[1]))
                for row in rows
            ]
            inner = self._tree(held, x[1:-1].tolist(), pieces, "<")
        else:
            columns = (start, inverse_width, rise, y[:-1], y[1:])
            read = self._read(held, x, [[self.literal(v) for v in c.tolist()] for c in columns], is_upper_in=False)
            inner = self._piece(scaled, read, rises=float(rise.max()), is_mixed=bool((rise < 0.0).any()))
        return self.hold(Term(self, (self._outside(held, x.tolist(), (first, inner, last), ("<=", ">=")),)))

    def couple_likeliest(self, rates: Term) -> NoReturn:  # noqa: ARG002
        """Refuse: the multiplier of a row has no closed form."""
        raise InvalidInputError(
            "coupling='likelihood' has no closed form, and SQL can't iterate for each row. Fit with "
            "coupling='normalise', or export to ONNX, which can."
        )

    def hold(self, a: Term) -> Term:
        """Return columns of an earlier select."""
        return Term(self, tuple(self.query.define(x) for x in a.payload))

    def hold_within(self, a: Term, low: float, high: float) -> Term:
        """Return a term that is kept in [low, high] where the engine would fail further out."""
        return self.clip(self._in_products(a), low, high) if self.dialect.is_strict else a

    # --- rows that can be used --------------------------------------------------------------------------------------

    def source(self, column: Expression, low: float, high: float) -> Expression:
        """Return a column of the table as float64, NULL where it is outside [low, high], NaN or no number."""
        double = self._sql.cast(column, "double")
        is_within = self._sql.Between(this=double, low=self.literal(low), high=self.literal(high))
        if self.dialect.name == "sqlite":  # which reads any text as a number
            kind = self._sql.Anonymous(this="TYPEOF", expressions=[column.copy()])
            is_number = self._sql.In(this=kind, expressions=[self._sql.Literal.string(t) for t in ("real", "integer")])
            is_within = self._sql.And(this=is_number, expression=is_within)
        return self.query.source(self.case(is_within, double.copy()))

    def usable(self, scores: Term, low: float, high: float, *, sums_to_one: bool) -> Term:  # noqa: ARG002
        """Return the condition that `predict_proba` takes a row; `source` has made NULL of what is out of range."""
        if sums_to_one:
            (gap,) = (self.total(scores) - 1.0).payload
            size = self._sql.Anonymous(this="ABS", expressions=[gap])
            return self._flag(self._comparison("<=", size, self.literal(ROW_SUM_TOLERANCE)))
        known = [self._sql.Not(this=self._sql.Is(this=_use(x), expression=self._sql.Null())) for x in scores.payload]
        return self._flag(self._sql.and_(*known, copy=False)) if len(known) > 1 else Term(self, tuple(known))

    def only_where(self, condition: Term, a: Term) -> Term:
        """Return numbers where the condition holds, else NULL."""
        return self._each(lambda c, x: self.case(c.copy(), x), condition, a)

    def _flag(self, condition: Expression) -> Term:
        """Return a condition that is found once."""
        flag = self.query.define(self.case(condition, self._integer(1)))
        return Term(self, (self._sql.EQ(this=flag, expression=self._integer(1)),))

    # --- expressions ---------------------------------------------------------------------------------------------

    def literal(self, value: float) -> Expression:
        """Return a float64 as it is."""
        return self._sql.Literal(this=self.dialect.double(value), is_string=False)

    def case(self, condition: Expression, yes: Expression, no: Expression | None = None) -> Expression:
        """Return `yes` where the condition holds, else `no`, or NULL."""
        parts: dict[str, Any] = {} if no is None else {"default": _use(no)}
        return self._sql.Case(ifs=[self._sql.If(this=condition, true=_use(yes))], **parts)

    def _integer(self, value: int) -> Expression:
        return self._sql.Literal.number(value)

    def _each(self, make: Callable[..., Expression], *terms: Term) -> Term:
        width = max(len(term.payload) for term in terms)
        columns = [term.payload if len(term.payload) == width else term.payload * width for term in terms]
        return Term(self, tuple(make(*parts) for parts in zip(*columns, strict=True)))

    def _arithmetic(self, operator: Operator, a: Expression, b: Expression) -> Expression:
        match operator:
            case "+":
                return self._sql.Add(this=_use(a), expression=self._inner(b))
            case "-":
                return self._sql.Sub(this=_use(a), expression=self._inner(b))
            case "*":
                return self._sql.Mul(this=self._inner(a), expression=self._inner(b))
            case "/":
                return self._sql.Div(this=self._inner(a), expression=self._inner(b), **self._division)

    def _comparison(self, comparison: Comparison, a: Expression, b: Expression) -> Expression:
        kinds = {"<": self._sql.LT, "<=": self._sql.LTE, "==": self._sql.EQ, ">": self._sql.GT, ">=": self._sql.GTE}
        return kinds[comparison](this=self._inner(a), expression=self._inner(b))

    def _inner(self, a: Expression) -> Expression:
        return self._sql.Paren(this=a) if isinstance(a, self._sql.Binary) else _use(a)

    def _sum(self, parts: Sequence[Expression]) -> Expression:
        total = parts[0]
        for part in parts[1:]:
            total = self._arithmetic("+", total, part)
        return total

    def _extreme(self, name: str, parts: Sequence[Expression]) -> Expression:
        if self.dialect.name == "sqlite":
            name = {"LEAST": "MIN", "GREATEST": "MAX"}[name]
        return self._sql.Anonymous(this=name, expressions=[_use(part) for part in parts])

    def _in_products(self, a: Term) -> Term:
        """Return numbers of the table without those so near to zero that products of them may be refused."""
        if not self.dialect.is_strict:
            return a
        return self._each(self._without_nothing, a)

    def _without_nothing(self, x: Expression) -> Expression:
        if not self.query.is_source(x):
            return x
        size = self._sql.Anonymous(this="ABS", expressions=[x.copy()])
        is_nothing = self._comparison("<", size, self.literal(_NOTHING))
        return self.query.define(self.case(is_nothing, self.literal(0.0), x))

    # --- tables of steps and knots -------------------------------------------------------------------------------

    def _tree(
        self, s: Expression, cuts: Sequence[float], leaves: Sequence[Expression], comparison: Comparison
    ) -> Expression:
        """Return the leaf between the two cuts around s, by halving; leaf i goes up to cut i."""
        if len(leaves) == 1:
            return leaves[0]
        middle = (len(leaves) - 1) // 2
        return self.case(
            self._comparison(comparison, s, self.literal(cuts[middle])),
            self._tree(s, cuts[:middle], leaves[: middle + 1], comparison),
            self._tree(s, cuts[middle + 1 :], leaves[middle + 1 :], comparison),
        )

    def _outside(
        self,
        s: Expression,
        cuts: Sequence[float],
        values: tuple[Expression, Expression, Expression],
        comparisons: tuple[Comparison, Comparison],
    ) -> Expression:
        """Return the first or the last value beyond the outer cuts, else the one in the middle."""
        low = self._sql.If(this=self._comparison(comparisons[0], s, self.literal(cuts[0])), true=values[0])
        high = self._sql.If(this=self._comparison(comparisons[1], s, self.literal(cuts[-1])), true=values[2])
        return self._sql.Case(ifs=[low, high], default=values[1])

    def _piece(
        self,
        s: Expression,
        piece: Sequence[Expression],
        *,
        rises: float,
        is_mixed: bool = False,
        least_gap: float = 0.0,
    ) -> Expression:
        """Return the line of one piece at s, held at its upper end.

        `piece` holds its start, inverse width, rise, and values at both ends; `rises` has the sign of the rise, unless
        pieces of a table are mixed.
        """
        start, inverse_width, rise, left, right = piece
        if rises == 0.0 and not is_mixed:
            return left
        gap = self._arithmetic("-", s, start)
        if least_gap:
            gap = self._extreme("GREATEST", [gap, self.literal(least_gap)])
        share = self._arithmetic("*", gap, inverse_width)
        value = self._arithmetic("+", left, self._sql.Mul(this=share, expression=rise))
        if is_mixed:
            value = self.query.define(value)
            is_rising = self._comparison(">", rise, self.literal(0.0))
            return self.case(
                is_rising, self._extreme("LEAST", [value, right]), self._extreme("GREATEST", [value, right])
            )
        return self._extreme("LEAST" if rises > 0.0 else "GREATEST", [value, right])

    def _gap(self, inverse_width: float) -> float:
        """Return the distance from a knot below which its share of a very wide piece is out of range, or 0."""
        is_wide = self.dialect.is_strict and 0.0 < inverse_width < _NOTHING
        return _LEAST_SHARE / inverse_width if is_wide else 0.0

    def _read(
        self, s: Expression, cuts: FloatArray, columns: Sequence[Sequence[Expression]], *, is_upper_in: bool
    ) -> list[Expression]:
        """Return what a table of constants says of the interval that s lies in, one row for each.

        A tree of cases finds the block of intervals, on which the engine can join by equality; the rest is a search
        through few rows.
        """
        n = cuts.size - 1
        n_blocks = min(-(-n // _PIECES_PER_BLOCK), 2 * self.largest_case)
        size = -(-n // n_blocks)
        separators = cuts[size:-1:size].tolist()
        numbers = [self._integer(i) for i in range(len(separators) + 1)]
        block = self.query.define(self._tree(s, separators, numbers, "<=" if is_upper_in else "<"))
        name = self.query.table_name()
        names = [f"{name}_{what}" for what in ("block", "low", "high", *(f"value_{j}" for j in range(len(columns))))]
        ends = [[self.literal(v) for v in cuts.tolist()][i : i + n] for i in (0, 1)]
        rows = [[self._integer(i // size), *row] for i, row in enumerate(zip(*ends, *columns, strict=True))]
        within = self._sql.and_(
            self._sql.EQ(this=self._sql.column(names[0]), expression=block),
            self._comparison(">" if is_upper_in else ">=", s, self._sql.column(names[1])),
            self._comparison("<=" if is_upper_in else "<", s, self._sql.column(names[2])),
            copy=False,
        )
        knots = KnotTable(name, tuple(names), rows, within)
        return [self.query.define(self._sql.column(column), knots) for column in names[3:]]


def _use(expression: Expression) -> Expression:
    """Return an expression for one more use: what is small may be used again and again."""
    return expression.copy() if type(expression).__name__ in ("Column", "Literal") else expression


def _chunks(parts: Sequence[Expression]) -> list[Sequence[Expression]]:
    return [parts[i : i + _MOST_TERMS] for i in range(0, len(parts), _MOST_TERMS)]
