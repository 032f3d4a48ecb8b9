"""Engines that SQL is run on, each with tables made by its own means and names quoted by its own rules."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from calibrant.persistence.dialects import DialectName

#: Columns by name.
Table: TypeAlias = dict[str, Sequence[Any]]


@dataclass(frozen=True)
class Result:
    names: list[str]
    rows: list[tuple[Any, ...]]


def quoted(name: str, mark: str = '"') -> str:
    """Return a name as the SQL standard writes it: whatever it holds, marks doubled."""
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def _columns(table: Table) -> list[list[Any]]:
    """Return the columns as Python's own values: floats of what NumPy holds."""
    return [column.tolist() if isinstance(column, np.ndarray) else list(column) for column in table.values()]


class Engine(ABC):
    """An engine: `name` is its dialect, `mark` stands around names."""

    name: ClassVar[DialectName]
    mark: ClassVar[str] = '"'

    @abstractmethod
    def run(self, sql: str, table: Table, named: str = "scores") -> Result:
        """Make the table, under this name, and run a query."""

    @abstractmethod
    def words(self) -> list[str]:
        """Return every word that the engine knows as a keyword."""

    def table_name(self, name: str) -> str:
        """Return the name of a table as the user writes it."""
        return quoted(name, self.mark)


class OnDuckdb(Engine):
    name = "duckdb"

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})

    def run(self, sql: str, table: Table, named: str = "scores") -> Result:
        self.connection.register("given", pa.table({name: pa.array(column) for name, column in table.items()}))
        self.connection.execute(f"CREATE OR REPLACE TEMPORARY TABLE {quoted(named)} AS SELECT * FROM given")
        found = self.connection.execute(sql)
        return Result([column[0] for column in found.description or []], found.fetchall())

    def words(self) -> list[str]:
        return [row[0] for row in self.connection.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]


class OnSqlite(Engine):
    name = "sqlite"

    def run(self, sql: str, table: Table, named: str = "scores") -> Result:
        connection = sqlite3.connect(":memory:")
        connection.execute(f"CREATE TABLE {quoted(named)} ({', '.join(map(quoted, table))})")
        rows = zip(*_columns(table), strict=True)
        connection.executemany(f"INSERT INTO {quoted(named)} VALUES ({', '.join('?' * len(table))})", rows)
        found = connection.execute(sql)
        return Result([column[0] for column in found.description], found.fetchall())

    def words(self) -> list[str]:
        return SQLITE_WORDS.split()


class OnPostgres(Engine):
    name = "postgres"

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def run(self, sql: str, table: Table, named: str = "scores") -> Result:
        from psycopg.sql import SQL, Identifier

        kinds = {float: "FLOAT8", int: "INT", str: "TEXT", bool: "BOOLEAN"}
        columns = _columns(table)
        given = [
            SQL("{} " + kinds[type(next((v for v in column if v is not None), 0.0))]).format(Identifier(name))
            for name, column in zip(table, columns, strict=True)
        ]
        with self.connection.cursor() as cursor:
            cursor.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(named)))
            cursor.execute(SQL("CREATE TEMPORARY TABLE {} ({})").format(Identifier(named), SQL(", ").join(given)))
            with cursor.copy(SQL("COPY {} FROM STDIN").format(Identifier(named))) as copy:
                for row in zip(*columns, strict=True):
                    copy.write_row(row)
            cursor.execute(sql)
            found = Result([column.name for column in cursor.description], cursor.fetchall())
            cursor.execute(SQL("DROP TABLE {}").format(Identifier(named)))  # which may be called as a type is
            return found

    def words(self) -> list[str]:
        return [row[0] for row in self.connection.execute("SELECT word FROM pg_get_keywords()").fetchall()]


class OnSpark(Engine):
    name = "spark"
    mark = "`"

    def __init__(self, session: Any) -> None:
        self.session = session

    def run(self, sql: str, table: Table, named: str = "scores") -> Result:
        given = pa.table({name: pa.array(column) for name, column in table.items()})
        self.session.createDataFrame(given).createOrReplaceTempView(self.table_name(named))
        found = self.session.sql(sql)
        return Result(list(found.columns), [tuple(row) for row in found.collect()])

    def words(self) -> list[str]:
        return [row[0].lower() for row in self.session.sql("SELECT keyword FROM sql_keywords()").collect()]


#: Published at sqlite.org/lang_keywords.html: SQLite has no query that lists them.
SQLITE_WORDS = """
abort action add after all alter always analyze and as asc attach autoincrement before begin between by cascade case
cast check collate column commit conflict constraint create cross current current_date current_time current_timestamp
database default deferrable deferred delete desc detach distinct do drop each else end escape except exclude exclusive
exists explain fail filter first following for foreign from full generated glob group groups having if ignore immediate
in index indexed initially inner insert instead intersect into is isnull join key last left like limit match
materialized natural no not nothing notnull null nulls of offset on or order others outer over partition plan pragma
preceding primary query raise range recursive references regexp reindex release rename replace restrict returning right
rollback row rows savepoint select set table temp temporary then ties to transaction trigger unbounded union unique
update using vacuum values view virtual when where window with without
"""
#: Published in the reference of GoogleSQL, "Lexical structure and syntax", reserved keywords.
BIGQUERY_WORDS = """
all and any array as asc assert_rows_modified at between by case cast collate contains create cross cube current
default define desc distinct else end enum escape except exclude exists extract false fetch following for from full
graph_table group grouping groups hash having if ignore in inner intersect interval into is join lateral left like
limit lookup merge natural new no not null nulls of on or order outer over partition preceding proto qualify range
recursive respect right rollup rows select set some struct tablesample then to treat true unbounded union unnest using
when where window with within
"""
#: Published in the reference of Snowflake, "Reserved & limited keywords".
SNOWFLAKE_WORDS = """
account all alter and any as between by case cast check column connect connection constraint create cross current
current_date current_time current_timestamp current_user database delete distinct drop else exists false following for
from full grant group gscluster having ilike in increment inner insert intersect into is issue join lateral left like
localtime localtimestamp minus natural not null of on or order organization qualify regexp revoke right rlike row rows
sample schema select set some start table tablesample then to trigger true try_cast union unique update using values
view when whenever where with
"""
