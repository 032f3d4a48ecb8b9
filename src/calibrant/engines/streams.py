"""The rows of a source as a stream that fits and metrics read: what is derived from them, their sums and summaries."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from calibrant.engines.folding import SummaryBuilder, has_too_many_scores
from calibrant.engines.partitions import pooled_summary
from calibrant.engines.rows import RowReader
from calibrant.engines.spark_cells import cell_table, has_more_scores
from calibrant.errors import (
    CalibrantError,
    DataWarning,
    InvalidInputError,
    InvalidLabelError,
    ShapeError,
    unknown_name,
    warn,
)
from calibrant.fitted import positive_score
from calibrant.quantised import CellTable, QuantisedSummary
from calibrant.row_stream import added, joined, summed
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.tables import RowSource
from calibrant.validation import InputKind, Labels, check_integer

T = TypeVar("T")
Exact: TypeAlias = bool | Literal["auto"]

#: Distinct scores that an exact summary holds by default: about 400 MB while it is made.
MAX_DISTINCT = 1 << 22
#: Rows without weights that are as small in memory, packed to be sorted, as one distinct score with its sums.
_ROWS_PER_SCORE = 2.5
#: The groups of rows by the class on top, among the columns of groups.
_TOP = "the top label"


@dataclass(frozen=True, slots=True)
class SourceStream:
    """Rows of a source, read again for each pass. `RowStream` says what methods without a docstring do.

    `steps` are what is made of checked rows, one after the other; `input` and `is_binary` say what the scores are
    after them. `exact` and `max_distinct` are as in `cb.engines.summarise`; `takes_cells` says whether a method without
    a fit in several passes may be fitted to cells, `group` by which column of groups rows are summarised, and
    `is_flipped` whether the smaller of two classes is the positive one.
    """

    reader: RowReader
    input: InputKind
    is_binary: bool
    exact: Exact
    max_distinct: int
    takes_cells: bool = True
    group: str | None = None
    steps: tuple[Callable[[Rows], Rows], ...] = ()
    is_flipped: bool = False

    @classmethod
    def of(
        cls, reader: RowReader, *, exact: Exact = "auto", max_distinct: int = MAX_DISTINCT, takes_cells: bool = True
    ) -> SourceStream:
        """Return the rows of a reader as a stream."""
        if not (isinstance(exact, bool) or exact == "auto"):
            raise InvalidInputError(f"exact={exact!r} is none of True, False and 'auto'. Pass one of them.")
        check_integer("max_distinct", max_distinct, minimum=1)
        return cls(reader, reader.input, len(reader.score) == 1, exact, max_distinct, takes_cells, reader.group)

    @property
    def labels(self) -> str:
        return self.reader.labels

    @property
    def classes(self) -> npt.NDArray[Any]:
        return self.reader.classes[::-1] if self.is_flipped else self.reader.classes

    def __iter__(self) -> Iterator[Rows]:
        for batch in self.reader:
            rows = batch.rows
            for step in self.steps:
                rows = step(rows)
            if rows.n_rows:
                yield rows

    # --- passes --------------------------------------------------------------------------------------------------

    def reduce(self, partial: Callable[[SourceStream], T], merge: Callable[[T, T], T], *, is_large: bool = False) -> T:
        source = self.reader.source
        if not source.is_distributed:
            return partial(self)
        reader = copy(self.reader)
        del reader.source  # which stays here, while the rest travels
        stream = replace(self, reader=reader)

        def of_part(source: RowSource) -> T:
            part = copy(stream.reader)
            part.source = source
            return partial(replace(stream, reader=part))

        return source.reduce(self.reader.columns, of_part, merge, is_large=is_large)

    def total(self, part: Callable[[Rows], T]) -> T:
        found: T | None = self.reduce(lambda stream: summed(map(part, stream)), added)
        if found is None:
            raise self._no_rows()
        return found

    def count(self) -> int:
        if self.reader.n_rows is None:
            self.reader.n_rows = self.total(lambda rows: rows.n_rows)
        return self.reader.n_rows

    def sample(self, n_rows: float, *, rng: int) -> Rows:
        chance = n_rows / self.count()

        def partial(stream: SourceStream) -> list[Rows]:
            draw = np.random.default_rng(rng)
            return [rows.take(np.flatnonzero(draw.random(rows.n_rows) < chance)) for rows in stream]

        return joined(self.reduce(partial, operator.iadd))

    def materialise(self, max_rows: int) -> Rows | None:
        """Return all rows where they are at most so many; of one score, the source must be one that is read again."""
        source = self.reader.source
        if (not source.is_repeatable and self.is_binary) or (source.n_rows or 0) > max_rows:
            return None
        parts: list[Rows] = []
        n_rows = 0
        for rows in self:
            parts.append(rows)
            n_rows += rows.n_rows
            if n_rows > max_rows:
                return None
        return self.gathered(parts) if parts else None

    def gathered(self, parts: Sequence[Rows]) -> Rows:
        if not parts:
            raise self._no_rows()
        if self.reader.cluster is None:
            return joined(parts)
        names = [rows.groups[self.reader.cluster].values for rows in parts]
        return replace(joined(parts), cluster=np.unique(np.concatenate(names), return_inverse=True)[1])

    # --- streams that are derived ----------------------------------------------------------------------------------

    def probabilities(self) -> SourceStream:
        """Return logits as probabilities, and other scores as they are."""
        if self.input != "logit":
            return self
        return replace(self, input="probability", steps=(*self.steps, _to_probabilities))

    def pair(self) -> SourceStream:
        kind = self.input
        if self.is_binary:
            return self
        return self.one_score(lambda rows: rows.with_scores(positive_score(rows.scores, kind), input=kind))

    def column(self, k: int) -> SourceStream:
        return self.probabilities().one_score(lambda rows: rows.of_class(k))

    def top_label(self, only: int | None = None) -> SourceStream:
        def step(rows: Rows) -> Rows:
            top = rows.top_label()
            return top if only is None else top.take(rows.scores.argmax(axis=1) == only)

        return self.probabilities().one_score(step)

    def by_top_label(self) -> SourceStream:
        """Return the top label's probability, and whether it is right, grouped by the class on top."""

        def step(rows: Rows) -> Rows:
            return replace(rows.top_label(), groups={_TOP: Labels(rows.scores.argmax(axis=1), rows.classes)})

        return replace(self.probabilities().one_score(step), group=_TOP)

    def one_column(self) -> SourceStream:
        """Return one score as it is, and the top label of several columns."""
        return self if self.is_binary else self.top_label()

    def as_probabilities(self, pos_label: object = None) -> SourceStream:
        """Return probabilities as they are measured: of two classes one column, that of the positive label."""
        stream = (self.pair() if len(self.classes) == 2 else self).probabilities()
        if pos_label is None:
            return stream
        known = self.classes.tolist()
        if not self.is_binary:
            raise InvalidInputError(
                f"pos_label={pos_label!r} is for one column of scores, but {len(self.reader.score)} are named. Leave "
                "it out."
            )
        if pos_label not in known:
            raise unknown_name("pos_label", pos_label, known)
        flipped = stream.one_score(lambda rows: replace(rows, labels=rows.checked_labels().flipped()))
        return stream if pos_label != known[0] else replace(flipped, is_flipped=True)

    def ungrouped(self) -> SourceStream:
        """Return the rows without groups."""
        return replace(self, group=None)

    def one_score(self, step: Callable[[Rows], Rows]) -> SourceStream:
        """Return the stream of one score that a step makes of each part."""
        return replace(self, is_binary=True, steps=(*self.steps, step))

    # --- summaries -------------------------------------------------------------------------------------------------

    def summaries(self) -> dict[Any, list[ScoreSummary]]:
        """Summarise the one score, or each column against its class: one list for each group, under None without."""
        if (table := self._cells_of_spark()) is not None:
            return {None: [table.summary()]}
        if self.is_binary and self.group is None and (packed := self._packed(self.max_distinct)) is not None:
            return {None: [packed]}
        stream = self if self.is_binary else self.probabilities()
        source, group = self.reader.source, self.group
        n_states = n_classes = 1 if self.is_binary else len(self.classes)
        if group is not None:
            n_states *= len(self.classes) if group == _TOP else source.count_distinct(group)
        exact, n_rows = None if self.exact == "auto" else bool(self.exact), source.n_rows
        settings = exact, self.max_distinct, stream.input == "probability", n_states

        def partial(part: SourceStream) -> SummaryBuilder:
            builder = SummaryBuilder(*settings, n_rows=n_rows)
            for rows in part:
                _add_rows(builder, rows, group)
            builder.flush()
            return builder

        found = stream.reduce(partial, SummaryBuilder.merge, is_large=True).summaries()
        if not found:
            raise self._no_rows()
        groups = [None] if group is None else sorted({key for key, _ in found})
        return {key: [found[key, k] for k in range(n_classes)] for key in groups}

    def _cells_of_spark(self) -> CellTable | None:
        """Return cells that Spark filled itself, of one score as it is read; None where this is not for it."""
        if self.steps or not self.is_binary or self.group is not None or self.exact is True:
            return None
        if self.exact is False or has_more_scores(self.reader, self.max_distinct):
            return cell_table(self.reader, is_probability=self.input == "probability")
        return None

    def summary(self) -> ScoreSummary:
        (found,) = self.ungrouped().summaries()[None]
        if self.reader.n_rows is None:
            self.reader.n_rows = round(found.total_weight)
        return found

    def class_summaries(self) -> list[ScoreSummary]:
        found = self.ungrouped().summaries()[None]
        if self.reader.n_rows is None:
            self.reader.n_rows = round(sum(summary.total_positives for summary in found))
        return found

    def top_summaries(self) -> dict[Any, ScoreSummary]:
        return {label: summary for label, (summary,) in self.by_top_label().summaries().items()}

    def summary_to_pool(self) -> ScoreSummary | None:
        packed, n_rows = self._packed(_ROWS_PER_SCORE * self.max_distinct), self._n_plain_rows
        if packed is not None or not n_rows:
            return packed
        first = next(iter(self)).summary()
        if not has_too_many_scores(int(first.total_weight), first.scores.size, n_rows, self.max_distinct):
            return None
        self.reader.n_rows = n_rows
        return pooled_summary(self, max_rows=self.max_distinct, known=first)

    @property
    def _n_plain_rows(self) -> int | None:
        """The number of rows that may be read without weights, and exactly; None where it is not known."""
        source = self.reader.source
        return None if self.wants_cells or self.reader.weight is not None or source.is_distributed else source.n_rows

    def _packed(self, most_rows: float) -> ScoreSummary | None:
        """Return all rows of the one score, packed and sorted, where they are known to be at most so many."""
        n_rows = self._n_plain_rows
        if not n_rows or n_rows > most_rows:
            return None
        self.reader.n_rows = n_rows
        scores, positive = np.empty(n_rows), np.empty(n_rows, dtype=np.bool_)
        stop = 0
        for rows in self:
            start, stop = stop, stop + rows.n_rows
            scores[start:stop], positive[start:stop] = rows.scores, rows.positive
        if not stop:
            raise self._no_rows()
        return ScoreSummary.from_rows(scores[:stop], positive[:stop], None)

    def pooled_summary(self, cells: QuantisedSummary) -> ScoreSummary:
        return pooled_summary(self, max_rows=self.max_distinct, known=cells)

    def check_both(self, summary: ScoreSummary) -> None:
        if not 0.0 < summary.total_positives < summary.total_weight:
            raise InvalidLabelError(
                f"{self.labels} shows a class in none or all of its rows ({summary.total_positives:g} of "
                f"{summary.total_weight:g}). Pass rows of at least two classes."
            )

    @property
    def can_count(self) -> bool:
        """Whether rows have weights, which don't tell their number, and can be read again to be counted."""
        return self.reader.weight is not None and self.reader.source.is_repeatable

    @property
    def wants_cells(self) -> bool:
        return self.exact is False

    def approximate(self, method: str, cells: QuantisedSummary) -> None:
        what = f"there are more than {self.max_distinct:,} distinct scores, and {method} has no fit in several passes"
        if not self.takes_cells:
            raise InvalidInputError(f"{what}. Pass a larger max_distinct, exact='auto', or another method.")
        warn(f"{what}: it is fitted to cells of neighbouring scores ({cells.bounds.in_words})", DataWarning)

    def _no_rows(self) -> CalibrantError:
        name = self.reader.source.name
        if self.reader.weight is None:
            return ShapeError(f"{name} has no rows. Pass at least one.")
        return InvalidInputError(f"{name} has no row with weight. Give at least one a positive weight.")


def _to_probabilities(rows: Rows) -> Rows:
    values = rows.probabilities()
    return rows if values is None else rows.with_scores(values)


def _add_rows(builder: SummaryBuilder, rows: Rows, group: str | None) -> None:
    """Add rows to the states of their groups and classes."""
    if group is None:
        _add_classes(builder, None, rows)
        return
    groups = rows.groups[group]
    order = np.argsort(groups.codes, kind="stable")
    counts = {label: n for label, n in zip(groups.classes.tolist(), groups.counts().tolist(), strict=True) if n}
    n_groups = len(counts.keys() | {key for key, _ in builder.states})
    builder.n_states = max(builder.n_states, n_groups * (1 if rows.is_binary else rows.n_classes))
    stop = 0
    for label, n in counts.items():
        start, stop = stop, stop + n
        _add_classes(builder, label, rows.take(order[start:stop]))


def _add_classes(builder: SummaryBuilder, group: Any, rows: Rows) -> None:
    for k, one in enumerate([rows] if rows.is_binary else map(rows.of_class, range(rows.n_classes))):
        builder.add((group, k), one.scores, one.positive, one.weight)
