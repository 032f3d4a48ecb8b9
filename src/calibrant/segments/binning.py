"""Columns of numbers cut into at most 250 bins, so that rows are small and trees are found fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from calibrant.numerics import FloatArray

MOST_BINS = 250
#: The code of a missing value.
MISSING = 255
#: Rows that the edges are found from: of more, these are taken at even distances.
_LOOKED_AT = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Binning:
    """The edges of the bins of each column, rising; None for a category, whose codes stay what they are.

    A number has the code j where edges[j - 1] < x <= edges[j].
    """

    edges: tuple[FloatArray | None, ...]

    @classmethod
    def of(cls, values: FloatArray, is_category: Sequence[bool]) -> Self:
        """Find the edges of a matrix of columns, shape (n, d)."""
        step = -(-values.shape[0] // _LOOKED_AT)
        return cls(tuple(None if by_code else _edges(values[::step, j]) for j, by_code in enumerate(is_category)))

    def codes(self, values: FloatArray) -> npt.NDArray[np.uint8]:
        """Return the code of each value, shape (n, d) in columns' order; `MISSING` where there is none."""
        out = np.empty(values.shape, np.uint8, order="F")
        for j, edges in enumerate(self.edges):
            column = values[:, j]
            is_missing = np.isnan(column)
            out[:, j] = np.where(is_missing, 0.0, column) if edges is None else np.searchsorted(edges, column)
            out[is_missing, j] = MISSING
        return out


def _edges(values: FloatArray) -> FloatArray:
    """Return edges halfway between neighbouring values, or between quantiles of many values."""
    known = np.sort(values[~np.isnan(values)])
    distinct = known[np.concatenate(([True], known[1:] != known[:-1]))] if known.size else known
    if distinct.size > MOST_BINS:
        at = np.linspace(0.0, known.size - 1.0, MOST_BINS + 1)[1:-1].astype(np.int64)
        lower = np.unique(known[at])
        place = np.searchsorted(distinct, lower)
        place = place[place < distinct.size - 1]
        return 0.5 * distinct[place] + 0.5 * distinct[place + 1]
    return 0.5 * distinct[:-1] + 0.5 * distinct[1:]
