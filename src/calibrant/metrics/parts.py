"""Scores of parts of the rows, classes or groups, at levels that are corrected for their number."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from calibrant.dependent_rows import as_independent
from calibrant.metrics import multiclass
from calibrant.metrics.calibration_error import ece_debiased_estimate
from calibrant.metrics.estimates import Column, Settings, check_settings, measured_rows
from calibrant.metrics.gap_bounds import GapBounds, gap_bounds_of_summaries
from calibrant.metrics.joint_test import joint_test_of_column
from calibrant.metrics.ranking import auc_estimate
from calibrant.metrics.verdict import at_least, excludes, known_test, side, verdict
from calibrant.phrases import difference, listed, percent_level
from calibrant.readable import Readable, rows_as_columns
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, repr=False)
class PartScores(Readable, ABC):
    """Scores of all rows at `level`, and those of each part at `interval_level`, the worst part first."""

    overall: Scores
    parts: Mapping[Any, Scores]
    level: float
    interval_level: float
    #: What one part is called, and several of them.
    part: ClassVar[tuple[Literal["class", "group"], str]]

    def is_off(self, part: object) -> bool:
        """Say whether a part is found off: a class by an interval of its gaps, a group by its test or its mean gap."""
        return verdict(self.parts[part], of=self.part[0]).is_off

    @property
    def off(self) -> tuple[Any, ...]:
        """The parts that are off, the worst first."""
        return tuple(part for part in self.parts if self.is_off(part))

    @property
    @abstractmethod
    def multiplicity(self) -> str:
        """What the level of the intervals means, in a sentence."""

    @property
    def verdict(self) -> str:
        """Which parts are off, in words."""
        return self.describe(str)

    def describe(self, name: Callable[[object], str]) -> str:
        """Say which parts are off, with `name` to write each of them."""
        off = self.off
        if not off:
            return f"No {self.part[0]} found off. {self.multiplicity}"
        named = listed([name(part) for part in off], most=_MOST_NAMED)
        said = f"Off, worst first: {named} ({len(off):,} of {len(self.parts):,})."
        return f"{said} {self.multiplicity}"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain Python values."""
        one, several = self.part
        return {
            "level": self.level,
            "interval_level": self.interval_level,
            "verdict": self.verdict,
            "overall": self.overall.to_dict(),
            several: [{one: part, "is_off": self.is_off(part), **s.to_dict()} for part, s in self.parts.items()],
        }

    def _columns(self) -> dict[str, Sequence[Any]]:
        return rows_as_columns([self._row(part, scores) for part, scores in self.parts.items()])

    def _row(self, part: object, scores: Scores) -> dict[str, Any]:
        found: dict[str, Any] = {self.part[0]: part, "is_off": self.is_off(part), "n": scores["mean_gap"].n}
        for name in ("mean_gap", "ece_debiased"):
            found |= {name: scores[name].value, f"{name}_low": scores[name].low, f"{name}_high": scores[name].high}
        return found

    def _before(self) -> list[str]:
        return [self.verdict]

    def _coverage(self) -> float:
        return self.interval_level


@dataclass(frozen=True, slots=True, repr=False)
class ClassScores(PartScores):
    """Scores of each class, the worst first, and of all together.

    Attributes
    ----------
    overall : Scores
        `marginal_calibration_error`, and `mean_gap`, `ece_debiased` and `accuracy` of the top label, at `level`.
    classes : dict of Scores
        By class: those that are off first, the largest debiased error first among them and among the others.
    level : float
        Chance that no class of calibrated predictions is found off.
    interval_level : float
        Coverage of each interval of a class: 1 - (1 - level) / (3 K) for K classes and three gaps of each.
    """

    part = ("class", "classes")

    @property
    def classes(self) -> Mapping[Any, Scores]:
        """Scores of each class, the worst first."""
        return self.parts

    @property
    def multiplicity(self) -> str:
        each, at_once = percent_level(self.interval_level), percent_level(self.level)
        return (
            f"{len(self.classes):,} classes are judged, so the intervals of each have the level {each}: with "
            f"probability {at_once} no class of calibrated predictions is found off."
        )


