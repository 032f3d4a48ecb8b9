"""Rows that are not independent: how much more a figure varies than it would if they were, its design effect.

Intervals and debiased errors go by the effective number of rows. Where rows hang together, the number is divided by
the design effect (Kish 1965): the variance of a figure, as the sum over rows of what each adds to it, its influence,
over what that would be if rows were independent. Of clusters it is that of the sums over clusters; of labels that
overlap in time it is that of the sums over blocks of times that are long enough for them.

Either takes no more than sums by cluster, or by time: those of parts of the rows add up to those of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import Blocks, Dependence, TimeArray, Units, dependence_hint, label_blocks, t_quantile
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, IntArray, kish_size, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import Labels

#: What is said of rows that look as if they depended on each other, before what shows it and after.
SIGN = "A sign that rows are not independent"
DECLARE = "Name what they share (cluster), or say when labels overlap (time and label_end)."
#: Rows in which the sign is looked for, at most.
_MOST_LOOKED_AT = 200_000
#: A share of the sum of squares that is rounding, and no variance.
_ROUNDING = 1e-13
#: Rows whose influences are held at once.
_PART = 1 << 17


@dataclass(frozen=True, slots=True)
class KeySums:
    """Sums over the rows of each cluster, or of each time: of weights, and of weights times m figures.

    `keys` are the G clusters, in any order, or the times, sorted; `weight` has shape (G,), `figures` shape (G, m).
    `until` is when the last label of each time is known.
    """

    keys: npt.NDArray[Any]
    weight: FloatArray
    figures: FloatArray
    until: TimeArray | None = None

    @classmethod
    def of(
        cls,
        keys: npt.NDArray[Any],
        at: npt.NDArray[np.integer[Any]],
        columns: Iterable[FloatArray],
        until: TimeArray | None = None,
    ) -> KeySums:
        """Sum rows by the key that each has, given as its index; `columns` are weights and weighted figures."""
        there = np.bincount(at, minlength=keys.size) > 0
        weight, *figures = (np.bincount(at, column, keys.size)[there].astype(np.float64) for column in columns)
        last = None
        if until is not None:
            order = np.argsort(at, kind="stable")
            last = np.maximum.reduceat(until[order], np.searchsorted(at[order], np.flatnonzero(there)))
        return cls(keys[there], weight, np.array(figures).reshape(len(figures), weight.size).T, last)

    @classmethod
    def joined(cls, parts: Sequence[KeySums]) -> KeySums:
        """Add up the sums of parts of the rows."""
        if len(parts) == 1:
            return parts[0]
        if len({part.keys.dtype.kind for part in parts}) > 1:
            parts = _of_one_kind(parts)
        keys, at = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        known = [part.until for part in parts if part.until is not None]
        weight = np.concatenate([part.weight for part in parts])
        n_figures = parts[0].figures.shape[1]
        figures = (np.concatenate([part.figures[:, j] for part in parts]) for j in range(n_figures))  # one at a time
        return cls.of(keys, at, chain([weight], figures), np.concatenate(known) if known else None)


@dataclass(frozen=True, slots=True)
class DependenceSums:
    """All that the design effects of m figures are found from.

    `squares` holds the sums over all rows of w^2, w^2 a and w^2 a^2 for the weight w and each figure a, shape (3, m).
    """

    squares: FloatArray
    clusters: KeySums | None
    times: KeySums | None

    @classmethod
    def of(cls, rows: Rows, figures: FloatArray, clusters: Labels | None = None) -> DependenceSums:
        """Sum some rows: `figures`, shape (n, m), hold what each adds at weight one to each figure.

        `clusters` names the clusters of rows that don't number them.
        """
        w = rows.weights
        columns = [w, *(w * figure for figure in figures.T)]
        squares = np.stack([w**2 @ figures**power for power in range(3)])
        if rows.cluster is not None:
            names, codes = np.unique(rows.cluster, return_inverse=True)
            clusters = Labels(codes, names)
        by_cluster = None if clusters is None else KeySums.of(clusters.classes, clusters.codes, columns)
        by_time = None
        if rows.time is not None:
            times, at = np.unique(rows.time, return_inverse=True)
            by_time = KeySums.of(times, at, columns, rows.label_end)
        return cls(squares, by_cluster, by_time)

    @classmethod
    def joined(cls, parts: Sequence[DependenceSums]) -> DependenceSums:
        """Add up the sums of parts of the rows."""
        clusters = [part.clusters for part in parts if part.clusters is not None]
        times = [part.times for part in parts if part.times is not None]
        return cls(
            np.sum([part.squares for part in parts], axis=0),
            KeySums.joined(clusters) if clusters else None,
            KeySums.joined(times) if times else None,
        )

    @property
    def size(self) -> int:
        """Numbers that are held."""
        return sum(each.figures.size + each.weight.size for each in (self.clusters, self.times) if each is not None)


@dataclass(frozen=True, slots=True)
class DesignEffects:
    """How rows hang together: in clusters, in blocks of times, or both; or not at all.

    `dof` are the degrees of freedom that a variance between clusters, or blocks, is measured with: their number less
    one, of clusters of unequal size the number of equal ones that say as much (Carter, Schnepel and Steigerwald 2017,
    *Asymptotic behavior of a t-test robust to cluster heterogeneity*, Review of Economics and Statistics 99).
    """

    dof: float = math.inf
    blocks: Blocks | None = None

    @classmethod
    def of(cls, rows: Rows) -> DesignEffects:
        """Return what is known of rows."""
        return cls.of_sums(DependenceSums.of(rows, np.empty((rows.n_rows, 0)))) if rows.declared else cls()

    @classmethod
    def of_sums(cls, sums: DependenceSums) -> DesignEffects:
        """Return what sums over rows tell of them."""
        dof, blocks = math.inf, None
        if sums.clusters is not None:
            dof = kish_size(sums.clusters.weight) - 1.0
        if sums.times is not None and sums.times.until is not None:
            blocks = label_blocks(sums.times.keys, sums.times.until)
            in_block = _block_of_times(sums.times.keys.size, blocks)
            dof = min(dof, kish_size(np.bincount(in_block, sums.times.weight).astype(np.float64)) - 1.0)
        return cls(max(dof, 0.0), blocks)

    @property
    def is_dependent(self) -> bool:
        """Whether rows are not independent."""
        return math.isfinite(self.dof)

    def of_means(self, rows: Rows, influences: FloatArray) -> FloatArray:
        """Return how many times the variance of each weighted mean is that of independent rows, shape (m,): at least 1.

        `influences`, shape (n, m), hold what each row, at weight one, adds to each of m figures. With G clusters, or
        blocks, the variance between them has the factor G / (G - 1). Cameron and Miller (2015), *A practitioner's
        guide to cluster-robust inference*, Journal of Human Resources 50.
        """
        if not rows.declared:
            return np.ones(influences.shape[1])
        return self.of_sums_of_means(DependenceSums.of(rows, influences))

    def of_sums_of_means(self, sums: DependenceSums) -> FloatArray:
        """Return the design effects of the figures that were summed; NaN where one is not finite."""
        known = sums.times if sums.clusters is None else sums.clusters
        assert known is not None  # noqa: S101
        squared, crossed, squares = sums.squares
        mean = known.figures.sum(axis=0) / known.weight.sum()
        alone = squares - 2.0 * mean * crossed + mean**2 * squared
        varies = ~(alone <= _ROUNDING * squares)
        alone = np.where(varies, alone, 1.0)
        found = np.ones(mean.size)
        if sums.clusters is not None:
            away = sums.clusters.figures - sums.clusters.weight[:, None] * mean
            found = np.maximum(found, _between(away, sums.clusters.weight, squared, alone))
        if sums.times is not None and self.blocks is not None:
            in_block = _block_of_times(sums.times.keys.size, self.blocks)
            away = sums.times.figures - sums.times.weight[:, None] * mean
            by_block = np.column_stack([np.bincount(in_block, column) for column in away.T]).astype(np.float64)
            weight = np.bincount(in_block, sums.times.weight).astype(np.float64)
            found = np.maximum(found, _between(by_block, weight, squared, alone) / (1.0 - self.blocks.lost))
        return np.asarray(np.where(varies, found, 1.0))

    def widening(self, level: float) -> float:
        """Return the factor of the variance that few clusters ask for: (t / z)^2, the quantiles of t and the normal.

        Less than one degree of freedom counts as one.
        """
        if not self.is_dependent:
            return 1.0
        return (t_quantile(max(self.dof, 1.0), level) / normal_quantile(level)) ** 2


class SumsBuilder:
    """Sums rows that come in parts; `influences` gives what each row adds to m figures, shape (n, m)."""

    def __init__(self, influences: Callable[[Rows], FloatArray]) -> None:
        self.influences = influences
        self._held: list[DependenceSums] = []

    def add(self, rows: Rows, clusters: Labels | None = None) -> SumsBuilder:
        """Add some rows, with the names of their clusters where they don't number them."""
        for start in range(0, rows.n_rows, _PART):
            at = np.arange(start, min(start + _PART, rows.n_rows))
            part = rows if at.size == rows.n_rows else rows.take(at)
            named = None if clusters is None else clusters.take(at)
            self._held.append(DependenceSums.of(part, self.influences(part), named))
            if 2 * sum(each.size for each in self._held[1:]) > self._held[0].size:
                self.sums()
        return self

    @property
    def size(self) -> int:
        """Numbers that are held, but for those that wait to be added, half as many at most."""
        return self._held[0].size

    def sums(self) -> DependenceSums:
        """Return the sums of all rows that were added, one at least."""
        if len(self._held) > 1:
            self._held = [DependenceSums.joined(self._held)]
        return self._held[0]


