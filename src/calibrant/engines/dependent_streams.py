"""Clusters and overlapping labels of rows that are read in parts: sums by cluster, and by time, over all parts.

Clusters may span batches, files and partitions. One more pass over the rows finds what design effects are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from calibrant.dependent_rows import DependenceSums, SumsBuilder, gaps
from calibrant.engines.streams import SourceStream
from calibrant.errors import InvalidInputError
from calibrant.metrics import RowFigures, Settings
from calibrant.numerics import FloatArray
from calibrant.phrases import listed
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

_ByGroup: TypeAlias = dict[Any, DependenceSums]
#: Numbers that may be held for each distinct score that may be: 270 MB by default, thrice that while parts are added.
_NUMBERS_PER_SCORE = 8


def settings_of_stream(
    stream: SourceStream, summary: ScoreSummary, settings: Settings, by_class: Sequence[ScoreSummary] | None = None
) -> Settings:
    """Return the settings for the rows of a stream: its one score is summarised, or the top label, and each class."""
    if not stream.reader.shared:
        return settings
    figures = RowFigures.of(summary, by_class)
    return figures.settings(settings, _sums(stream.ungrouped(), figures.of_rows)[None])


def gap_sums_of_groups(stream: SourceStream) -> _ByGroup | None:
    """Sum the gaps of a stream of one score by group, and there by what rows share; None where they share nothing."""
    return _sums(stream, gaps) if stream.reader.shared else None


def _sums(stream: SourceStream, influences: Callable[[Rows], FloatArray]) -> _ByGroup:
    """Sum what rows add to figures, by group; under None without."""
    cluster, by, most = stream.reader.cluster, stream.group, _NUMBERS_PER_SCORE * stream.max_distinct
    where = f"{stream.reader.source.name} ({listed(list(stream.reader.shared))})"

    def partial(part: SourceStream) -> _ByGroup:
        builders: dict[Any, SumsBuilder] = {}
        for rows in part:
            clusters = None if cluster is None else rows.groups[cluster]
            for group, at in _places(rows, by):
                builder = builders.setdefault(group, SumsBuilder(influences))
                builder.add(rows.take(at), None if clusters is None else clusters.take(at))
            _check_size(sum(builder.size for builder in builders.values()), most, where)
        return {group: builder.sums() for group, builder in builders.items()}

    def merge(a: _ByGroup, b: _ByGroup) -> _ByGroup:
        for group, sums in b.items():
            a[group] = DependenceSums.joined([a[group], sums]) if group in a else sums
        _check_size(sum(sums.size for sums in a.values()), most, where)
        return a

    return stream.reduce(partial, merge, is_large=True)


def _places(rows: Rows, by: str | None) -> list[tuple[Any, Any]]:
    """Return the groups of rows, and the places of their rows."""
    if by is None:
        return [(None, slice(None))]
    labels = rows.groups[by]
    names = labels.classes.tolist()
    return [(names[code], np.flatnonzero(labels.codes == code)) for code in np.unique(labels.codes).tolist()]


def _check_size(size: int, most: int, where: str) -> None:
    if size > most:
        raise InvalidInputError(
            f"{where} shows too many clusters, or times: their sums take more than {most:,} numbers. Take a part of "
            "the rows that holds whole clusters, or a shorter time, or pass a larger max_distinct if memory allows."
        )
