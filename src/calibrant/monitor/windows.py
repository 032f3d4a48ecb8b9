"""The rows of a window, and the windows of a source of rows: files, periods of time, or so many rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.engines import MAX_DISTINCT, CheckedBatch, FoldState, RowReader
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.numerics import BoolArray, IntArray
from calibrant.row_stream import joined
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.tables import RowSource, is_many
from calibrant.validation import at_first

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

Period: TypeAlias = Literal["day", "week", "month"]
PERIODS: tuple[str, ...] = get_args(Period)
#: How a date, or a time on it, begins.
_ISO_DATE = r"^\s*\d{4}-\d{2}-\d{2}"
#: How a time with an offset from UTC ends.
_OFFSET = r"\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"


class WindowRows(NamedTuple):
    """The rows of a window: the summary of their one score, or of the top label of several classes.

    `largest_weight` is that of a row; `rows` are those of several classes, which are judged class by class, and those
    of which it was declared how they depend on each other. `days` are the first and the last one of a period.
    """

    name: str
    summary: ScoreSummary
    largest_weight: float
    n_rows: int
    rows: Rows | None = None
    days: tuple[str, str] | None = None

    @property
    def digest(self) -> str:
        """What tells these rows from others, whatever order they come in."""
        found = hashlib.sha256()
        for column in self.summary.distinct:
            found.update(np.ascontiguousarray(column, dtype="<f8").tobytes())
        return found.hexdigest()[:32]

    @classmethod
    def of(cls, name: str, parts: Sequence[Rows]) -> WindowRows:
        """Return the window of all rows of some parts."""
        window = _OpenWindow(name)
        for rows in parts:
            window.add(rows)
        return window.close()


@dataclass
class _OpenWindow:
    """A window that still gets rows: sorted runs of one score, and the rows as they are where a window holds these."""

    name: str
    days: tuple[str, str] | None = None
    state: FoldState = field(default_factory=FoldState)
    held: list[Rows] = field(default_factory=list)
    n_rows: int = 0
    largest_weight: float = 0.0

    @property
    def n_held(self) -> int:
        """How many numbers are held."""
        return self.state.runs.size + sum(rows.scores.size for rows in self.held)

    def add(self, rows: Rows) -> None:
        column = rows.one_column()
        self.state.add(column.scores, column.positive, column.weight)
        self.state.flush()
        if rows.declared or not rows.is_binary:
            self.held.append(rows)
        self.n_rows += column.n_rows
        self.largest_weight = max(self.largest_weight, 1.0 if column.weight is None else float(column.weight.max()))

    def close(self) -> WindowRows:
        rows = joined(self.held) if self.held else None
        return WindowRows(self.name, self.state.summary(), self.largest_weight, self.n_rows, rows, self.days)


@dataclass(frozen=True, slots=True)
class HeldBatches:
    """Checked rows in memory, batch by batch as a `RowReader` yields them."""

    source: RowSource
    keep: str | None
    batches: list[CheckedBatch]

    def __iter__(self) -> Iterator[CheckedBatch]:
        return iter(self.batches)


def file_windows(reader: RowReader | HeldBatches) -> Iterator[WindowRows]:
    """Yield a window for each file of a folder, in the order of their names."""
    is_folder = is_many(reader.source.name)
    for name, parts in groupby(reader, key=lambda batch: batch.where):
        window = _OpenWindow(Path(name).name if is_folder else name)
        for batch in parts:
            window.add(batch.rows)
        yield window.close()


def row_windows(reader: RowReader | HeldBatches, size: int, first: int = 1) -> Iterator[WindowRows]:
    """Yield a window for each `size` rows, in their order; the last one may be shorter.

    A cluster is not cut: a window takes the rows of its last cluster that follow.
    """
    window = _OpenWindow(f"window {first}")
    for rows, _, _ in reader:
        start = 0
        while start < rows.n_rows:
            stop = min(rows.n_rows, start + max(size - window.n_rows, 0))
            if rows.cluster is not None and stop < rows.n_rows and stop > 0:
                others = rows.cluster[stop:] != rows.cluster[stop - 1]
                stop = stop + int(others.argmax()) if others.any() else rows.n_rows
            window.add(rows.take(np.arange(start, stop)))
            start = stop
            if window.n_rows >= size:
                yield window.close()
                first += 1
                window = _OpenWindow(f"window {first}")
    if window.n_rows:
        yield window.close()


def date_windows(
    reader: RowReader | HeldBatches, every: Period, max_distinct: int = MAX_DISTINCT
) -> Iterator[WindowRows]:
    """Yield a window for each period of the column of dates that the reader keeps, in the order of time.

    Rows may come in any order; refused are windows that together hold more than `max_distinct` distinct scores, those
    of each class included.
    """
    opened: dict[str, _OpenWindow] = {}
    zoned: dict[bool, str] = {}
    for rows, where, kept in reader:
        assert kept is not None  # noqa: S101
        zoned.setdefault(_is_zoned(kept), where)
        if len(zoned) > 1:
            raise InvalidTypeError(
                f"column {reader.keep!r} of {reader.source.name}: some times have an offset from UTC, as in "
                f"{zoned[True]}, and others have none, as in {zoned[False]}. Give all of them one, such as +00:00."
            )
        names, codes = period_codes(kept, f"column {reader.keep!r} of {where}", every)
        for i, name in enumerate(names):
            if name not in opened:
                opened[name] = _OpenWindow(name, _days_of(name, every))
            opened[name].add(rows.take(codes == i))
        if sum(window.n_held for window in opened.values()) > max_distinct:
            raise InvalidInputError(
                f"the windows of {reader.source.name} hold more than {max_distinct:,} distinct scores together. Pass "
                "one period at a time and keep the state (--state), or one file for each window."
            )
    for name in sorted(opened):
        yield opened[name].close()


def period_codes(column: pa.Array, name: str, every: Period) -> tuple[list[str], IntArray]:
    """Return the sorted names of the periods in a column of dates, and the number of each row's period."""
    days, place = np.unique(_days(column, name), return_inverse=True)
    names = [_period(day, every) for day in days.astype("datetime64[D]").tolist()]
    distinct = list(dict.fromkeys(names))
    codes = np.array([distinct.index(each) for each in names], dtype=np.int64)
    return distinct, codes[place]


