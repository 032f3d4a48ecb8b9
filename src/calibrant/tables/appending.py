"""New columns beside those of a source, in a file: same rows, same order, every other column as it was."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.errors import InvalidInputError
from calibrant.files import open_target
from calibrant.tables.columnar import TableFile
from calibrant.tables.databases import is_database
from calibrant.tables.formats import SUFFIXES, Format, named_suffixes, open_bytes
from calibrant.tables.opening import open_rows, table_file
from calibrant.tables.sources import RowSource, explained
from calibrant.tables.writing import Compute, NewColumns, Progress, write_tables


def append_columns(
    source: Any,
    target: str | os.PathLike[str],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    compute: Compute,
    format: str | None = None,
    table: str | None = None,
    progress: Progress | None = None,
) -> int:
    """Copy a table with new columns, which `compute` makes of its `inputs`; return the number of rows.

    The source is one that `open_rows` takes, except a folder; a file may be the target too. The target's suffix says
    the format to write, which is that of a source file where they share a suffix; `-` is standard output. A file
    appears whole or not at all. `progress` is told the number of rows done so far.

    Where source and target share a format, the rest of a text table keeps its bytes (quotes, line endings, `007`, blank
    lines, a missing last line ending), and a Parquet file keeps its types, metadata, row groups (up to 2^20 rows) and
    codec; memory is bounded by a few megabytes of text, or by one row group. Where they don't, values are converted by
    their Arrow types, and a text source is read into memory. Numbers are written in the shortest form that reads back
    as the same float64.
    """
    new = NewColumns(inputs, outputs, compute)
    rows = _open(source, format, table)
    to = _target_format(target, rows)
    advance = progress or _ignore
    with open_target(target) as out, explained(rows.name):
        if isinstance(rows, TableFile) and to == rows.file.format:
            return rows.append(out, new, advance)
        return write_tables(rows.tables(), out, to, new, rows.name, advance)


def _open(source: Any, format: str | None, table: str | None) -> RowSource:
    """Open a source; of a stream of text that is only copied no more than a part is in memory at a time."""
    if isinstance(source, (str, os.PathLike)) and not is_database(source) and table is None:
        return table_file(open_bytes(source, format))
    return open_rows(source, format=format, table=table)


def _ignore(_: int) -> None:
    """Take no notice of progress."""


def _target_format(target: str | os.PathLike[str], rows: RowSource) -> Format:
    """Return the format that the target's name says, or that of the source where it says none of its own."""
    path = Path(target)
    if isinstance(rows, TableFile):
        own = rows.file
        if os.fspath(target) == "-" or (path.exists() and not path.is_file()):
            return own.format
        if own.path is not None and path.suffix == own.path.suffix:
            return own.format
    known = SUFFIXES.get(path.suffix.lower())
    if known is None:
        or_so = ", or as the source is" if isinstance(rows, TableFile) else ""
        raise InvalidInputError(
            f"the name of {os.fspath(target)} doesn't say what to write. Name it {named_suffixes()}{or_so}."
        )
    return known
