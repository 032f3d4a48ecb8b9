"""New columns of a table, and tables written to a file of any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables.missing import missing_rows
from calibrant.tables.sources import BATCH_ROWS, plain_table, select_columns, with_constants
from calibrant.tables.table_format import DELIMITERS, Format

if TYPE_CHECKING:
    import pyarrow as pa

#: Takes the input columns of some rows, gives the new ones, shape (n,) or (n, K).
Compute: TypeAlias = "Callable[[pa.Table], FloatArray]"
#: Is told how many rows are done.
Progress: TypeAlias = Callable[[int], None]


#: What becomes of rows that lack an input of new columns: with "keep" they get no value.
MissingInput: TypeAlias = Literal["error", "skip", "keep"]
MISSING_INPUT = ("error", "skip", "keep")
KEEP_HINT = (
    "Pass --missing keep (missing='keep' in Python) to leave the new columns of such rows empty, or skip to leave the "
    "rows out."
)


class Written(NamedTuple):
    """Rows that were written, and rows that lacked an input: written without new values, or left out."""

    n_rows: int = 0
    n_missing: int = 0

    def with_rows(self, values: FloatArray, missing: MissingInput) -> Written:
        """Count some more rows, by their new values."""
        n_missing = int(np.isnan(values[:, 0]).sum()) if missing != "error" else 0
        n_left = n_missing if missing == "skip" else 0
        return Written(self.n_rows + len(values) - n_left, self.n_missing + n_missing)


@dataclass(frozen=True, slots=True)
class NewColumns:
    """New columns of a table, and the columns that they are computed from: names, or patterns such as `p*`.

    `missing` says what becomes of rows that lack an input, but for those of `optional`; "error" leaves it to what
    computes the columns. Where there are `texts`, values are their numbers, and the texts are what is written.
    `as_text` names inputs that are read as text from a file that doesn't say of what types its columns are. `told` are
    values of inputs that the folders of a file say.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    compute: Compute
    missing: MissingInput = "error"
    texts: Sequence[str] = ()
    optional: Sequence[str] = ()
    as_text: Sequence[str] = ()
    told: Mapping[str, pa.Scalar] = field(default_factory=dict)

    @property
    def stored(self) -> list[str]:
        """The inputs that the table itself has."""
        return [name for name in self.inputs if name not in self.told]

    @property
    def required(self) -> list[str]:
        """The inputs that no row may lack."""
        return [name for name in self.inputs if name not in self.optional]

    def of(self, names: Sequence[str], where: str) -> NewColumns:
        """Return the new columns of a table with the given names, which must have all inputs and no output."""
        told = {name: value for name, value in self.told.items() if name not in names}
        inputs = select_columns(self.inputs, [*names, *told], where)
        for name in self.outputs:
            if not name:
                raise InvalidInputError("the new column has no name. Pass one with --column (column= in Python).")
            if name in names or name in told:
                raise InvalidInputError(
                    f"{where} already has a column {name!r}. Choose another name with --column (column= in Python)."
                )
        return replace(self, inputs=inputs, told=told)

    def values(self, table: pa.Table, first_row: int = 0) -> FloatArray:
        """Compute the new columns of some rows, shape (n, K); NaN in rows that lack an input, where they may.

        `first_row` is the first one's number in the file.
        """
        told = {name: self.told[name] for name in self.inputs if name in self.told}
        inputs = with_constants(plain_table(table, self.stored), told).select(list(self.inputs))
        missing = (
            np.zeros(table.num_rows, np.bool_)
            if self.missing == "error"
            else missing_rows(inputs.select(self.required))
        )
        if missing.any():
            inputs = inputs.filter(~missing)
        shape = inputs.num_rows, len(self.outputs)
        try:
            found = self.compute(inputs).reshape(shape) if inputs.num_rows else np.empty(shape)
        except CalibrantError as error:
            if first_row == 0 and not missing.any():
                raise
            without = ", without those that lack a value" if missing.any() else ""
            raise type(error)(f"{error} (Rows are counted from row {first_row:,} of the file{without}.)") from None
        if not missing.any():
            return found
        values = np.full((table.num_rows, shape[1]), np.nan)
        values[~missing] = found
        return values

    def schema_of(self, table: pa.Table) -> pa.Schema:
        """Return the schema that a table has with its new columns."""
        return self.append_to(table.slice(0, 0), np.empty((0, len(self.outputs)))).schema

    def append_to(self, table: pa.Table, values: FloatArray) -> pa.Table:
        """Return the table with its new columns; of rows that lack an input without values, or without these rows."""
        import pyarrow as pa

        for name, column in zip(self.outputs, values.T, strict=True):
            new = pa.array(column, from_pandas=self.missing == "keep")
            if self.texts:
                new = pa.array(list(self.texts)).take(pa.array(column, pa.int32(), from_pandas=True, safe=False))
            table = table.append_column(name, new)
        return table.filter(~np.isnan(values[:, 0])) if self.missing == "skip" else table


