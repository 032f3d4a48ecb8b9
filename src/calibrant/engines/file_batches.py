"""The rows of one file as Arrow tables of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calibrant.engines.appending import parse_records
from calibrant.engines.formats import Source
from calibrant.engines.reading import (
    explained,
    header_names,
    header_record,
    json_column,
    no_header,
    plain_table,
    select_columns,
    table_file,
)
from calibrant.engines.records import csv_records, json_objects, line_records

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a batch at most: what a few columns of them need stays small.
BATCH_ROWS = 1 << 17


def names_of(file: Source) -> tuple[str, ...]:
    """Return the names of a file's columns; of JSON lines, those of its first records."""
    if file.format != "jsonl":
        return table_file(file).names
    with explained(file.name):
        for records in line_records(file):
            rows = [row for row in json_objects(records, file.name, 1) if row is not None]
            if rows:
                return tuple(dict.fromkeys(name for row in rows for name in row))
    return ()


def scan_file(file: Source, columns: list[str]) -> Iterator[pa.Table]:
    """Read the named columns of a file batch by batch."""
    match file.format:
        case "parquet":
            return _scan_parquet(file, columns)
        case "csv" | "tsv":
            return _scan_csv(file, columns)
        case "jsonl":
            return _scan_json_lines(file, columns)


def _scan_parquet(file: Source, columns: list[str]) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(file.open_arrow()) as opened:
        names = select_columns(columns, opened.schema_arrow.names, file.name)
        for batch in opened.iter_batches(BATCH_ROWS, columns=names):
            yield plain_table(pa.Table.from_batches([batch]), names)


def _scan_csv(file: Source, columns: list[str]) -> Iterator[pa.Table]:
    names: tuple[str, ...] | None = None
    n_rows = 0
    for records in csv_records(file):
        rest = records
        if names is None:
            at = header_record(records)
            if at is None:
                continue
            header, rest = records.split(at + 1)
            names = header_names(header.texts()[at], file)
            select_columns(columns, names, file.name)
        if rest.n_rows:
            with explained(file.name, first_record=n_rows + 2):
                yield parse_records(rest, names, columns, file)
            n_rows += rest.n_rows
    if names is None:
        raise no_header(file)


def _scan_json_lines(file: Source, columns: list[str]) -> Iterator[pa.Table]:
    import pyarrow as pa

    line = 1
    for records in line_records(file):
        rows = [row for row in json_objects(records, file.name, line) if row is not None]
        line += records.stops.size
        yield pa.table({name: json_column([row.get(name) for row in rows], name, file.name) for name in columns})
