"""Columns added to a table in a file: same rows, same order, every other column as it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from calibrant.engines.additions import Addition, Compute, Progress
from calibrant.engines.converting import append_converted
from calibrant.engines.formats import SUFFIXES, Format, Source, open_source
from calibrant.engines.reading import (
    conversion,
    explained,
    header_names,
    header_record,
    json_column,
    no_header,
    plain_table,
)
from calibrant.engines.records import Records, csv_records, json_objects, line_records
from calibrant.engines.targets import open_target
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

_PARQUET_BATCH_ROWS = 1 << 20


def append_columns(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Compute,
    format: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Copy a table with new columns that are computed from some of its own.

    Parameters
    ----------
    path : path-like
        As in `open_table`. It may be the target too.
    target : path-like
        Its suffix says the format, which is the source's where they share a suffix; `-` is standard output. A
        file appears whole or not at all.
    inputs, outputs : sequence of str
        Names (or patterns, as in `read_columns`) of the columns that are needed, and names of the new ones.
    compute : callable
        Takes the input columns of some rows as an Arrow table, gives the new ones, shape (n,) or (n, K).
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
        What the source is, whatever its name says.
    progress : callable, optional
        Is told the number of rows done so far.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    CalibrantError
        If the source can't be read, lacks an input, or has an output already; or as `compute` raises.

    Notes
    -----
    Where source and target share a format, the rest of a text table keeps its bytes (quotes, line endings,
    `007`, blank lines, a missing last line ending), and a Parquet file keeps its types, metadata, row groups (up
    to 2^20 rows) and codec; memory is bounded by a few megabytes of text, or by one row group. Where they don't,
    values are converted by their Arrow types, and a text source is read into memory. Numbers are written in the
    shortest form that reads back as the same float64.
    """
    source = open_source(path, format)
    to = _target_format(target, source)
    append = append_to if to == source.format else append_converted
    with open_target(target) as out, explained(source.name):
        return append(source, out, to, Addition(inputs, outputs, compute), progress or _tell_nobody)


def _tell_nobody(_: int) -> None:
    """Take no notice of progress."""


def _target_format(target: str | os.PathLike[str], source: Source) -> Format:
    path = Path(target)
    if os.fspath(target) == "-" or (path.exists() and not path.is_file()):
        return source.format
    if source.path is not None and path.suffix == source.path.suffix:
        return source.format
    known = SUFFIXES.get(path.suffix.lower())
    if known is None:
        raise InvalidInputError(
            f"the name of {os.fspath(target)} doesn't say what to write. Name it {', '.join(sorted(SUFFIXES))}, "
            "or as the source is."
        )
    return known


def append_to(source: Source, out: BinaryIO, to: Format, addition: Addition, progress: Progress) -> int:
    """Write the source with its new columns in its own format `to`; return the number of rows."""
    match to:
        case "parquet":
            return append_row_groups(source, out, addition, progress)
        case "csv" | "tsv":
            return _append_to_csv(source, out, addition, progress)
        case "jsonl":
            return _append_to_json_lines(source, out, addition, progress)


# --- delimited text ------------------------------------------------------------------------------------------


def _append_to_csv(source: Source, out: BinaryIO, addition: Addition, progress: Progress) -> int:
    blocks = csv_records(source)
    out.write(source.bom)
    for first in blocks:
        at = header_record(first)
        if at is not None:
            break
        out.write(first.data)
    else:
        raise no_header(source)
    header, rest = first.split(at + 1)
    names = header_names(header.texts()[at], source)
    inputs = addition.select(names, source.name)
    delimiter = source.delimiter.encode()
    _write_records(out, header, [delimiter + delimiter.join(_quoted(name, delimiter) for name in addition.outputs)])
    n_rows = 0
    for records in chain([rest], blocks):
        if records.n_rows == 0:
            out.write(records.data)
            continue
        with explained(source.name, first_record=n_rows + 2):
            table = parse_records(records, names, inputs, source)
        _write_records(out, records, _fields(addition.values(table, n_rows), delimiter))
        n_rows += records.n_rows
        progress(n_rows)
    return n_rows


