"""The scores of each group of rows beside those of all, at levels that are corrected for the number of groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.metrics.bins import make_bins
from calibrant.metrics.calibration_error_intervals import ece_debiased_estimate
from calibrant.metrics.estimates import Estimate, rate_estimate
from calibrant.metrics.gap_bounds import gap_bounds
from calibrant.metrics.ranking import auc_estimate
from calibrant.metrics.rows import Rows, read_grouped_rows
from calibrant.numerics import IntArray
from calibrant.results import Score, Scores
from calibrant.summary import ScoreRows
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
    by: ArrayLike,
    *,
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
    by : array-like of shape (n,)
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
    >>> evaluate_groups(y, p, city).off
    ('Rome',)
    """
    n_bins = check_integer("n_bins", n_bins, minimum=1)
    level = check_fraction("level", level)
    rows, (groups,) = read_grouped_rows(
        y_true, y_prob, {"by": by}, sample_weight=sample_weight, pos_label=pos_label, classes=classes
    )
    n_groups = len(groups.classes)
    codes = groups.codes.astype(np.int64)
    overall = _measure(rows, np.zeros(rows.n_rows, dtype=np.int64), 1, n_bins, level, evaluated_on)
    interval_level = 1.0 - (1.0 - level) / n_groups
    measured = _measure(rows, codes, n_groups, n_bins, interval_level, evaluated_on)
    by_group = zip(groups.classes.tolist(), measured, strict=True)
    return GroupScores(overall[0], dict(sorted(by_group, key=_badness)), level, interval_level)


def _measure(rows: Rows, codes: IntArray, n_groups: int, n_bins: int, level: float, evaluated_on: str) -> list[Scores]:
    """Measure each of the groups 0 to `n_groups` - 1."""
    data = rows.one_column()
    bounds = gap_bounds(data.scores, data.positive, data.weight, codes, n_groups, level)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=n_groups))
    measured = []
    for code, kept in enumerate(np.split(order, ends[:-1])):
        weight = None if data.weight is None else data.weight[kept]
        summary = ScoreRows(data.scores[kept], data.positive[kept], weight).summary()
        few = max(1, min(n_bins, kept.size // _ROWS_PER_BIN))
        size = summary.effective_size
        gap, low, high = (float(values[code]) for values in (bounds.gap, bounds.low, bounds.high))
        estimates = {
            "mean_gap": Estimate(gap, low, high, "Chernoff"),
            "ece_debiased": ece_debiased_estimate([make_bins(summary, few, "quantile")], size, level),
            "base_rate" if rows.is_binary else "accuracy": rate_estimate(summary.base_rate, size, level),
        }
        if rows.is_binary:
            estimates["auc"] = auc_estimate(summary, level)
        scores = [
            Score(name, e.value, e.low, e.high, level, kept.size, e.method, evaluated_on, e.note)
            for name, e in estimates.items()
        ]
        measured.append(Scores(scores, verdict=_words(scores[0])))
    return measured


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
