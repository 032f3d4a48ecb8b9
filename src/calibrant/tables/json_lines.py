"""JSON lines: one object per line. New columns leave every byte of the others as it was.

Python's json module reads them: Arrow's reader makes times of texts that look like times, and refuses a file for a
column of mixed kinds that nobody asks for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.phrases import count, has_half_pair
from calibrant.tables.columnar import TableFile
from calibrant.tables.formats import FileBytes
from calibrant.tables.sources import explained
from calibrant.tables.text import text_chunks
from calibrant.tables.writing import NewColumns, Progress, Written

if TYPE_CHECKING:
    import pyarrow as pa

_SPACE = b" \t\r\n"


class _Twice:
    """Stands for the values of a name that is there twice: other readers take the first, or the last."""

    line = 0


class JsonLinesFile(TableFile):
    """A file of one JSON object per line; a name that a line lacks is a missing value."""

    def __init__(self, file: FileBytes) -> None:
        super().__init__(file)
        self._names: tuple[str, ...] | None = None
        self._twice: list[_Twice] = []
        self._decode = json.JSONDecoder(object_pairs_hook=self._members).decode

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the first few thousand objects; in all of them, once a name was asked for that those lack."""
        if self._names is None:
            with explained(self.name):
                self._names = next((_names_in(rows) for _, rows in self._chunks() if rows), ())
        return self._names

    def select(self, wanted: Sequence[str]) -> list[str]:
        """Return the names of the wanted columns, whichever objects have them."""
        if not set(wanted) <= set(self.names):
            with explained(self.name):
                self._names = _names_in(row for _, rows in self._chunks() for row in rows)
        self._check_rows()
        return super().select(wanted)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        if columns is not None:
            return super().read(columns)
        with explained(self.name):
            self._check_rows()
            rows = [row for _, rows in self._chunks() for row in rows]
            return self._table(rows, _names_in(rows))

    def tables(self) -> Iterator[pa.Table]:
        """Read all columns; only the whole file says of what types they are."""
        yield self.read()

    def _check_rows(self) -> None:
        """Refuse a file without rows, which alone say what columns there are."""
        if not self.names and not any(rows for _, rows in self._chunks()):
            raise InvalidInputError(f"{self.name} is empty: it has no row.")

    def append(self, out: BinaryIO, new: NewColumns, progress: Progress) -> Written:
        """Write the lines with new values at the end of each object, but for those that are left out."""
        keys = [json.dumps(name, ensure_ascii=False) for name in new.outputs]
        out.write(self.file.bom)
        n_rows, written = 0, Written()
        for lines, rows in self._chunks():
            values = np.empty((0, len(new.outputs)))
            if rows:
                of_chunk = new.of(_names_in(rows), self.name)
                values = of_chunk.values(self._table(rows, of_chunk.stored), n_rows)
                written = written.with_rows(values, new.missing)
            of_row = iter(values.tolist())
            kept = []
            for line in lines:
                if not line.strip(_SPACE):
                    kept.append(line)
                elif not math.isnan((own := next(of_row))[0]) or new.missing != "skip":
                    shown = (f", {key}: {_as_json(value, new)}" for key, value in zip(keys, own, strict=True))
                    brace = line.rindex(b"}")
                    kept.append(line[:brace] + "".join(shown).encode() + line[brace:])
            out.write(b"\n".join(kept))
            n_rows += len(rows)
            progress(n_rows)
        return written

    def _chunks(self) -> Iterator[tuple[list[bytes], list[dict[str, Any]]]]:
        """Yield some lines, without their line feeds, and the objects in those that are not blank."""
        n_before = 0
        for chunk in text_chunks(self.file):
            lines = chunk.data.split(b"\n")
            numbered = enumerate(lines, start=n_before + 1)
            yield lines, [self._object(line, i) for i, line in numbered if line.strip(_SPACE)]
            n_before += len(lines) - 1

    def _object(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            value = self._decode(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            shown = line[:60].decode("utf-8", "replace")
            raise InvalidInputError(
                f"{self.name} line {number}: {shown!r} can't be read: {error}. Write one JSON object per line."
            ) from None
        if not isinstance(value, dict):
            raise InvalidInputError(
                f"{self.name} line {number}: {value!r:.60} is not a JSON object. Write one object per line."
            )
        while self._twice:
            self._twice.pop().line = number
        if b"\\u" in line and (odd := next(filter(has_half_pair, value), None)) is not None:
            raise InvalidInputError(
                f"{self.name} line {number}: the name {odd!r:.60} holds half a surrogate pair. Write it as text."
            )
        return value

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Return an object, with `_Twice` for each name that is there more than once."""
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    members[name] = _Twice()
                    self._twice.append(members[name])
                seen.add(name)
        return members

    def scan_tables(self, columns: list[str]) -> Iterator[pa.Table]:
        return (self._table(rows, columns) for _, rows in self._chunks())

    def read_table(self, columns: list[str]) -> pa.Table:
        """Read the named columns, each of one type throughout the file."""
        found = ({name: row.get(name) for name in columns} for _, rows in self._chunks() for row in rows)
        return self._table(list(found), columns)

    def _table(self, rows: list[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.table({name: self._column([row.get(name) for row in rows], name) for name in columns})

    def _column(self, values: list[Any], name: str) -> pa.Array:
        """Return values that must be of one kind or missing as an Arrow array."""
        import pyarrow as pa

        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
            twice = next((value for value in values if isinstance(value, _Twice)), None)
            if twice is not None:
                raise InvalidInputError(
                    f"{self.name} line {twice.line}: the name {name!r} is there twice. Write each name once."
                ) from None
            wide = [value for value in values if type(value) is int and not -(2**63) <= value < 2**63]
            kinds: dict[type, Any] = {}
            for value in values:
                kinds.setdefault(float if type(value) is int else type(value), value)
            kinds.pop(type(None), None)
            if len(kinds) == 1 and wide:
                raise InvalidInputError(
                    f"column {name!r} of {self.name} holds {wide[0]!r:.40}, beyond the whole numbers of 64 bits "
                    f"({count(len(wide), 'value')} of {len(values):,} read). Write it as text, or with a decimal point."
                ) from None
            shown = " and ".join(f"{value!r:.40}" for value in list(kinds.values())[:2])
            what = f"mixes kinds of values, such as {shown}" if len(kinds) > 1 else f"can't be read ({error})"
            raise InvalidInputError(f"column {name!r} of {self.name} {what}. Write one kind in every line.") from None


def _names_in(rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))


def _as_json(value: float, new: NewColumns) -> str:
    if new.missing == "keep" and math.isnan(value):
        return "null"
    return json.dumps(new.texts[int(value)], ensure_ascii=False) if new.texts else repr(value)