def gap_sums(rows: Rows) -> DependenceSums:
    """Sum the mean gaps between probability and outcome, of top label and classes, by what rows share."""
    return SumsBuilder(gaps).add(rows).sums()


def design_effect(rows: Rows) -> float:
    """Return the largest design effect of the mean gaps between probability and outcome, of top label and classes."""
    if not rows.declared:
        return 1.0
    sums = gap_sums(rows)
    return float(DesignEffects.of_sums(sums).of_sums_of_means(sums).max())


def units_of(rows: Rows, values: FloatArray | None = None) -> tuple[Units, ...]:
    """Return the clusters of rows, and the blocks of their times, as far as they were declared.

    Of times without ends of labels, the `values` whose mean is estimated tell how long blocks are.
    """
    declared = (Dependence(cluster=rows.cluster), Dependence(time=rows.time, label_end=rows.label_end))
    weight = rows.weights
    series = () if values is None else (weight * (values - np.average(values, weights=weight)),)
    return tuple(found for each in declared if (found := each.units(*series)) is not None)


def effects_in_groups(rows: Rows, codes: IntArray, n_groups: int, influence: FloatArray) -> FloatArray:
    """Return the design effect of the mean of an influence in each of some groups of rows: at least 1.

    The variance between G units has the factor G / (G - 1), and what the ends of blocks lose is made up for. One unit
    tells nothing of how units differ: all its rows are worth one.
    """
    weight = rows.weights
    mean = np.bincount(codes, weight * influence, n_groups) / np.bincount(codes, weight, n_groups)
    away = weight * (influence - mean[codes])
    alone = np.bincount(codes, away**2, n_groups)
    worst = np.ones(n_groups)
    for units in units_of(rows):
        group, part = parts_of_groups(units, codes)
        n_units = np.bincount(group, minlength=n_groups)
        between = np.bincount(group, np.bincount(part, away) ** 2, n_groups) / (1.0 - units.lost)
        between *= n_units / np.maximum(n_units - 1, 1)
        effect = np.divide(between, alone, out=np.ones(n_groups), where=alone > 0.0)
        kish = np.bincount(codes, weight, n_groups) ** 2 / np.bincount(codes, weight**2, n_groups)
        worst = np.maximum(worst, np.where(n_units == 1, kish, effect))
    return np.asarray(worst)


