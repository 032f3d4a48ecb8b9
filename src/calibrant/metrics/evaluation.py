"""All scores of one set of predictions, with intervals, and the verdict on them.

A score enters here: as a line of one of the two tables below, which name what is measured and in which order; and as
one of the tables in `calibrant.metrics.values`, for those who ask for no intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from calibrant.dependent_rows import DECLARE, SIGN, SumsBuilder, as_independent, hint_of
from calibrant.metrics import calibration_error, proper_scores
from calibrant.metrics.bins import Bins
from calibrant.metrics.calibration_index import calibration_index_estimate
from calibrant.metrics.decomposition import (
    ClassParts,
    class_parts,
    decomposition_estimates,
    sum_estimates,
    uncertainty_of_classes,
)
from calibrant.metrics.estimates import (
    Column,
    Estimate,
    Settings,
    check_settings,
    mean_of_moments,
    measured_rows,
    named_scores,
    normal_estimate,
)
from calibrant.metrics.joint_test import joint_test_of_classes, joint_test_of_column
from calibrant.metrics.multiclass import Classes, ClassRows, HeldRows, class_gap_estimates, class_scores
from calibrant.metrics.ranking import Influence, auc_estimate, influence_of, macro_auc_estimate
from calibrant.metrics.row_figures import RowFigures
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.metrics.smooth_ece import smooth_ece_estimate
from calibrant.metrics.values import VALUES_OF_A_COLUMN, VALUES_OF_CLASSES
from calibrant.metrics.verdict import verdict
from calibrant.numerics import FloatArray
from calibrant.results import JointTest, Score, Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike

#: The scores of one column.
OF_A_COLUMN: dict[str, Callable[[Column], Estimate]] = {
    "brier": proper_scores.brier_estimate,
    "log_loss": proper_scores.log_loss_estimate,
    "ece": lambda c: calibration_error.ece_estimate([c.uniform], c.size, c.level, c.rng),
    "ece_debiased": lambda c: calibration_error.ece_debiased_estimate([c.quantile], c.size, c.level),
    "auc": auc_estimate,
    "miscalibration": lambda c: c.once(decomposition_estimates)["miscalibration"],
    "discrimination": lambda c: c.once(decomposition_estimates)["discrimination"],
    "uncertainty": lambda c: c.once(decomposition_estimates)["uncertainty"],
    "mean_gap": calibration_error.mean_gap_estimate,
    "base_rate": lambda c: c.rate,
    "smooth_ece": smooth_ece_estimate,
    "slope": lambda c: c.once(slope_intercept_estimates)["slope"],
    "intercept": lambda c: c.once(slope_intercept_estimates)["intercept"],
    "ici": calibration_index_estimate,
    "worst_bin_gap": calibration_error.worst_bin_estimate,
}
#: Those of one column that a verdict needs, and the number of bins that it goes by.
TO_JUDGE = ("brier", "log_loss", "ece_debiased", "auc", "mean_gap", "base_rate", "slope", "worst_bin_gap")
SCORE_BINS = 15
#: The scores of several classes: of all of them together, or of the most probable one.
OF_CLASSES: dict[str, Callable[[Classes], Estimate]] = {
    "brier": lambda c: c.once(_losses)["brier"],
    "log_loss": lambda c: c.once(_losses)["log_loss"],
    "ece": lambda c: OF_A_COLUMN["ece"](c.top),
    "ece_debiased": lambda c: OF_A_COLUMN["ece_debiased"](c.top),
    "classwise_ece": lambda c: c.once(_one_vs_rest)["classwise_ece"],
    "marginal_calibration_error": lambda c: c.once(_one_vs_rest)["marginal_calibration_error"],
    "auc": lambda c: c.once(_one_vs_rest)["auc"],
    "miscalibration": lambda c: c.once(_one_vs_rest)["miscalibration"],
    "discrimination": lambda c: c.once(_one_vs_rest)["discrimination"],
    "uncertainty": lambda c: c.once(_one_vs_rest)["uncertainty"],
    "accuracy": lambda c: c.top_for("accuracy").rate,
    "mean_gap": lambda c: calibration_error.mean_gap_estimate(c.top_for("mean_gap")),
    "smooth_ece": lambda c: smooth_ece_estimate(c.top),
    "ici": lambda c: calibration_index_estimate(c.top),
    "worst_bin_gap": lambda c: calibration_error.worst_bin_estimate(c.top),
    "class_gap": lambda c: c.once(_class_gaps)["class_gap"],
    "class_share_gap": lambda c: c.once(_class_gaps)["class_share_gap"],
}
#: Those of several classes that a verdict needs.
_OF_TOP = ("brier", "log_loss", "ece_debiased", "mean_gap", "accuracy", "worst_bin_gap")
CLASSES_TO_JUDGE = (*_OF_TOP, "class_gap", "class_share_gap")


def evaluate(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    n_bins: int = SCORE_BINS,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
    intervals: bool = True,
) -> Scores:
    """Measure calibration, discrimination and proper scores, each with an interval, and say what they mean.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of any kind.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of the positive class, or of each of the sorted classes.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none. Intervals use Kish's effective number of rows,
        (sum w)^2 / sum w^2, so the scale of the weights doesn't make them narrower.
    cluster : array-like of shape (n,), optional
        The cluster of each row, such as a patient or a session: rows of one cluster are not independent.
    time, label_end : array-like of shape (n,), optional
        When each row was predicted, and when its label was known: rows whose labels overlap are not independent.
    n_bins : int
        Number of bins of the calibration errors.
    level : float
        Nominal coverage of the intervals.
    pos_label : scalar, optional
        The positive one of two labels; the larger one by default.
    classes : array-like of shape (K,), optional
        All classes, sorted, where `y_true` may lack some.
    rng : int, Generator or None
        Seed of the simulated intervals: the same seed gives the same numbers.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.
    intervals : bool
        Pass False for the same scores without intervals, in about a tenth of the time where rows are few: as in a
        loop over many small samples. `low` and `high` of each are NaN and its `method` is "none"; there is no `test`,
        no look at whether neighbouring rows are alike, and the `verdict` says that nothing was judged.

    Returns
    -------
    Scores
        Of one column: `brier`, `log_loss`, `ece`, `ece_debiased`, `auc`, `miscalibration`, `discrimination`,
        `uncertainty`, `mean_gap` (mean probability minus rate), `base_rate`, `smooth_ece`, `slope`, `intercept`, `ici`
        (integrated calibration index) and `worst_bin_gap` (of the bin that adds most to `ece`; its `where` says which).
        Of K columns: `brier` (sum over classes), `log_loss`, `ece` and `ece_debiased` (top label), `classwise_ece`,
        `marginal_calibration_error`, `auc` (mean one-vs-rest), `miscalibration`, `discrimination` and `uncertainty`
        (summed one-vs-rest), `accuracy`, `mean_gap`, `smooth_ece`, `ici` and `worst_bin_gap` (top label), and
        `class_gap` and `class_share_gap` (of the classes that are furthest off, as in `evaluate_classes`). Its
        `verdict` says what they mean in words. `evaluate_classes` measures each class.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Rows are taken to be independent, unless `cluster`, or `time` and `label_end`, say that they are not. Then their
    effective number, `n_eff` of each score, is divided by the design effect, so that intervals are wider and debiased
    errors lose more noise: the variance of the sums over clusters, or blocks of time, of what rows add to the score,
    over that of independent rows; of scores that are no means it is that of the mean gaps. Intervals are then
    Student's t with the number of clusters less one. Each `method` says so. It names how the interval was found:

    - "normal (CLT)", for `brier`, `log_loss` and `mean_gap`: mean and spread over rows, the spread as if one more row
      of each class had been seen at the mean prediction, so that it is never zero. An infinite log loss has no
      interval.
    - "Wilson", for `base_rate` and `accuracy`; "Wilson, mapped" for `uncertainty`, which is r (1 - r) of a rate r, and
      "normal (second order)" for its sum over K classes, which covers more often than `level` says where their rates
      are nearly equal.
    - "DeLong, logit" for `auc`; "Newcombe 5" with fewer than 20 rows of a class, or classes that don't overlap.
    - "bin noise bounds", for `ece` (bins of equal width) and `classwise_ece`. The estimand is the error of these bins,
      a lower bound of the error of the probabilities; the estimate is biased upward, so the interval reaches further
      down, and covers more often than `level` says where the error is near the noise.
    - "score (squared gaps)", for `ece_debiased` and `marginal_calibration_error` (bins of near-equal weight, root
      mean square): nearly unbiased. Its lower end is above zero where perfect calibration is rejected; over K classes,
      and of rows that are not independent, it covers more often than `level` says.
    - "noise bounds", for `smooth_ece` and `ici`: like those of `ece`, with noise that neighbours share.
    - "profile likelihood", for `slope` and `intercept`, widened where the line isn't true: it covers with three events
      too, and a note says where there are fewer. NaN with a note where the data have no best line; no interval where
      they give it no end.
    - "CLT less bootstrapped overfit", for `miscalibration` and `discrimination`: the estimates are the plain ones of
      the decomposition, biased upward; their intervals are for the values without that bias. They cover more often
      than `level` says where that is most of the value, and of rows that are not independent.
    - "Chernoff", for `class_gap` and `class_share_gap`, whose level is corrected for the number of classes.

    The verdict goes by one test of all ways of being off, `joint_test`, whose p-values are in `test`: it says "not
    calibrated" where p is below 1 - `level`, log loss is infinite, or the interval of `class_gap` excludes 0. At level
    0.95 it does so in about one of twenty samples of perfect predictions, where some interval alone excludes what it
    should hold in about one of ten.

    For K columns, intervals of sums and means over classes take the classes' noise to move together where its
    dependence isn't known: they are cautious.

    Examples
    --------
    >>> import calibrant as cb
    >>> scores = cb.evaluate([0, 0, 1, 1] * 50, [0.1, 0.4, 0.35, 0.8] * 50)
    >>> print(scores["brier"])
    brier 0.1581 [0.1356, 0.1806]
    >>> scores["auc"].value
    0.75
    """
    settings = check_settings(n_bins, level, rng, intervals=intervals)
    what = {"cluster": cluster, "time": time, "label_end": label_end, "classes": classes}
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, **what)
    found = evaluate_rows(rows, settings, evaluated_on)
    found.notes = [*label_notes(rows, pos_label), *found.notes]
    return found


class Labelled(Protocol):
    """Rows in memory or in a source: their sorted classes, and whether they have one probability, of the second."""

    @property
    def classes(self) -> npt.NDArray[Any]: ...

    @property
    def is_binary(self) -> bool: ...


def label_notes(rows: Labelled, pos_label: object) -> list[str]:
    """Say which of two labels was taken for the positive one, where neither the caller nor the labels say it."""
    labels = rows.classes.tolist()
    if not rows.is_binary or pos_label is not None or labels in ([0, 1], [-1, 1]):
        return []
    return [f"{labels[1]!r} is taken as the positive class, {labels[0]!r} as the negative one; pos_label= changes it."]


def evaluate_rows(rows: Rows, settings: Settings, evaluated_on: str, *, only_to_judge: bool = False) -> Scores:
    """Measure the probabilities of checked rows; if asked so, only what the verdict needs."""
    hint = hint_of(rows) if settings.intervals else ""  # what it bears on are the intervals
    notes = [f"{SIGN}: {hint}. {DECLARE}"] if hint else []
    if rows.declared:
        by_class = None if rows.is_binary else (rows.of_class(k).summary() for k in range(rows.n_classes))
        figures = RowFigures.of(rows.one_column().summary(), by_class)
        settings = figures.settings(settings, SumsBuilder(figures.of_rows).add(rows).sums())
        rows = as_independent(rows)
    if rows.is_binary:
        names: Collection[str] = TO_JUDGE if only_to_judge else OF_A_COLUMN
        found = evaluate_summary(rows.summary(), rows.n_rows, settings, evaluated_on, names=names)
    else:
        names = CLASSES_TO_JUDGE if only_to_judge else OF_CLASSES
        found = evaluate_multiclass(HeldRows(rows), settings, evaluated_on, names=names)
    found.notes = notes
    return found


def evaluate_summary(
    summary: ScoreSummary, n_rows: int, settings: Settings, evaluated_on: str, *, names: Collection[str] = OF_A_COLUMN
) -> Scores:
    """Measure the probabilities of the positive class in a summary; some scores only, if they are named.

    `summary` is of rows as they are: the design effects come in here. `names` hold those that the verdict needs.
    """
    measure = OF_A_COLUMN if settings.intervals else VALUES_OF_A_COLUMN
    columns: dict[float, Column] = {}
    found: dict[str, Score] = {}
    for name in names:
        own = settings.of(name)
        if own.effect not in columns:
            columns[own.effect] = Column.of(summary, n_rows, own)
        column = columns[own.effect]
        found[name] = column.score(name, measure[name](column), evaluated_on)
    if not settings.intervals:
        return _not_judged(found)
    return _judged(found, joint_test_of_column(Column.of(summary, n_rows, settings)))


def evaluate_multiclass(
    rows: ClassRows, settings: Settings, evaluated_on: str, *, names: Collection[str] = OF_CLASSES
) -> Scores:
    """Measure the probabilities of K classes; some scores only, if they are named."""
    measure = OF_CLASSES if settings.intervals else VALUES_OF_CLASSES
    classes = Classes(rows, settings)
    found: dict[str, Score] = {}
    for name in names:
        scale, n_eff = settings.of(name).scale, classes.size_for(name)
        known: dict[str, Any] = {"level": settings.level, "n": rows.n_rows, "n_eff": n_eff, "scale": scale}
        found |= named_scores({name: measure[name](classes)}, evaluated_on=evaluated_on, **known)
    if not settings.intervals:
        return _not_judged(found)
    return _judged(found, joint_test_of_classes(classes.top, classes.once(_judged_classes)[1]))


def _judged(found: Mapping[str, Score], test: JointTest) -> Scores:
    return Scores(list(found.values()), verdict=str(verdict(found, test)), test=test)


def _not_judged(found: Mapping[str, Score]) -> Scores:
    return Scores(list(found.values()), verdict="Not judged: a verdict goes by intervals, and none were asked for.")


def _losses(classes: Classes) -> dict[str, Estimate]:
    """Estimate the mean losses of the rows: the spread as if two more were seen at the mean prediction."""
    level, mean_prob = classes.settings.level, classes.rows.mean_prob
    of_brier, of_log = (classes.size_for(name) for name in ("brier", "log_loss"))
    brier, log = classes.rows.moments(lambda held: (proper_scores.row_brier(held), proper_scores.row_log_loss(held)))
    log_extra = -np.log(np.maximum(mean_prob, 1.0 / (of_log + 2.0)))
    found = mean_of_moments(*brier, of_brier, extra=proper_scores.brier_of_each_class(mean_prob))
    return {
        "brier": normal_estimate(found, level, least=0.0, most=2.0),
        "log_loss": proper_scores.bounded_log_loss(mean_of_moments(*log, of_log, extra=log_extra), level),
    }


def _class_gaps(classes: Classes) -> dict[str, Estimate]:
    """Estimate the gaps of the classes that are furthest off."""
    return class_gap_estimates(classes.once(_judged_classes)[0])


def _judged_classes(classes: Classes) -> tuple[dict[object, Mapping[str, Score]], dict[object, float]]:
    """Return the scores by which each class is judged, and the p-value of its joint test."""
    judged: dict[object, Mapping[str, Score]] = {}
    p_values: dict[object, float] = {}
    effects = classes.settings.class_effects or [1.0] * classes.n_classes
    for k, label in enumerate(classes.rows.classes):
        column = classes.column(classes.rows.class_summary(k))
        judged[label] = class_scores(classes, k, column)
        p_values[label] = joint_test_of_column(column, gap_effect=effects[k]).p_value
    return judged, p_values


def _one_vs_rest(classes: Classes) -> dict[str, Estimate]:
    """Estimate what is summed or averaged over the classes, holding the summary of one class at a time."""
    rows, level, size, rng = classes.rows, classes.settings.level, classes.size, classes.settings.rng
    uniform: list[Bins] = []
    quantile: list[Bins] = []
    parts: list[ClassParts] = []
    influences: dict[int, Influence] = {}
    for k in range(classes.n_classes):
        column = classes.column(rows.class_summary(k))
        summary = column.summary
        uniform.append(column.uniform)
        quantile.append(column.quantile)
        parts.append(class_parts(column, classes.n_classes))
        if 0.0 < summary.base_rate < 1.0:
            influences[k] = influence_of(summary)

    def of_rows(held: Rows) -> tuple[FloatArray, ...]:
        """Sum what each class's parts save and gain, and the influences on its AUC, over the classes."""
        sums = tuple(np.zeros(held.n_rows) for _ in range(3))
        for k, part in enumerate(parts):
            own = held.of_class(k)
            found = [*part.of_rows(own), *([influences[k].apply(own)] if k in influences else [])]
            for into, values in zip(sums, found, strict=False):
                into += values
        return sums

    saved, gained, influence = rows.moments(of_rows)
    base_rates = np.array([part.smooth_base_rate for part in parts])
    at_mean = proper_scores.brier_of_each_class(rows.mean_prob) - proper_scores.brier_of_each_class(base_rates)
    spreads = (
        mean_of_moments(*saved, classes.size_for("miscalibration"), extra=at_mean),
        mean_of_moments(*gained, size, extra=np.zeros(1)),
    )
    return {
        "classwise_ece": calibration_error.ece_estimate(uniform, size, level, rng),
        "marginal_calibration_error": calibration_error.ece_debiased_estimate(quantile, size, level),
        "auc": macro_auc_estimate(
            list(influences.values()),
            influence[1] + influence[0] ** 2,
            classes.size_for("auc"),
            n_classes=classes.n_classes,
            level=level,
        ),
        **sum_estimates(parts, spreads, level),
        "uncertainty": uncertainty_of_classes(
            np.array([part.base_rate for part in parts]), classes.size_for("uncertainty"), level
        ),
    }
