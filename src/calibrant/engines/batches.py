"""Any source of rows as Arrow record batches: files, folders of them, frames, arrays, streams, databases."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from calibrant.engines.databases import database_stream, is_database, is_relation, relation_stream
from calibrant.engines.file_batches import BATCH_ROWS, names_of, scan_file
from calibrant.engines.formats import FORMATS, SUFFIXES, Source, open_source
from calibrant.engines.reading import explained, plain_table, select_columns
from calibrant.errors import InvalidInputError, InvalidTypeError, unknown_name

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
#: What writers of partitioned folders call a missing value.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some columns of neighbouring rows, and where they come from.

    Attributes
    ----------
    table : pyarrow.Table
    where : str
        What messages call the file, or the source.
    first_row : int
        Which row of that the first one is.
    """

    table: pa.Table
    where: str
    first_row: int


class RowSource(ABC):
    """A table that is read in batches.

    Attributes
    ----------
    name : str
        What messages call it.
    is_repeatable : bool
        Whether it can be read more than once.
    is_distributed : bool
        Whether rows are elsewhere: whatever can be is done by `reduce`.
    """

    name: str
    is_repeatable: bool = True
    is_distributed: bool = False

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where the engine knows it before it reads them."""
        return None

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns, which exist, batch by batch; empty batches are left out."""

    def select(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of the wanted columns: names, or patterns such as `p*` for several."""
        return select_columns(wanted, self.names, self.name)

    def scan_distinct(self, column: str) -> Iterator[Batch]:
        """Read the values of a column; an engine that can leaves out what repeats."""
        return self.scan([column])

    def count_missing(self, columns: Sequence[str]) -> dict[str, int]:  # noqa: ARG002
        """Count missing values of columns that have any, where the engine does so before it reads rows."""
        return {}

    def count_distinct(self, column: str) -> int:  # noqa: ARG002
        """Count the values of a column, where the engine does so before it reads rows; else one."""
        return 1

    def reduce(
        self,
        columns: Sequence[str],  # noqa: ARG002
        partial: Callable[[RowSource], T],
        merge: Callable[[T, T], T],  # noqa: ARG002
        *,
        is_large: bool = False,  # noqa: ARG002
    ) -> T:
        """Return what `partial` makes of the rows: of each part, where an engine has several, merged in their order.

        Parameters
        ----------
        columns : sequence of str
            What `partial` reads.
        partial : callable
            Reads a source once; it may run in another process.
        merge : callable
            Of two results makes one, and may change the first.
        is_large : bool
            Whether a result can be large.
        """
        return partial(self)


class FilesSource(RowSource):
    """One file, or many of the same columns in the order of their names.

    Folders named like `city=Rome`, below `root`, are a column of the files in them.
    """

    def __init__(self, name: str, files: Sequence[Source], root: Path | None = None) -> None:
        self.name = name
        self.files = files
        self.is_repeatable = all(file.stream is None for file in files)
        self._names: tuple[str, ...] | None = None
        self.partitions = [{} if root is None else partition_of(file, root) for file in files]
        odd = next((i for i, found in enumerate(self.partitions) if list(found) != list(self.partitions[0])), None)
        if odd is not None:
            raise InvalidInputError(
                f"the folders of {name} name different columns: {list(self.partitions[0])} of {files[0].name}, "
                f"{list(self.partitions[odd])} of {files[odd].name}. Name them alike."
            )
        self._are_whole = {
            key: all(found[key] is None or _is_whole(found[key]) for found in self.partitions)
            for key in self.partitions[0]
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of the first file, and of its folders."""
        if self._names is None:
            first = self.files[0].held()
            self.files = [first, *self.files[1:]]
            own = names_of(first)
            self._names = (*own, *(key for key in self.partitions[0] if key not in own))
        return self._names

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns of one file after the other."""
        for file, partition in zip(self.files, self.partitions, strict=True):
            own = names_of(file) if partition else ()
            told = [name for name in columns if name in partition and name not in own]
            stored = [name for name in columns if name not in told] or list(own[:1])
            first_row = 0
            with explained(file.name):
                for table in scan_file(file, stored):
                    if table.num_rows:
                        whole = self._with_partition(table, {name: partition[name] for name in told})
                        yield Batch(whole.select(list(columns)) if told else table, file.name, first_row)
                        first_row += table.num_rows

    def _with_partition(self, table: pa.Table, told: dict[str, str | None]) -> pa.Table:
        """Return the table with what its folders say, whole numbers where all folders' are."""
        import pyarrow as pa

        for name, text in told.items():
            kind = pa.int64() if self._are_whole[name] else pa.string()
            value = int(text) if text is not None and self._are_whole[name] else text
            table = table.append_column(name, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table


def partition_of(file: Source, root: Path) -> dict[str, str | None]:
    """Return what the folders between a root and a file say, as Hive and Spark name them; None is a missing value."""
    if file.path is None:
        return {}
    pairs = [part.split("=", 1) for part in file.path.relative_to(root).parent.parts if "=" in part]
    return {unquote(key): None if text == _HIVE_NULL else unquote(text) for key, text in pairs}


def _is_whole(text: str | None) -> bool:
    return text is not None and text.isascii() and text.removeprefix("-").isdigit() and str(int(text)) == text


class StreamSource(RowSource):
    """What gives Arrow record batches: a frame, a reader, a relation of a database."""

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        open_stream: Callable[[list[str]], pa.RecordBatchReader],
        *,
        is_repeatable: bool = True,
    ) -> None:
        self.name = name
        self.is_repeatable = is_repeatable
        self._names = tuple(names)
        self._open = open_stream

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self._names

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns."""
        import pyarrow as pa

        first_row = 0
        with explained(self.name):
            reader = self._open(list(columns))
            for batch in reader:
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    table = pa.Table.from_batches([batch.slice(start, BATCH_ROWS)])
                    yield Batch(plain_table(table, list(columns)), self.name, first_row)
                    first_row += table.num_rows


def open_rows(source: Any, *, format: str | None = None, table: str | None = None) -> RowSource:
    """Open any source of rows for reading in batches.

    Parameters
    ----------
    source : path-like, frame, mapping of columns, Arrow stream, DuckDB relation, Spark data frame, or callable
        A Parquet, CSV, TSV or JSON-lines file; a folder of such files; a DuckDB database; a data frame, an Arrow
        table, or a mapping from names to columns; an Arrow record-batch reader, which can be read once; anything
        else with `__arrow_c_stream__`; a DuckDB relation; a Spark data frame or session; or a function that returns a
        new one of these.
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
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
    from calibrant.engines.spark import is_spark, open_spark  # which build on this module

    if is_spark(source):
        return open_spark(source, table)
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database. Leave it out.")
    if is_relation(source):
        return StreamSource("the relation", list(source.columns), lambda columns: relation_stream(source, columns))
    return _open_object(source)


def read_rows(rows: RowSource, columns: Sequence[str]) -> pa.Table:
    """Read the named columns of a source into memory; integers of one file and floats of another become floats.

    Raises
    ------
    CalibrantError
        If the source lacks a column, or is broken.
    """
    import pyarrow as pa

    names = rows.select(columns)
    parts = [batch.table for batch in rows.scan(names)]
    if not parts:
        return pa.table({name: pa.array([], pa.float64()) for name in names})
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInputError(
            f"the files of {rows.name} hold columns of different kinds ({error!s:.200}). Write one kind in all of them."
        ) from None


def count_rows(rows: RowSource) -> tuple[int | None, int]:
    """Return the number of rows of a source, None where only reading it tells, and the bytes of its files."""
    if not isinstance(rows, FilesSource):
        return rows.n_rows, 0
    n_bytes = sum(file.path.stat().st_size for file in rows.files if file.path is not None)
    if any(file.format != "parquet" for file in rows.files):
        return None, n_bytes
    import pyarrow.parquet as pq

    n_rows = 0
    for file in rows.files:
        with explained(file.name), pq.ParquetFile(file.open_arrow()) as opened:
            n_rows += opened.metadata.num_rows
    return n_rows, n_bytes


def is_many(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is more than one file of rows: a folder, or a database."""
    return Path(path).is_dir() or is_database(path)


def _open_path(path: str | os.PathLike[str], format: str | None, table: str | None) -> RowSource:
    name = os.fspath(path)
    if Path(path).is_dir():
        return FilesSource(name, folder_files(path, format), Path(path))
    if is_database(path):
        names, make = database_stream(path, table)
        return StreamSource(name, names, make)
    if table is not None:
        raise InvalidInputError(f"table={table!r} is for a DuckDB database, and {name} is none. Leave it out.")
    file = open_source(path, format)
    return FilesSource(file.name, [file])


def folder_files(path: str | os.PathLike[str], format: str | None = None) -> list[Source]:
    """Return the tables in a folder and the folders in it, in the order of their paths.

    Names that begin with a dot or an underscore, which writers use for their own notes, are passed over; so are files
    of no known suffix, unless `format` says what they are.

    Raises
    ------
    InvalidInputError
        If there is none, or their formats differ.
    """
    folder = Path(path)
    if format is not None and format not in FORMATS:
        raise unknown_name("format", format, FORMATS)
    found = [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and not any(part[0] in "._" for part in file.relative_to(folder).parts)
        and (format is not None or file.suffix.lower() in SUFFIXES)
    ]
    if not found:
        raise InvalidInputError(
            f"the folder {os.fspath(path)} holds no table. Its files must be named {', '.join(sorted(SUFFIXES))}."
        )
    files = [open_source(file, format) for file in found]
    other = next((file for file in files if file.format != files[0].format), None)
    if other is not None:
        raise InvalidInputError(
            f"the folder {os.fspath(path)} mixes formats: {files[0].name} is {files[0].format}, {other.name} is "
            f"{other.format}. Keep one format in a folder."
        )
    return files


def _open_object(source: Any) -> RowSource:
    import pyarrow as pa

    if isinstance(source, pa.RecordBatchReader):
        names = source.schema.names
        return StreamSource("the stream", names, lambda _: _once(source), is_repeatable=False)
    if isinstance(source, Mapping):
        try:
            held = pa.table({str(name): pa.array(column) for name, column in source.items()})
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the mapping can't be made a table ({error}). Give each column as many values of one kind."
            ) from None
        return _of_table(held, "the columns")
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        return _of_table(pa.table(source) if isinstance(source, pa.RecordBatch) else source, "the table")
    if hasattr(source, "scanner") and hasattr(source, "schema"):  # a dataset of pyarrow

        def scan(columns: list[str]) -> pa.RecordBatchReader:
            return source.scanner(columns=columns, batch_size=BATCH_ROWS).to_reader()

        return StreamSource("the dataset", source.schema.names, scan)
    if hasattr(source, "__arrow_c_stream__"):
        return _of_table(pa.table(source), f"the {type(source).__name__}")
    import narwhals as nw

    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, nw.DataFrame):
        return _of_table(frame.to_arrow(), f"the {type(source).__name__}")
    if callable(source):
        opened = open_rows(source())
        return StreamSource(opened.name, opened.names, lambda columns: _stream_of(open_rows(source()), columns))
    raise InvalidTypeError(
        f"source is a {type(source).__name__}, which holds no rows. Pass a path, a frame, a mapping of columns, "
        "an Arrow stream, a DuckDB relation, or a function that returns one."
    )


def _of_table(held: pa.Table, name: str) -> StreamSource:
    return StreamSource(name, held.column_names, lambda columns: plain_table(held, columns).to_reader(BATCH_ROWS))


def _once(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return reader


def _stream_of(source: RowSource, columns: list[str]) -> pa.RecordBatchReader:
    import pyarrow as pa

    batches = (batch for found in source.scan(columns) for batch in found.table.to_batches())
    first = next(batches, None)
    if first is None:
        return pa.table({name: pa.array([], pa.float64()) for name in columns}).to_reader()

    def chained() -> Iterator[pa.RecordBatch]:
        yield first
        yield from batches

    return pa.RecordBatchReader.from_batches(first.schema, chained())
