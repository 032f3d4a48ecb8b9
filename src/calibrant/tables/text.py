"""Text tables cut into whole records, whose bytes stay as they are.

A record of a delimited table ends at the first line ending outside quotes, and a quote opens a quoted field only where
the field begins: so read Arrow and Python's csv. A file is read in chunks, each cut behind its last whole record. Where
a chunk holds no quote, its lines are its records. Otherwise the csv module reads its lines and says how many belong to
each record. JSON lines end at line feeds, which JSON has nowhere inside a value.
"""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from calibrant.errors import InvalidInputError
from calibrant.tables.formats import BOM, FileBytes

#: A record longer than this is taken for a quote that nobody closed.
LONGEST_RECORD = 1 << 26
_FIELD_LIMIT = threading.Lock()


@dataclass(frozen=True, slots=True)
class TextChunk:
    """Whole records of a delimited table; `ends` counts the lines up to each record's end, None if each has one."""

    data: bytes
    ends: list[int] | None = None

    def records(self) -> list[bytes]:
        """Return the records with their line endings."""
        lines = self.data.splitlines(keepends=True)
        if self.ends is None:
            return lines
        return [lines[a] if b == a + 1 else b"".join(lines[a:b]) for a, b in pairwise([0, *self.ends])]

    @property
    def n_rows(self) -> int:
        """The number of records that are not blank."""
        return sum(record[:1] not in b"\r\n" for record in self.records())

    def split(self, n: int) -> tuple[bytes, TextChunk]:
        """Return the bytes of the first `n` records, and the other records."""
        first = b"".join(self.records()[:n])
        ends = None if self.ends is None else [end - self.ends[n - 1] for end in self.ends[n:]]
        return first, TextChunk(self.data[len(first) :], ends)


def text_chunks(file: FileBytes, delimiter: str | None = None) -> Iterator[TextChunk]:
    """Cut a text table behind whole records, which without a delimiter are lines. A byte-order mark is left out."""
    rest, n_records = b"", 0
    for i, read in enumerate(chain(file.chunks(), [b""])):
        data = rest + (read.removeprefix(BOM) if i == 0 else read)
        chunk = _whole_records(data, delimiter, is_last=not read)
        if chunk.data:
            yield chunk
        n_lines = chunk.data.count(b"\n") + chunk.data.count(b"\r") - chunk.data.count(b"\r\n")
        n_records += n_lines if chunk.ends is None else len(chunk.ends)
        rest = data[len(chunk.data) :]
        if len(rest) > (LONGEST_RECORD if read else 0):
            shown = rest[:60].decode("utf-8", "replace")
            raise InvalidInputError(
                f"{file.name}: record {n_records + 1}, which begins {shown!r}, never ends. Close its quote, or double "
                "each quote inside a quoted field."
            )


def _whole_records(data: bytes, delimiter: str | None, *, is_last: bool) -> TextChunk:
    """Return the whole records that the bytes begin with; the end of the file ends a record too."""
    if not is_last:  # a carriage return at the end may be the first half of a line ending
        last_return = -1 if delimiter is None else data.rfind(b"\r", 0, -1)
        data = data[: max(data.rfind(b"\n"), last_return) + 1]
    if delimiter is None or b'"' not in data:
        return TextChunk(data)
    lines = io.StringIO(data.decode("latin-1"), newline="")  # which makes one character of each byte
    # After the last line comes an empty one: a record of its own, unless a quote is open; then it ends the open record.
    reader = csv.reader(chain(lines, [""]), delimiter=delimiter)
    with _FIELD_LIMIT:  # the module's limit of the length of a field is one for the whole process
        limit = csv.field_size_limit(2 * LONGEST_RECORD)
        try:
            ends = [reader.line_num for _ in reader][:-1]
        finally:
            csv.field_size_limit(limit)
    n_open = reader.line_num - 1 - (ends[-1] if ends else 0)
    if n_open:
        data = data[: -sum(map(len, data.splitlines(keepends=True)[-n_open:]))]
    return TextChunk(data, ends)
