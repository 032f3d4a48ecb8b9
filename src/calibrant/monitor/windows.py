"""Windows of a source: its files, so many rows at a time, or the periods of a column of dates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from calibrant.engines import MAX_DISTINCT, FoldState, RowReader
from calibrant.errors import InvalidInputError, InvalidTypeError
from calibrant.numerics import IntArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

Period: TypeAlias = Literal["day", "week", "month"]
PERIODS: tuple[str, ...] = get_args(Period)


class NamedSummary(NamedTuple):
    """The rows of a window."""

    name: str
    summary: ScoreSummary
    largest_weight: float


class _Open:
    """A window that still gets rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = FoldState()
        self.n_rows = 0
        self.largest_weight = 0.0

    def add(self, rows: Rows) -> None:
        column = rows.one_column()
        self.state.add(column.scores, column.positive, column.weight)
        self.state.flush()
        self.n_rows += column.n_rows
        self.largest_weight = max(self.largest_weight, 1.0 if column.weight is None else float(column.weight.max()))

    def close(self) -> NamedSummary:
        return NamedSummary(self.name, self.state.summary(), self.largest_weight)


def file_windows(reader: RowReader) -> Iterator[NamedSummary]:
    """Yield a window for each file of a folder, in the order of their names."""
    now: _Open | None = None
    for batch in reader:
        if now is None or now.name != batch.where:
            if now is not None:
                yield now.close()
            now = _Open(batch.where)
        now.add(batch.rows)
    if now is not None:
        yield now.close()


def row_windows(reader: RowReader, size: int, first: int = 1) -> Iterator[NamedSummary]:
    """Yield a window for each `size` rows, in their order; the last one may be shorter."""
    now = _Open(f"window {first}")
    for rows, _, _ in reader:
        start = 0
        while start < rows.n_rows:
            stop = min(rows.n_rows, start + size - now.n_rows)
            now.add(rows.take(np.arange(start, stop)))
            start = stop
            if now.n_rows == size:
                yield now.close()
                first += 1
                now = _Open(f"window {first}")
    if now.n_rows:
        yield now.close()


def date_windows(reader: RowReader, every: Period, max_distinct: int = MAX_DISTINCT) -> Iterator[NamedSummary]:
    """Yield a window for each period of the column that the reader keeps, in the order of time; rows may come in any.

    Raises
    ------
    InvalidTypeError
        If that column holds no dates.
    InvalidInputError
        If the windows together hold more than `max_distinct` distinct scores.
    """
    opened: dict[str, _Open] = {}
    for rows, where, kept in reader:
        assert kept is not None  # noqa: S101
        days, place = np.unique(_days(kept, f"column {reader.keep!r} of {where}"), return_inverse=True)
        names = [_period(day, every) for day in days.astype("datetime64[D]").tolist()]
        distinct = {name: i for i, name in enumerate(dict.fromkeys(names))}
        codes = np.array([distinct[name] for name in names])[place]
        for name, i in distinct.items():
            opened.setdefault(name, _Open(name)).add(rows.take(codes == i))
        if sum(window.state.runs.size for window in opened.values()) > max_distinct:
            raise InvalidInputError(
                f"the windows of {reader.source.name} hold more than {max_distinct:,} distinct scores together. Pass "
                "one period at a time and keep the state (--state), or one file for each window."
            )
    for name in sorted(opened):
        yield opened[name].close()


def _days(column: pa.Array, name: str) -> IntArray:
    import pyarrow as pa
    import pyarrow.compute as compute

    try:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = compute.cast(column, pa.timestamp("us"))
        if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
            raise InvalidTypeError(f"{name} holds {column.type} values, not dates. Name a column of dates or times.")
        days = compute.cast(compute.cast(column, pa.date32(), safe=False), pa.int32())
    except pa.ArrowException as error:
        raise InvalidTypeError(f"{name} can't be read as dates ({error!s:.200}). Write them as 2026-01-31.") from None
    return np.asarray(days).astype(np.int64)


def _period(day: datetime.date, every: Period) -> str:
    match every:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year:04d}-W{week:02d}"
        case "month":
            return f"{day.year:04d}-{day.month:02d}"
