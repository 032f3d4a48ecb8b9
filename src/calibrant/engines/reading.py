"""Columns of a table in a file, as Arrow: only those that are asked for."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from calibrant.engines.formats import Source, open_source
from calibrant.engines.records import Records, csv_records, json_objects, line_records
from calibrant.errors import CalibrantError, InvalidInputError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc

_MOST_LISTED = 30
_READ_BLOCK_BYTES = 1 << 24


class TableFile(ABC):
    """A table in a file: the names of its columns, and the columns that are asked for.

    Attributes
    ----------
    source : Source
    names : tuple of str
        The names of all columns, in the file's order.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        with explained(source.name):
            self.names = self._read_names()

    def select(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of the wanted columns: names, or patterns such as `p*` for several.

        Raises
        ------
        UnknownNameError
            If there is no such column.
        InvalidInputError
            If there are two of that name.
        """
        return select_columns(wanted, self.names, self.source.name)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the named columns, in that order; all columns by default.

        Raises
        ------
        CalibrantError
            If there is no such column, or the file is broken.
        """
        names = self.select([*self.names] if columns is None else columns)
        with explained(self.source.name):
            return plain_table(self._read(names), names)

    @abstractmethod
    def _read_names(self) -> tuple[str, ...]:
        """Return the names of the columns."""

    @abstractmethod
    def _read(self, names: list[str]) -> pa.Table:
        """Read columns that exist."""


class ParquetTable(TableFile):
    """A Parquet file."""

    def _read_names(self) -> tuple[str, ...]:
        import pyarrow.parquet as pq

        return tuple(pq.read_schema(self.source.open_arrow()).names)

    def _read(self, names: list[str]) -> pa.Table:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.source.open_arrow()) as file:
            return file.read(columns=names)


class CsvTable(TableFile):
    """A comma- or tab-separated file with a header."""

    def _read_names(self) -> tuple[str, ...]:
        return csv_header(self.source)

    def _read(self, names: list[str]) -> pa.Table:
        import pyarrow as pa
        import pyarrow.csv as pc

        if any(b'"' in block for block in self.source.blocks()):
            for _ in csv_records(self.source):  # Arrow takes the rest of the file for a field whose quote never ends
                pass
        parsing = pc.ParseOptions(delimiter=self.source.delimiter, newlines_in_values=True)
        converting = conversion(names)
        for use_threads in (True, False):
            reading = pc.ReadOptions(block_size=_READ_BLOCK_BYTES, use_threads=use_threads)
            try:
                return pc.read_csv(
                    self.source.open_arrow(), read_options=reading, parse_options=parsing, convert_options=converting
                )
            except pa.ArrowInvalid:
                if not use_threads:  # the second time, when the message names the row
                    raise
        raise AssertionError("unreachable")


class JsonLinesTable(TableFile):
    """A file of one JSON object per line; a name that a line lacks is a missing value."""

    _columns: dict[str, list[Any]]

    def _read_names(self) -> tuple[str, ...]:
        rows = [row for row in self._rows() if row is not None]
        names = dict.fromkeys(name for row in rows for name in row)
        self._columns = {name: [row.get(name) for row in rows] for name in names}
        return tuple(names)

    def _rows(self) -> Iterator[dict[str, Any] | None]:
        line = 1
        for records in line_records(self.source):
            yield from json_objects(records, self.source.name, line)
            line += records.stops.size

    def _read(self, names: list[str]) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: json_column(self._columns[name], name, self.source.name) for name in names})


def open_table(path: str | os.PathLike[str], *, format: str | None = None) -> TableFile:
    """Open a table for reading columns.

    Parameters
    ----------
    path : path-like
        A Parquet, CSV, tab-separated or JSON-lines file, known by its suffix; `-` is standard input, whose format
        is told by its first bytes.
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
        What it is, whatever its name says.

    Raises
    ------
    CalibrantError
        If there is no such file, or it is empty, broken, or of no known format.
    """
    return table_file(open_source(path, format))


def table_file(source: Source) -> TableFile:
    """Open a source for reading columns; a stream is read into memory."""
    match source.format:
        case "parquet":
            return ParquetTable(source.held())
        case "csv" | "tsv":
            return CsvTable(source.held())
        case "jsonl":
            return JsonLinesTable(source.held())


