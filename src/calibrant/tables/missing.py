"""Rows that lack a value, which is a null or NaN: refused, or left out of a source and counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from calibrant.errors import CalibrantError, InvalidInputError, InvalidLabelError, ShapeError
from calibrant.numerics import BoolArray
from calibrant.phrases import count, listed
from calibrant.tables.sources import Batch, RowSource
from calibrant.tables.spark import SparkSource
from calibrant.validation import arrow_numbers, at_first, check_choice

if TYPE_CHECKING:
    import pyarrow as pa

#: What becomes of rows that lack a value where rows are measured, or fitted to.
Missing: TypeAlias = Literal["error", "skip"]
MISSING = ("error", "skip")
SKIP_HINT = "Pass --missing skip (missing='skip' in Python) to leave such rows out."


def is_missing(column: pa.ChunkedArray) -> BoolArray:
    """Say which values are null, or NaN."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    found = arrow_numbers(compute.is_null(column, nan_is_null=pa.types.is_floating(column.type)))
    assert found is not None  # noqa: S101 - truth values, none of them null
    return found


def _lacks_values(column: pa.ChunkedArray) -> bool:
    """Say whether any value is null, or NaN."""
    values = arrow_numbers(column)
    if values is None:  # some are null, or they are no numbers
        return bool(is_missing(column).any())
    return bool(values.size and values.dtype.kind == "f" and np.isnan(values.min()))


def missing_rows(table: pa.Table) -> BoolArray:
    """Say which rows of a table lack a value."""
    return reduce(or_, map(is_missing, table.columns), np.zeros(table.num_rows, dtype=np.bool_))


def count_missing(table: pa.Table) -> dict[str, int]:
    """Count the missing values of the columns that have any."""
    counts = {name: int(is_missing(table.column(name)).sum()) for name in table.column_names}
    return {name: n for name, n in counts.items() if n}


def listed_counts(counts: Mapping[str, int]) -> str:
    """Return which columns lack how many values, in words."""
    return listed([f"{n:,} in column {name!r}" for name, n in counts.items()])


def refuse_missing(
    table: pa.Table, where: str, kinds: Mapping[str, type[CalibrantError]], hint: str = SKIP_HINT
) -> None:
    """Raise where a row lacks a value: of the kind of the first column that does, or else InvalidInputError."""
    of_where = f" of {where}" if where else ""
    for name in table.column_names:
        if _lacks_values(table.column(name)):
            missing = is_missing(table.column(name))
            kind = kinds.get(name, InvalidInputError)
            problem = "missing label" if kind is InvalidLabelError else "missing value"
            raise kind(at_first(missing, f"column {name!r}{of_where}", problem, hint))


def complete_rows(source: RowSource, columns: Sequence[str]) -> RowSource:
    """Return the rows of a source that have a value in each of the named columns; it counts the others."""
    return CompleteSparkRows(source, columns) if isinstance(source, SparkSource) else CompleteRows(source, columns)


def opened_for(missing: Missing, source: RowSource, columns: Sequence[str]) -> RowSource:
    """Return the rows of a source to be read: all of them, or with "skip" those that have a value in each column."""
    check_choice("missing", missing, MISSING)
    return complete_rows(source, columns) if missing == "skip" else source


class CompleteRows(RowSource):
    """The rows of a source that lack no value in some columns; `n_skipped` counts the others once all are read."""

    def __init__(self, source: RowSource, columns: Sequence[str]) -> None:
        self.source, self.columns = source, list(columns)
        self.name, self.is_repeatable, self.n_bytes = source.name, source.is_repeatable, source.n_bytes
        self._n_skipped = 0
        self._counts: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.names

    @property
    def n_skipped(self) -> int:
        return self._n_skipped

    @property
    def skipped(self) -> str:
        return _skipped(self._n_skipped, self._counts)

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        n_skipped, n_kept = 0, 0
        counts: dict[str, int] = {}
        kept_of: dict[str, int] = {}  # rows that were kept of each file
        for batch in self.source.scan(self._read_for(columns)):
            table = self._kept(batch.table, columns)
            n_skipped += batch.table.num_rows - table.num_rows
            if table.num_rows < batch.table.num_rows:
                _add(counts, count_missing(batch.table.select(self.columns)))
            if table.num_rows:
                n_before = kept_of.get(batch.where, 0)
                kept_of[batch.where] = n_before + table.num_rows
                n_kept += table.num_rows
                yield Batch(table, f"the complete rows of {batch.where}", n_before)
        self._keep(n_skipped, counts, n_kept)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        names = self.select(self.names if columns is None else columns)
        table = self.source.read(self._read_for(names))
        found = self._kept(table, names)
        self._keep(table.num_rows - found.num_rows, count_missing(table.select(self.columns)), found.num_rows)
        return found

    def _read_for(self, columns: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*columns, *self.columns]))

    def _kept(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        missing = missing_rows(table.select(self.columns))
        return table.select(list(columns)).filter(~missing) if missing.any() else table.select(list(columns))

    def _keep(self, n_skipped: int, counts: dict[str, int], n_kept: int) -> None:
        self._n_skipped, self._counts = n_skipped, counts
        if n_skipped and not n_kept:
            raise _none_left(self.name, n_skipped, counts)


class CompleteSparkRows(SparkSource):
    """The rows of a Spark data frame that lack no value in some columns."""

    def __init__(self, source: SparkSource, columns: Sequence[str]) -> None:
        conditions = [source.is_missing(name) for name in columns]
        lacks_some = reduce(or_, conditions)
        super().__init__(source.frame.filter(~lacks_some), source.name)
        self._n_skipped, *found = source.count_where([lacks_some, *conditions])
        self._counts = {name: n for name, n in zip(columns, found, strict=True) if n}
        if self._n_skipped and self._n_skipped == source.n_rows:
            raise _none_left(self.name, self._n_skipped, self._counts)

    @property
    def n_skipped(self) -> int:
        return self._n_skipped

    @property
    def skipped(self) -> str:
        return _skipped(self._n_skipped, self._counts)

    def count_missing(self, columns: Sequence[str]) -> dict[str, int]:  # noqa: ARG002
        return {}


def in_all_rows(message: str, source: RowSource) -> str:
    """Return a message about a row of a source with its number among all rows, those that were left out too."""
    said = re.search(rf"{re.escape(source.name)} row (\d+(?:,\d{{3}})*)", message)
    if said is None or not isinstance(source, CompleteRows):
        return message
    kept = np.flatnonzero(~missing_rows(source.source.read(source.columns)))
    return f"{message[: said.start(1)]}{kept[int(said[1].replace(',', ''))]:,}{message[said.end() :]}"


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, n in more.items():
        counts[name] = counts.get(name, 0) + n


def _skipped(n_rows: int, counts: Mapping[str, int]) -> str:
    return f"{count(n_rows, 'row')} left out for missing values: {listed_counts(counts)}" if n_rows else ""


def _none_left(name: str, n_rows: int, counts: Mapping[str, int]) -> ShapeError:
    return ShapeError(
        f"each of the {n_rows:,} rows of {name} lacks a value: {listed_counts(counts)}. Pass rows that are complete."
    )
