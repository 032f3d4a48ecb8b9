"""Rows of several classes: what is asked of them, and the gaps by which each class is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from calibrant.metrics.calibration_error import ece_debiased_estimate
from calibrant.metrics.estimates import Column, Estimate, Measured, Settings, mean_of, normal_estimate
from calibrant.metrics.gap_bounds import GapBounds, gap_bounds_in_bins, gap_bounds_of_summaries
from calibrant.metrics.proper_scores import brier_estimate
from calibrant.metrics.ranking import auc_estimate
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.metrics.verdict import CLASS_GAPS, at_least, verdict
from calibrant.numerics import FloatArray
from calibrant.phrases import legible, listed, uncapitalised
from calibrant.results import Score
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary

#: Gives several values of each row, shape (n,) each.
RowValues: TypeAlias = Callable[[Rows], Sequence[FloatArray]]

#: A class, or a group, has at most one bin for so many rows.
ROWS_PER_BIN = 20
#: Classes that a sentence names, and the longest name in it.
_MOST_NAMED = 5
_LONGEST = 40


class ClassRows(Protocol):
    """Rows of K columns that are asked for summaries, and for means over rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def classes(self) -> Sequence[Any]:
        """The sorted classes."""

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows."""

    @property
    def mean_prob(self) -> FloatArray:
        """The mean of each column."""

    def top_summary(self) -> ScoreSummary:
        """Summarise the largest probability of each row, and whether it is of the row's class."""

    def summaries_on_top(self) -> Sequence[tuple[ScoreSummary, int] | None] | None:
        """Summarise the rows where each class is the top label, and count them; None where they can't be held."""

    def class_summary(self, k: int) -> ScoreSummary:
        """Summarise one column against its class."""

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        """Return mean and variance over the rows of each value that a function gives of them."""


