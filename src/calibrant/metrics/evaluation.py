"""All scores of one set of predictions, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from calibrant.metrics.bins import Bins, make_bins
from calibrant.metrics.calibration_error_intervals import ece_debiased_estimate, ece_estimate
from calibrant.metrics.calibration_index import calibration_index_estimate
from calibrant.metrics.decomposition import sum_of
from calibrant.metrics.decomposition_intervals import (
    ClassParts,
    class_parts,
    decomposition_estimates,
    part_estimates,
    smooth_base_rate,
    sum_of_overfits,
    uncertainty_estimate,
)
from calibrant.metrics.estimates import Estimate, Mean, mean_of, mean_of_moments, normal_estimate, rate_estimate
from calibrant.metrics.gate import measured_rows
from calibrant.metrics.proper_scores import (
    Losses,
    brier_losses,
    log_losses,
    mean_loss_and_error,
    row_brier,
    row_log_loss,
)
from calibrant.metrics.ranking import Influence, auc_estimate, influence_of, macro_auc_estimate
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.metrics.smooth_ece import smooth_ece_estimate
from calibrant.metrics.verdict import describe
from calibrant.numerics import FloatArray
from calibrant.results import Score, Scores
from calibrant.rows import Rows
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer

#: Gives several values of each row, shape (n,) each.
RowValues: TypeAlias = Callable[[Rows], Sequence[FloatArray]]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller of `evaluate` asks for."""

    n_bins: int
    level: float
    rng: np.random.Generator


