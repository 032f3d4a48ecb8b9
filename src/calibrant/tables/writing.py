"""New columns of a table, and tables written to a file of any format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables.formats import DELIMITERS, Format
from calibrant.tables.sources import BATCH_ROWS, plain_table, select_columns

if TYPE_CHECKING:
    import pyarrow as pa

#: Takes the input columns of some rows, gives the new ones, shape (n,) or (n, K).
Compute: TypeAlias = "Callable[[pa.Table], FloatArray]"
#: Is told how many rows are done.
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class NewColumns:
    """New columns of a table, and the columns that they are computed from: names, or patterns such as `p*`."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    compute: Compute

    def of(self, names: Sequence[str], where: str) -> NewColumns:
        """Return the new columns of a table with the given names, which must have all inputs and no output."""
        inputs = select_columns(self.inputs, names, where)
        for name in self.outputs:
            if name in names:
                raise InvalidInputError(
                    f"{where} already has a column {name!r}. Choose another name with --column (column= in Python)."
                )
        return replace(self, inputs=inputs)

    def values(self, table: pa.Table, first_row: int = 0) -> FloatArray:
        """Compute the new columns of some rows, shape (n, K); `first_row` is the first one's number in the file."""
        if table.num_rows == 0:
            return np.empty((0, len(self.outputs)))
        try:
            values = self.compute(plain_table(table, self.inputs))
        except CalibrantError as error:
            if first_row == 0:
                raise
            raise type(error)(f"{error} (Rows are counted from row {first_row:,} of the file.)") from None
        return values.reshape(table.num_rows, len(self.outputs))

    def append_to(self, table: pa.Table, first_row: int = 0) -> pa.Table:
        """Return the table with its new columns."""
        import pyarrow as pa

        for name, column in zip(self.outputs, self.values(table, first_row).T, strict=True):
            table = table.append_column(name, pa.array(column))
        return table


def write_tables(
    tables: Iterable[pa.Table], out: BinaryIO, to: Format, new: NewColumns, where: str, progress: Progress
) -> int:
    """Write tables of one schema, at least one, with their new columns; return the number of rows."""
    rest = iter(tables)
    first = next(rest)
    new = new.of(first.column_names, where)
    schema = new.append_to(first.slice(0, 0)).schema
    n_rows = 0
    with table_writer(out, to, schema, where) as write:
        for table in chain([first], rest):
            for start in range(0, table.num_rows, BATCH_ROWS):
                write(new.append_to(table.slice(start, BATCH_ROWS), n_rows))
                n_rows += min(BATCH_ROWS, table.num_rows - start)
                progress(n_rows)
    return n_rows


@contextmanager
def table_writer(out: BinaryIO, to: Format, schema: pa.Schema, where: str) -> Iterator[Callable[[pa.Table], None]]:
    """Open a writer of tables with the given schema."""
    match to:
        case "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetWriter(out, schema) as parquet:
                yield parquet.write_table
        case "arrow":
            import pyarrow as pa

            with pa.ipc.new_file(out, schema) as arrow:
                yield arrow.write_table
        case "csv" | "tsv":
            import pyarrow.csv as pc

            _check_flat(schema, where, to)
            with pc.CSVWriter(out, schema, write_options=pc.WriteOptions(delimiter=DELIMITERS[to])) as delimited:
                yield delimited.write_table
        case "jsonl":  # which Arrow reads and does not write
            yield partial(_write_json_lines, out, where)


def _check_flat(schema: pa.Schema, where: str, to: Format) -> None:
    import pyarrow as pa

    for field in schema:
        if pa.types.is_nested(field.type):
            raise InvalidInputError(
                f"column {field.name!r} of {where} holds {field.type} values, which {to} can't. "
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
