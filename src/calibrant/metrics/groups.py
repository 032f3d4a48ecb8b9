"""The scores of each group of rows beside those of all, at levels that are corrected for the number of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrant.metrics.calibration_error import ece_debiased_estimate
from calibrant.metrics.column import Column, Settings, check_settings
from calibrant.metrics.design_effect import as_independent, design_effect, say_effect
from calibrant.metrics.gap_bounds import GapBounds, gap_bounds_of_summaries
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.multiclass import ROWS_PER_BIN, chernoff_estimate
from calibrant.metrics.parts import PartScores
from calibrant.metrics.ranking import auc_estimate
from calibrant.metrics.verdict import at_least, verdict
from calibrant.phrases import percent_level
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True)
class GroupScores(PartScores):
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

    part = ("group", "groups")
    off_words = "off on average"

    @property
    def groups(self) -> Mapping[Any, Scores]:
        """Scores of each group, the worst first."""
        return self.parts

    @property
    def multiplicity(self) -> str:
        """What the level of the intervals means, in a sentence."""
        n = len(self.groups)
        each, all_at_once = percent_level(self.interval_level), percent_level(self.level)
        if n == 1:
            return f"One group is judged, so its intervals need no correction: they have the level {each}."
        return (
            f"{n:,} groups are judged, so the intervals of each have the level {each}: those of the mean gap hold for "
            f"all groups at once with {all_at_once}."
        )

    def __str__(self) -> str:
        lines = [f"{group}: {scores['mean_gap']}, {scores['ece_debiased']}" for group, scores in self.groups.items()]
        return "\n".join([self.verdict, *lines])


def evaluate_groups(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    groups: ArrayLike,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    evaluated_on: str = "given data",
) -> GroupScores:
    """Measure the predictions of each group, with intervals that are corrected for the number of groups.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes, evaluated_on
        As in `evaluate`.
    groups : array-like of shape (n,)
        The group of each row: booleans, integers, strings or a categorical.
    n_bins : int
        Largest number of bins of the calibration errors; a group has one bin per 20 rows at most, so that small
        groups are not judged by bins of a row or two.
    level : float
        Coverage of the intervals of `mean_gap` of all groups at once.

    Returns
    -------
    GroupScores
        `mean_gap`, `ece_debiased`, `base_rate` and `auc` of each group; of K columns `mean_gap` and `ece_debiased` of
        the top label, and `accuracy`.

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
    settings = check_settings(n_bins, level, 0)
    rows = measured_rows(
        y_true,
        y_prob,
        groups={"groups": groups},
        sample_weight=sample_weight,
        pos_label=pos_label,
        classes=classes,
        cluster=cluster,
        time=time,
        label_end=label_end,
    )
    return groups_of_rows(rows, "groups", settings, evaluated_on)


def groups_of_rows(rows: Rows, name: str, settings: Settings, evaluated_on: str) -> GroupScores:
    """Measure each group of checked rows by one of their columns, as `evaluate_groups` does."""
    settings = replace(settings, effect=settings.effect * design_effect(rows))
    data = as_independent(rows).one_column()
    by = rows.groups[name]
    parts = {group: data.take(by.codes == code) for code, group in enumerate(by.classes.tolist())}
    return evaluate_group_summaries(
        data.summary(),
        {group: part.summary() for group, part in parts.items()},
        n_rows={group: part.n_rows for group, part in parts.items()},
        is_binary=rows.is_binary,
        settings=settings,
        evaluated_on=evaluated_on,
    )


def evaluate_group_summaries(
    overall: ScoreSummary,
    by_group: Mapping[Any, ScoreSummary],
    *,
    n_rows: Mapping[Any, int],
    is_binary: bool,
    settings: Settings,
    evaluated_on: str,
) -> GroupScores:
    """Measure groups by their summaries, as `evaluate_groups` does by their rows."""
    of_group = replace(settings, level=1.0 - (1.0 - settings.level) / len(by_group))
    columns = [Column.of(summary, n_rows[group], of_group) for group, summary in by_group.items()]
    bounds = gap_bounds_of_summaries([column.summary for column in columns], of_group.level)
    measured = {
        group: _measure(column, bounds, code, is_binary, evaluated_on)
        for code, (group, column) in enumerate(zip(by_group, columns, strict=True))
    }
    all_rows = Column.of(overall, sum(n_rows.values()), settings)
    of_all = gap_bounds_of_summaries([all_rows.summary], settings.level)
    return GroupScores(
        _measure(all_rows, of_all, 0, is_binary, evaluated_on),
        dict(sorted(measured.items(), key=lambda item: _badness(item[1]))),
        settings.level,
        of_group.level,
    )


def _measure(column: Column, bounds: GapBounds, code: int, is_binary: bool, evaluated_on: str) -> Scores:
    """Measure one group, whose bounds have the number `code`."""
    few = replace(column, n_bins=max(1, min(column.n_bins, column.n_rows // ROWS_PER_BIN)))
    estimates = {
        "mean_gap": chernoff_estimate(bounds, code),
        "ece_debiased": ece_debiased_estimate([few.quantile], few.size, few.level),
        "base_rate" if is_binary else "accuracy": few.rate,
    }
    if is_binary:
        estimates["auc"] = auc_estimate(few)
    scores = [
        say_effect(e.to_score(name, level=few.level, n=few.n_rows, evaluated_on=evaluated_on), few.effect)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=str(verdict({score.name: score for score in scores}, of="group")))


def _badness(scores: Scores) -> tuple[float, float]:
    return -at_least(scores["mean_gap"]), -scores["ece_debiased"].value
