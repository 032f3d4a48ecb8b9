"""Line numbers in messages about text tables: people open these in an editor, which counts lines and not rows."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence

from calibrant.errors import DataWarning
from calibrant.tables.columnar import TableFile
from calibrant.tables.delimited import DelimitedFile
from calibrant.tables.finding import find_files, is_many
from calibrant.tables.formats import FileBytes
from calibrant.tables.json_lines import JsonLinesFile
from calibrant.tables.opening import many_files, one_file, table_file
from calibrant.tables.remote import RemoteFile, name_of
from calibrant.tables.table_format import FormatLike
from calibrant.tables.text import text_chunks

#: The note of a message about a batch, whose rows are numbered from its own first one: how many rows came before it.
_FROM_ROW = re.compile(r" \(Rows are counted from row (\d[\d,]*) of .*?\.\)")


def in_lines(message: str, path: str | os.PathLike[str], format: FormatLike = None) -> str:
    """Return a message about rows of a text table with lines in their place; any other message as it is.

    Rows of which some were left out, and of what can't be read again, keep their numbers. Lines are counted from one,
    the header's among them; a record of several lines stands at its first.
    """
    if os.fspath(path) == "-" or " row" not in message or "without those that lack" in message:
        return message
    places = {name_of(os.fspath(path)): path} | _files_named(message, path, format)
    for name, place in places.items():
        said = re.search(rf"(?<!rows of )(?:^|(?<=\s))({re.escape(name)})(: .*?)? row (\d+(?:,\d{3})*)", message)
        if said is None:
            continue
        batch = _FROM_ROW.search(message)
        n_before = 0 if batch is None else int(batch[1].replace(",", ""))
        found = _line_of(_tables_again(place, format), int(said[3].replace(",", "")) + n_before)
        if found is None:
            return message
        file, line = found
        text = message[: said.start(1)] + file + (said[2] or "") + f" line {line:,}" + message[said.end() :]
        return _FROM_ROW.sub("", text)
    return message


def _files_named(message: str, path: str | os.PathLike[str], format: FormatLike) -> dict[str, str]:
    """Return the files of a folder or pattern that a message names."""
    if not is_many(path):
        return {}
    files = find_files(path, any_suffix=format is not None)
    names = [file.name if isinstance(file, RemoteFile) else os.fspath(file) for file in files]
    return {name: name for name in names if name in message}


def _tables_again(path: str | os.PathLike[str], format: FormatLike) -> list[TableFile]:
    """Open the tables of a path that was read before, those of streams aside; what that warned of is not said again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        files = many_files(path, format) if is_many(path) else [table_file(one_file(path, format))]
    return [file for file in files if file.file.stream is None]


def _line_of(files: Sequence[TableFile], row: int) -> tuple[str, int] | None:
    """Return the name of the file that holds a row, numbered through all files, and the line where it begins."""
    for file in files:
        if not isinstance(file, (DelimitedFile, JsonLinesFile)):
            return None
        delimiter = file.file.delimiter if isinstance(file, DelimitedFile) else None
        found, n_rows = _line_in(file.file, delimiter, row)
        if found is not None:
            return file.name, found
        row -= n_rows
    return None


def _line_in(file: FileBytes, delimiter: str | None, row: int) -> tuple[int | None, int]:
    """Return the line where a row of a file begins, if it has so many, and the number of rows before."""
    n_rows, line = (0, 1) if delimiter is None else (-1, 1)  # of a delimited table the first record is the header
    for chunk in text_chunks(file, delimiter):
        for record in chunk.records():
            if record.strip(b" \t\r\n" if delimiter is None else b"\r\n"):
                if n_rows == row:
                    return line, n_rows
                n_rows += 1
            line += max(1, len(record.splitlines()))
    return None, n_rows
