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
#: Rows that the edges are found from at most: of more, one in 2, 4, 8, ... is taken, at even distances.
LOOKED_AT = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class Binning:
    """The edges of the bins of each column, rising; None for a category, whose codes stay what they are.

    A number has the code j where edges[j - 1] < x <= edges[j].
    """

    edges: tuple[FloatArray | None, ...]

    @classmethod
    def of_samples(cls, samples: Sequence[EdgeSample | None]) -> Self:
        """Find the edges of columns whose rows came in parts; None for a category."""
        return cls(tuple(None if sample is None else _edges(sample.values()) for sample in samples))

    @classmethod
    def of(cls, values: FloatArray, is_category: Sequence[bool]) -> Self:
        """Find the edges of a matrix of columns, shape (n, d)."""
        step = 1
        while values.shape[0] > LOOKED_AT * step:
            step *= 2
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


class EdgeSample:
    """The values of one column that its edges are found from, where rows come in parts: those of `Binning.of`."""

    def __init__(self) -> None:
        self._step, self._next, self._n_kept = 1, 0, 0
        self._parts: list[FloatArray] = []

    def add(self, values: FloatArray) -> None:
        """Add the next rows."""
        kept = values[self._next :: self._step].copy()
        self._next += self._step * kept.size - values.size
        self._parts.append(kept)
        self._n_kept += kept.size
        while self._n_kept > LOOKED_AT:
            all_kept = np.concatenate(self._parts)
            self._next += self._step * (all_kept.size % 2)
            self._parts, self._step = [all_kept[::2].copy()], 2 * self._step
            self._n_kept = self._parts[0].size

    def values(self) -> FloatArray:
        """Return the values that were kept, in the order of the rows."""
        return np.concatenate([*self._parts, np.empty(0)])


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
