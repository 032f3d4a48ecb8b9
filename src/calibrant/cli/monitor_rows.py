"""Rows of a file in memory for `calibrant monitor`: labels that are still missing, and a sign of dependence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from calibrant.cli.data import OpenedFile, called
from calibrant.dependence import as_times
from calibrant.dependent_rows import hint_of
from calibrant.engines import CheckedBatch
from calibrant.errors import InvalidInputError, InvalidLabelError
from calibrant.monitor import HeldBatches, Period, period_codes
from calibrant.numerics import BoolArray, IntArray
from calibrant.validation import at_first

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class MonitoredRows:
    """Rows with labels as batches, how many others there are, and what looks like dependence that nobody declared."""

    batches: HeldBatches
    n_without: int
    hint: str


@dataclass(frozen=True, slots=True)
class WindowRequest:
    """What the options say of windows: periods of a column of dates, or so many rows; and of missing labels."""

    date: str | None
    every: Period
    size: int | None
    missing: str

    def read(self, opened: OpenedFile) -> MonitoredRows:
        """Read the rows that have labels and are to be counted now; windows of rows are in the order of time."""
        of, source = opened.request, opened.source
        named = [of.label, *opened.score, of.weight, of.cluster, of.time, of.label_end, self.date]
        table = source.read(list(dict.fromkeys(name for name in named if name is not None)))
        weight = None if of.weight is None else np.asarray(table.column(of.weight))
        at = np.arange(table.num_rows) if weight is None else np.flatnonzero(weight != 0.0)
        if self.size is not None and of.time is not None:
            at = at[np.argsort(as_times(table.column(of.time), name=called(of.time, source.name))[at], kind="stable")]
        files, place = _files(opened, table.num_rows)
        if self.date is not None:
            _refuse_missing(table, self.date, source.name)
        n_counted = at.size
        is_missing = _is_missing(table.column(of.label))
        if is_missing[at].any():
            at = self._with_labels(opened, table, at, place, is_missing)
        rows = opened.read(table=table.take(at)).rows
        dates = None if self.date is None else np.asarray(table.column(self.date))[at]
        hint = hint_of(rows, None if dates is None else np.argsort(dates, kind="stable"))
        kept = None if self.date is None else table.column(self.date).take(at).combine_chunks()
        if self.date is not None or self.size is not None:
            batches = [CheckedBatch(rows, source.name, kept)]
        else:
            used = [(name, np.flatnonzero(place[at] == i)) for i, name in enumerate(files)]
            batches = [CheckedBatch(rows.take(mine), name, None) for name, mine in used if mine.size]
        return MonitoredRows(HeldBatches(source, self.date, batches), n_counted - at.size, hint)

    def _with_labels(
        self, opened: OpenedFile, table: pa.Table, at: IntArray, place: IntArray, is_missing: BoolArray
    ) -> IntArray:
        """Return the rows that are counted although some labels are missing."""
        name = called(opened.request.label, opened.source.name)
        if self.missing == "error":
            fix = "Pass --missing wait, and a window waits until all of its labels are there, or --missing skip."
            raise InvalidLabelError(at_first(is_missing, name, "missing label", fix))
        if self.missing == "skip":
            at = at[~is_missing[at]]
        elif self.size is not None:
            at = at[: int(is_missing[at].argmax())]
        else:  # all windows from the first one on that lacks a label
            if self.date is not None:
                place = period_codes(table.column(self.date).combine_chunks(), called(self.date, name), self.every)[1]
            at = at[place[at] < place[at][is_missing[at]].min()]
        if at.size == 0:
            raise InvalidInputError(
                f"{name}: there is no window yet of which all labels are there. Nothing was counted."
            )
        return at


def _is_missing(labels: pa.ChunkedArray) -> BoolArray:
    import pyarrow as pa
    import pyarrow.compute as compute

    return np.asarray(compute.is_null(labels, nan_is_null=pa.types.is_floating(labels.type)))


def _refuse_missing(table: pa.Table, name: str, where: str) -> None:
    missing = np.asarray(table.column(name).is_null())
    if missing.any():
        raise InvalidInputError(at_first(missing, called(name, where), "missing value", "Drop these rows first."))


def _files(opened: OpenedFile, n_rows: int) -> tuple[list[str], IntArray]:
    """Return the names of the files of a folder in their order, and the number of each row's file."""
    source = opened.source
    if not Path(source.name).is_dir():
        return [source.name], np.zeros(n_rows, dtype=np.int64)
    sizes: dict[str, int] = {}
    for batch in source.scan([opened.request.label]):
        sizes[batch.where] = sizes.get(batch.where, 0) + batch.table.num_rows
    return list(sizes), np.repeat(np.arange(len(sizes)), list(sizes.values()))
