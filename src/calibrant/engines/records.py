"""Text tables cut into records whose bytes stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from calibrant.engines.formats import BOM, Source
from calibrant.errors import InvalidInputError
from calibrant.numerics import IntArray

#: A record longer than this is taken for a quote that nobody closed.
LONGEST_RECORD = 1 << 26
_LF, _CR = 10, 13
_SPACE = b" \t\r"


@dataclass(frozen=True, slots=True)
class Records:
    """Whole records of a text table.

    Record i is `data[starts[i]:ends[i]]`, without its line ending; the bytes up to `starts[i + 1]` are that.
    """

    data: bytes
    ends: IntArray
    stops: IntArray

    @property
    def starts(self) -> IntArray:
        """Where each record begins."""
        return np.concatenate(([0], self.stops))[:-1]

    @property
    def n_rows(self) -> int:
        """Number of records that are not blank."""
        return int(np.count_nonzero(self.ends > self.starts))

    def split(self, n: int) -> tuple[Records, Records]:
        """Return the first `n` records, and the others."""
        cut = int(self.stops[n - 1])
        return (
            Records(self.data[:cut], self.ends[:n], self.stops[:n]),
            Records(self.data[cut:], self.ends[n:] - cut, self.stops[n:] - cut),
        )

    def texts(self) -> list[bytes]:
        """Return each record without its line ending."""
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.data[start:end] for start, end in bounds]

    def line_endings(self) -> list[bytes]:
        """Return the line ending of each record; empty for a last one without."""
        bounds = zip(self.ends.tolist(), self.stops.tolist(), strict=True)
        return [self.data[end:stop] for end, stop in bounds]


_Split: TypeAlias = Callable[[bytes, bool], IntArray]


def csv_records(source: Source) -> Iterator[Records]:
    """Cut a delimited table at the line endings outside quotes; a BOM is left out.

    A quote opens a quoted field only where the field begins, as Arrow and Python's `csv` have it.
    """
    return _whole_records(source, partial(_csv_stops, delimiter=source.delimiter))


def line_records(source: Source) -> Iterator[Records]:
    """Cut JSON lines at the line feeds, which JSON has nowhere inside a value; a BOM is left out."""
    return _whole_records(source, _line_stops)


def _whole_records(source: Source, split: _Split) -> Iterator[Records]:
    rest, is_first, n_records = b"", True, 0
    for block in source.blocks():
        data = rest + block
        if is_first:
            data, is_first = data.removeprefix(BOM), False
        stops = split(data, False)
        if stops.size == 0:
            if len(data) > LONGEST_RECORD:
                raise _never_ends(source, n_records, data)
            rest = data
            continue
        cut = int(stops[-1])
        yield _records(data[:cut], stops)
        n_records += stops.size
        rest = data[cut:]
    if rest:
        stops = split(rest, True)
        if stops.size == 0 or stops[-1] != len(rest):
            whole = int(stops[-1]) if stops.size else 0
            raise _never_ends(source, n_records + stops.size, rest[whole:])
        yield _records(rest, stops)


def _records(data: bytes, stops: IntArray) -> Records:
    text = np.frombuffer(data, np.uint8)
    starts = np.concatenate(([0], stops))[:-1]
    ends = stops
    for ending in (_LF, _CR):
        ends = ends - ((ends > starts) & (text[ends - 1] == ending))
    return Records(data, ends, stops)


def _line_stops(data: bytes, at_end: bool) -> IntArray:
    return _with_end(np.flatnonzero(np.frombuffer(data, np.uint8) == _LF) + 1, data, at_end)


def _csv_stops(data: bytes, at_end: bool, delimiter: str) -> IntArray:
    """Return where the records end that are known to end within `data`, behind their line endings."""
    if b'"' in data:
        return _quoted_stops(data, at_end, delimiter)
    text = np.frombuffer(data, np.uint8)
    if b"\r" not in data:
        return _line_stops(data, at_end)
    is_stop = (text == _LF) | (text == _CR)
    is_stop[:-1] &= ~((text[:-1] == _CR) & (text[1:] == _LF))
    if not at_end and data.endswith(b"\r"):
        is_stop[-1] = False  # a line feed may follow
    return _with_end(np.flatnonzero(is_stop) + 1, data, at_end)


def _with_end(stops: IntArray, data: bytes, at_end: bool) -> IntArray:
    if at_end and (stops.size == 0 or stops[-1] != len(data)):
        return np.append(stops, len(data))
    return stops


def _quoted_stops(data: bytes, at_end: bool, delimiter: str) -> IntArray:
    stops = []
    position = 0
    for match in _record_pattern(delimiter, at_end).finditer(data):
        if match.lastgroup == "partial" or match.end() == position:
            break
        position = match.end()
        stops.append(position)
    return np.array(stops, dtype=np.int64)


@cache
def _record_pattern(delimiter: str, at_end: bool) -> re.Pattern[bytes]:
    d = re.escape(delimiter)
    plain = rf"[^{d}\r\n]*+"
    field = rf'(?:"(?:[^"]|"")*+"{plain}|(?!"){plain})'
    ending = r"(?:\r\n|\n|\r|\Z)" if at_end else r"(?:\r\n|\n|\r(?=[\s\S]))"
    # Any one byte stands for a record that doesn't end: a search from the next byte on would find nonsense.
    return re.compile(rf"{field}(?:{d}{field})*+{ending}|(?P<partial>[\s\S])".encode())


def _never_ends(source: Source, n_before: int, data: bytes) -> InvalidInputError:
    shown = data[:60].decode("utf-8", "replace")
    return InvalidInputError(
        f"{source.name}: record {n_before + 1}, which begins {shown!r}, never ends. Close its quote, or double each "
        "quote inside a quoted field."
    )


def json_objects(records: Records, name: str, first_line: int) -> list[dict[str, Any] | None]:
    """Parse each line, None for a blank one.

    Raises
    ------
    InvalidInputError
        If a line is no JSON object; it is named by its number.
    """
    return [
        _json_object(text, name, line) if text.strip(_SPACE) else None
        for line, text in enumerate(records.texts(), start=first_line)
    ]


def _json_object(text: bytes, name: str, line: int) -> dict[str, Any]:
    try:
        value = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        shown = text[:60].decode("utf-8", "replace")
        raise InvalidInputError(
            f"{name} line {line}: {shown!r} is not JSON ({error}). Write one object per line."
        ) from None
    if not isinstance(value, dict):
        raise InvalidInputError(f"{name} line {line}: {value!r:.60} is not a JSON object. Write one object per line.")
    return value