def _days(column: pa.Array, name: str) -> IntArray:
    """Return the day of each row: of times with a zone or an offset, the day of UTC."""
    import pyarrow as pa
    import pyarrow.compute as compute

    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = _times_of_text(column, name)
        if pa.types.is_timestamp(column.type):  # days of a zone would differ from those of the same moments in a CSV
            column = column.cast(pa.timestamp(column.type.unit, None if column.type.tz is None else "UTC"))
        elif not pa.types.is_date(column.type):
            raise InvalidTypeError(f"{name} holds {column.type} values, not dates. Name a column of dates or times.")
        days = compute.cast(compute.cast(column, pa.date32(), safe=False), pa.int32())
    except pa.ArrowException as error:
        raise InvalidTypeError(f"{name} can't be read as dates ({error!s:.200}). Write them as 2026-01-31.") from None
    return np.asarray(days).astype(np.int64)


def _is_zoned(column: pa.Array) -> bool:
    """Say whether any time has a zone, or an offset."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return bool(compute.any(compute.match_substring_regex(column, _OFFSET)).as_py())
    return pa.types.is_timestamp(column.type) and column.type.tz is not None


def _times_of_text(column: pa.Array, name: str) -> pa.Array:
    """Return dates and times that are text: all with an offset, which makes them times of UTC, or none."""
    import pyarrow as pa
    import pyarrow.compute as compute

    def refuse(bad: BoolArray, problem: str, fix: str) -> None:
        if bad.any():
            raise InvalidTypeError(at_first(bad, name, f"{column[int(bad.argmax())].as_py()!r:.80} {problem}", fix))

    def has(pattern: str) -> BoolArray:
        found = compute.match_substring_regex(column, pattern).fill_null(pattern == _ISO_DATE)
        return np.asarray(found.to_numpy(zero_copy_only=False))

    refuse(~has(_ISO_DATE), "is no date", "Write 1999-04-01, as 01/04/1999 may be two days.")
    has_offset = has(_OFFSET)
    if has_offset.any():
        without = ~has_offset & column.is_valid().to_numpy(zero_copy_only=False)
        refuse(without, "has no offset from UTC, and other rows have one", "Give all of them one, such as +00:00.")
    kind = pa.timestamp("us", "UTC" if has_offset.any() else None)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        refuse(np.array([not _can_cast(value, kind) for value in column]), "is no date", "Write 2026-01-31T23:59:00.")
        raise


def _can_cast(value: pa.Scalar, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _days_of(period: str, every: Period) -> tuple[str, str]:
    """Return the first and the last day of a period."""
    from datetime import date, timedelta

    match every:
        case "day":
            first = last = date.fromisoformat(period)
        case "week":
            first = date.fromisocalendar(int(period[:4]), int(period[6:]), 1)
            last = first + timedelta(days=6)
        case "month":
            first = date.fromisoformat(f"{period}-01")
            last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.isoformat(), last.isoformat()


def _period(day: datetime.date, every: Period) -> str:
    match every:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        case "month":
            return f"{day.year:04d}-{day.month:02d}"
