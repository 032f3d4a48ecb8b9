"""DuckDB as a source: relations, and tables of a database file. The package is an extra, imported when it is used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidInputError, MissingPackageError, unknown_name
from calibrant.tables.sources import StreamSource

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = (".duckdb", ".ddb")
_MAGIC = b"DUCK"


def is_database(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a DuckDB database, by its name or its first bytes."""
    file = Path(path)
    if file.suffix.lower() in _SUFFIXES:
        return True
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(12)[8:] == _MAGIC


def is_relation(source: object) -> bool:
    """Say whether this is a DuckDB relation, without importing DuckDB."""
    kind = type(source)
    return kind.__name__ == "DuckDBPyRelation" and "duckdb" in kind.__module__


def open_relation(relation: Any, name: str = "the relation") -> StreamSource:
    """Open a relation, which runs anew for each pass over some of its columns."""

    def run(columns: list[str]) -> pa.RecordBatchReader:
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(relation.select(*map(_quoted, columns)))

    return StreamSource(name, relation.columns, run)


def open_database(path: str | os.PathLike[str], table: str | None) -> StreamSource:
    """Open a table or view of a database, by default the only one."""
    name = os.fspath(path)
    if not Path(path).is_file():
        raise InvalidInputError(f"there is no file {name}.")
    try:
        import duckdb
    except ImportError:
        raise MissingPackageError(
            f"{name} is a DuckDB database, and the package duckdb is not installed: pip install 'calibrant[duckdb]'."
        ) from None
    try:
        connection = duckdb.connect(name, read_only=True)
    except duckdb.Error as error:
        raise InvalidInputError(f"{name} can't be opened by DuckDB: {error!s:.300}") from None
    rows = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY table_name").fetchall()
    tables = [row[0] for row in rows]
    if table is None and len(tables) != 1:
        listed = ", ".join(map(repr, tables)) or "none"
        raise InvalidInputError(f"{name} holds {len(tables)} tables: {listed}. Name one with table=.")
    chosen = tables[0] if table is None else table
    if chosen not in tables:
        raise unknown_name(f"table of {name}", chosen, tables)
    return open_relation(connection.table(_quoted(chosen)), name)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
