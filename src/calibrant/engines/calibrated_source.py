"""A table beside which stand the probabilities that a fitted object makes of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calibrant.engines.fitted_columns import FittedColumns
from calibrant.errors import CalibrantError
from calibrant.fitted import Fitted
from calibrant.tables import DerivedSource, RowSource

if TYPE_CHECKING:
    from calibrant.tables import Batch


class CalibratedSource(DerivedSource):
    """A table with the probabilities that a fitted object makes of its rows as further columns.

    They are made batch by batch as rows are read, so that whatever reads rows measures calibrated probabilities.
    """

    def __init__(self, source: RowSource, columns: FittedColumns[Fitted]) -> None:
        super().__init__(source)
        self.columns = columns
        self.outputs = columns.new_columns().outputs
        self.classes: list[Any] = columns.fitted.classes_.tolist()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the table, but for those that have the names of the new ones, and the new ones."""
        return (*(name for name in self.source.names if name not in self.outputs), *self.outputs)

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Read the named columns, and make those that are new."""
        for batch in self.source.scan(self._read_for(columns)):
            table = batch.table
            if any(name in self.outputs for name in columns):
                made = self._probabilities(batch).reshape(table.num_rows, -1)
                for name, values in zip(self.outputs, made.T, strict=True):
                    table = table.append_column(name, [values])
            yield replace(batch, table=table.select(list(columns)))

    def count_missing(self, columns: Sequence[str]) -> dict[str, int]:
        optional = {*self.columns.optional} - {*columns}
        return self.source.count_missing([name for name in self._read_for(columns) if name not in optional])

    def _read_for(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of the table that it takes to read or make these."""
        old = [name for name in columns if name not in self.outputs]
        return old if len(old) == len(columns) else list(dict.fromkeys([*old, *self.columns.inputs]))

    def _probabilities(self, batch: Batch) -> Any:
        try:
            return self.columns.probabilities(batch.table.select(self.columns.inputs))
        except CalibrantError as error:
            if not batch.first_row:
                raise
            raise type(error)(f"{error} (Rows are counted from row {batch.first_row:,} of {batch.where}.)") from None
