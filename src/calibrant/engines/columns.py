"""One score against one event: columns of a reader's rows, and readers whose one score is made of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.numerics import BoolArray, FloatArray, softmax
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
    """Rows of one score and two classes, made of the rows of a reader of several columns.

    Attributes
    ----------
    group : str or None
        What messages call the groups that `derive` gives to the rows.
    """

    def __init__(
        self,
        reader: RowReader,
        derive: Callable[[CheckedRows], CheckedRows],
        *,
        input: InputKind,
        groups: list[int] | None = None,
    ) -> None:
        self.origin, self.derive = reader, derive
        self.source, self.score, self.label, self.weight = reader.source, reader.score, reader.label, reader.weight
        self.columns, self.classes, self.input = reader.columns, np.array([False, True]), input
        self.group = None if groups is None else "the top label"
        self.groups = groups or []

    @property
    def is_binary(self) -> bool:
        """Whether there is one column of scores: yes."""
        return True

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
            groups=top if by_class else None,
        )

    groups = list(range(len(reader.classes))) if by_class else None
    return DerivedReader(reader, derive, input="probability", groups=groups)
