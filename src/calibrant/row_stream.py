"""Rows that don't fit in memory, as fits see them: read in parts, as often as a fit asks for them.

A fit to a stream takes sums over its rows: of gradients and Hessians, one pass for each evaluation. Where a method has
no such sums it is fitted to a summary of cells, which a stream refuses or announces. The engines implement streams for
files, databases and Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.quantised import QuantisedSummary
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import InputKind, Labels

T = TypeVar("T")


class RowStream(Protocol):
    """Checked rows of weight above zero, which come in parts and can be read any number of times."""

    @property
    def labels(self) -> str:
        """What messages call the labels."""

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The sorted classes, shape (K,)."""

    @property
    def input(self) -> InputKind:
        """What the scores are."""

    @property
    def is_binary(self) -> bool:
        """Whether there is one score per row."""

    def __iter__(self) -> Iterator[Rows]:
        """Read the rows once, part by part."""

    def total(self, part: Callable[[Rows], T]) -> T:
        """Return the sum over all rows of what `part` finds of some: a number, an array, or a tuple of these."""

    def reduce(self, partial: Callable[[RowStream], T], merge: Callable[[T, T], T], *, is_large: bool = False) -> T:
        """Return what `partial` makes of the stream, or of each part of it, merged in the order of the parts."""

    def count(self) -> int:
        """Return the number of rows: of rows that were summarised their weight, rounded; else they are counted."""

    def sample(self, n_rows: float, *, rng: int) -> Rows:
        """Draw about so many of all rows with a fixed seed."""

    def gathered(self, parts: Sequence[Rows]) -> Rows:
        """Return rows of all parts as one, at least one part: clusters are numbered alike."""

    def pair(self) -> RowStream:
        """Return the two columns of two classes as one score; one score as it is."""

    def column(self, k: int) -> RowStream:
        """Return one column of probabilities or raw scores against its class; logits as probabilities."""

    def top_label(self, only: int | None = None) -> RowStream:
        """Return the top label's probability, and whether it is right: of all rows, or `only` with one class on top."""

    @property
    def wants_cells(self) -> bool:
        """Whether a fit is to be one to cells of scores, in one pass."""

    def summary(self) -> ScoreSummary:
        """Summarise the one score, in cells where all scores don't fit."""

    def summary_to_pool(self) -> ScoreSummary | None:
        """Summarise the one score for pooling, where it is known that another summary would only delay it.

        Few enough rows are packed; of too many scores the summary knows the exact isotonic blocks.
        """

    def pooled_summary(self, cells: QuantisedSummary) -> ScoreSummary:
        """Return the summary of the one score with its exact isotonic blocks; `cells` is that of a first pass."""

    def check_both(self, summary: ScoreSummary) -> None:
        """Raise unless a summary of the stream shows both classes."""

    def class_summaries(self) -> Sequence[ScoreSummary]:
        """Summarise each column against its class, in cells where all scores don't fit."""

    def top_summaries(self) -> dict[Any, ScoreSummary]:
        """Summarise the top labels by the class on top; classes that are never on top are left out."""

    def approximate(self, method: str, cells: QuantisedSummary) -> None:
        """Warn that a method is fitted to cells, or raise where only exact fits will do."""


def added(a: Any, b: Any) -> Any:
    """Return the sum of two numbers, arrays or tuples of these; None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(map(added, a, b)) if isinstance(a, tuple) else a + b


def summed(parts: Iterable[T]) -> T:
    """Return the sum of numbers, arrays or tuples of these; of none it is None, which adds nothing to others."""
    total: Any = reduce(added, parts, None)
    return total  # type: ignore[no-any-return]


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, at least one: scores, labels, weights, and what they depend on each other by.

    Clusters are numbered alike in all parts.
    """
    weight = None
    if any(rows.weight is not None for rows in parts):
        weight = np.concatenate([rows.weights for rows in parts])
    first = parts[0]
    labels = None if first.labels is None else Labels(np.concatenate([rows.codes for rows in parts]), first.classes)
    names = [*first.declared, *([] if first.outcomes is None else ["outcomes"])]
    beside: dict[str, Any] = {name: np.concatenate([getattr(rows, name) for rows in parts]) for name in names}
    return Rows(
        np.concatenate([rows.scores for rows in parts]),
        labels,
        weight,
        input=first.input,
        **beside,
    )
