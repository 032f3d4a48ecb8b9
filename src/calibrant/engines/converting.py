"""A table written in another format than it was read in, with new columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from calibrant.engines.additions import Addition, Progress
from calibrant.engines.formats import DELIMITERS, Format, Source
from calibrant.engines.reading import plain_table, table_file
from calibrant.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 1 << 16


def append_converted(source: Source, out: BinaryIO, to: Format, addition: Addition, progress: Progress) -> int:
    """Write the source with its new columns in the format `to`; return the number of rows."""
    import pyarrow as pa

    schema, batches = _batches(source)
    inputs = addition.select(schema.names, source.name)
    extended = addition.schema(schema)
    n_rows = 0
    with table_writer(out, to, extended, source.name) as write:
        for batch in batches:
            table = pa.Table.from_batches([batch], schema=schema)
            added = addition.values(plain_table(table, inputs), n_rows)
            write(addition.extended(table, added, extended))
            n_rows += table.num_rows
            progress(n_rows)
    return n_rows


def _batches(source: Source) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if source.format == "parquet":
        import pyarrow.parquet as pq

        file = pq.ParquetFile(source.open_arrow())
        return file.schema_arrow, file.iter_batches(_BATCH_ROWS)
    table = table_file(source).read()
    return table.schema, iter(table.to_batches(_BATCH_ROWS))


@contextmanager
def table_writer(out: BinaryIO, to: Format, schema: pa.Schema, where: str) -> Iterator[Callable[[pa.Table], None]]:
    """Open a writer of tables with the given schema."""
    match to:
        case "parquet":
            import pyarrow.parquet as pq

            with pq.ParquetWriter(out, schema) as parquet:
                yield parquet.write_table
        case "csv" | "tsv":
            import pyarrow.csv as pc

            _check_flat(schema, where, to)
            options = pc.WriteOptions(delimiter=DELIMITERS[to])
            with pc.CSVWriter(out, schema, write_options=options) as delimited:
                yield delimited.write_table
        case "jsonl":
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
