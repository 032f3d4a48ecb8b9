"""Comma- and tab-separated text with a header. New columns leave every byte of the others as it was."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray
from calibrant.tables.columnar import TableFile
from calibrant.tables.formats import FileBytes
from calibrant.tables.recoding import not_text
from calibrant.tables.sources import explained, select_columns
from calibrant.tables.table_format import UTF8
from calibrant.tables.text import TextChunk, text_chunks
from calibrant.tables.writing import NewColumns, Progress, Written

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv as pc

_READ_BYTES = 1 << 24
#: How whole numbers are written, and which of them say more than their value: with zeros, or a plus, in front.
_WHOLE, _PADDED = r"^[+-]?[0-9]+$", r"^[+-]?0[0-9]|^[+]"


class DelimitedFile(TableFile):
    """A comma- or tab-separated file with a header."""

    def __init__(self, file: FileBytes) -> None:
        super().__init__(file)
        self.delimiter, self.decimal = file.delimiter, file.decimal
        self._as_text: frozenset[str] = frozenset()
        self._numbers: frozenset[str] | None = None  # with codes, these columns alone are numbers whatever they lose

    def with_text(self, columns: Collection[str]) -> Self:
        made = copy(self)
        made._as_text = frozenset(columns)
        return made

    def with_codes(self, but: Collection[str]) -> Self:
        made = copy(self)
        made._numbers = frozenset(but)
        return made

    @cached_property
    def names(self) -> tuple[str, ...]:
        with explained(self.name):
            return self._open()[1]

    def tables(self) -> Iterator[pa.Table]:
        """Read all columns; only the whole file says of what types they are."""
        table = self.read()
        yield table if self._numbers is None else self._codes_as_text(table, self._numbers)

    def _codes_as_text(self, table: pa.Table, but: Collection[str]) -> pa.Table:
        """Read columns anew as text whose values are whole numbers that lost zeros or digits, but for some columns."""
        import pyarrow as pa
        from pyarrow.compute import all as every, any as some, match_substring_regex as matches

        exact = {field.name: pa.types.is_integer(field.type) for field in table.schema if field.name not in but}
        numbers = [name for name in exact if exact[name] or pa.types.is_floating(table[name].type)]
        texts = self.with_text(numbers).read(numbers)
        for name in numbers:
            is_whole = every(matches(texts[name], _WHOLE)).as_py()
            if is_whole and (not exact[name] or some(matches(texts[name], _PADDED)).as_py()):
                table = table.set_column(table.column_names.index(name), name, texts[name])
        return table

    def append(self, out: BinaryIO, new: NewColumns, progress: Progress) -> Written:
        """Write the text with new columns behind each record that is not blank, and is not left out."""
        header, names, chunks = self._open()
        new = new.of(names, self.name)
        added = "".join(self.delimiter + _quoted(name, self.delimiter) for name in new.outputs).encode()
        out.write(self.file.bom + _with_fields([header], [added]))
        n_rows, written = 0, Written()
        for chunk in chunks:
            table = self._parse(chunk, names, new.stored, n_rows)
            values = new.values(table, n_rows)
            out.write(_with_fields(chunk.records(), self._fields(values, new)))
            written = written.with_rows(values, new.missing)
            n_rows += table.num_rows
            progress(n_rows)
        return written

    def scan_tables(self, columns: list[str]) -> Iterator[pa.Table]:
        """Read the named columns; each chunk of the text has types of its own."""
        _, names, chunks = self._open()
        select_columns(columns, names, self.name)
        n_rows = 0
        for chunk in chunks:
            table = self._parse(chunk, names, columns, n_rows)
            n_rows += table.num_rows
            yield table

    def read_table(self, columns: list[str]) -> pa.Table:
        """Read the named columns, each of one type throughout the file."""
        import pyarrow as pa
        import pyarrow.csv as pc

        if any(b'"' in chunk for chunk in self.file.chunks()):
            for _ in text_chunks(self.file, self.delimiter):
                pass  # which finds a quote that is never closed: Arrow takes the rest of the file for its field
        texts = [name for name in columns if name in self._as_text]
        try:
            return self._read_csv(self.file.open_arrow, pc.ReadOptions(block_size=_READ_BYTES), columns, texts)
        except pa.ArrowInvalid:  # without threads the message names the row
            options = pc.ReadOptions(block_size=_READ_BYTES, use_threads=False)
            return self._read_csv(self.file.open_arrow, options, columns, texts)

    def _open(self) -> tuple[bytes, tuple[str, ...], Iterator[TextChunk]]:
        """Return the text up to the end of the header, the names in it, and what follows."""
        before = b""
        chunks = text_chunks(self.file, self.delimiter)
        for chunk in chunks:
            at = next((i for i, record in enumerate(chunk.records()) if record.strip(b"\r\n")), None)
            if at is not None:
                header, rest = chunk.split(at + 1)
                text = io.StringIO(header.lstrip(b"\r\n").decode(), newline="")
                return before + header, tuple(next(csv.reader(text, delimiter=self.delimiter))), chain([rest], chunks)
            before += chunk.data
        raise InvalidInputError(f"{self.name} is empty: it has not even a header.")

    def _parse(self, chunk: TextChunk, names: Sequence[str], columns: Sequence[str], n_before: int) -> pa.Table:
        """Parse the fields of some columns of whole records."""
        import pyarrow as pa
        import pyarrow.csv as pc

        if not chunk.data.strip(b"\r\n"):
            return pa.table({name: pa.array([], pa.float64()) for name in columns})
        keys = [f"column {i}" for i in range(len(names))]  # names may repeat among the columns that nobody asks for
        options = pc.ReadOptions(column_names=keys, use_threads=False, block_size=len(chunk.data) + 1)
        chosen = [keys[names.index(name)] for name in columns]
        texts = [key for key, name in zip(chosen, columns, strict=True) if name in self._as_text]
        with explained(self.name, first_record=n_before + 2):
            table = self._read_csv(lambda: pa.BufferReader(chunk.data), options, chosen, texts)
        if chunk.ends is not None and (n_records := chunk.n_rows) != table.num_rows:
            raise InvalidInputError(
                f"{self.name}: {n_records:,} records read as {table.num_rows:,} rows. "
                "Quote fields in the usual way: a quote opens a field, and is doubled inside it."
            )
        return table.rename_columns(list(columns))

    def _read_csv(
        self, open_text: Callable[[], Any], options: pc.ReadOptions, columns: list[str], texts: Collection[str]
    ) -> pa.Table:
        """Let Arrow read columns: an empty or `NA` field is missing, a quoted one only where all others are no text.

        `texts` are those of the columns that are read as text whatever their values look like.
        """
        import pyarrow as pa

        table = self._convert(open_text(), options, columns, texts, quoted_is_null=False)
        if any(pa.types.is_binary(field.type) for field in table.schema):
            raise not_text(self.name, UTF8, "some values are other bytes")
        for i, name in enumerate(table.column_names):
            if name in texts or not pa.types.is_string(table[name].type):
                continue
            from pyarrow.compute import any as some, equal  # whose import takes longer than to read a small file

            if some(equal(table[name], "")).as_py():
                with suppress(pa.ArrowInvalid):  # text that comes after numbers
                    again = self._convert(open_text(), options, [name], (), quoted_is_null=True)[name]
                    if not (pa.types.is_string(again.type) or pa.types.is_null(again.type)):
                        table = table.set_column(i, name, again)
        return table

    def _convert(
        self, text: Any, options: pc.ReadOptions, columns: list[str], texts: Collection[str], *, quoted_is_null: bool
    ) -> pa.Table:
        import pyarrow as pa
        import pyarrow.csv as pc

        parsing = pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        conversion = pc.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(texts, pa.string()),
            strings_can_be_null=True,
            quoted_strings_can_be_null=quoted_is_null,
            decimal_point=self.decimal,
        )
        try:
            return pc.read_csv(text, options, parsing, conversion)
        except pa.ArrowInvalid as error:
            if "invalid UTF8" in str(error):  # in a column that is said to be text
                raise not_text(self.name, UTF8, "some values are other bytes") from None
            raise

    def _fields(self, values: FloatArray, new: NewColumns) -> list[bytes | None]:
        """Return what follows each row: each new value with a delimiter before it; None where the row is left out."""
        delimiter = self.delimiter
        fields: list[bytes | None]
        if new.texts:
            texts = [_quoted(text, delimiter).encode() for text in new.texts]
            codes = np.nan_to_num(values).astype(np.int64).tolist()
            fields = [b"".join(delimiter.encode() + texts[code] for code in row) for row in codes]
        else:
            rows = map(delimiter.join, zip(*(map(self._number, column) for column in values.T.tolist()), strict=True))
            fields = [*(delimiter + f"\n{delimiter}".join(rows)).encode().split(b"\n")]
        if new.missing != "error":
            without = None if new.missing == "skip" else (delimiter * values.shape[1]).encode()
            for i in np.flatnonzero(np.isnan(values[:, 0])):
                fields[i] = without
        return fields

    @property
    def _number(self) -> Callable[[float], str]:
        """What writes a number with the decimal point of the file."""
        if self.decimal == ".":
            return repr
        return lambda value: _quoted(repr(value).replace(".", self.decimal), self.delimiter)


def _with_fields(records: list[bytes], fields: Sequence[bytes | None]) -> bytes:
    """Return the records, those that are not blank with the next field before the line ending, or left out."""
    parts, rest = [], iter(fields)
    for record in records:
        text = record.rstrip(b"\r\n")
        field = next(rest) if text else b""
        if field is not None:
            parts += [text, field, record[len(text) :]]
    return b"".join(parts)


def _quoted(name: str, delimiter: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"' if any(special in name for special in (delimiter, '"', "\n", "\r")) else name