def read_columns(
    path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, format: str | None = None
) -> pa.Table:
    """Read the named columns of a file into an Arrow table.

    Parameters
    ----------
    path : path-like
        As in `open_table`.
    columns : sequence of str, optional
        Names, or patterns such as `p*`; all columns by default.
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
        What the file is, whatever its name says.

    Raises
    ------
    CalibrantError
        If the file can't be read or lacks a column; the message says which columns there are.
    """
    return open_table(path, format=format).read(columns)


def select_columns(wanted: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """Return the names of the wanted columns, in order and without repeats; see `TableFile.select`."""
    found: dict[str, None] = {}
    for name in wanted:
        if name in names:
            matched = [name]
        elif any(c in name for c in "*?["):
            matched = [other for other in names if fnmatchcase(other, name)]
            if not matched:
                raise UnknownNameError(f"no column of {where} matches {name!r}. {_listed(names)}")
        else:
            raise UnknownNameError(f"{where} has no column {name!r}.{did_you_mean(name, names)} {_listed(names)}")
        for other in matched:
            if list(names).count(other) > 1:
                raise InvalidInputError(f"{where} has two columns named {other!r}. Rename one of them.")
        found.update(dict.fromkeys(matched))
    return list(found)


def csv_header(source: Source) -> tuple[str, ...]:
    """Return the names in the first record that is not blank."""
    for records in csv_records(source):
        at = header_record(records)
        if at is not None:
            return header_names(records.texts()[at], source)
    raise no_header(source)


def header_record(records: Records) -> int | None:
    """Return which record is the first that is not blank, or None if all are."""
    return next((i for i, text in enumerate(records.texts()) if text), None)


def no_header(source: Source) -> InvalidInputError:
    """Build the error for a text table of blank lines only."""
    return InvalidInputError(f"{source.name} is empty: it has not even a header.")


def header_names(header: bytes, source: Source) -> tuple[str, ...]:
    """Return the names in the record that is the header of a delimited table."""
    import pyarrow as pa
    import pyarrow.csv as pc

    parsed = pc.read_csv(
        pa.BufferReader(header + b"\n"),
        read_options=pc.ReadOptions(use_threads=False, block_size=len(header) + 1),
        parse_options=pc.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
    )
    return tuple(parsed.schema.names)


def conversion(columns: list[str]) -> pc.ConvertOptions:
    """Return how fields of text become values: an empty or `NA` field is missing, a quoted one is not."""
    import pyarrow.csv as pc

    return pc.ConvertOptions(include_columns=columns, strings_can_be_null=True, quoted_strings_can_be_null=False)


def json_column(values: list[Any], name: str, where: str) -> pa.Array:
    """Build an Arrow array of one column of JSON values, all of one kind or missing."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        kinds: dict[type, Any] = {}
        for value in values:
            kinds.setdefault(float if type(value) is int else type(value), value)
        kinds.pop(type(None), None)
        shown = " and ".join(f"{value!r:.40}" for value in list(kinds.values())[:2])
        what = f"mixes kinds of values, such as {shown}" if len(kinds) > 1 else f"can't be read ({error})"
        raise InvalidInputError(f"column {name!r} of {where} {what}. Write one kind in every line.") from None


@contextmanager
def explained(name: str, *, first_record: int = 1) -> Iterator[None]:
    """Turn what Arrow says of a broken file into an error that names the file, and the record where it's known."""
    import pyarrow as pa

    try:
        yield
    except CalibrantError:
        raise
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{name} is not UTF-8 text ({error}). Save it as UTF-8 first.") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = re.sub(r"\s+", " ", str(error))
        at = re.match(r"CSV parse error: Row #(\d+): (.*)", said)
        if at:
            place = f"record {int(at[1]) + first_record - 1} (the header is record 1)"
            raise InvalidInputError(f"{name}: {place} is broken: {at[2]:.200}") from None
        raise InvalidInputError(f"{name} can't be read, or is broken: {said:.300}") from None


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_LISTED])
    more = f", and {len(names) - _MOST_LISTED:,} more" if len(names) > _MOST_LISTED else ""
    if len(names) == 1 and (odd := next((c for c in ";\t|" if c in names[0]), None)):
        return f"Its one column is {shown}: is {odd!r} the delimiter? A file of tabs is format tsv; save others as CSV."
    return f"Its columns are: {shown}{more}."


def plain_table(table: pa.Table, names: list[str]) -> pa.Table:
    """Return the columns in order, dictionaries decoded, and string views as strings, which all libraries know."""
    import pyarrow as pa

    columns = []
    for name in names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.type == pa.string_view():
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=names)
