"""Any source of rows opened by one function: files, folders, databases, frames, streams and Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from calibrant.errors import DataWarning, InvalidInputError, InvalidTypeError, MissingPackageError, unknown_name, warn
from calibrant.phrases import count
from calibrant.tables.columnar import ArrowFile, ParquetFile, TableFile
from calibrant.tables.delimited import DelimitedFile
from calibrant.tables.finding import find_files, is_many, is_pattern, root_of
from calibrant.tables.formats import FileBytes, open_bytes, open_remote
from calibrant.tables.json_lines import JsonLinesFile
from calibrant.tables.remote import RemoteFile, is_remote
from calibrant.tables.sources import BATCH_ROWS, Batch, RowSource, StreamSource, plain_table, with_constants
from calibrant.tables.spark import is_spark, open_spark
from calibrant.tables.table_format import Format, FormatLike

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: dict[Format, type[TableFile]] = {
    "parquet": ParquetFile,
    "arrow": ArrowFile,
    "csv": DelimitedFile,
    "tsv": DelimitedFile,
    "jsonl": JsonLinesFile,
}
#: What writers of partitioned folders call a missing value.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_DATABASE_SUFFIXES = (".duckdb", ".ddb")
_DATABASE_MAGIC = b"DUCK"


def open_rows(source: Any, *, format: FormatLike = None, table: str | None = None) -> RowSource:
    """Open any source of rows for reading.

    Parameters
    ----------
    source, format, table
        As in `cb.engines.summarise`. A file is known by its suffix; `-` is standard input, whose format is told by its
        first bytes. A record-batch reader can be read once. Of a DuckDB database or connection, the only table is the
        default.

    Warns
    -----
    DataWarning
        If the delimiter of a text table was found in its first lines.

    Raises
    ------
    CalibrantError
        If the source is of no known kind, doesn't exist, is empty or broken.
    """
    if isinstance(source, RowSource):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_path(source, format, table)
    if is_spark(source):
        return open_spark(source, table)
    if _is_of_duckdb(source, "DuckDBPyConnection"):
        return _open_connection(source, "the DuckDB connection", table)
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database. Leave it out.")
    return open_relation(source) if is_relation(source) else _open_object(source)


def read_columns(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, format: FormatLike = None
) -> pa.Table:
    """Read the named columns of a table in a file, all by default, as an Arrow table: `open_rows` and `read` in one."""
    return open_rows(path, format=format).read(columns)


def table_file(file: FileBytes) -> TableFile:
    """Return the table that bytes of a known format hold."""
    return _KINDS[file.format](file)


def many_files(path: str | os.PathLike[str], format: FormatLike = None) -> list[TableFile]:
    """Return the tables that a folder or a pattern names, which must be of one format, in the order of their paths.

    A delimiter that was found in first lines is warned of.
    """
    found = find_files(path, any_suffix=format is not None)
    files = [open_remote(file, format) if isinstance(file, RemoteFile) else open_bytes(file, format) for file in found]
    other = next((file for file in files if file.format != files[0].format), None)
    if other is not None:
        what = "the pattern" if is_pattern(path) else "the folder"
        raise InvalidInputError(
            f"{what} {os.fspath(path)} mixes formats: {files[0].name} is {files[0].format}, {other.name} is "
            f"{other.format}. Keep one format in a folder."
        )
    _warn_of_delimiter(files)
    return [table_file(file) for file in files]


def one_file(path: str | os.PathLike[str], format: FormatLike = None) -> FileBytes:
    """Return the bytes of one file or stream; warn of a delimiter that was found in its first lines."""
    file = open_bytes(path, format)
    _warn_of_delimiter([file])
    return file


def _warn_of_delimiter(files: Sequence[FileBytes]) -> None:
    """Warn of a delimiter that was found in the first lines of files."""
    found = [file for file in files if file.delimiter_hint]
    if found:
        others = f" and {count(len(found) - 1, 'other file')}" if len(found) > 1 else ""
        warn(
            f"{found[0].name}{others}: read with the delimiter {found[0].delimiter!r}, as the header has no comma. To "
            f"say so: {found[0].delimiter_hint}.",
            DataWarning,
        )


def _open_path(path: str | os.PathLike[str], format: FormatLike, table: str | None) -> RowSource:
    name = os.fspath(path)
    if is_many(path):
        return FolderSource(name, many_files(path, format), root_of(path))
    if not is_remote(path) and is_database(path):
        return open_database(path, table)
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database, and {name} is none. Leave it out.")
    return table_file(one_file(path, format).materialised())


def _open_object(source: Any) -> RowSource:
    """Open what is in memory: Arrow's own kinds, a mapping, a frame, or a function that returns a source."""
    import pyarrow as pa

    name = f"the {type(source).__name__}"
    if isinstance(source, pa.RecordBatchReader):
        return StreamSource("the stream", source.schema.names, lambda _: source, is_repeatable=False)
    if isinstance(source, Mapping):
        try:
            columns = pa.table([pa.array(column) for column in source.values()], names=list(map(str, source)))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the mapping can't be made a table ({error}). Give each column as many values of one kind."
            ) from None
        return _of_table(columns, "the columns")
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return _of_table(pa.table(source) if isinstance(source, pa.RecordBatch) else source, "the table")
    if hasattr(source, "scanner") and hasattr(source, "schema"):  # a dataset of pyarrow

        def scan(columns: list[str]) -> Iterator[pa.RecordBatch]:
            return iter(source.scanner(columns=columns, batch_size=BATCH_ROWS).to_reader())

        return StreamSource("the dataset", source.schema.names, scan)
    if hasattr(source, "set_axis") and not source.columns.is_unique:  # of pandas, which Arrow refuses to convert
        table = pa.table(source.set_axis(range(source.shape[1]), axis=1))
        index = table.column_names[source.shape[1] :]
        return _of_table(table.rename_columns([*map(str, source.columns), *index]), name)
    if hasattr(source, "__arrow_c_stream__"):
        return _of_table(pa.table(source), name)
    import narwhals as nw

    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return _of_table(frame.to_arrow(), name)
    if callable(source):
        return FunctionSource(source)
    raise InvalidTypeError(
        f"source is a {type(source).__name__}, which holds no rows. Pass a path, a frame, a mapping of columns, "
        "an Arrow stream, a DuckDB relation, or a function that returns one."
    )