def evaluate(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    n_bins: int = 15,
    level: float = 0.95,
    pos_label: object = None,
    classes: ArrayLike | None = None,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
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

    Returns
    -------
    Scores
        Of one column: `brier`, `log_loss`, `ece`, `ece_debiased`, `auc`, `miscalibration`, `discrimination`,
        `uncertainty`, `mean_gap` (mean probability minus rate), `base_rate`, `smooth_ece`, `slope`, `intercept` and
        `ici` (integrated calibration index). Of K columns: `brier` (sum over classes), `log_loss`, `ece` and
        `ece_debiased` (top label), `classwise_ece`, `marginal_calibration_error`, `auc` (mean one-vs-rest),
        `miscalibration`, `discrimination` and `uncertainty` (summed one-vs-rest), `accuracy`, `smooth_ece` and `ici`
        (top label). Its `verdict` says what they mean in words. `evaluate_classes` measures each class.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    All intervals take rows to be independent. The `method` of each score names how its interval was found:

    - "normal (CLT)", for `brier`, `log_loss` and `mean_gap`: mean and spread over rows, the spread as if one more row
      of each class had been seen at the mean prediction, so that it is never zero. An infinite log loss has no
      interval.
    - "Wilson", for `base_rate` and `accuracy`; "Wilson, mapped" for `uncertainty`, which is r (1 - r) of a rate r.
    - "DeLong, logit" for `auc`; "Newcombe 5" with fewer than 20 rows of a class, or classes that don't overlap.
    - "bin noise bounds", for `ece` (bins of equal width) and `classwise_ece`. The estimand is the error of these bins,
      a lower bound of the error of the probabilities; the estimate is biased upward, so the interval reaches further
      down, and covers more often than `level` says where the error is near the noise.
    - "score (squared gaps)", for `ece_debiased` and `marginal_calibration_error` (bins of near-equal weight, root
      mean square): nearly unbiased. Its lower end is above zero where perfect calibration is rejected.
    - "noise bounds", for `smooth_ece` and `ici`: like those of `ece`, with noise that neighbours share.
    - "normal (sandwich)", for `slope` and `intercept`: it doesn't take the line to be true. NaN with a note where the
      data have no best line.
    - "CLT less bootstrapped overfit", for `miscalibration` and `discrimination`: the estimates are the plain ones of
      the decomposition, biased upward; their intervals are for the values without that bias.

    The verdict says "not calibrated" where the interval of `ece_debiased`, or of the mean prediction less the rate,
    excludes zero. At level 0.95 that happens in about one of twelve samples of perfect predictions.

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
    settings = check_settings(n_bins, level, rng)
    rows = measured_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    if rows.is_binary:
        return evaluate_summary(rows.one_column().summary(), rows.n_rows, settings, evaluated_on)
    return evaluate_multiclass(_HeldRows(rows), settings, evaluated_on)


def check_settings(n_bins: int, level: float, rng: int | np.random.Generator | None) -> Settings:
    """Check what the caller asks for."""
    return Settings(check_integer("n_bins", n_bins, minimum=1), check_fraction("level", level), as_generator(rng))


def evaluate_summary(summary: ScoreSummary, n_rows: int, settings: Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of the positive class in a summary."""
    level = settings.level
    groups, size = summary.tied(), summary.effective_size
    mean_prob = np.array([float(np.sum(groups.weight * groups.scores)) / summary.total_weight])
    inner = np.clip(mean_prob, 1.0 / (size + 2.0), 1.0 - 1.0 / (size + 2.0))
    brier = mean_loss_and_error(summary, brier_losses(groups.scores), brier_losses(mean_prob))
    log = mean_loss_and_error(summary, log_losses(groups.scores), log_losses(inner))
    calibration, bins = _one_column(summary, settings)
    estimates = {
        "brier": normal_estimate(brier, level, least=0.0, most=1.0),
        "log_loss": _log_loss_estimate(log, level),
        "ece": calibration["ece"],
        "ece_debiased": calibration["ece_debiased"],
        "auc": auc_estimate(summary, level),
        **decomposition_estimates(summary, level, settings.rng),
        "mean_gap": calibration["mean_gap"],
        "base_rate": rate_estimate(summary.base_rate, size, level),
        "smooth_ece": smooth_ece_estimate(summary, level, settings.rng),
        **slope_intercept_estimates(summary, level),
        "ici": calibration_index_estimate(summary, level, settings.rng),
    }
    verdict = _verdict(summary, calibration, bins, n_rows, settings, is_top_label=False)
    return _scores(estimates, n_rows, settings, evaluated_on, verdict)


def _scores(
    estimates: Mapping[str, Estimate], n_rows: int, settings: Settings, evaluated_on: str, verdict: str
) -> Scores:
    scores = [
        Score(name, e.value, e.low, e.high, settings.level, n_rows, e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=verdict)


class ClassRows(Protocol):
    """Rows of K columns that `evaluate_multiclass` asks for summaries, and for means over rows."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    @property
    def effective_size(self) -> float:
        """Kish's effective number of rows."""

    @property
    def mean_prob(self) -> FloatArray:
        """The mean of each column."""

    def top_summary(self) -> ScoreSummary:
        """Summarise the largest probability of each row, and whether it is of the row's class."""

    def class_summary(self, k: int) -> ScoreSummary:
        """Summarise one column against its class."""

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        """Return mean and variance over the rows of each value that a function gives of them."""


@dataclass(frozen=True, slots=True)
class _HeldRows:
    """Rows in memory."""

    rows: Rows

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

    @property
    def n_classes(self) -> int:
        return self.rows.n_classes

    @property
    def effective_size(self) -> float:
        return self.rows.effective_size

    @property
    def mean_prob(self) -> FloatArray:
        return np.asarray(np.average(self.rows.scores, axis=0, weights=self.rows.weight))

    def top_summary(self) -> ScoreSummary:
        return self.rows.top_label().summary()

    def class_summary(self, k: int) -> ScoreSummary:
        return self.rows.of_class(k).summary()

    def moments(self, values: RowValues) -> list[tuple[float, float]]:
        weights = self.rows.weights
        found = [mean_of([(value, weights)], 1.0) for value in values(self.rows)]
        return [(mean, error**2) for mean, error in found]


def evaluate_multiclass(rows: ClassRows, settings: Settings, evaluated_on: str) -> Scores:
    """Measure the probabilities of K classes."""
    level, size, mean_prob = settings.level, rows.effective_size, rows.mean_prob
    log_extra = -np.log(np.maximum(mean_prob, 1.0 / (size + 2.0)))
    top = rows.top_summary()
    calibration, bins = _one_column(top, settings)
    brier, log = rows.moments(lambda held: (row_brier(held), row_log_loss(held)))
    estimates = {
        "brier": normal_estimate(
            mean_of_moments(*brier, size, extra=_brier_of_each_class(mean_prob)), level, least=0.0, most=2.0
        ),
        "log_loss": _log_loss_estimate(mean_of_moments(*log, size, extra=log_extra), level),
        "ece": calibration["ece"],
        "ece_debiased": calibration["ece_debiased"],
        **_one_vs_rest(rows, settings),
        "accuracy": rate_estimate(top.base_rate, size, level),
        "smooth_ece": smooth_ece_estimate(top, level, settings.rng),
        "ici": calibration_index_estimate(top, level, settings.rng),
    }
    verdict = _verdict(top, calibration, bins, rows.n_rows, settings, is_top_label=True)
    return _scores(estimates, rows.n_rows, settings, evaluated_on, verdict)


def _one_vs_rest(rows: ClassRows, settings: Settings) -> dict[str, Estimate]:
    """Estimate what is summed or averaged over the classes, holding the summary of one class at a time."""
    level, n_classes, size = settings.level, rows.n_classes, rows.effective_size
    class_bins, equal_mass_bins, uncertainties, base_rates = [], [], [], []
    parts: list[ClassParts] = []
    influences: dict[int, Influence] = {}
    rarest = 0.5
    for k in range(n_classes):
        summary = rows.class_summary(k)
        class_bins.append(make_bins(summary, settings.n_bins, "uniform"))
        equal_mass_bins.append(make_bins(summary, settings.n_bins, "quantile"))
        uncertainties.append(uncertainty_estimate(summary, level))
        base_rates.append(smooth_base_rate(summary))
        parts.append(class_parts(summary, n_classes, settings.rng))
        if 0.0 < summary.base_rate < 1.0:
            influences[k] = influence_of(summary)
            rarest = min(rarest, summary.base_rate, 1.0 - summary.base_rate)

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
    at_mean = _brier_of_each_class(rows.mean_prob) - _brier_of_each_class(np.array(base_rates))
    errors = (
        mean_of_moments(*saved, size, extra=at_mean).error,
        mean_of_moments(*gained, size, extra=np.zeros(1)).error,
    )
    return {
        "classwise_ece": ece_estimate(class_bins, size, level, settings.rng),
        "marginal_calibration_error": ece_debiased_estimate(equal_mass_bins, size, level),
        "auc": macro_auc_estimate(
            [found.auc for found in influences.values()],
            influence[1] + influence[0] ** 2,
            size=size,
            n_classes=n_classes,
            rarest=rarest,
            level=level,
        ),
        **part_estimates(
            sum_of([part.decomposition for part in parts]),
            errors=errors,
            overfit=sum_of_overfits([part.overfit for part in parts]),
            level=level,
        ),
        "uncertainty": _sum_of_uncertainties(uncertainties),
    }


def _one_column(summary: ScoreSummary, settings: Settings) -> tuple[dict[str, Estimate], tuple[Bins, Bins]]:
    """Estimate the calibration errors of one column, and return the bins of equal width and of equal weight."""
    size, level = summary.effective_size, settings.level
    uniform = make_bins(summary, settings.n_bins, "uniform")
    quantile = make_bins(summary, settings.n_bins, "quantile")
    scores = summary.scores
    mean_prob = float(uniform.score_sum.sum()) / summary.total_weight
    gap = mean_loss_and_error(
        summary, Losses(scores - 1.0, scores), Losses(np.array([mean_prob - 1.0]), np.array([mean_prob]))
    )
    estimates = {
        "ece": ece_estimate([uniform], size, level, settings.rng),
        "ece_debiased": ece_debiased_estimate([quantile], size, level),
        "mean_gap": normal_estimate(gap, level, least=-1.0, most=1.0),
    }
    return estimates, (uniform, quantile)


def _log_loss_estimate(mean: Mean, level: float) -> Estimate:
    if np.isinf(mean.value):
        note = "infinite: something happened that had probability 0"
        return Estimate(mean.value, mean.value, mean.value, "none", note)
    return normal_estimate(mean, level, least=0.0, most=np.inf)


def _brier_of_each_class(prob: FloatArray) -> FloatArray:
    """Return what the Brier score of one row would be if it were of each class, for the same prediction."""
    return np.asarray(1.0 + float(prob @ prob) - 2.0 * prob)


def _sum_of_uncertainties(parts: list[Estimate]) -> Estimate:
    """Sum over classes; the sum can't exceed that of equally frequent classes."""
    columns: FloatArray = np.array([(e.value, e.low, e.high) for e in parts])
    value, low, high = columns.sum(axis=0).tolist()
    return Estimate(value, low, max(value, min(high, 1.0 - 1.0 / len(parts))), parts[0].method)


def _verdict(
    summary: ScoreSummary,
    calibration: dict[str, Estimate],
    bins: tuple[Bins, Bins],
    n_rows: int,
    settings: Settings,
    *,
    is_top_label: bool,
) -> str:
    return describe(
        gap=calibration["mean_gap"],
        debiased=calibration["ece_debiased"],
        uniform=bins[0],
        quantile=bins[1],
        base_rate=summary.base_rate,
        level=settings.level,
        n_rows=n_rows,
        is_top_label=is_top_label,
    )