def parts_of_groups(units: Units, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the group of each part, which is what a group has of a unit, and the part of each row."""
    parts, part = np.unique(codes * units.n + units.code, return_inverse=True)
    return parts // units.n, part


def gaps(rows: Rows) -> FloatArray:
    """Return score less outcome of one column, or of the top label and each class, one column for each."""
    if rows.is_binary:
        return -rows.residuals[:, None]
    top = rows.top_label()
    return np.column_stack((top.scores - top.positive, rows.scores - np.eye(rows.n_classes)[rows.codes]))


def hint_of(rows: Rows, order: IntArray | None = None) -> str:
    """Return what looks like dependence between rows that stand next to each other, where none was declared."""
    if rows.declared:
        return ""
    rows = rows if order is None else rows.take(order)
    if rows.n_rows > _MOST_LOOKED_AT:
        rows = rows.take(np.arange(_MOST_LOOKED_AT))
    column = rows.one_column()
    return dependence_hint(column.residuals, scores=column.scores, weight=column.weight)


def as_independent(rows: Rows) -> Rows:
    """Return the rows without what says that they are not independent, for what takes their design effect apart."""
    return replace(rows, cluster=None, time=None, label_end=None)


def with_effect(summary: ScoreSummary, effect: float) -> ScoreSummary:
    """Return a summary whose effective number of rows is smaller by the design effect, everywhere alike."""
    if effect == 1.0:
        return summary
    scores, weight, squared, positives = summary.distinct
    return ScoreSummary(DistinctScores(scores, weight, squared * effect, positives))


def _of_one_kind(parts: Sequence[KeySums]) -> list[KeySums]:
    """Bring numbers of several kinds to one: parts of a text file may hold whole numbers, and others."""
    kinds = {part.keys.dtype.kind for part in parts}
    if not kinds <= set("iuf"):
        known = [str(part.keys[0]) for part in {part.keys.dtype.kind: part for part in parts}.values()]
        raise InvalidInputError(
            f"clusters or times are of several kinds, such as {known[0]} and {known[1]}. Write one kind in all rows."
        )
    return [replace(part, keys=part.keys.astype(np.float64 if "f" in kinds else object)) for part in parts]


def _between(away: FloatArray, weight: FloatArray, squared: FloatArray, alone: FloatArray) -> FloatArray:
    """Return the variance of the sums of weighted deviations by those of units, over that of independent rows."""
    n_units = weight.size
    if n_units == 1:  # which tells nothing of how units differ: all rows are worth one
        return np.asarray(weight[0] ** 2 / squared)
    return np.asarray(np.sum(away**2, axis=0) * (n_units / (n_units - 1.0)) / alone)


def _block_of_times(n_times: int, blocks: Blocks) -> IntArray:
    """Return the block of each of so many distinct times, as `Dependence.units` makes them."""
    return np.arange(n_times) * max(n_times // blocks.length, 1) // n_times
