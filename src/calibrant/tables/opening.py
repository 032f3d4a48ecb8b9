"""Any source of rows opened by one function: files, folders, databases, frames, streams and Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.tables.columnar import ArrowFile, ParquetFile, TableFile
from calibrant.tables.databases import is_database, is_relation, open_database, open_relation
from calibrant.tables.delimited import DelimitedFile
from calibrant.tables.folders import FolderSource
from calibrant.tables.formats import SUFFIXES, FileBytes, Format, named_suffixes, open_bytes
from calibrant.tables.json_lines import JsonLinesFile
from calibrant.tables.sources import BATCH_ROWS, RowSource, StreamSource, plain_table
from calibrant.tables.spark import is_spark, open_spark

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: dict[Format, type[TableFile]] = {
    "parquet": ParquetFile,
    "arrow": ArrowFile,
    "csv": DelimitedFile,
    "tsv": DelimitedFile,
    "jsonl": JsonLinesFile,
}


def open_rows(source: Any, *, format: str | None = None, table: str | None = None) -> RowSource:
    """Open any source of rows for reading.

    Parameters
    ----------
    source : path-like, frame, mapping of columns, Arrow stream, DuckDB relation, Spark data frame, or callable
        A Parquet, Arrow, CSV, TSV or JSON-lines file, known by its suffix; `-` for standard input, whose format is told
        by its first bytes; a folder of such files; a DuckDB database; a data frame, an Arrow table, or a mapping from
        names to columns; an Arrow record-batch reader, which can be read once; anything else with
        `__arrow_c_stream__`; a DuckDB relation; a Spark data frame or session; or a function that returns a new one of
        these.
    format : {"parquet", "arrow", "csv", "tsv", "jsonl"}, optional
        What files are, whatever their names say.
    table : str, optional
        Which table of a Spark session, or of a DuckDB database; by default the only one.

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
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database. Leave it out.")
    return open_relation(source) if is_relation(source) else _open_object(source)


def read_columns(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, format: str | None = None
) -> pa.Table:
    """Read the named columns of a table in a file, all by default, as an Arrow table: `open_rows` and `read` in one."""
    return open_rows(path, format=format).read(columns)


def table_file(file: FileBytes) -> TableFile:
    """Return the table that bytes of a known format hold."""
    return _KINDS[file.format](file)


def folder_files(path: str | os.PathLike[str], format: str | None = None) -> list[TableFile]:
    """Return the tables in a folder and the folders in it, which must be of one format, in the order of their paths.

    Names that begin with a dot or an underscore, which writers use for their own notes, are passed over; so are files
    of no known suffix, unless `format` says what they are.
    """
    folder = Path(path)
    found = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and not any(part[0] in "._" for part in file.relative_to(folder).parts)
        and (format is not None or file.suffix.lower() in SUFFIXES)
    ]
    if not found:
        raise InvalidInputError(
            f"the folder {os.fspath(path)} holds no table. Its files must be named {named_suffixes()}."
        )
    files = [open_bytes(file, format) for file in found]
    other = next((file for file in files if file.format != files[0].format), None)
    if other is not None:
        raise InvalidInputError(
            f"the folder {os.fspath(path)} mixes formats: {files[0].name} is {files[0].format}, {other.name} is "
            f"{other.format}. Keep one format in a folder."
        )
    return [table_file(file) for file in files]


def _open_path(path: str | os.PathLike[str], format: str | None, table: str | None) -> RowSource:
    name = os.fspath(path)
    if Path(path).is_dir():
        return FolderSource(name, folder_files(path, format), Path(path))
    if is_database(path):
        return open_database(path, table)
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database, and {name} is none. Leave it out.")
    return table_file(open_bytes(path, format).materialised())


def _open_object(source: Any) -> RowSource:
    """Open what is in memory: Arrow's own kinds, a mapping, a frame, or a function that returns a source."""
    import pyarrow as pa

    name = f"the {type(source).__name__}"
    if isinstance(source, pa.RecordBatchReader):
        return StreamSource("the stream", source.schema.names, lambda _: source, is_repeatable=False)
    if isinstance(source, Mapping):
        try:
            columns = pa.table({str(name): pa.array(column) for name, column in source.items()})
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
    if hasattr(source, "__arrow_c_stream__"):
        return _of_table(pa.table(source), name)
    import narwhals as nw

    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return _of_table(frame.to_arrow(), name)
    if callable(source):
        opened = open_rows(source())
        return StreamSource(opened.name, opened.names, lambda columns: _stream_of(open_rows(source()), columns))
    raise InvalidTypeError(
        f"source is a {type(source).__name__}, which holds no rows. Pass a path, a frame, a mapping of columns, "
        "an Arrow stream, a DuckDB relation, or a function that returns one."
    )


def _of_table(table: pa.Table, name: str) -> StreamSource:
    return StreamSource(name, table.column_names, lambda columns: plain_table(table, columns).to_reader(BATCH_ROWS))


def _stream_of(source: RowSource, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return (batch for found in source.scan(columns) for batch in found.table.to_batches())