@dataclass(frozen=True, slots=True)
class HeldRows(ClassRows):
    """Rows in memory."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def classes(self) -> Sequence[Any]:
        return list(self.rows.classes.tolist())

    @property
    def effective_size(self) -> float:
        return self.rows.effective_size

    @property
    def mean_prob(self) -> FloatArray:
        return np.asarray(np.average(self.rows.scores, axis=0, weights=self.rows.weight))

    def top_summary(self) -> ScoreSummary:
        return self.rows.top_label().summary()

    def summaries_on_top(self) -> list[tuple[ScoreSummary, int] | None]:
        rows = self.rows
        top = (rows.scores > 0.5).astype(np.int64) if rows.is_binary else rows.scores.argmax(axis=1)
        narrow = top.astype(np.min_scalar_type(rows.n_classes))  # which NumPy sorts by radix
        data = rows.top_label().take(np.argsort(narrow, kind="stable"))
        ends = np.cumsum(np.bincount(top, minlength=rows.n_classes)).tolist()
        return [
            (data.take(np.arange(start, end)).summary(), end - start) if end > start else None
            for start, end in zip([0, *ends], ends, strict=False)
        ]

    def class_summary(self, k: int) -> ScoreSummary:
        return self.rows.of_class(k).summary()

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        found = [mean_of([(value, self.rows.weights)], 1.0) for value in values(self.rows)]
        return [(mean, error**2) for mean, error in found]


@dataclass(frozen=True, eq=False)
class Classes(Measured):
    """The probabilities of several classes, and how they are to be measured."""

    rows: ClassRows
    settings: Settings

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.rows.classes)

    @property
    def size(self) -> float:
        """Effective number of independent rows."""
        return self.rows.effective_size / self.settings.factor

    def size_for(self, name: str) -> float:
        """Return the effective number of rows for a score of this name."""
        return self.rows.effective_size / self.settings.of(name).factor

    @cached_property
    def top(self) -> Column:
        """The confidence in the most probable class."""
        return replace(self.column(self._top_summary), is_top=True)

    def top_for(self, name: str) -> Column:
        """Return the confidence in the most probable class for a score of this name."""
        return Column.of(self._top_summary, self.rows.n_rows, self.settings.of(name))

    @cached_property
    def _top_summary(self) -> ScoreSummary:
        return self.rows.top_summary()

    def column(self, summary: ScoreSummary) -> Column:
        """Return a column of the rows."""
        return Column.of(summary, self.rows.n_rows, self.settings)

    @cached_property
    def on_top(self) -> dict[int, tuple[Column, Estimate]] | None:
        """The rows where a class is the top label, with their gap, by class; None where they can't be held."""
        found = self.rows.summaries_on_top()
        if found is None:
            return None
        settings = replace(self.settings, level=self.gap_level)
        columns = {k: Column.of(*each, settings) for k, each in enumerate(found) if each is not None}
        bounds = gap_bounds_of_summaries([column.summary for column in columns.values()], self.gap_level)
        return {k: (column, chernoff_estimate(bounds, b)) for b, (k, column) in enumerate(columns.items())}

    @property
    def gap_level(self) -> float:
        """Coverage of each gap by which a class is judged: 1 - (1 - level) / (3 K)."""
        return 1.0 - (1.0 - self.settings.level) / (3 * self.n_classes)

    @property
    def n_bins_of_class(self) -> int:
        """Number of bins that a class is judged by."""
        return max(1, min(self.settings.n_bins, self.rows.n_rows // ROWS_PER_BIN))


def chernoff_estimate(bounds: GapBounds, b: int) -> Estimate:
    """Return the gap with the number `b`."""
    return Estimate(float(bounds.gap[b]), float(bounds.low[b]), float(bounds.high[b]), "Chernoff")


def _gaps(column: Column) -> dict[str, Estimate]:
    """Estimate the gap of all rows, and that of the bin that is furthest from zero for sure, or by value if none is."""
    edges = column.quantile.edges
    bounds, level = gap_bounds_in_bins(column.summary, edges, column.level)
    sure = np.maximum(np.maximum(bounds.low, -bounds.high), 0.0)[:-1]
    b = int(np.lexsort((np.abs(bounds.gap[:-1]), sure))[-1])
    where = f"between {edges[b, 0]:.3f} and {edges[b, 1]:.3f}"
    return {
        "mean_gap": chernoff_estimate(bounds, len(edges)),
        "worst_gap": replace(chernoff_estimate(bounds, b), where=where, level=level, n=column.rows_in(b)),
    }


def mean_prob_estimate(column: Column) -> Estimate:
    """Estimate the mean probability of one column."""
    found = mean_of([(column.summary.scores, column.summary.weight)], column.size)
    return normal_estimate(found, column.level, least=0.0, most=1.0)


#: What is measured of each class against the rest, in this order.
OF_A_CLASS: dict[str, Callable[[Column], Estimate]] = {
    "mean_prob": mean_prob_estimate,
    "base_rate": lambda c: c.rate,
    "mean_gap": lambda c: c.once(_gaps)["mean_gap"],
    "brier": brier_estimate,
    "ece_debiased": lambda c: ece_debiased_estimate([c.quantile], c.size, c.level),
    "slope": lambda c: c.once(slope_intercept_estimates)["slope"],
    "intercept": lambda c: c.once(slope_intercept_estimates)["intercept"],
    "auc": auc_estimate,
    "worst_gap": lambda c: c.once(_gaps)["worst_gap"],
}
#: Those that a verdict on the class needs.
TO_JUDGE = ("mean_prob", "base_rate", "mean_gap", "ece_debiased", "worst_gap")
_NEVER = Estimate(math.nan, math.nan, math.nan, "none", "undefined: never the top label", n=0)
_UNKNOWN = Estimate(math.nan, math.nan, math.nan, "none", "not measured: it takes all rows in memory", n=0)


def class_scores(
    classes: Classes, k: int, column: Column, names: Iterable[str] = TO_JUDGE, evaluated_on: str = "given data"
) -> dict[str, Score]:
    """Measure one class: some scores of its own column, and those of the rows where it is the top label."""
    own = column.at(classes.gap_level, classes.n_bins_of_class)
    measured = {name: OF_A_CLASS[name](own) for name in names}
    if classes.on_top is not None and k in classes.on_top:
        top, gap = classes.on_top[k]
        on_top = {"top_gap": gap, "top_prob": mean_prob_estimate(top), "precision": top.rate}
        measured |= {name: estimate.of_rows(top.n_rows, top.size) for name, estimate in on_top.items()}
    else:
        nothing = _UNKNOWN if classes.on_top is None else _NEVER
        measured |= dict.fromkeys(("top_gap", "top_prob", "precision"), nothing)
    return own.scores(measured, evaluated_on)


def worst_first(scores: Mapping[Any, Mapping[str, Score]]) -> list[Any]:
    """Return the classes: those that are off first, and among these and the others the largest errors first."""
    badness = {k: (not verdict(of, of="class").is_off, -of["ece_debiased"].value) for k, of in scores.items()}
    return sorted(scores, key=badness.__getitem__)


def _how_far(gap: Score) -> tuple[float, float]:
    """Return by how much a gap is off at least, then its size; one that is undefined counts as the smallest."""
    return at_least(gap), -1.0 if math.isnan(gap.value) else abs(gap.value)


def class_gap_estimates(scores: Mapping[Any, Mapping[str, Score]]) -> dict[str, Estimate]:
    """Return the decisive gap of the class that is furthest off, with words on it, and the surest gap of a share."""
    ranked = worst_first(scores)
    worst = verdict(scores[ranked[0]], of="class")
    decisive = max((scores[ranked[0]][name] for name in CLASS_GAPS), key=_how_far)
    off = [legible(label, _LONGEST) for label in ranked if verdict(scores[label], of="class").is_off]
    share = max((of["mean_gap"] for of in scores.values()), key=_how_far)
    note = where = ""
    if off:
        verb = "is" if len(off) == 1 else "are"
        note = f"{len(off):,} of {len(ranked):,} classes {verb} off, worst first: {listed(off, most=_MOST_NAMED)}."
        where = f"in class {off[0]}: {uncapitalised(worst.in_short)}"
    return {
        "class_share_gap": Estimate(share.value, share.low, share.high, "Chernoff", level=share.level),
        "class_gap": Estimate(decisive.value, decisive.low, decisive.high, "Chernoff", note, where, decisive.level),
    }
