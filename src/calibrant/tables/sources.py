"""Any source of rows as Arrow record batches in order: what all kinds of sources offer, and that of streams."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from calibrant.errors import (
    CalibrantError,
    InvalidInputError,
    InvalidTypeError,
    UnknownNameError,
    did_you_mean,
)
from calibrant.phrases import quoted
from calibrant.tables.recoding import not_text
from calibrant.validation import as_scores

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
#: Rows of a batch at most: what a few columns of them need stays small.
BATCH_ROWS = 1 << 17
_MOST_LISTED = 30


@dataclass(frozen=True, slots=True)
class Batch:
    """Some columns of neighbouring rows; `first_row` is the number of the first one in what messages call `where`."""

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
    n_bytes : int
        The size of its files.
    """

    name: str
    is_repeatable: bool = True
    is_distributed: bool = False
    n_bytes: int = 0

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where that is known before they are read."""
        return None

    @property
    def n_skipped(self) -> int:
        """The number of rows that were left out for missing values, once all have been read."""
        return 0

    @property
    def skipped(self) -> str:
        """How many rows were left out, and what they lack, in words; nothing where there are none."""
        return ""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns, which exist, batch by batch; empty batches are left out."""

    def select(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of the wanted columns: names, or patterns such as `p*` for several.

        Raises
        ------
        UnknownNameError, InvalidInputError
            If there is no such column, or there are two of that name.
        """
        return select_columns(wanted, self.names, self.name)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the named columns into memory, in that order; all columns by default.

        Where one file has integers and another floats, the column is one of floats.

        Raises
        ------
        CalibrantError
            If there is no such column, or the source is broken.
        """
        import pyarrow as pa

        names = self.select(self.names if columns is None else columns)
        parts = [batch.table for batch in self.scan(names)]
        if not parts:
            return self.without_rows().select(names)
        try:
            return pa.concat_tables(parts, promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"the files of {self.name} hold columns of different kinds ({error!s:.200}). Write one kind in all of "
                "them."
            ) from None

    def tables(self) -> Iterator[pa.Table]:
        """Read all columns as tables of one schema; there is one at least, which may be empty."""
        batches = self.scan(self.names)
        first = next(batches, None)
        table = self.without_rows() if first is None else first.table
        yield table
        for batch in batches:
            yield batch.table.cast(table.schema)

    def without_rows(self) -> pa.Table:
        """Return all columns and no row: as numbers, where nothing but rows says of what types they are."""
        import pyarrow as pa

        return pa.table([pa.array([], pa.float64()) for _ in self.names], names=list(self.names))

    def with_text(self, columns: Collection[str]) -> Self:  # noqa: ARG002
        """Return the source with the named columns read as text, where it finds the types of columns by their values.

        Sources that store the types of columns keep them.
        """
        return self

    def with_codes(self, but: Collection[str]) -> Self:  # noqa: ARG002
        """Return the source with columns of codes read as text too: whole numbers such as `007`, or of twenty digits.

        They would lose zeros or digits as numbers. The columns of `but` are read as before.
        """
        return self

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
        """Return what `partial` makes of the named columns: of each part, where an engine has several.

        `partial` reads a source once and may run in another process. `merge` makes one of two results, in the order of
        their parts, and may change the first. `is_large` says that results can be large.
        """
        return partial(self)


class StreamSource(RowSource):
    """What gives Arrow record batches: a frame, a reader, a relation of a database."""

    names: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        open_stream: Callable[[list[str]], Iterable[pa.RecordBatch]],
        *,
        is_repeatable: bool = True,
    ) -> None:
        self.name, self.names, self.is_repeatable = name, tuple(names), is_repeatable
        self._open = open_stream

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        return numbered(self._tables(list(columns)), columns, self.name)

    def without_rows(self) -> pa.Table:
        schema = getattr(self._open(list(self.names)), "schema", None)
        return super().without_rows() if schema is None else plain_table(schema.empty_table(), self.names)

    def _tables(self, columns: list[str]) -> Iterator[pa.Table]:
        import pyarrow as pa

        for batch in self._open(columns):
            yield pa.Table.from_batches([batch])


def numbered(tables: Iterable[pa.Table], columns: Sequence[str], where: str) -> Iterator[Batch]:
    """Yield the named columns of tables as batches of bounded size, none of them empty."""
    first_row = 0
    with explained(where):
        for table in tables:
            plain = plain_table(table, columns)
            for start in range(0, plain.num_rows, BATCH_ROWS):
                batch = plain.slice(start, BATCH_ROWS)
                yield Batch(batch, where, first_row)
                first_row += batch.num_rows


def select_columns(wanted: Sequence[str], names: Sequence[str], where: str) -> list[str]:
    """Return the names of the wanted columns, in order and without repeats; see `RowSource.select`."""
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


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "It has no columns."
    shown = quoted(names, most=_MOST_LISTED)
    if odd := next((c for c in ";\t|" if any(c in name for name in names)), None):
        option = "tab" if odd == "\t" else repr(odd)
        what = "Its one column is" if len(names) == 1 else "Its columns are:"
        return f"{what} {shown}. If {odd!r} is the delimiter: --delimiter {option} (TableFormat(delimiter=) in Python)."
    return f"Its columns are: {shown}."


def plain_table(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the columns in order, dictionaries and runs decoded, and string views as strings, which all know."""
    import pyarrow as pa

    columns = []
    for name in names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            if column.type.value_type == pa.string_view():  # as polars hands over categories; Arrow can't decode these
                column = _with_strings(column)
            column = column.cast(column.type.value_type)
        if pa.types.is_run_end_encoded(column.type):
            from pyarrow.compute import run_end_decode

            column = run_end_decode(column)
        if column.type == pa.string_view():
            column = column.cast(pa.string())
        columns.append(column)
    return pa.table(columns, names=list(names))


def _with_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary of string views as one of strings."""
    import pyarrow as pa

    chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(pa.string())) for c in column.chunks]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.string()))


def with_constants(table: pa.Table, values: Mapping[str, pa.Scalar]) -> pa.Table:
    """Return a table with further columns that hold one value each, such as what the folders of a file say."""
    import pyarrow as pa

    for name, value in values.items():
        table = table.append_column(name, pa.repeat(value, table.num_rows))
    return table


@contextmanager
def explained(name: str, *, first_record: int = 1) -> Iterator[None]:
    """Turn what Arrow says of a broken file into an error that names the file, and the record where it's known."""
    import pyarrow as pa

    try:
        yield
    except CalibrantError:
        raise
    except UnicodeDecodeError as error:
        raise not_text(name, error.encoding, f"{error.reason} near byte {error.start:,}") from None
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = re.sub(r"\s+", " ", str(error))
        at = re.match(r"CSV parse error: Row #(\d+): (.*)", said)
        if at:
            place = f"record {int(at[1]) + first_record - 1} (the header is record 1)"
            raise InvalidInputError(f"{name}: {place} is broken: {at[2]:.200}") from None
        raise InvalidInputError(f"{name} can't be read, or is broken: {said:.300}") from None


def check_numbers(column: pa.ChunkedArray, name: str) -> None:
    """Refuse a column of lists or records, and the first value that made text of what should be numbers."""
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        raise InvalidTypeError(f"{name} holds {column.type} values, not numbers. Name a column of numbers.")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    values = column.to_pylist()
    mixed = np.array([value if value is None or not _is_number(value) else float(value) for value in values], object)
    if any(isinstance(value, str) for value in mixed):
        as_scores(mixed, name=name)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
