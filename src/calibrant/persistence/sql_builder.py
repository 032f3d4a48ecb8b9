"""Formulas as SQL expressions.

A term is a tuple of expressions of sqlglot: one, or one for each class. What is used more than once becomes a column
of an earlier select (`hold`), so that the text grows with the formula and not with the number of its uses.

Tables of steps and knots are a balanced tree of CASE where they are small. Larger ones are rows of constants, joined
by equality on a block of pieces, which a small tree finds, and by the range of the piece within its block: engines
hash the equality, and a range alone would compare each row with each piece.

Engines that refuse what leaves the range of float64 get exp of [-700, 700] only, and products without factors near
zero; the probabilities are the same but for those below 1e-304.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError
from calibrant.numerics import LARGEST, ROW_SUM_TOLERANCE, FloatArray
from calibrant.persistence.sql_query import Expression, KnotTable, Query
from calibrant.terms import Builder, Operation, Term, knot_pieces

#: For engines that refuse what leaves the range of float64: the largest number that exp is taken of,
_MOST_EXPONENT = 700.0
#: the smallest score that is not counted as zero in products,
_LEAST_FACTOR = 1e-150
#: and the smallest share of a piece that a score can have gone, beyond its lower knot.
_LEAST_SHARE = 1e-280
#: Terms of one sum or arguments of one function.
_MOST_TERMS = 64
_PIECES_PER_BLOCK = 16
#: Operations as classes of sqlglot, and as functions of SQLite.
_KINDS = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "<": "LT", "<=": "LTE", ">": "GT", ">=": "GTE"}
_OF_SQLITE = {"least": "MIN", "greatest": "MAX", "abs": "ABS"}


class SqlBuilder(Builder):
    """Writes terms as expressions of a query; more than `largest_case` steps or pieces are read from a table."""

    def __init__(self, query: Query, largest_case: int) -> None:
        from sqlglot import Dialect

        self.query = query
        self.dialect = query.dialect
        self.largest_case = largest_case
        #: The texts that are written.
        self.texts: list[str] = []
        self._sql = query.exp
        written_in = Dialect.get_or_raise(self.dialect.name)
        self._division = {"typed": written_in.TYPED_DIVISION, "safe": written_in.SAFE_DIVISION}

    # --- the operations of formulas ------------------------------------------------------------------------------

    def number(self, value: float | FloatArray) -> Term:
        return Term(self, tuple(self.literal(v) for v in np.atleast_1d(value).tolist()))

    def each(self, operation: Operation, *terms: Term) -> Term:
        if operation == "exp" and self.dialect.is_strict:
            terms = (self.greatest(terms[0], self.number(-_MOST_EXPONENT)),)
        return self._each(lambda *parts: self._expression(operation, *parts), *terms)

    def expit(self, a: Term) -> Term:
        """Return 1 / (1 + exp(-a)): infinity gives 0, as it should."""
        held = self.clip(a, -_MOST_EXPONENT, _MOST_EXPONENT) if self.dialect.is_strict else a
        e = self._each(lambda x: self._sql.Exp(this=self._sql.Neg(this=self._inner(x))), held)
        return self.number(1.0) / (self.number(1.0) + e)

    def total(self, a: Term) -> Term:
        return self.hold(Term(self, (self._folded(self._sum, self.hold(a).payload),)))

    def largest(self, a: Term) -> Term:
        largest = self._folded(lambda parts: self._expression("greatest", *parts), self.hold(a).payload)
        return self.hold(Term(self, (largest,)))

    def is_first_largest(self, a: Term) -> Term:
        (top,) = self.largest(a).payload
        held = self.hold(a).payload
        ifs = [self._sql.If(this=self._expression(">=", p, top), true=self._integer(k)) for k, p in enumerate(held)]
        first = self.query.define(self._sql.Case(ifs=ifs))
        return Term(self, tuple(self._sql.EQ(this=first.copy(), expression=self._integer(k)) for k in range(len(held))))

    def column(self, a: Term, k: int) -> Term:
        return Term(self, (a.payload[k],))

    def columns(self, parts: Sequence[Term]) -> Term:
        return Term(self, tuple(part.payload[0] for part in parts))

    def linear(self, a: Term, matrix: FloatArray) -> Term:
        z = [self._as_factor(x) for x in self.hold(a).payload]
        weights = [list(map(self.literal, row)) for row in matrix.tolist()]
        products = [[self._expression("*", w, x) for w, x in zip(row, z, strict=True)] for row in weights]
        return Term(self, tuple(self._folded(self._sum, parts) for parts in products))

    def step(self, s: Term, edges: FloatArray, levels: FloatArray) -> Term:
        written, cuts = [self.literal(level) for level in levels.tolist()], edges.tolist()
        if not cuts:
            return Term(self, (written[0],))
        (held,) = self.hold(s).payload
        if len(cuts) <= self.largest_case:
            return self.hold(Term(self, (self._tree(held, cuts, written, "<="),)))
        (level,) = self._read(held, edges, [written[1:-1]], is_upper_in=True)
        return Term(self, (self._outside(held, edges, (written[0], level, written[-1]), ">"),))

    def interpolate(self, s: Term, x: FloatArray, y: FloatArray) -> Term:
        unit, start, inverse_width, rise = knot_pieces(x, y)
        (held,) = self.hold(s).payload
        scaled = self._as_factor(held)
        if unit != 1.0:
            scaled = self.query.define(self._expression("*", self.literal(unit), scaled))
        first, last = self.literal(float(y[0])), self.literal(float(y[-1]))
        columns = [values.tolist() for values in (start, inverse_width, rise, y[:-1], y[1:])]
        if rise.size <= self.largest_case:
            pieces = [
                self._piece(scaled, list(map(self.literal, row)), rises=row[2], least_gap=self._least_gap(row[1]))
                for row in zip(*columns, strict=True)
            ]
            inner = self._tree(held, x[1:-1].tolist(), pieces, "<")
        else:
            read = self._read(held, x, [list(map(self.literal, column)) for column in columns], is_upper_in=False)
            inner = self._piece(scaled, read, rises=float(rise.max()), is_mixed=bool((rise < 0.0).any()))
        return self.hold(Term(self, (self._outside(held, x, (first, inner, last), ">="),)))

    def couple_likeliest(self, rates: Term) -> NoReturn:  # noqa: ARG002
        raise InvalidInputError(
            "coupling='likelihood' has no closed form, and SQL can't iterate for each row. Fit with "
            "coupling='normalise', AutoCalibrator with exportable=\"sql\", or export to ONNX, which can."
        )

    def hold(self, a: Term) -> Term:
        return Term(self, tuple(self.query.define(x) for x in a.payload))

    def hold_within(self, a: Term, low: float, high: float) -> Term:
        return self.clip(self._each(self._as_factor, a), low, high) if self.dialect.is_strict else a

    def text_case(self, conditions: Sequence[Term], texts: Sequence[str]) -> Expression:
        """Return the text of the first condition that holds; NULL where none does."""
        ifs = [
            self._sql.If(this=condition.payload[0], true=self.text(text))
            for condition, text in zip(conditions, texts, strict=True)
        ]
        return self._sql.Case(ifs=ifs)

    # --- features and trees -----------------------------------------------------------------------------------------

    def feature(self, name: str, levels: npt.NDArray[Any] | None) -> Term:
        (column,) = self.query.named([name])
        if levels is None:
            return Term(self, (self.source(column, -LARGEST, LARGEST),))
        if levels.dtype.kind in "iu":
            value, known = self.source(column, -LARGEST, LARGEST), list(map(self.literal, levels.tolist()))
        elif levels.dtype.kind == "b":
            value = column if self.dialect.name == "sqlite" else self._cast(column, "boolean")
            known = [self._sql.Boolean(this=level) for level in levels.tolist()]
        else:
            value, known = self._sql.cast(column, "text"), list(map(self.text, levels.tolist()))
        ifs = [self._sql.If(this=level, true=self._integer(code)) for code, level in enumerate(known)]
        code = self._sql.Case(this=value, ifs=ifs) if ifs else self._sql.Null()
        return Term(self, (self.query.define(code) if levels.dtype.kind in "iu" else self.query.source(code),))

    def trees(self, columns: Mapping[int, Term], trees: Any) -> Term:
        """Return sums of nested CASE: no comparison with NULL holds, so that ELSE is where a missing value goes."""
        held = {j: self.hold(column).payload[0] for j, column in columns.items()}
        made: dict[int, Expression] = {}
        sets = trees.sets()
        for at in reversed(range(trees.columns.size)):  # children first
            j, value = int(trees.columns[at]), float(trees.values[at])
            if j < 0:
                made[at] = self.literal(value)
                continue
            left, right, goes_left = made.pop(trees.left[at]), made.pop(trees.right[at]), bool(trees.missing_left[at])
            if sets[at]:
                condition = self._sql.In(this=held[j].copy(), expressions=list(map(self._integer, sets[at])))
                condition = self._sql.Not(this=condition) if goes_left else condition
            else:
                condition = self._expression(">" if goes_left else "<=", held[j], self.literal(value))
            made[at] = self.case(condition, *((right, left) if goes_left else (left, right)))
        outputs: list[list[Expression]] = [[] for _ in range(trees.n_outputs)]
        for root, output in zip(trees.roots.tolist(), trees.outputs.tolist(), strict=True):
            outputs[output].append(made[root])
        return self.hold(Term(self, tuple(self._folded(self._sum, parts or [self.literal(0.0)]) for parts in outputs)))

    def text(self, value: str) -> Expression:
        """Return a text as it is."""
        self.texts.append(value)
        if self.dialect.variable is None or not self.dialect.variable.search(value):
            return self._sql.Literal.string(value)
        parts = [f"{part}$" for part in value.split("$")[:-1]] + value.split("$")[-1:]  # no variable is in one of them
        return self._sql.Concat(expressions=[self._sql.Literal.string(part) for part in parts if part])

    # --- rows that can be used --------------------------------------------------------------------------------------

    def source(self, column: Expression, low: float, high: float) -> Expression:
        """Return a column of the table as float64, NULL where it is outside [low, high], NaN or no number."""
        double = self._cast(column, "double")
        is_within = self._sql.Between(this=double, low=self.literal(low), high=self.literal(high))
        if self.dialect.name == "sqlite":  # which reads any text as a number
            kind = self._sql.Anonymous(this="TYPEOF", expressions=[column.copy()])
            is_number = self._sql.In(this=kind, expressions=[self._sql.Literal.string(t) for t in ("real", "integer")])
            is_within = self._sql.And(this=is_number, expression=is_within)
        return self.query.source(self.case(is_within, double.copy()))

    def _cast(self, column: Expression, kind: str) -> Expression:
        """Return a column cast to numbers or truth values: NULL where one can't be, as far as the engine has that."""
        if not self.dialect.has_safe_cast:
            return self._sql.cast(column, kind)
        return self._sql.TryCast(this=column.copy(), to=self._sql.DataType.build(kind), safe=True)

    def usable(self, scores: Term, low: float, high: float, *, sums_to_one: bool) -> Term:  # noqa: ARG002
        """Return the condition that `predict_proba` takes a row; `source` has made NULL of what is out of range."""
        if sums_to_one:
            return self._flag((self.abs(self.total(scores) - 1.0) <= ROW_SUM_TOLERANCE).payload[0])
        known = [self._sql.Not(this=self._sql.Is(this=_use(x), expression=self._sql.Null())) for x in scores.payload]
        return self._flag(self._sql.and_(*known, copy=False)) if len(known) > 1 else Term(self, tuple(known))

    def only_where(self, condition: Term, a: Term) -> Term:
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

    def _expression(self, operation: Operation, *parts: Expression) -> Expression:
        sql = self._sql
        match operation:
            case "+" | "-":  # what stands before them needs no brackets
                return getattr(sql, _KINDS[operation])(this=_use(parts[0]), expression=self._inner(parts[1]))
            case "*" | "/" | "<" | "<=" | ">" | ">=":
                more = self._division if operation == "/" else {}
                left, right = map(self._inner, parts)
                return getattr(sql, _KINDS[operation])(this=left, expression=right, **more)
            case "least" | "greatest" | "abs":
                name = _OF_SQLITE[operation] if self.dialect.name == "sqlite" else operation.upper()
                return sql.Anonymous(this=name, expressions=[_use(part) for part in parts])
            case "case":
                return self.case(*parts)
            case "ln" | "exp":
                return (sql.Ln if operation == "ln" else sql.Exp)(this=_use(parts[0]))

    def _inner(self, a: Expression) -> Expression:
        return self._sql.Paren(this=a) if isinstance(a, self._sql.Binary) else _use(a)

    def _sum(self, parts: Sequence[Expression]) -> Expression:
        total = parts[0]
        for part in parts[1:]:
            total = self._expression("+", total, part)
        return total

    def _folded(self, join: Callable[[Sequence[Expression]], Expression], parts: Sequence[Expression]) -> Expression:
        """Return many parts joined to one, in columns of earlier selects where they are too many for an expression."""
        while len(parts) > _MOST_TERMS:
            chunks = [parts[i : i + _MOST_TERMS] for i in range(0, len(parts), _MOST_TERMS)]
            parts = [self.query.define(join(chunk)) for chunk in chunks]
        return join(parts)

    def _as_factor(self, x: Expression) -> Expression:
        """Return a score, or zero where it is so near to zero that a strict engine may refuse products of it."""
        if not self.dialect.is_strict or not self.query.is_source(x):
            return x
        is_nothing = self._expression("<", self._expression("abs", x), self.literal(_LEAST_FACTOR))
        return self.query.define(self.case(is_nothing, self.literal(0.0), x))

    # --- tables of steps and knots -------------------------------------------------------------------------------

    def _tree(
        self, s: Expression, cuts: Sequence[float], leaves: Sequence[Expression], comparison: Operation
    ) -> Expression:
        """Return the leaf between the two cuts around s, by halving; leaf i goes up to cut i."""
        if len(leaves) == 1:
            return leaves[0]
        middle = (len(leaves) - 1) // 2
        return self.case(
            self._expression(comparison, s, self.literal(cuts[middle])),
            self._tree(s, cuts[:middle], leaves[: middle + 1], comparison),
            self._tree(s, cuts[middle + 1 :], leaves[middle + 1 :], comparison),
        )

    def _outside(
        self, s: Expression, cuts: FloatArray, values: Sequence[Expression], is_above: Operation
    ) -> Expression:
        """Return the first or the last of three values beyond the outer cuts, else the one in the middle."""
        low = self._sql.If(this=self._expression("<=", s, self.literal(float(cuts[0]))), true=values[0])
        high = self._sql.If(this=self._expression(is_above, s, self.literal(float(cuts[-1]))), true=values[2])
        return self._sql.Case(ifs=[low, high], default=values[1])

    def _piece(
        self, s: Expression, piece: Sequence[Expression], rises: float, is_mixed: bool = False, least_gap: float = 0.0
    ) -> Expression:
        """Return the line of one piece at s, held at its upper end.

        `piece` holds its start, inverse width, rise, and values at both ends; `rises` has the sign of the rise, unless
        some pieces of a table rise and others fall (`is_mixed`).
        """
        start, inverse_width, rise, left, right = piece
        if rises == 0.0 and not is_mixed:
            return left
        gap = self._expression("-", s, start)
        if least_gap:
            gap = self._expression("greatest", gap, self.literal(least_gap))
        share = self._expression("*", gap, inverse_width)
        value = self._expression("+", left, self._sql.Mul(this=share, expression=rise))
        if is_mixed:
            value = self.query.define(value)
            held = [self._expression("least", value, right), self._expression("greatest", value, right)]
            return self.case(self._expression(">", rise, self.literal(0.0)), *held)
        return self._expression("least" if rises > 0.0 else "greatest", value, right)

    def _least_gap(self, inverse_width: float) -> float:
        """Return the distance from a knot below which its share of a very wide piece is out of range, or 0."""
        is_wide = self.dialect.is_strict and 0.0 < inverse_width < _LEAST_FACTOR
        return _LEAST_SHARE / inverse_width if is_wide else 0.0

    def _read(
        self, s: Expression, cuts: FloatArray, columns: Sequence[Sequence[Expression]], *, is_upper_in: bool
    ) -> list[Expression]:
        """Return what a table of constants says of the interval that s lies in: one value of each of `columns`."""
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
            self._expression(">" if is_upper_in else ">=", s, self._sql.column(names[1])),
            self._expression("<=" if is_upper_in else "<", s, self._sql.column(names[2])),
            copy=False,
        )
        knots = KnotTable(name, tuple(names), rows, within)
        return [self.query.define(self._sql.column(column), knots) for column in names[3:]]


def _use(expression: Expression) -> Expression:
    """Return an expression for one more use: what is small may be used again and again."""
    return expression.copy() if type(expression).__name__ in ("Column", "Literal") else expression