def _of_table(table: pa.Table, name: str) -> StreamSource:
    return StreamSource(name, table.column_names, lambda columns: plain_table(table, columns).to_reader(BATCH_ROWS))


class FunctionSource(RowSource):
    """What a function returns, which is called anew for each pass."""

    names: tuple[str, ...] = ()

    def __init__(self, function: Callable[[], Any]) -> None:
        opened = open_rows(function())
        self.name, self.names, self._function = opened.name, opened.names, function

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        return open_rows(self._function()).scan(columns)

    def without_rows(self) -> pa.Table:
        return open_rows(self._function()).without_rows()


# --- folders ------------------------------------------------------------------------------------------------


class FolderSource(RowSource):
    """Files of the same columns, in the order of their paths, below a root."""

    def __init__(self, name: str, files: Sequence[TableFile], root: PurePath) -> None:
        self.name, self.files = name, files
        self.n_bytes = sum(file.n_bytes for file in files)
        self._partitions = [_partition_of(file, root) for file in files]
        first = self._partitions[0]
        odd = next((i for i, found in enumerate(self._partitions) if list(found) != list(first)), None)
        if odd is not None:
            raise InvalidInputError(
                f"the folders of {name} name different columns: {list(first)} of {files[0].name}, "
                f"{list(self._partitions[odd])} of {files[odd].name}. Name them alike."
            )
        self._are_whole = {
            key: all(found[key] is None or _is_whole(found[key]) for found in self._partitions) for key in first
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the first file that has some, and of its folders."""
        own = next((file.names for file in self.files if file.names), ())
        return tuple(dict.fromkeys((*own, *self._partitions[0])))

    def with_text(self, columns: Collection[str]) -> Self:
        made = copy(self)
        made.files = [file.with_text(columns) for file in self.files]
        made._are_whole = {key: is_whole and key not in columns for key, is_whole in self._are_whole.items()}
        return made

    @cached_property
    def n_rows(self) -> int | None:
        counts = [count for file in self.files if (count := file.n_rows) is not None]
        return sum(counts) if len(counts) == len(self.files) else None

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        for file, partition in zip(self.files, self._partitions, strict=True):
            own = file.names if partition else ()
            told = {name: value for name, value in self._values(partition).items() if name not in own}
            stored = [name for name in columns if name not in told] or own[:1]
            for batch in file.scan(stored):
                table = with_constants(batch.table, {name: told[name] for name in columns if name in told})
                yield Batch(table.select(list(columns)), batch.where, batch.first_row)

    def told(self) -> dict[PurePath | None, dict[str, pa.Scalar]]:
        """Return what the folders of each file say, by the place of the file."""
        return {
            file.file.place: self._values(partition)
            for file, partition in zip(self.files, self._partitions, strict=True)
        }

    def _values(self, partition: dict[str, str | None]) -> dict[str, pa.Scalar]:
        """Return what folders say: whole numbers, if all folders do."""
        import pyarrow as pa

        found = {}
        for name, text in partition.items():
            is_whole = self._are_whole[name]
            value = int(text) if text is not None and is_whole else text
            found[name] = pa.scalar(value, pa.int64() if is_whole else pa.string())
        return found


def _partition_of(file: TableFile, root: PurePath) -> dict[str, str | None]:
    """Return what the folders between a root and a file say, as Hive and Spark name them; None is a missing value."""
    assert file.file.place is not None  # noqa: S101 - it was found in a folder
    pairs = [part.split("=", 1) for part in file.file.place.relative_to(root).parent.parts if "=" in part]
    return {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, text in pairs}


def _is_whole(text: str | None) -> bool:
    """Say whether a text is how a whole number of 64 bits is written."""
    if text is None or len(text) > len(str(-(2**63))) or not (text.isascii() and text.removeprefix("-").isdigit()):
        return False
    return str(int(text)) == text and -(2**63) <= int(text) < 2**63


# --- DuckDB, an extra that is imported when it is used ------------------------------------------------------


def is_database(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a DuckDB database, by its name or its first bytes."""
    file = Path(path)
    if file.suffix.lower() in _DATABASE_SUFFIXES:
        return True
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return opened.read(12)[8:] == _DATABASE_MAGIC


def is_relation(source: object) -> bool:
    """Say whether this is a DuckDB relation, without importing DuckDB."""
    return _is_of_duckdb(source, "DuckDBPyRelation")


def _is_of_duckdb(source: object, name: str) -> bool:
    kind = type(source)
    return kind.__name__ == name and "duckdb" in kind.__module__


def open_relation(relation: Any) -> StreamSource:
    """Open a relation, which runs anew for each pass over some of its columns."""
    return StreamSource("the relation", relation.columns, partial(_run, lambda: relation))


def _run(relation: Callable[[], Any], columns: list[str]) -> pa.RecordBatchReader:
    """Run the query of a relation over some of its columns."""
    import duckdb
    import pyarrow as pa

    try:
        return pa.RecordBatchReader.from_stream(relation().select(*map(_quoted, columns)))
    except duckdb.Error as error:  # from older versions, which run the query here
        raise pa.ArrowInvalid(str(error)) from None


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
    return _open_connection(connection, name, table)


def _open_connection(connection: Any, name: str, table: str | None) -> StreamSource:
    """Open a table or view of a connection to a database, by default the only one."""
    import duckdb

    try:
        names, places = _tables_of(connection)
    except duckdb.Error as error:
        raise InvalidInputError(f"{name} can't be read by DuckDB: {error!s:.300}") from None
    if table is None and len(names) != 1:
        listed = ", ".join(map(repr, names)) or "none"
        raise InvalidInputError(f"{name} holds {len(names)} tables: {listed}. Name one with table=.")
    place = places.get((names[0] if table is None else table).lower())
    if place is None:
        raise unknown_name(f"table of {name}", table, names)
    query = f"FROM {'.'.join(map(_quoted, place))}"  # the method `table` of older versions takes no database
    relation = partial(connection.sql, query)  # and no relation of theirs keeps its connection open
    return StreamSource(name, relation().columns, partial(_run, relation))


def _tables_of(connection: Any) -> tuple[list[str], dict[str, tuple[str, str, str]]]:
    """Return names of the tables of a connection, and where each table is by every name of it in small letters.

    A table is named as briefly as DuckDB finds it: alone in the schema in use, else with its schema, or database. Those
    of attached databases are listed only where there are no others.
    """
    found = connection.execute(
        "SELECT table_catalog, table_schema, table_name, table_catalog IN ('temp', current_database()), "
        "table_catalog = 'temp' OR (table_catalog = current_database() AND table_schema = current_schema()) "
        "FROM information_schema.tables ORDER BY table_name, table_catalog <> 'temp', table_schema, table_catalog"
    ).fetchall()
    places: dict[str, tuple[str, str, str]] = {}
    briefest: dict[tuple[str, str, str], str] = {}
    for n_parts in (1, 2, 3):
        for *path, is_own, is_in_use in found:
            if n_parts == 3 or (is_own and (n_parts == 2 or is_in_use)):
                place, name = (path[0], path[1], path[2]), ".".join(path[-n_parts:])
                if places.setdefault(name.lower(), place) == place:
                    briefest.setdefault(place, name)
    own = [(path[0], path[1], path[2]) for *path, is_own, _ in found if is_own]
    return [briefest[place] for place in own or briefest if place in briefest], places


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