def evaluate_classes(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    evaluated_on: str = "given data",
) -> ClassScores:
    """Measure the predictions of each class, with intervals that are corrected for the number of classes.

    Parameters
    ----------
    y_true, y_prob, sample_weight, cluster, time, label_end, pos_label, classes, evaluated_on
        As in `evaluate`. One column is that of the positive class; the other is the rest.
    n_bins : int
        Largest number of bins of a class, of near-equal weight; there is one per 20 rows at most.
    level : float
        Chance that no class is found off where predictions are calibrated.

    Returns
    -------
    ClassScores
        Of each class, its column p against the event that a row is of it:

        - `mean_prob` and `base_rate`, the predicted and the observed share, and `mean_gap`, their difference: is the
          class predicted as often as it occurs (calibration in the large)?
        - `brier`, of this column alone, in [0, 1]; `ece_debiased`; `slope` and `intercept`; `auc`.
        - `worst_gap`, the mean of p less the rate in that bin of p whose gap is furthest from zero for sure; its
          `where` says which, its `level` is 1 - (1 - level) / (3 K m) for m bins.
        - `top_gap`, the mean of p less the rate among the rows where the class is the top label: when the model says
          "cat", is it as sure as it is right? Its `n` counts these rows, `top_prob` and `precision` are the two.

        Its `verdict` says in words what is off.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A class is found off where the interval of one of its three gaps excludes zero. These are Chernoff's (see
    `calibrant.metrics.gap_bounds`), which hold for any number of independent rows, or as many fewer as the design
    effect says; by Bonferroni's correction some class of calibrated predictions is found off with probability at most
    1 - `level`. The other intervals are those of `evaluate`, right for many events only: no class is judged by them.

    Where a figure is undefined, as the slope of a class without rows, it is NaN and its note says why.

    References
    ----------
    Kull et al. (2019), *Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with
    Dirichlet calibration*, NeurIPS, equation 3, for calibration by class. Gupta and Ramdas (2022), *Top-label
    calibration and multiclass-to-binary reductions*, ICLR, definition 1, for `top_gap`. Dunn (1961), *Multiple
    comparisons among means*, JASA 56.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.metrics import evaluate_classes
    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([1.0, 1.0, 1.0], 3_000)
    >>> y = np.array([rng.choice(["cat", "dog", "eel"], p=row) for row in P])
    >>> y[(y == "dog") & (rng.random(3_000) < 0.3)] = "eel"
    >>> found = evaluate_classes(y, P)
    >>> sorted(found.off)
    ['dog', 'eel']
    >>> found.classes["dog"]["mean_gap"].low > 0.0
    True
    """
    settings = check_settings(n_bins, level, 0)
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, **what)
    return classes_of_rows(rows, settings, evaluated_on)


def classes_of_rows(rows: Rows, settings: Settings, evaluated_on: str) -> ClassScores:
    """Measure each class of checked rows, as `evaluate_classes` does."""
    settings = settings.with_rows(rows)
    classes = multiclass.Classes(multiclass.HeldRows(as_independent(rows)), settings)
    measured: dict[Any, Scores] = {}
    bins = []
    for k, label in enumerate(classes.rows.classes):
        column = replace(classes.column(classes.rows.class_summary(k)), n_bins=classes.n_bins_of_class)
        bins.append(column.quantile)
        scores = multiclass.class_scores(classes, k, column, multiclass.OF_A_CLASS, evaluated_on)
        measured[label] = Scores(list(scores.values()), verdict=str(verdict(scores, of="class")))
    top = replace(classes.top, n_bins=classes.n_bins_of_class)
    overall = {
        "marginal_calibration_error": ece_debiased_estimate(bins, classes.size, settings.level),
        "mean_gap": multiclass.chernoff_estimate(gap_bounds_of_summaries([top.summary], top.level), 0),
        "ece_debiased": ece_debiased_estimate([top.quantile], top.size, settings.level),
        "accuracy": top.rate,
    }
    of_all = top.scores(overall, evaluated_on)
    gap, words = of_all["mean_gap"], "The top label is not found off on average."
    if excludes(gap):
        words = f"The top label is too {side(gap)}, by {difference(abs(gap.value))} on average."
    ranked = {label: measured[label] for label in multiclass.worst_first(measured)}
    return ClassScores(Scores(list(of_all.values()), verdict=words), ranked, settings.level, classes.gap_level)


