"""Rows whose features are codes of bins and of levels: what trees are grown on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.segments.binning import Binning
from calibrant.segments.columns import FeatureColumn, encode_columns


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Checked rows, and their features as one byte for each value: shape (n, d), in columns' order."""

    rows: Rows
    columns: tuple[FeatureColumn, ...]
    binning: Binning
    codes: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Encode the features of rows in memory."""
        features = rows.features or {}
        columns = tuple(FeatureColumn.of(name, each, rows.weight) for name, each in features.items())
        values = encode_columns(columns, features, rows.n_rows)
        binning = Binning.of(values, [column.levels is not None for column in columns])
        return cls(replace(rows, features=None), columns, binning, binning.codes(values))

    def behind(self, margins: FloatArray) -> tuple[Binning, npt.NDArray[np.uint8], tuple[int, ...]]:
        """Return binning and codes of the margins with the features behind them, and which of these are categories."""
        first = margins[:, None] if margins.ndim == 1 else margins
        n_first = first.shape[1]
        own = Binning.of(first, [False] * n_first)
        codes = np.empty((len(first), n_first + len(self.columns)), np.uint8, order="F")
        codes[:, :n_first], codes[:, n_first:] = own.codes(first), self.codes
        categories = (n_first + j for j, column in enumerate(self.columns) if column.levels is not None)
        return replace(own, edges=(*own.edges, *self.binning.edges)), codes, tuple(categories)
