"""The delimiter of a text table whose header has no comma, where its first lines leave no doubt."""

from __future__ import annotations

import csv
import io
from itertools import islice

_CANDIDATES = ";\t|"
#: Records that must agree.
_LOOKED_AT = 20


def found_delimiter(head: bytes, *, is_whole: bool) -> str | None:
    """Return the one delimiter by which the first records of a table without commas in its header are of one width.

    `head` is the beginning of the text in UTF-8, or all of it. None stands for the comma, or for doubt: a header of one
    column, records of other widths, or two delimiters that would do.
    """
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    lines = lines if is_whole else lines[:-1]
    header = next(iter(_records(lines, ",")), [])
    if len(header) != 1:
        return None
    found = []
    for delimiter in _CANDIDATES:
        widths = {len(record) for record in _records(lines, delimiter)}
        if len(widths) == 1 and widths != {1}:
            found.append(delimiter)
    return found[0] if len(found) == 1 else None


def _records(lines: list[str], delimiter: str) -> list[list[str]]:
    """Return the first records that are not blank."""
    try:
        reader = csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter)
        return list(islice(filter(None, reader), _LOOKED_AT))
    except csv.Error:
        return []
