"""The scores of each group of rows beside those of all, at levels that are corrected for the number of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from calibrant.metrics.bins import make_bins
from calibrant.metrics.calibration_error_intervals import ece_debiased_estimate
from calibrant.metrics.estimates import Estimate, rate_estimate
from calibrant.metrics.gap_bounds import GapBounds, gap_bounds, gap_bounds_of_summaries
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.ranking import auc_estimate
from calibrant.results import Score, Scores
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, check_fraction, check_integer

#: A group has at most one bin for so many of its rows.
_ROWS_PER_BIN = 20
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class GroupScores:
    """Scores of each group, the worst first, and of all rows.

    Attributes
    ----------
    overall : Scores
        Of all rows, with intervals at `level`.
    groups : dict of Scores
        By group, with intervals at `interval_level`; the group that is off by most at least comes first.
    level : float
        Coverage of the intervals of `mean_gap` of all groups at once.
    interval_level : float
        Coverage of each interval of a group: 1 - (1 - level) / G for G groups.
    """

    overall: Scores
    groups: Mapping[Any, Scores]
    level: float
    interval_level: float

    def is_off(self, group: object) -> bool:
        """Say whether the interval of the group's `mean_gap` excludes zero."""
        return _at_least(self.groups[group]) > 0.0

    @property
    def off(self) -> tuple[Any, ...]:
        """The groups that are off, the worst first."""
        return tuple(group for group in self.groups if self.is_off(group))

    @property
    def multiplicity(self) -> str:
        """What the level of the intervals means, in a sentence."""
        n = len(self.groups)
        each, all_at_once = f"{100.0 * self.interval_level:.6g}%", f"{100.0 * self.level:g}%"
        if n == 1:
            return f"One group is looked at, so its intervals need no correction: they have the level {each}."
        return (
            f"{n:,} groups are looked at, so the intervals of each have the level {each}: those of the mean gap hold "
            f"for all groups at once with {all_at_once}."
        )

    @property
    def verdict(self) -> str:
        """Which groups are off, in words."""
        return self.describe(str)

    def describe(self, name: Callable[[object], str]) -> str:
        """Say which groups are off, with `name` to write each of them."""
        if not self.off:
            return f"No group found off on average. {self.multiplicity}"
        named = ", ".join(map(name, self.off[:_MOST_NAMED])) + (", ..." if len(self.off) > _MOST_NAMED else "")
        return f"Off on average, worst first: {named} ({len(self.off):,} of {len(self.groups):,}). {self.multiplicity}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        groups = [
            {"group": group, "is_off": self.is_off(group), **scores.to_dict()} for group, scores in self.groups.items()
        ]
        return {
            "level": self.level,
            "interval_level": self.interval_level,
            "verdict": self.verdict,
            "overall": self.overall.to_dict(),
            "groups": groups,
        }

    def __str__(self) -> str:
        lines = [f"{group}: {scores['mean_gap']}, {scores['ece_debiased']}" for group, scores in self.groups.items()]
        return "\n".join([self.verdict, *lines])


def evaluate_groups(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    groups: ArrayLike,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    evaluated_on: str = "given data",
) -> GroupScores:
    """Measure the predictions of each group, with intervals that are corrected for the number of groups.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each of the sorted classes.
    groups : array-like of shape (n,)
        The group of each row: booleans, integers, strings or a categorical.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none.
    n_bins : int
        Largest number of bins of the calibration errors; a group has one bin per 20 rows at most, so that small
        groups are not judged by bins of a row or two.
    level : float
        Coverage of the intervals of `mean_gap` of all groups at once.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

    Returns
    -------
    GroupScores
        `mean_gap`, `ece_debiased`, `base_rate` and `auc` of each group; of K columns `mean_gap` and `ece_debiased` of
        the top label, and `accuracy`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Bonferroni's correction: with G groups each interval has the level 1 - (1 - level) / G. The interval of a group's
    `mean_gap` (for K classes, of the top label) is Chernoff's (see `calibrant.metrics.gap_bounds`), which holds for
    any number of rows: a normal one is too short for rare events in small groups, the more so at such levels. Of
    calibrated predictions some group is found off with probability at most 1 - `level`. The other intervals are
    those of `evaluate`, right for large groups only, so no group is judged by them; `audit` finds groups that are
    right on average and off for some scores.

    References
    ----------
    Dunn (1961), *Multiple comparisons among means*, JASA 56.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import evaluate_groups
    >>> rng = np.random.default_rng(0)
    >>> p, city = rng.random(4_000), rng.choice(["Bonn", "Rome"], 4_000)
    >>> y = rng.random(4_000) < np.where(city == "Rome", p**2, p)
    >>> evaluate_groups(y, p, groups=city).off
    ('Rome',)
    """
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    level = check_fraction("level", level)
    rows = measured_rows(
        y_true, y_prob, groups={"groups": groups}, sample_weight=sample_weight, pos_label=pos_label, classes=classes
    )
    by = rows.groups["groups"]
    codes = by.codes.astype(np.int64)
    data = rows.one_column()
    parts = []
    for code in range(len(by.classes)):
        own = data.take(codes == code)
        parts.append(_Part(own.summary(), own.n_rows))
    interval_level = 1.0 - (1.0 - level) / len(parts)
    bounds = gap_bounds(data.scores, data.positive, data.weight, codes, len(parts), interval_level)
    of_all = gap_bounds(data.scores, data.positive, data.weight, np.zeros_like(codes), 1, level)
    return _grouped(
        _Part(data.summary(), rows.n_rows),
        of_all,
        dict(zip(by.classes.tolist(), parts, strict=True)),
        bounds,
        _Settings(n_bins, level, evaluated_on, rows.is_binary),
    )


