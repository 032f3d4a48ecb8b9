"""A query that grows definition by definition: a chain of selects, each over the one before.

Every column that is defined belongs to a level, one above the highest of those that it is computed from; the columns
of the table are level 0. A level is one select. It passes on what later levels use, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.persistence.dialects import Dialect

#: An expression of sqlglot, which is imported where it is needed.
Expression: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class KnotTable:
    """Constants as rows of a table, and the condition by which it is joined."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Expression]]
    condition: Expression


@dataclass(frozen=True, slots=True)
class _Definition:
    expression: Expression
    level: int
    tables: tuple[KnotTable, ...]


class Query:
    """Columns that are computed from a table, stage by stage; `prefix` begins the names of its own ones."""

    def __init__(self, dialect: Dialect, prefix: str) -> None:
        from sqlglot import exp

        self.exp = exp
        self.dialect = dialect
        self.prefix = prefix
        self._definitions: dict[str, _Definition] = {}
        self._known: dict[str, str] = {}
        self._n_tables = 0

    def named(self, names: Sequence[str]) -> list[Expression]:
        """Return columns whose names are in quotes: no list of an engine's reserved words is ever complete."""
        written = [self.dialect.name_of(name) for name in names]
        if self.dialect.name == "sqlite":  # which takes an unknown name in double quotes for a text
            identifiers: list[Expression] = [self.exp.Var(this=f"`{name.replace('`', '``')}`") for name in written]
        else:
            identifiers = [self.exp.to_identifier(name, quoted=True) for name in written]
        return [self.exp.Column(this=identifier) for identifier in identifiers]

    def source(self, expression: Expression) -> Expression:
        """Return what is made of the table's columns, as the first stage gives it; the same expression once."""
        key = f"source {expression.sql(self.dialect.name)}"
        if key not in self._known:
            self._known[key] = self._add(_Definition(expression, 0, ())).name
        return self.exp.column(self._known[key])

    def define(self, expression: Expression, *tables: KnotTable) -> Expression:
        """Return a column that holds the expression; the same expression is held once."""
        if isinstance(expression, (self.exp.Column, self.exp.Literal)) and not tables:
            return expression
        key = expression.sql(self.dialect.name)
        if key not in self._known:
            level = 1 + self._level([expression, *(table.condition for table in tables)])
            self._known[key] = self._add(_Definition(expression, level, tables)).name
        return self.exp.column(self._known[key])

    def is_source(self, expression: Expression) -> bool:
        """Say whether this is a column as the first stage gives it."""
        found = self._definitions.get(expression.name) if isinstance(expression, self.exp.Column) else None
        return found is not None and found.level == 0

    def table_name(self) -> str:
        """Return a name for a further table of constants."""
        self._n_tables += 1
        return f"{self.prefix}knots_{self._n_tables}"

    def select(
        self, table: Expression, keep: Sequence[Expression], outputs: Sequence[tuple[Expression, Expression]]
    ) -> Expression:
        """Return the query: of `table`, the columns to keep, and the outputs, each with its identifier before it."""
        made = [expression for _, expression in outputs]
        needed = self._needed(made)
        source, stages = table, {}
        for level in range(self._level(made) + 1):
            new = [name for name, found in needed.items() if found.level == level]
            live = {name for e in made for name in self._own(e)}
            live.update(name for found in needed.values() if found.level > level for name in self._uses(found))
            carried = [name for name, found in needed.items() if found.level < level and name in live]
            name = f"{self.prefix}stage_{level}"
            stages[name] = self._stage(source, keep, carried, new)
            source = self.exp.to_table(name)
        query = self.exp.select(*(k.copy() for k in keep))
        for identifier, expression in outputs:
            query = query.select(self.exp.Alias(this=expression, alias=identifier), copy=False)
        query = query.from_(source)
        for knots in {t.name: t for found in needed.values() for t in found.tables}.values():
            query = self._with_knots(query, knots)
        for name, stage in stages.items():
            query = query.with_(name, as_=stage, copy=False)
        return query

    def _add(self, definition: _Definition) -> Expression:
        name = f"{self.prefix}{len(self._definitions) + 1}"
        self._definitions[name] = definition
        return self.exp.column(name)

    def _own(self, expression: Expression) -> list[str]:
        return [c.name for c in expression.find_all(self.exp.Column) if c.name in self._definitions]

    def _level(self, expressions: Sequence[Expression]) -> int:
        return max((self._definitions[name].level for e in expressions for name in self._own(e)), default=0)

    def _uses(self, found: _Definition) -> list[str]:
        """Return the defined columns that a definition is computed from; none where it is one of the table's."""
        if found.level == 0:
            return []
        return [used for e in (found.expression, *(t.condition for t in found.tables)) for used in self._own(e)]

    def _needed(self, outputs: Sequence[Expression]) -> dict[str, _Definition]:
        """Return the definitions that the outputs rest on, in the order in which they were made."""
        found = {name for e in outputs for name in self._own(e)}
        for name in reversed(self._definitions):  # each rests on earlier ones
            if name in found:
                found.update(self._uses(self._definitions[name]))
        return {name: definition for name, definition in self._definitions.items() if name in found}

    def _stage(
        self, source: Expression, keep: Sequence[Expression], carried: Sequence[str], new: Sequence[str]
    ) -> Expression:
        query = self.exp.select(*(k.copy() for k in keep), *carried)
        joins: dict[str, KnotTable] = {}
        for name in new:
            found = self._definitions[name]
            query = query.select(self.exp.alias_(found.expression, name, copy=False), copy=False)
            joins.update({t.name: t for t in found.tables})
        query = query.from_(source)
        for knots in joins.values():
            query = query.join(self.exp.to_table(knots.name), on=knots.condition, join_type="left", copy=False)
        if self.dialect.inlines:  # a bound that bounds nothing keeps the stage apart
            query = query.offset(0, copy=False)
            if self.dialect.name == "sqlite":
                query = query.limit(-1, copy=False)
        return query

    def _with_knots(self, query: Expression, knots: KnotTable) -> Expression:
        rows = [self.exp.Tuple(expressions=list(row)) for row in knots.rows]
        columns = [self.exp.to_identifier(name) for name in knots.columns]
        if self.dialect.name == "sqlite":
            alias = self.exp.TableAlias(this=self.exp.to_identifier(knots.name), columns=columns)
            return query.with_(alias, as_=self.exp.Values(expressions=rows), copy=False)
        alias = self.exp.TableAlias(this=self.exp.to_identifier(f"{knots.name}_rows"), columns=columns)
        found = self.exp.select(*knots.columns).from_(self.exp.Values(expressions=rows, alias=alias), copy=False)
        return query.with_(knots.name, as_=found, copy=False)
