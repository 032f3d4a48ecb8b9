"""The scores of each class: against the rest, and where it is the top label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from calibrant.metrics.calibration_error import ece_debiased_estimate
from calibrant.metrics.column import Settings, check_settings
from calibrant.metrics.design_effect import as_independent, design_effect, say_effect
from calibrant.metrics.estimates import Estimate
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.multiclass import OF_A_CLASS, Classes, HeldRows, class_scores, gap_estimate, worst_first
from calibrant.metrics.parts import PartScores
from calibrant.metrics.verdict import excludes, verdict
from calibrant.phrases import difference, percent_level
from calibrant.results import Scores
from calibrant.rows import Rows
from calibrant.validation import ArrayLike


@dataclass(frozen=True, slots=True)
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
        """What the level of the intervals means, in a sentence."""
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

    Notes
    -----
    A class is found off where the interval of one of its three gaps excludes zero. These are Chernoff's (see
    `calibrant.metrics.gap_bounds`), which hold for any number of independent rows, or as many fewer as the design
    effect says; by
    Bonferroni's correction some class of calibrated predictions is found off with probability at most 1 - `level`.
    The other intervals are those of `evaluate`, right for many events only, so no class is judged by them.

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
    rows = measured_rows(
        y_true,
        y_prob,
        sample_weight=sample_weight,
        pos_label=pos_label,
        classes=classes,
        cluster=cluster,
        time=time,
        label_end=label_end,
    )
    return classes_of_rows(rows, settings, evaluated_on)


def classes_of_rows(rows: Rows, settings: Settings, evaluated_on: str) -> ClassScores:
    """Measure each class of checked rows, as `evaluate_classes` does."""
    settings = replace(settings, effect=settings.effect * design_effect(rows))
    classes = Classes(HeldRows(as_independent(rows)), settings)
    measured: dict[Any, Scores] = {}
    bins = []
    for k, label in enumerate(classes.rows.classes):
        column = replace(classes.column(classes.rows.class_summary(k)), n_bins=classes.n_bins_of_class)
        bins.append(column.quantile)
        scores = class_scores(classes, k, column, OF_A_CLASS, evaluated_on)
        measured[label] = Scores(list(scores.values()), verdict=str(verdict(scores, of="class")))
    top = replace(classes.top, n_bins=classes.n_bins_of_class)
    overall = {
        "marginal_calibration_error": ece_debiased_estimate(bins, classes.size, settings.level),
        "mean_gap": gap_estimate(top),
        "ece_debiased": ece_debiased_estimate([top.quantile], top.size, settings.level),
        "accuracy": top.rate,
    }
    return ClassScores(
        _overall(overall, rows.n_rows, settings, evaluated_on),
        {label: measured[label] for label in worst_first(measured)},
        settings.level,
        classes.gap_level,
    )


def _overall(estimates: Mapping[str, Estimate], n_rows: int, settings: Settings, evaluated_on: str) -> Scores:
    scores = [
        say_effect(e.to_score(name, level=settings.level, n=n_rows, evaluated_on=evaluated_on), settings.effect)
        for name, e in estimates.items()
    ]
    gap = scores[1]
    words = "The top label is not found off on average."
    if excludes(gap):
        side = "high" if gap.value > 0.0 else "low"
        words = f"The top label is too {side}, by {difference(abs(gap.value))} on average."
    return Scores(scores, verdict=words)