class _Part(NamedTuple):
    """Some of the rows: their summary and their number."""

    summary: ScoreSummary
    n_rows: int


class _Settings(NamedTuple):
    """What the caller of `evaluate_groups` asks for, and whether there is one column."""

    n_bins: int
    level: float
    evaluated_on: str
    is_binary: bool


def evaluate_group_summaries(
    overall: ScoreSummary,
    by_group: Mapping[Any, ScoreSummary],
    *,
    n_rows: Mapping[Any, int],
    is_binary: bool,
    n_bins: int,
    level: float,
    evaluated_on: str,
) -> GroupScores:
    """Measure groups by their summaries, as `evaluate_groups` does by their rows."""
    interval_level = 1.0 - (1.0 - level) / len(by_group)
    return _grouped(
        _Part(overall, sum(n_rows.values())),
        gap_bounds_of_summaries([overall], level),
        {group: _Part(summary, n_rows[group]) for group, summary in by_group.items()},
        gap_bounds_of_summaries(list(by_group.values()), interval_level),
        _Settings(n_bins, level, evaluated_on, is_binary),
    )


def _grouped(
    overall: _Part, of_all: GapBounds, parts: Mapping[Any, _Part], bounds: GapBounds, settings: _Settings
) -> GroupScores:
    interval_level = 1.0 - (1.0 - settings.level) / len(parts)
    measured = {
        group: _measure(part, bounds, code, interval_level, settings)
        for code, (group, part) in enumerate(parts.items())
    }
    ranked = dict(sorted(measured.items(), key=_badness))
    return GroupScores(_measure(overall, of_all, 0, settings.level, settings), ranked, settings.level, interval_level)


def _measure(part: _Part, bounds: GapBounds, code: int, level: float, settings: _Settings) -> Scores:
    """Measure one group, whose bounds have the number `code`."""
    summary, n_rows = part
    few = max(1, min(settings.n_bins, n_rows // _ROWS_PER_BIN))
    size = summary.effective_size
    gap, low, high = (float(values[code]) for values in (bounds.gap, bounds.low, bounds.high))
    estimates = {
        "mean_gap": Estimate(gap, low, high, "Chernoff"),
        "ece_debiased": ece_debiased_estimate([make_bins(summary, few, "quantile")], size, level),
        "base_rate" if settings.is_binary else "accuracy": rate_estimate(summary.base_rate, size, level),
    }
    if settings.is_binary:
        estimates["auc"] = auc_estimate(summary, level)
    scores = [
        Score(name, e.value, e.low, e.high, level, n_rows, e.method, settings.evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=_words(scores[0]))


def _words(gap: Score) -> str:
    """Say what the corrected interval of a group's gap says."""
    interval = f"{100.0 * gap.level:.6g}% interval {gap.low:z.3f} to {gap.high:z.3f}"
    if gap.low <= 0.0 <= gap.high:
        return f"Not found off on average: by {gap.value:+z.3f} ({interval})."
    return f"Too {'high' if gap.value > 0.0 else 'low'}, by {abs(gap.value):.3f} on average ({interval})."


def _at_least(scores: Scores) -> float:
    """Return how far predictions are off on average at least."""
    return max(scores["mean_gap"].low, -scores["mean_gap"].high, 0.0)


def _badness(item: tuple[Any, Scores]) -> tuple[float, float]:
    scores = item[1]
    return -_at_least(scores), -scores["ece_debiased"].value