@dataclass(frozen=True, slots=True, repr=False)
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

    @property
    def groups(self) -> Mapping[Any, Scores]:
        """Scores of each group, the worst first."""
        return self.parts

    def p_value(self, group: object) -> float:
        """Return the p-value of the joint test of a group."""
        return known_test(self.groups[group].test).p_value

    @property
    def multiplicity(self) -> str:
        each, all_at_once = percent_level(self.interval_level), percent_level(self.level)
        if len(self.groups) == 1:
            return f"One group is judged, so its intervals need no correction: they have the level {each}."
        return (
            f"{len(self.groups):,} groups are judged, so each has the level {each}. A group is off where the interval "
            f"of its mean gap excludes 0, which holds for all groups at once with {all_at_once}, or where the test of "
            f"all ways of being off gives a p below {1.0 - self.interval_level:.2g}."
        )

    def _row(self, part: object, scores: Scores) -> dict[str, Any]:
        return PartScores._row(self, part, scores) | {"p_value": self.p_value(part)}


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

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    A group is found off where its joint test (see `joint_test`: all ways of being off in one p-value) rejects, or the
    interval of its `mean_gap` (for K classes, of the top label) excludes zero. Bonferroni's correction: with G groups
    test and interval have the level 1 - (1 - level) / G. The interval is Chernoff's (see
    `calibrant.metrics.gap_bounds`), which holds for any number of rows: a normal one is too short for rare events in
    small groups, the more so at such levels. The other intervals are those of `evaluate`, right for large groups only,
    so no group is judged by them. `audit` looks for groups among all combinations of columns.

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
    what = {"groups": {"groups": groups}, "cluster": cluster, "time": time, "label_end": label_end}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes, **what)
    return groups_of_rows(rows, "groups", settings, evaluated_on)[0]


def groups_of_rows(
    rows: Rows, name: str, settings: Settings, evaluated_on: str
) -> tuple[GroupScores, dict[Any, ScoreSummary]]:
    """Measure each group of checked rows by one of their columns, as `evaluate_groups` does, and summarise them."""
    data, by = rows.one_column(), rows.groups[name]
    parts = {group: data.take(by.codes == code) for code, group in enumerate(by.classes.tolist())}
    summaries = {group: part.summary() for group, part in parts.items()}
    found = evaluate_group_summaries(
        data.summary(),
        summaries,
        n_rows={group: part.n_rows for group, part in parts.items()},
        is_binary=rows.is_binary,
        settings=settings.with_rows(data),
        evaluated_on=evaluated_on,
        of_group={group: settings.with_rows(part) for group, part in parts.items()},
    )
    return found, summaries


def evaluate_group_summaries(
    all_rows: ScoreSummary,
    by_group: Mapping[Any, ScoreSummary],
    *,
    n_rows: Mapping[Any, int],
    is_binary: bool,
    settings: Settings,
    evaluated_on: str,
    of_group: Mapping[Any, Settings] | None = None,
) -> GroupScores:
    """Measure groups by their summaries, as `evaluate_groups` does by their rows; groups may have own settings."""
    level = 1.0 - (1.0 - settings.level) / len(by_group)
    columns = [
        Column.of(summary, n_rows[group], replace(settings if of_group is None else of_group[group], level=level))
        for group, summary in by_group.items()
    ]
    bounds = gap_bounds_of_summaries([column.summary for column in columns], level)
    measured = {
        group: _measure(column, bounds, code, is_binary, evaluated_on)
        for code, (group, column) in enumerate(zip(by_group, columns, strict=True))
    }
    column = Column.of(all_rows, sum(n_rows.values()), settings)
    of_all = gap_bounds_of_summaries([column.summary], settings.level)
    overall = _measure(column, of_all, 0, is_binary, evaluated_on)
    ranked = sorted(measured.items(), key=lambda part: (-at_least(part[1]["mean_gap"]), -part[1]["ece_debiased"].value))
    return GroupScores(overall, dict(ranked), settings.level, level)


def _measure(column: Column, bounds: GapBounds, code: int, is_binary: bool, evaluated_on: str) -> Scores:
    """Measure one group, whose bounds have the number `code`."""
    few = replace(column, n_bins=max(1, min(column.n_bins, column.n_rows // multiclass.ROWS_PER_BIN)))
    estimates = {
        "mean_gap": multiclass.chernoff_estimate(bounds, code),
        "ece_debiased": ece_debiased_estimate([few.quantile], few.size, few.level),
        "base_rate" if is_binary else "accuracy": few.rate,
    }
    if is_binary:
        estimates["auc"] = auc_estimate(few)
    found = few.scores(estimates, evaluated_on)
    test = joint_test_of_column(column)
    return Scores(list(found.values()), verdict=str(verdict(found, test, of="group")), test=test)
