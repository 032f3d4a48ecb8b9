"""Rows of several classes as the metrics ask for them: held, or read again for each mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.engines.columns import logit_reader, pair_reader, top_label_reader
from calibrant.engines.rows import CheckedRows, RowReader
from calibrant.engines.softmax_streams import weights_of
from calibrant.engines.summarise import Exact, fold_summaries
from calibrant.metrics import RowValues
from calibrant.numerics import FloatArray
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import Labels


def probabilities_of(reader: RowReader) -> RowReader:
    """Return what a reader reads as probabilities; two columns of two classes as one score."""
    if not reader.is_binary and len(reader.classes) == 2:
        reader = pair_reader(reader)
    return logit_reader(reader) if reader.input == "logit" else reader


def materialise_rows(reader: RowReader, most: int) -> Rows | None:
    """Return all rows where their columns hold no more than so many numbers."""
    n_columns = len(reader.score)
    if (reader.source.n_rows or 0) * n_columns > most or not reader.source.is_repeatable:
        return None
    held: list[CheckedRows] = []
    for rows in reader:
        held.append(rows)
        if sum(len(part.scores) for part in held) * n_columns > most:
            return None
    if not held:
        return None
    weight = None
    if any(rows.weight is not None for rows in held):
        weight = np.concatenate([weights_of(rows) for rows in held])
    codes = np.concatenate([rows.codes for rows in held])
    return Rows(np.concatenate([rows.scores for rows in held]), Labels(codes, reader.classes), weight)


@dataclass(frozen=True, slots=True)
class StreamedClassRows:
    """Rows of K columns that are read again for each mean over them; see `calibrant.metrics.multiclass.ClassRows`."""

    reader: RowReader
    n_rows: int
    total: float
    effective_size: float
    mean_prob: FloatArray
    top: ScoreSummary
    by_class: Sequence[ScoreSummary]

    @classmethod
    def read(cls, reader: RowReader, *, exact: Exact, max_distinct: int) -> StreamedClassRows:
        """Count the rows and summarise their columns."""

        def part(rows: CheckedRows) -> tuple[int, float, float, FloatArray]:
            w = weights_of(rows)
            return w.size, float(w.sum()), float(np.square(w).sum()), w @ rows.scores

        n_rows, total, squared, sums = reader.total(part)
        by_class: Any = fold_summaries(reader, exact=exact, max_distinct=max_distinct)
        top: Any = fold_summaries(top_label_reader(reader), exact=exact, max_distinct=max_distinct)
        return cls(reader, n_rows, total, total**2 / squared, sums / total, top, list(by_class.values()))

    @property
    def classes(self) -> list[Any]:
        """The sorted classes."""
        found: list[Any] = self.reader.classes.tolist()
        return found

    def top_summary(self) -> ScoreSummary:
        """Summarise the largest probability of each row, and whether it is of the row's class."""
        return self.top

    def summaries_on_top(self) -> None:
        """Leave out the rows where each class is the top label: they would take one more pass."""

    def class_summary(self, k: int) -> ScoreSummary:
        """Summarise one column against its class."""
        return self.by_class[k]

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        """Return mean and variance over the rows of each value that a function gives of them.

        Squares are taken about the mean of the first rows, so that no digits are lost to a large mean.
        """
        classes = self.reader.classes

        def of(rows: CheckedRows) -> list[FloatArray]:
            return list(values(Rows(rows.scores, Labels(rows.codes, classes), rows.weight)))

        first = next(iter(self.reader))
        about = [float(np.average(found, weights=first.weight)) for found in of(first)]
        about = [centre if np.isfinite(centre) else 0.0 for centre in about]

        def part(rows: CheckedRows) -> FloatArray:
            w = weights_of(rows)
            away = [found - centre for found, centre in zip(of(rows), about, strict=True)]
            return np.array([(float(w @ x), float(w @ np.square(x))) for x in away])

        sums = self.reader.total(part) / self.total
        return [
            (centre + mean, max(square - mean**2, 0.0) if np.isfinite(mean) else np.nan)
            for centre, (mean, square) in zip(about, sums.tolist(), strict=True)
        ]
