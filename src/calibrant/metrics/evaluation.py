"""All scores of one set of predictions, with intervals."""

from __future__ import annotations

from dataclasses import dataclass

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
from calibrant.metrics.estimates import Estimate, Mean, mean_of, normal_estimate, rate_estimate
from calibrant.metrics.proper_scores import (
    Losses,
    brier_losses,
    log_losses,
    mean_loss_and_error,
    row_brier,
    row_log_loss,
)
from calibrant.metrics.ranking import auc_estimate, macro_auc_estimate, row_influence
from calibrant.metrics.rows import Rows, read_rows
from calibrant.metrics.slope_intercept import slope_intercept_estimates
from calibrant.metrics.smooth_ece import smooth_ece_estimate
from calibrant.metrics.verdict import describe
from calibrant.numerics import FloatArray
from calibrant.results import Score, Scores
from calibrant.summary import ScoreSummary
from calibrant.validation import ArrayLike, as_generator, check_fraction, check_integer


@dataclass(frozen=True, slots=True)
class _Settings:
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
    settings = _Settings(check_integer("n_bins", n_bins, minimum=1), check_fraction("level", level), as_generator(rng))
    rows = read_rows(y_true, y_prob, sample_weight=sample_weight, pos_label=pos_label, classes=classes)
    estimates, verdict = (_binary if rows.is_binary else _multiclass)(rows, settings)
    scores = [
        Score(name, e.value, e.low, e.high, settings.level, rows.n_rows, e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=verdict)


def _binary(rows: Rows, settings: _Settings) -> tuple[dict[str, Estimate], str]:
    summary, level = rows.one_column().summary(), settings.level
    groups, size = summary.groups(), summary.effective_size
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
    return estimates, _verdict(summary, calibration, bins, rows, settings)


def _multiclass(rows: Rows, settings: _Settings) -> tuple[dict[str, Estimate], str]:
    level, size, weight = settings.level, rows.effective_size, rows.weights
    mean_prob = np.average(rows.prob, axis=0, weights=rows.weight)
    log_extra = -np.log(np.maximum(mean_prob, 1.0 / (size + 2.0)))
    top = rows.top_label().summary()
    calibration, bins = _one_column(top, settings)
    estimates = {
        "brier": normal_estimate(
            mean_of([(row_brier(rows), weight)], size, extra=_brier_of_each_class(mean_prob)),
            level,
            least=0.0,
            most=2.0,
        ),
        "log_loss": _log_loss_estimate(mean_of([(row_log_loss(rows), weight)], size, extra=log_extra), level),
        "ece": calibration["ece"],
        "ece_debiased": calibration["ece_debiased"],
        **_one_vs_rest(rows, settings),
        "accuracy": rate_estimate(top.base_rate, size, level),
        "smooth_ece": smooth_ece_estimate(top, level, settings.rng),
        "ici": calibration_index_estimate(top, level, settings.rng),
    }
    return estimates, _verdict(top, calibration, bins, rows, settings)


def _one_vs_rest(rows: Rows, settings: _Settings) -> dict[str, Estimate]:
    """Estimate what is summed or averaged over the classes, holding the summary of one class at a time."""
    level, n_classes = settings.level, rows.n_classes
    class_bins, equal_mass_bins, uncertainties, areas, base_rates = [], [], [], [], []
    parts: list[ClassParts] = []
    influence, saved, gained = np.zeros(rows.n_rows), np.zeros(rows.n_rows), np.zeros(rows.n_rows)
    rarest = 0.5
    for k in range(n_classes):
        own = rows.of_class(k)
        summary = own.summary()
        class_bins.append(make_bins(summary, settings.n_bins, "uniform"))
        equal_mass_bins.append(make_bins(summary, settings.n_bins, "quantile"))
        uncertainties.append(uncertainty_estimate(summary, level))
        base_rates.append(smooth_base_rate(summary))
        part = class_parts(summary, own, n_classes, settings.rng)
        saved += part.saved
        gained += part.gained
        parts.append(part)
        if 0.0 < summary.base_rate < 1.0:
            area, change = row_influence(summary, own)
            areas.append(area)
            influence += change
            rarest = min(rarest, summary.base_rate, 1.0 - summary.base_rate)
    mean_prob = np.average(rows.prob, axis=0, weights=rows.weight)
    at_mean = _brier_of_each_class(mean_prob) - _brier_of_each_class(np.array(base_rates))
    errors = (
        mean_of([(saved, rows.weights)], rows.effective_size, extra=at_mean).error,
        mean_of([(gained, rows.weights)], rows.effective_size, extra=np.zeros(1)).error,
    )
    return {
        "classwise_ece": ece_estimate(class_bins, rows.effective_size, level, settings.rng),
        "marginal_calibration_error": ece_debiased_estimate(equal_mass_bins, rows.effective_size, level),
        "auc": macro_auc_estimate(areas, influence, rows=rows, rarest=rarest, level=level),
        **part_estimates(
            sum_of([part.decomposition for part in parts]),
            errors=errors,
            overfit=sum_of_overfits([part.overfit for part in parts]),
            level=level,
        ),
        "uncertainty": _sum_of_uncertainties(uncertainties),
    }


def _one_column(summary: ScoreSummary, settings: _Settings) -> tuple[dict[str, Estimate], tuple[Bins, Bins]]:
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
    rows: Rows,
    settings: _Settings,
) -> str:
    return describe(
        gap=calibration["mean_gap"],
        debiased=calibration["ece_debiased"],
        uniform=bins[0],
        quantile=bins[1],
        base_rate=summary.base_rate,
        level=settings.level,
        n_rows=rows.n_rows,
        is_top_label=not rows.is_binary,
    )
