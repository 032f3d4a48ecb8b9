"""Rows that are not independent: how much more a figure varies than it would if they were, its design effect.

Intervals and debiased errors go by the effective number of rows. Where rows hang together, the number is divided by
the design effect (Kish 1965): the variance of a figure, as the sum over rows of what each adds to it, its influence,
over what that would be if rows were independent. Of clusters it is that of the sums over clusters; of labels that
overlap in time that of circular block-bootstrap draws, which keep neighbours in time together.

Either takes no more than sums by cluster, or by time: those of parts of the rows add up to those of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.dependence import TimeArray, block_draws, block_length
from calibrant.errors import InvalidInputError
from calibrant.numerics import FloatArray, kish_size, normal_quantile
from calibrant.rows import Rows
from calibrant.summary import DistinctScores, ScoreSummary
from calibrant.validation import Labels

_DRAWS = 500
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
        columns: FloatArray,
        until: TimeArray | None = None,
    ) -> KeySums:
        """Sum rows by the key that each has, given as its index; `columns` are weights and weighted figures."""
        sums = np.column_stack([np.bincount(at, column, keys.size).astype(np.float64) for column in columns.T])
        there = np.bincount(at, minlength=keys.size) > 0
        last = None
        if until is not None:
            order = np.argsort(at, kind="stable")
            last = np.maximum.reduceat(until[order], np.searchsorted(at[order], np.flatnonzero(there)))
        return cls(keys[there], sums[there, 0], sums[there, 1:], last)

    @classmethod
    def joined(cls, parts: Sequence[KeySums]) -> KeySums:
        """Add up the sums of parts of the rows; keys of several parts must be of one kind."""
        if len(parts) == 1:
            return parts[0]
        if len({part.keys.dtype.kind for part in parts}) > 1:
            parts = _of_one_kind(parts)
        keys, at = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        columns = [np.column_stack((part.weight, part.figures)) for part in parts]
        known = [part.until for part in parts if part.until is not None]
        return cls.of(keys, at, np.concatenate(columns), np.concatenate(known) if known else None)


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
        columns = np.column_stack((w, w[:, None] * figures))
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
class Dependence:
    """How rows hang together: their clusters, or the blocks of times that are resampled.

    `dof` are the degrees of freedom that a variance between clusters, or blocks, is measured with: their number less
    one, of clusters of unequal size the number of equal ones that say as much (Carter, Schnepel and Steigerwald 2017,
    *Asymptotic behavior of a t-test robust to cluster heterogeneity*, Review of Economics and Statistics 99).
    """

    dof: float = math.inf
    block: int | None = None

    @classmethod
    def of(cls, rows: Rows) -> Dependence:
        """Return what is known of rows."""
        return cls.of_sums(DependenceSums.of(rows, np.empty((rows.n_rows, 0)))) if rows.declared else cls()

    @classmethod
    def of_sums(cls, sums: DependenceSums) -> Dependence:
        """Return what sums over rows tell of them."""
        dof = math.inf
        if sums.clusters is not None:
            dof = kish_size(sums.clusters.weight) - 1.0
        if sums.times is None:
            return cls(max(dof, 0.0))
        times = sums.times.keys
        block = block_length(times, sums.times.until)
        return cls(max(min(dof, times.size / block - 1.0), 0.0), block)

    @property
    def is_dependent(self) -> bool:
        """Whether rows are not independent."""
        return math.isfinite(self.dof)

    def effects(self, rows: Rows, influences: FloatArray) -> FloatArray:
        """Return how many times the variance of each weighted mean is that of independent rows, shape (m,): at least 1.

        `influences`, shape (n, m), hold what each row, at weight one, adds to each of m figures. With G clusters the
        variance between them has the factor G / (G - 1). Cameron and Miller (2015), *A practitioner's guide to
        cluster-robust inference*, Journal of Human Resources 50. Künsch (1989), *The jackknife and the bootstrap for
        general stationary observations*, Annals of Statistics 17.
        """
        if not rows.declared:
            return np.ones(influences.shape[1])
        return self.effects_of(DependenceSums.of(rows, influences))

    def effects_of(self, sums: DependenceSums) -> FloatArray:
        """Return the design effects of the figures that were summed, as `effects` does; NaN where one is not finite."""
        known = sums.times if sums.clusters is None else sums.clusters
        assert known is not None  # noqa: S101
        squared, crossed, squares = sums.squares
        mean = known.figures.sum(axis=0) / known.weight.sum()
        alone = squares - 2.0 * mean * crossed + mean**2 * squared
        varies = ~(alone <= _ROUNDING * squares)
        alone = np.where(varies, alone, 1.0)
        found = np.ones(mean.size)
        if sums.clusters is not None:
            found = np.maximum(found, _between_clusters(sums.clusters, mean, alone, squared) / alone)
        if sums.times is not None and self.block is not None:
            found = np.maximum(found, _between_blocks(sums.times, self.block) * sums.times.weight.sum() ** 2 / alone)
        return np.where(varies, found, 1.0)

    def widening(self, level: float) -> float:
        """Return the factor of the variance that few clusters ask for: (t / z)^2, the quantiles of t and the normal.

        Less than one degree of freedom counts as one.
        """
        if not self.is_dependent:
            return 1.0
        from scipy.special import stdtrit

        return float(stdtrit(max(self.dof, 1.0), 0.5 + 0.5 * level) / normal_quantile(level)) ** 2


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
            if sum(each.size for each in self._held[1:]) > self._held[0].size:
                self._held = [self.sums()]
        return self

    @property
    def size(self) -> int:
        """Numbers that are held."""
        return sum(each.size for each in self._held)

    def sums(self) -> DependenceSums:
        """Return the sums of all rows that were added, one at least."""
        return DependenceSums.joined(self._held)


def design_effect(rows: Rows, dependence: Dependence | None = None) -> float:
    """Return the largest design effect of the mean gaps between probability and outcome, of top label and classes."""
    if not rows.declared:
        return 1.0
    sums = SumsBuilder(gaps).add(rows).sums()
    dependence = Dependence.of_sums(sums) if dependence is None else dependence
    return float(dependence.effects_of(sums).max())


def gaps(rows: Rows) -> FloatArray:
    """Return probability less outcome of one column, or of the top label and each class, one column for each."""
    if rows.is_binary:
        return (rows.scores - rows.positive)[:, None]
    top = rows.top_label()
    return np.column_stack((top.scores - top.positive, rows.scores - np.eye(rows.n_classes)[rows.codes]))


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


def _between_clusters(sums: KeySums, mean: FloatArray, alone: FloatArray, squared: FloatArray) -> FloatArray:
    """Return the variance of the sums of weighted deviations, by their sums over clusters."""
    n_clusters = sums.weight.size
    if n_clusters == 1:  # which tells nothing of how clusters differ: all rows are worth one
        return np.asarray(sums.weight[0] ** 2 / squared * alone)
    away = sums.figures - sums.weight[:, None] * mean
    return np.asarray(np.sum(away**2, axis=0) * (n_clusters / (n_clusters - 1.0)))


def _between_blocks(sums: KeySums, block: int) -> FloatArray:
    """Return the variance of weighted means over draws of blocks of times: all rows of a time stay together."""
    table = np.column_stack((sums.weight, sums.figures))
    drawn = block_draws(table, block, _DRAWS, np.random.default_rng(0))
    return np.asarray((drawn[:, 1:] / drawn[:, :1]).var(axis=0, ddof=1))