def write_tables(
    tables: Iterable[pa.Table], out: BinaryIO, to: Format, new: NewColumns, where: str, progress: Progress
) -> Written:
    """Write tables of one schema, at least one, with their new columns; count the rows."""
    rest = iter(tables)
    first = next(rest)
    new = new.of(first.column_names, where)
    n_rows, written = 0, Written()
    with table_writer(out, to, new.schema_of(first), where) as write:
        for table in chain([first], rest):
            for start in range(0, table.num_rows, BATCH_ROWS):
                part = table.slice(start, BATCH_ROWS)
                values = new.values(part, n_rows)
                write(new.append_to(part, values))
                written = written.with_rows(values, new.missing)
                n_rows += part.num_rows
                progress(n_rows)
    return written


@contextmanager
def table_writer(out: BinaryIO, to: Format, schema: pa.Schema, where: str) -> Iterator[Callable[[pa.Table], None]]:
    """Open a writer of tables with the given schema."""
    with _writable(where, to):
        writer = _writer(out, to, schema, where)
    put = partial(_write_json_lines, out, where) if writer is None else writer.write_table

    def write(table: pa.Table) -> None:
        with _writable(where, to):
            put(table)

    with writer or nullcontext():
        yield write


def _writer(out: BinaryIO, to: Format, schema: pa.Schema, where: str) -> Any:
    """Return Arrow's writer of a format; None of JSON lines, which Arrow reads and does not write."""
    match to:
        case "parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(out, schema)
        case "arrow":
            import pyarrow as pa

            return pa.ipc.new_file(out, schema)
        case "csv" | "tsv":
            import pyarrow.csv as pc

            _check_flat(schema, where, to)
            return pc.CSVWriter(out, schema, write_options=pc.WriteOptions(delimiter=DELIMITERS[to]))
        case "jsonl":
            return None


@contextmanager
def _writable(where: str, to: Format) -> Iterator[None]:
    """Turn what Arrow says of values that a format can't hold into an error that says so."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise InvalidInputError(f"{where} can't be written as {to} ({error!s:.200}). Write another format.") from None


def _check_flat(schema: pa.Schema, where: str, to: Format) -> None:
    import pyarrow as pa

    for column in schema:
        if pa.types.is_nested(column.type):
            raise InvalidInputError(
                f"column {column.name!r} of {where} holds {column.type} values, which {to} can't. "
                "Write Parquet or JSON lines."
            )


def _write_json_lines(out: BinaryIO, where: str, table: pa.Table) -> None:
    import pyarrow as pa

    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_floating(column.type):
            column = pa.array(column.to_numpy(), from_pandas=True)  # JSON has no NaN: it becomes null
        columns.append(_json_values(column.to_pylist(), name, where))
    names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    for row in zip(*columns, strict=True):
        pairs = (f"{name}: {value}" for name, value in zip(names, row, strict=True))
        out.write(f"{{{', '.join(pairs)}}}\n".encode())


def _json_values(values: list[Any], name: str, where: str) -> list[str]:
    try:
        return [json.dumps(value, ensure_ascii=False, allow_nan=False, default=_as_text) for value in values]
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"column {name!r} of {where} can't be written as JSON ({error}). Write Parquet instead."
        ) from None


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        raise TypeError("it holds bytes")
    return str(value)
