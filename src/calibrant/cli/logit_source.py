"""A table whose scores are logits, read as the probabilities that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from calibrant.errors import CalibrantError
from calibrant.numerics import expit, softmax
from calibrant.tables import DerivedSource, RowSource, check_numbers, missing_rows
from calibrant.validation import as_scores

if TYPE_CHECKING:
    import pyarrow as pa

    from calibrant.tables import Batch


class LogitSource(DerivedSource):
    """A table with probabilities in place of the logits in some columns: of one, by expit; of several, by softmax.

    They are made batch by batch as rows are read. A value that is missing stays so, for whoever reads it to refuse.
    """

    def __init__(self, source: RowSource, score: Sequence[str]) -> None:
        super().__init__(source)
        self.score = list(score)

    def scan(self, columns: Sequence[str]) -> Iterator[Batch]:
        asked = list(columns)
        needs_all = any(name in self.score for name in asked)
        wanted = list(dict.fromkeys([*asked, *(self.score if needs_all else [])]))
        for batch in self.source.scan(wanted):
            table = self._with_probabilities(batch) if needs_all else batch.table
            yield replace(batch, table=table.select(asked))

    def count_missing(self, columns: Sequence[str]) -> dict[str, int]:
        return self.source.count_missing(columns)

    def _with_probabilities(self, batch: Batch) -> pa.Table:
        import pyarrow as pa

        table = batch.table
        for name in self.score:
            check_numbers(table.column(name), f"column {name!r} of {batch.where}")
        lacking = missing_rows(table.select(self.score))
        try:
            complete = table.select(self.score).filter(~lacking)
            z = [self._checked(complete, name, batch.where) for name in self.score]
        except CalibrantError as error:
            without = ", without those that lack a value" if lacking.any() else ""
            if not batch.first_row and not without:
                raise
            raise type(error)(
                f"{error} (Rows are counted from row {batch.first_row:,} of {batch.where}{without}.)"
            ) from None
        made = np.zeros((table.num_rows, len(z)))  # of a row that lacks a value, the others are not used
        made[~lacking] = expit(z[0])[:, None] if len(z) == 1 else softmax(np.column_stack(z))
        for name, values in zip(self.score, made.T, strict=True):
            is_missing = missing_rows(table.select([name]))
            column = pa.array(np.ascontiguousarray(values), mask=is_missing)
            table = table.set_column(table.column_names.index(name), name, [column])
        return table

    def _checked(self, table: pa.Table, name: str, where: str) -> np.typing.NDArray[np.float64]:
        column = table.column(name)
        if not len(column):
            return np.empty(0)
        return as_scores(column, name=f"column {name!r} of {where}", input="logit").values