def parse_records(records: Records, names: Sequence[str], inputs: Sequence[str], source: Source) -> pa.Table:
    """Parse the fields of some columns of whole records."""
    import pyarrow as pa
    import pyarrow.csv as pc

    keys = [f"column {i}" for i in range(len(names))]  # names may repeat among the columns that nobody asks for
    wanted = [keys[list(names).index(name)] for name in inputs]
    table = pc.read_csv(
        pa.BufferReader(records.data),
        read_options=pc.ReadOptions(column_names=keys, use_threads=False, block_size=len(records.data) + 1),
        parse_options=pc.ParseOptions(delimiter=source.delimiter, newlines_in_values=True),
        convert_options=conversion(wanted),
    )
    if table.num_rows != records.n_rows:
        raise InvalidInputError(
            f"{source.name}: {records.n_rows:,} records read as {table.num_rows:,} rows. "
            "Quote fields in the usual way: a quote opens a field, and is doubled inside it."
        )
    return plain_table(table.rename_columns(list(inputs)), list(inputs))


def _fields(values: FloatArray, delimiter: bytes) -> list[bytes]:
    """Return the text behind each row: each new value with a delimiter before it."""
    between = delimiter.decode()
    return [(between + between.join(map(repr, row))).encode() for row in values.tolist()]


def _write_records(out: BinaryIO, records: Records, added: list[bytes]) -> None:
    more = iter(added)
    pairs = zip(records.texts(), records.line_endings(), strict=True)
    out.write(b"".join(text + next(more) + ending if text else ending for text, ending in pairs))


def _quoted(name: str, delimiter: bytes) -> bytes:
    text = name.encode()
    if any(special in text for special in (delimiter, b'"', b"\n", b"\r")):
        return b'"' + text.replace(b'"', b'""') + b'"'
    return text


# --- JSON lines ----------------------------------------------------------------------------------------------


def _append_to_json_lines(source: Source, out: BinaryIO, addition: Addition, progress: Progress) -> int:
    import json

    import pyarrow as pa

    keys = [json.dumps(name, ensure_ascii=False) for name in addition.outputs]
    n_rows, line = 0, 1
    out.write(source.bom)
    for records in line_records(source):
        rows = [row for row in json_objects(records, source.name, line) if row is not None]
        inputs = addition.select(list(dict.fromkeys(name for row in rows for name in row)), source.name) if rows else []
        table = pa.table({name: json_column([row.get(name) for row in rows], name, source.name) for name in inputs})
        added = iter(addition.values(table, n_rows).tolist() if rows else [])
        lines = []
        for text, ending in zip(records.texts(), records.line_endings(), strict=True):
            if not text.strip():
                lines.append(text + ending)
                continue
            brace = text.rindex(b"}")
            pairs = "".join(f", {key}: {value!r}" for key, value in zip(keys, next(added), strict=True))
            lines.append(text[:brace] + pairs.encode() + text[brace:] + ending)
        out.write(b"".join(lines))
        n_rows += len(rows)
        line += records.stops.size
        progress(n_rows)
    return n_rows


# --- Parquet -------------------------------------------------------------------------------------------------


def append_row_groups(
    source: Source, out: BinaryIO, addition: Addition, progress: Progress, groups: range | None = None
) -> int:
    """Write row groups of a Parquet file with their new columns, all of them by default; return the number of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_rows = 0
    with pq.ParquetFile(source.open_arrow()) as file:
        inputs = addition.select(file.schema_arrow.names, source.name)
        schema = addition.schema(file.schema_arrow)
        with pq.ParquetWriter(out, schema, compression=_codec(file)) as writer:
            for group in range(file.num_row_groups) if groups is None else groups:
                for batch in file.iter_batches(_PARQUET_BATCH_ROWS, row_groups=[group]):
                    table = pa.Table.from_batches([batch])
                    added = addition.values(plain_table(table, inputs), n_rows)
                    writer.write_table(addition.extended(table, added, schema), row_group_size=table.num_rows)
                    n_rows += table.num_rows
                    progress(n_rows)
    return n_rows


def _codec(file: object) -> str:
    """Return the codec of the first column, as pyarrow's writer calls it."""
    metadata = file.metadata  # type: ignore[attr-defined]
    if metadata.num_row_groups == 0 or metadata.num_columns == 0:
        return "snappy"
    codec = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(codec, codec)
