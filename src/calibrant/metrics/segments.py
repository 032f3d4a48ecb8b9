"""Segments of rows: the values of features, numbers cut into ranges, and how those of several features cross."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.errors import InvalidInputError
from calibrant.numerics import IntArray
from calibrant.rows import Rows
from calibrant.validation import Feature, Features, check_integer

#: Segments that one set of columns may have: their sums are held for several draws.
_MOST_SEGMENTS = 1 << 20

CodeArray: TypeAlias = npt.NDArray[np.uint32]


class Between(NamedTuple):
    """A range of numbers, by the least and the largest that a bin holds."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{_number(self.low)} to {_number(self.high)}"


class Others(NamedTuple):
    """The levels of a category that are too rare to be segments of their own."""

    n_levels: int

    def __str__(self) -> str:
        return f"one of {self.n_levels:,} rarer levels"


#: What rows of a segment have in common in one column: a level or a number, a range, rare levels; None: no value.
Value: TypeAlias = Any
#: Column and value of each condition.
Where: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class SegmentSettings:
    """Which segments are looked at: how many features are crossed, how these are cut, and how small segments may be."""

    depth: int = 2
    min_rows: int = 50
    n_bins: int = 5
    max_levels: int = 20

    @classmethod
    def checked(cls, *, depth: int, min_rows: int, n_bins: int = 5, max_levels: int = 20) -> SegmentSettings:
        """Check what the caller asks for."""
        return cls(
            check_integer("depth", depth, minimum=0),
            check_integer("min_rows", min_rows, minimum=1),
            check_integer("n_bins", n_bins, minimum=1),
            check_integer("max_levels", max_levels, minimum=1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CutColumn:
    """A feature whose values are few: the code of each row, and what each code stands for."""

    name: str
    codes: CodeArray
    values: tuple[Value, ...]

    @classmethod
    def of(cls, name: str, feature: Feature, settings: SegmentSettings) -> CutColumn:
        """Cut a feature. Rows without a value are the last segment."""
        given = np.flatnonzero(~np.isnan(feature.values))
        codes, values = (_cut_number if feature.levels is None else _cut_category)(feature.take(given), settings)
        if given.size == feature.values.size:
            return cls(name, codes, tuple(values))
        out = np.full(feature.values.size, len(values), np.uint32)
        out[given] = codes
        return cls(name, out, (*values, None))


def _cut_number(feature: Feature, settings: SegmentSettings) -> tuple[CodeArray, list[Value]]:
    """Take few distinct numbers one by one, and cut others at quantiles, each edge with the bin below it."""
    x = feature.values
    distinct, codes = np.unique(x, return_inverse=True)
    if distinct.size <= settings.n_bins:
        return codes.astype(np.uint32), [int(v) if v.is_integer() else v for v in distinct.tolist()]
    edges = np.unique(np.quantile(x, np.linspace(0.0, 1.0, settings.n_bins + 1)))
    bins = np.maximum(np.searchsorted(edges, distinct, side="left") - 1, 0)
    first, bins = np.unique(bins, return_index=True, return_inverse=True)[1:]
    ends = np.append(first[1:], distinct.size) - 1
    return bins.astype(np.uint32)[codes], [
        Between(*pair) for pair in zip(distinct[first].tolist(), distinct[ends].tolist(), strict=True)
    ]


def _cut_category(feature: Feature, settings: SegmentSettings) -> tuple[CodeArray, list[Value]]:
    """Take the most frequent levels one by one, and the rest of more than `max_levels` together."""
    assert feature.levels is not None  # noqa: S101
    own, levels = feature.values.astype(np.int64), feature.levels.tolist()
    held = np.bincount(own, minlength=len(levels))
    shown = np.flatnonzero(held)
    rare = np.empty(0, np.int64)
    if shown.size > settings.max_levels:
        by_size = shown[np.argsort(-held[shown], kind="stable")]
        shown, rare = np.sort(by_size[: settings.max_levels - 1]), by_size[settings.max_levels - 1 :]
    code = np.full(len(levels), shown.size, np.uint32)
    code[shown] = np.arange(shown.size)
    return code[own], [*(levels[i] for i in shown.tolist()), *([Others(rare.size)] if rare.size else [])]


@dataclass(frozen=True, slots=True)
class Family:
    """The segments of some columns, which share no row: each has one value of each column."""

    columns: tuple[CutColumn, ...]

    @property
    def n_segments(self) -> int:
        """Number of combinations of values, with those that no row has."""
        return math.prod(len(column.values) for column in self.columns)

    def codes(self, n: int) -> CodeArray:
        """Return the segment of each of `n` rows."""
        code = np.zeros(n, np.uint32)
        for column in self.columns:
            code *= np.uint32(len(column.values))
            code += column.codes
        return code

    def where(self, code: int) -> Where:
        """Return the conditions of a segment."""
        found = []
        for column in reversed(self.columns):
            code, own = divmod(code, len(column.values))
            found.append((column.name, column.values[own]))
        return tuple(reversed(found))

    def larger(self, j: int) -> tuple[tuple[str, ...], IntArray]:
        """Return the names of all columns but the j-th, and the segment of these that holds each segment."""
        shape = [len(column.values) for column in self.columns]
        at = np.arange(self.n_segments).reshape(shape)
        kept = np.arange(self.n_segments // shape[j]).reshape([m for i, m in enumerate(shape) if i != j])
        names = tuple(column.name for i, column in enumerate(self.columns) if i != j)
        return names, np.broadcast_to(np.expand_dims(kept, j), at.shape).reshape(-1)


@dataclass(frozen=True, slots=True)
class Segments:
    """All segments to look at, family by family; `is_kept` says which of a family's are large enough and new."""

    families: tuple[Family, ...]
    is_kept: tuple[npt.NDArray[np.bool_], ...]
    n_left_out: int

    @classmethod
    def of(cls, features: Features, n: int, settings: SegmentSettings) -> Segments:
        """Find the segments of up to `depth` features among `n` rows.

        All rows are one, however few. One that holds the same rows as a segment with a condition less is left out.
        """
        columns = [CutColumn.of(name, feature, settings) for name, feature in features.items()]
        families, kept, n_left_out = [], [], 0
        sizes: dict[tuple[str, ...], IntArray] = {}
        for family in _families(columns, settings.depth):
            if family.n_segments > _MOST_SEGMENTS:
                names = ", ".join(column.name for column in family.columns)
                raise InvalidInputError(
                    f"{names} cross to {family.n_segments:,} segments, more than {_MOST_SEGMENTS:,}. Pass a smaller "
                    "depth, n_bins or max_levels."
                )
            size = np.bincount(family.codes(n), minlength=family.n_segments)
            sizes[tuple(column.name for column in family.columns)] = size
            is_new = size > 0
            for j in range(len(family.columns)):
                names_left, parent = family.larger(j)
                is_new &= size < sizes[names_left][parent]
            is_large = (size >= settings.min_rows) | (len(family.columns) == 0)
            n_left_out += int(np.count_nonzero(is_new & ~is_large))
            if (is_new & is_large).any():
                families.append(family)
                kept.append(is_new & is_large)
        return cls(tuple(families), tuple(kept), n_left_out)

    @property
    def n(self) -> int:
        """Number of segments that are looked at."""
        return sum(int(np.count_nonzero(kept)) for kept in self.is_kept)


def _families(columns: list[CutColumn], depth: int) -> Iterator[Family]:
    for order in range(min(depth, len(columns)) + 1):
        yield from map(Family, itertools.combinations(columns, order))


def in_words(where: Where) -> str:
    """Say what rows of a segment have in common."""
    return ", ".join(_condition(column, value) for column, value in where) or "all rows"


def _condition(column: str, value: Value) -> str:
    if value is None:
        return f"{column} missing"
    if isinstance(value, (Between, Others)):
        return f"{column} {value}"
    return f"{column} = {_number(value) if isinstance(value, float) else value}"


def _number(value: float) -> str:
    return f"{value + 0.0:{'.6g' if value.is_integer() else '.4g'}}"


def plain_value(value: Value) -> Any:
    """Return a condition's value as JSON holds it."""
    if isinstance(value, Between):
        return {"from": value.low, "to": value.high}
    return {"rarer_levels": value.n_levels} if isinstance(value, Others) else value


def features_of(rows: Rows) -> Features:
    """Return the features of rows, or say that there are none."""
    if not rows.features:
        raise InvalidInputError("these rows have no features. Pass a dict or a data frame, one column per feature.")
    return rows.features
