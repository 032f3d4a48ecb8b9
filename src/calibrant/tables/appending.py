"""New columns beside those of a source: same rows, same order, every other column as it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.errors import InvalidInputError
from calibrant.files import open_target
from calibrant.tables.databases import is_database
from calibrant.tables.formats import SUFFIXES, FileBytes, Format, named_suffixes, open_bytes
from calibrant.tables.opening import open_rows, table_file
from calibrant.tables.parts import PART_ROWS, Applied, append_in_parts
from calibrant.tables.sources import explained
from calibrant.tables.writing import NewColumns, Progress, write_tables

if TYPE_CHECKING:
    import pyarrow as pa


def append_columns(
    source: Any,
    target: str | os.PathLike[str],
    *,
    columns: NewColumns,
    fingerprint: str | None = None,
    format: str | None = None,
    table: str | None = None,
    part_rows: int = PART_ROWS,
    progress: Progress | None = None,
) -> Applied:
    """Copy a source that `open_rows` takes, with new columns, to a file, or from files to a folder of parts.

    The target's suffix says the format to write, which is that of a source file where they share a suffix; `-` is
    standard output. A file appears whole or not at all, and may be the source too. Where the target is a folder, or its
    name ends like one, or the source is a folder of files, `append_in_parts` writes a folder; what computes the columns
    must then have a fingerprint. `progress` is told the number of rows done so far.

    Where source and target share a format, the rest of a text table keeps its bytes (quotes, line endings, `007`, blank
    lines, a missing last line ending), and a Parquet file keeps its types, metadata, row groups (up to 2^20 rows) and
    codec; memory is bounded by a few megabytes of text, or by one row group. Where they don't, values are converted by
    their Arrow types, and a text source is read into memory. Numbers are written in the shortest form that reads back
    as the same float64.
    """
    is_path = isinstance(source, (str, os.PathLike)) and not is_database(source)
    advance = progress or _ignore
    if is_path and fingerprint is not None and (Path(source).is_dir() or _is_folder(target)):
        return append_in_parts(source, target, columns, fingerprint, format, part_rows, advance)
    file = open_bytes(source, format) if is_path and table is None else None
    to = _target_format(target, file)
    if file is not None and to == file.format:
        with open_target(target) as out, explained(file.name):
            return Applied(table_file(file).append(out, columns, advance))
    rows = open_rows(source, format=format, table=table) if file is None else table_file(file.materialised())
    with open_target(target) as out, explained(rows.name):
        tables = map(_without_dictionaries, rows.tables()) if to == "arrow" else rows.tables()
        return Applied(write_tables(tables, out, to, columns, rows.name, advance))


def _ignore(_: int) -> None:
    """Take no notice of progress."""


def _is_folder(target: str | os.PathLike[str]) -> bool:
    separators = tuple(filter(None, (os.sep, os.altsep)))
    return Path(target).is_dir() or os.fspath(target).endswith(separators)


def _without_dictionaries(table: pa.Table) -> pa.Table:
    """Return the values themselves: an Arrow file has one dictionary of a column, a Parquet file one per row group."""
    import pyarrow as pa

    fields = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def _target_format(target: str | os.PathLike[str], file: FileBytes | None) -> Format:
    """Return the format that the target's name says, or that of the source file where the name says none of its own."""
    path = Path(target)
    if file is not None:
        is_stream = os.fspath(target) == "-" or (path.exists() and not path.is_file())
        if is_stream or (file.path is not None and path.suffix == file.path.suffix):
            return file.format
    known = SUFFIXES.get(path.suffix.lower())
    if known is None:
        or_so = "" if file is None else ", or as the source is"
        raise InvalidInputError(
            f"the name of {os.fspath(target)} doesn't say what to write. Name it {named_suffixes()}{or_so}."
        )
    return known
