"""What is added to a table: new columns, computed from columns that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calibrant.engines.reading import select_columns
from calibrant.errors import CalibrantError, InvalidInputError
from calibrant.numerics import FloatArray

if TYPE_CHECKING:
    import pyarrow as pa

#: Takes the input columns of some rows, gives the new ones, shape (n,) or (n, K).
Compute: TypeAlias = "Callable[[pa.Table], FloatArray]"
#: Is told how many rows are done.
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Addition:
    """New columns, and the columns that they are computed from."""

    inputs: Sequence[str]
    outputs: Sequence[str]
    compute: Compute

    def select(self, names: Sequence[str], where: str) -> list[str]:
        """Return the input columns among those of a table, which must not have the new ones."""
        inputs = select_columns(self.inputs, names, where)
        for name in self.outputs:
            if name in names:
                raise InvalidInputError(
                    f"{where} already has a column {name!r}. Choose another name with --column (column= in Python)."
                )
        return inputs

    def values(self, inputs: pa.Table, first_row: int) -> FloatArray:
        """Compute the new columns of some rows, shape (n, K)."""
        if inputs.num_rows == 0:
            return np.empty((0, len(self.outputs)))
        with _placed(first_row):
            values = self.compute(inputs)
        return values.reshape(inputs.num_rows, len(self.outputs))

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of a table with the new columns."""
        import pyarrow as pa

        for name in self.outputs:
            schema = schema.append(pa.field(name, pa.float64()))
        return schema

    def extended(self, table: pa.Table, values: FloatArray, schema: pa.Schema) -> pa.Table:
        """Return the table with the new columns."""
        import pyarrow as pa

        added = [pa.array(values[:, j]) for j in range(len(self.outputs))]
        return pa.Table.from_arrays([*table.columns, *added], schema=schema)


@contextmanager
def _placed(first_row: int) -> Iterator[None]:
    """Say from which row an error counts its rows, where that is not the first one."""
    try:
        yield
    except CalibrantError as error:
        if first_row == 0:
            raise
        raise type(error)(f"{error} (Rows are counted from row {first_row:,} of the file.)") from None
