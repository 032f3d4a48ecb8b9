"""Rows of a file in memory for `calibrant monitor`: labels that are still missing, and a sign of dependence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibrant.cli.data import OpenedFile
from calibrant.cli.option_texts import called
from calibrant.errors import InvalidInputError, InvalidLabelError

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.engines import CheckedBatch, RowReader
    from calibrant.monitor import HeldBatches, Period, WindowRows
    from calibrant.numerics import BoolArray, IntArray


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
        import numpy as np

        from calibrant.dependence import as_times
        from calibrant.dependent_rows import hint_of
        from calibrant.engines import CheckedBatch
        from calibrant.monitor import HeldBatches
        from calibrant.tables import is_missing, missing_rows, refuse_missing

        of, source = opened.request, opened.source
        named = [of.label, *opened.score, *opened.groups, of.weight, of.cluster, of.time, of.label_end, self.date]
        table = source.read(list(dict.fromkeys(name for name in named if name is not None)))
        weight = None if of.weight is None else np.asarray(table.column(of.weight))
        at = np.arange(table.num_rows) if weight is None else np.flatnonzero(weight != 0.0)
        n_counted = at.size
        if self.missing == "skip":
            at = at[~missing_rows(table)[at]]
        if self.size is not None and of.time is not None and at.size:
            times = as_times(table.column(of.time).take(at), name=called(of.time, source.name))
            at = at[np.argsort(times, kind="stable")]
        files, place = file_places(opened, table.num_rows, of.label)
        if self.date is not None and self.missing != "skip":
            refuse_missing(table.select([self.date]), source.name, {})
        no_label = is_missing(table.column(of.label))
        if no_label[at].any():
            at = self._with_labels(opened, table, at, place, no_label)
        if at.size == 0:
            raise InvalidInputError(
                f"{called(of.label, source.name)}: there is no window yet of which all labels are there. Nothing was "
                "counted."
            )
        are_all = at.size == table.num_rows and bool((np.diff(at) > 0).all())
        rows = opened.read(table=table if are_all else table.take(at), are_all=are_all).rows
        dates = None if self.date is None else np.asarray(table.column(self.date))[at]
        hint = hint_of(rows, None if dates is None else np.argsort(dates, kind="stable"))
        kept = None if self.date is None else table.column(self.date).take(at).combine_chunks()
        if self.date is not None or self.size is not None:
            batches = [CheckedBatch(rows, source.name, kept)]
        else:
            used = [(name, np.flatnonzero(place[at] == i)) for i, name in enumerate(files)]
            batches = [CheckedBatch(rows.take(mine), name, None) for name, mine in used if mine.size]
        return MonitoredRows(HeldBatches(source, self.date, batches), n_counted - at.size, hint)

    def windows(self, reader: RowReader | HeldBatches, n_before: int) -> Iterator[WindowRows]:
        """Return the windows of rows; those of so many rows are numbered on from the windows before."""
        from calibrant.monitor import date_windows, file_windows, row_windows

        if self.date is not None:
            return date_windows(reader, self.every)
        if self.size is None:
            return file_windows(reader)
        return row_windows(reader, self.size, 1 if self.missing == "wait" else n_before + 1)

    def _with_labels(
        self, opened: OpenedFile, table: pa.Table, at: IntArray, place: IntArray, no_label: BoolArray
    ) -> IntArray:
        """Return the rows that are counted although some labels are missing."""
        from calibrant.monitor import period_codes
        from calibrant.validation import at_first

        name = called(opened.request.label, opened.source.name)
        if self.missing == "error":
            fix = "Pass --missing wait, and a window waits until all of its labels are there, or --missing skip."
            raise InvalidLabelError(at_first(no_label, name, "missing label", fix))
        if self.size is not None:
            return at[: int(no_label[at].argmax())]
        if self.date is not None:  # all windows from the first one on that lacks a label
            place = period_codes(table.column(self.date).combine_chunks(), called(self.date, name), self.every)[1]
        is_before: BoolArray = place[at] < place[at][no_label[at]].min()
        return at[is_before]


def digest_of(batches: Iterable[CheckedBatch]) -> tuple[int, str]:
    """Return the number of rows, and what tells them and their order from others, whatever windows they are in."""
    from calibrant.provenance import RowHash

    found = RowHash()
    for batch in batches:
        found.update(batch.rows)
    return found.n_rows, found.hexdigest()[:32]


def file_places(opened: OpenedFile, n_rows: int, column: str) -> tuple[list[str], IntArray]:
    """Return the names of the files of a folder in their order, and the number of each row's file.

    `column` may be any one: it is read to count the rows of each file.
    """
    import numpy as np

    from calibrant.tables import is_many

    source = opened.source
    if not is_many(source.name):
        return [source.name], np.zeros(n_rows, dtype=np.int64)
    sizes: dict[str, int] = {}
    for batch in source.scan([column]):
        sizes[batch.where] = sizes.get(batch.where, 0) + batch.table.num_rows
    return list(sizes), np.repeat(np.arange(len(sizes)), list(sizes.values()))
