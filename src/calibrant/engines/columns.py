"""One score against one event: columns of a reader's rows, and readers whose one score is made of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.numerics import BoolArray, FloatArray, expit, softmax
from calibrant.validation import InputKind

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the scores that a reader reads, against one of its classes; both 0 where there is one only."""

    reader: RowReader
    k: int = 0

    def __iter__(self) -> Iterator[tuple[FloatArray, BoolArray, FloatArray | None]]:
        for rows in self.reader:
            yield self.of(rows)

    def reduce(self, partial: Callable[[Column], T], merge: Callable[[T, T], T], *, is_large: bool = True) -> T:
        """Return what `partial` makes of the column: of each part of the source, merged; see `RowReader.reduce`."""
        k = self.k
        return self.reader.reduce(lambda reader: partial(Column(reader, k)), merge, is_large=is_large)

    def of(self, rows: CheckedRows) -> tuple[FloatArray, BoolArray, FloatArray | None]:
        """Return scores, whether each row is positive, and weights."""
        if self.reader.is_binary:
            return rows.scores, rows.codes.view(np.bool_), rows.weight
        values = softmax(rows.scores) if self.reader.input == "logit" else rows.scores
        return np.ascontiguousarray(values[:, self.k]), rows.codes == self.k, rows.weight

    @property
    def is_probability(self) -> bool:
        """Whether the column holds probabilities."""
        return self.reader.input == "probability" or (self.reader.input == "logit" and not self.reader.is_binary)


class DerivedReader(RowReader):
    """Rows that are made of the rows of another reader: of one score and two classes, unless `is_one` is false.

    Groups are those of that reader, or numbers that `derive` gives to the rows.
    """

    def __init__(
        self,
        reader: RowReader,
        derive: Callable[[CheckedRows], CheckedRows],
        *,
        input: InputKind,
        is_one: bool = True,
        n_groups: int | None = None,
        has_groups: bool = True,
    ) -> None:
        self.origin, self.derive, self.is_one, self.n_groups = reader, derive, is_one, n_groups
        self.source, self.score, self.label, self.weight = reader.source, reader.score, reader.label, reader.weight
        self.columns, self.input = reader.columns, input
        self.classes = np.array([False, True]) if is_one and not reader.is_binary else reader.classes
        self.group = (reader.group if n_groups is None else "the top label") if has_groups else None
        self.groups = reader.groups if n_groups is None else list(range(n_groups))

    @property
    def is_binary(self) -> bool:
        """Whether there is one column of scores."""
        return self.is_one

    def __iter__(self) -> Iterator[CheckedRows]:
        for rows in self.origin:
            made = self.derive(rows)
            if made.scores.size:
                yield made

    def reduce(self, partial: Callable[[RowReader], T], merge: Callable[[T, T], T], *, is_large: bool = False) -> T:
        """Return what `partial` makes of a reader: of one for each part of the source, merged."""
        template = copy(self)
        del template.origin, template.source  # which stay here, while the rest travels

        def of_part(reader: RowReader) -> T:
            part = copy(template)
            part.origin, part.source = reader, reader.source
            if part.n_groups is None:
                part.groups = reader.groups
            return partial(part)

        return self.origin.reduce(of_part, merge, is_large=is_large)


def pair_reader(reader: RowReader) -> DerivedReader:
    """Return the two columns of two classes as one score of the larger class."""
    is_probability = reader.input == "probability"

    def derive(rows: CheckedRows) -> CheckedRows:
        z = rows.scores
        scores = np.ascontiguousarray(z[:, 1]) if is_probability else z[:, 1] - z[:, 0]
        return replace(rows, scores=scores, codes=rows.codes.astype(np.uint8))

    return DerivedReader(reader, derive, input=reader.input)


def logit_reader(reader: RowReader) -> DerivedReader:
    """Return logits as probabilities."""
    is_one = reader.is_binary

    def derive(rows: CheckedRows) -> CheckedRows:
        return replace(rows, scores=expit(rows.scores) if is_one else softmax(rows.scores))

    return DerivedReader(reader, derive, input="probability", is_one=is_one)


def flipped(reader: RowReader) -> DerivedReader:
    """Return the same rows of one score, of the smaller class as the positive one."""
    return DerivedReader(reader, lambda rows: replace(rows, codes=1 - rows.codes), input=reader.input)


def ungrouped(reader: RowReader) -> DerivedReader:
    """Return the same rows as one group."""
    return DerivedReader(
        reader, lambda rows: replace(rows, groups=None), input=reader.input, is_one=reader.is_binary, has_groups=False
    )


def top_label_reader(reader: RowReader, *, by_class: bool = False, only: int | None = None) -> DerivedReader:
    """Return the largest probability of each row, and whether its class is the row's own.

    Grouped by the class on top, or only rows where that is class number `only`, as asked.
    """
    is_logit = reader.input == "logit"

    def derive(rows: CheckedRows) -> CheckedRows:
        values = softmax(rows.scores) if is_logit else rows.scores
        top = values.argmax(axis=1)
        at = np.arange(top.size) if only is None else np.flatnonzero(top == only)
        return replace(
            rows,
            scores=values[at, top[at]],
            codes=(top == rows.codes)[at].astype(np.uint8),
            weight=None if rows.weight is None else rows.weight[at],
            groups=top if by_class else None if rows.groups is None else rows.groups[at],
        )

    return DerivedReader(reader, derive, input="probability", n_groups=len(reader.classes) if by_class else None)
