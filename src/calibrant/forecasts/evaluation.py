"""All scores of one set of forecasts, with intervals, and each gap beside its noise floor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import (
    MIN_ROWS,
    ThresholdErrors,
    bins_of_rows,
    distance_of_sides,
    enough_rows,
    first_cuts,
    mean_distance_in_bins,
    table_of_errors,
)
from calibrant.forecasts.coverage import promised_coverage
from calibrant.forecasts.decisions import SCALE, ReliabilityGaps, table_of_gaps
from calibrant.forecasts.given_levels import as_interval_level, given_levels, is_within_levels
from calibrant.forecasts.noise import GapByChance, floor_rows, gap_noise, level_noise, noise_in_bins
from calibrant.forecasts.regions import as_region, row_region_crps
from calibrant.forecasts.scores import (
    Outcomes,
    read_outcomes,
    row_interval_score,
    row_is_covered,
    row_log_score,
    row_pinball,
)
from calibrant.forecasts.verdict import IntervalCoverage, Judgement, judge_forecast, judged_gaps
from calibrant.forecasts.weighted_intervals import interval_levels, row_weighted_interval_score
from calibrant.metrics import Estimate, named_scores
from calibrant.numerics import FloatArray, IntArray
from calibrant.phrases import count
from calibrant.results import Score, Scores
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: Draws from which the noise floors are taken.
_FLOOR_DRAWS = 20
#: Thresholds at which the noise of the threshold calibration errors is followed.
_NOISE_THRESHOLDS = 20
#: Bins by predicted median and width of the distribution calibration error.
_BINS = (5, 3)


def evaluate(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    interval_level: float | None = None,
    region: tuple[float | None, float | None] | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure what forecasts are worth and how far they are from calibrated, each figure with an interval.

    Parameters
    ----------
    forecast, y, sample_weight
        See `crps`; intervals use Kish's effective number of rows.
    cluster : array-like of shape (n,), optional
        What rows that are not independent share, such as a patient.
    time : array-like of shape (n,), optional
        When each row was predicted. Alone it says that errors may be correlated in time, as they are where a forecast
        is late to follow: how far, the data say.
    label_end : array-like of shape (n,), optional
        When each outcome was known: outcomes whose spans from `time` overlap are not independent.
    interval_level : float, optional
        Level of the central intervals that are scored: 0.9, or of a `QuantileForecast` the nearest of its own. One
        that reaches beyond its quantiles is refused: the ends would be made up.
    region : pair of float or None, optional
        Ends of the outcomes whose CRPS is shown as `threshold_weighted_crps`; None is an open end.
    level : float
        Nominal coverage of the intervals of the scores.
    rng : int, Generator or None
        Seed of the simulated intervals and noise floors.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

    Returns
    -------
    Scores
        `crps`, `log_score` (where there is a density), `pinball_loss` (of the median), `interval_score`,
        `weighted_interval_score`, `threshold_weighted_crps` (of a region), `coverage`, `sharpness`, `bias` (mean
        forecast less mean outcome), `average_calibration_error`, `threshold_calibration_error` and
        `max_threshold_calibration_error` (over 50 thresholds and 20 levels), `distribution_calibration_error`,
        `reliability_gap` and `max_reliability_gap` (over 50 thresholds, levels and cost ratios), `decision_loss` (of
        the best rules). The `note` of each gap gives its noise floor.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    Intervals of means are Student's t, with Hall's (1992) transformation that removes skewness; that of `coverage` is
    Wilson's. Those of gaps, which are no smooth functions of the rows, are "noise bounds": the measured gap, less and
    plus a quantile of the same gap measured on noise alone, drawn from how sums over 100 random subsets of rows vary.
    By the triangle inequality they cover more often than `level` says where forecasts are off, and about as often where
    they are right. Bins of few rows are the exception: the bounds of `distribution_calibration_error` hold the zero of
    a calibrated forecast in 78% of samples of 100 rows, 88% of 300, 95% of 1,000.

    Where rows are not independent, sums over clusters are, or over consecutive blocks of time: four times as long as
    labels overlap, or of the length of Politis and White (2004). Errors of means are then those of the cluster
    jackknife, with Kish's effective number of clusters, less one, as degrees of freedom (Cameron and Miller 2015; Bell
    and McCaffrey 2002); noise is drawn by cluster or block; noise floors are raised by how much this adds to the noise.
    Too few are fewer than ten clusters, labels that don't overlap or runs of correlated errors: of five clusters,
    intervals of losses cover 89% to 93%, not 95%; of 100 rows with errors of correlation .9, 85%, of 500 rows 92%.

    A `QuantileForecast` is judged at the levels given. Of an outcome between two of its quantiles, or beyond the
    outermost, no more is known than the levels on both sides: it counts with equal parts of the levels between, as an
    atom does. Its reliability gap, which goes by straight lines between the quantiles, is shown and not judged. Scores
    of intervals are left out where no two quantiles are the ends of one.

    Gaps are biased upward. A noise floor is the mean of the gap over draws of the outcomes from the forecast, on at
    most 2,000 of the rows and scaled by the root of the number of rows. The verdict names a gap above a limit that
    those draws set, and intervals that hold more or fewer outcomes than they do where the forecasts are right. That is
    more than their level where ends are atoms, as of counts, and may be less of samples, which are draws. A forecast
    that is right is called wrong in one way or another with a chance of about 1 - level. At 95%, of kinds that took no
    part in making the test, it was in 5 of 200 samples of 60 or 250 rows.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, evaluate
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> scores = evaluate(GaussianForecast(mean, 0.5), mean + rng.normal(size=1000))
    >>> print(scores["coverage"])
    coverage 0.5740 [0.5431, 0.6043]
    """
    interval_level, level = as_interval_level(interval_level, forecast), check_fraction("level", level)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    between = None if region is None else as_region(region)
    return scores_and_judgement(rows, interval_level, level, as_generator(rng), evaluated_on, between)[0]


def scores_and_judgement(
    rows: Outcomes,
    interval_level: float | None,
    level: float,
    generator: np.random.Generator,
    evaluated_on: str,
    region: tuple[float, float] | None = None,
) -> tuple[Scores, Judgement]:
    """Return what `evaluate` does of checked rows, and how the forecasts are judged by it."""
    errors, gaps = table_of_errors(rows), table_of_gaps(rows)
    estimates = mean_estimates(rows, interval_level, level, region)
    share = (1.0 - level) / (len(judged_gaps(rows.forecast)) + (interval_level is not None))
    chances = _chances(rows, share, generator)
    bins = bins_of_rows(rows, *_BINS)
    noise = gap_noises(rows, errors, gaps, bins, generator)
    alone = gap_noises(rows.as_independent(), errors, gaps, bins, generator) if rows.dependence else noise
    for name, value in measured_gaps(rows, errors, gaps, bins).items():
        effect = design_effect(noise[name], alone[name])
        if effect > 1.0:
            chances[name] = chances[name].raised(effect, noise[name], share)
        estimates[name] = replace(bounded_estimate(value, noise[name], chances[name], level), effect=effect)
    estimates["decision_loss"] = loss_estimate(rows, gaps, level)
    covered = None
    if interval_level is not None:
        found = rows.rate_estimate(row_is_covered(rows, interval_level), 1.0 - share)
        n_eff = rows.effective_size / found.effect
        covered = IntervalCoverage(interval_level, found.value, n_eff, promised_coverage(rows, interval_level), share)
    judged = judge_forecast(estimates, chances, covered, rows.forecast)
    scores = scores_of(estimates, rows, level, evaluated_on)
    return Scores(scores, verdict=str(judged.verdict), notes=_notes(rows.forecast)), judged


def _notes(forecast: Forecast) -> list[str]:
    """Return what a reader must know of scores of forecasts that are known at some levels alone."""
    given = given_levels(forecast)
    if given is None:
        return []
    levels = count(given.size, "level")
    said = f"Forecasts are known at {levels}: coverage and calibration errors are those of these levels."
    return [f"{said} Other scores join them by straight lines, and go on beyond them by tails that nobody gave."]


def crps_change(before: Outcomes, after: Outcomes, level: float) -> Estimate:
    """Estimate the mean CRPS of the same rows after less before, with the interval of the paired differences."""
    return before.mean_estimate(after.forecast.crps(after.y) - before.forecast.crps(before.y), level)


def scores_of(estimates: dict[str, Estimate], rows: Outcomes, level: float, evaluated_on: str) -> list[Score]:
    """Return estimates as scores of some rows."""
    known: dict[str, Any] = {"level": level, "n": len(rows), "n_eff": rows.effective_size}
    return list(named_scores(estimates, evaluated_on=evaluated_on, **known).values())


def mean_estimates(
    rows: Outcomes, interval_level: float | None, level: float, region: tuple[float, float] | None = None
) -> dict[str, Estimate]:
    """Estimate the scores that are means, and the rate of coverage; those of intervals where there is a level."""

    def mean(values: FloatArray, least: float) -> Estimate:
        return rows.mean_estimate(values, level, least=least)

    forecast = rows.forecast
    estimates = {"crps": mean(forecast.crps(rows.y), 0.0)}
    if forecast.has_density:
        estimates["log_score"] = mean(row_log_score(rows), -np.inf)
    if is_within_levels(forecast, 0.5):
        estimates["pinball_loss"] = mean(row_pinball(rows, 0.5), 0.0)
    if interval_level is not None:
        low, high = forecast.interval(interval_level)
        estimates["interval_score"] = mean(row_interval_score(rows, interval_level), 0.0)
    if (levels := interval_levels(forecast)).size:
        estimates["weighted_interval_score"] = mean(row_weighted_interval_score(rows, levels), 0.0)
    if region is not None:
        estimates["threshold_weighted_crps"] = mean(row_region_crps(rows, *region), 0.0)
    if interval_level is not None:
        estimates["coverage"] = rows.rate_estimate(row_is_covered(rows, interval_level), level)
        estimates["sharpness"] = mean(high - low, 0.0)
    return estimates | {"bias": mean(forecast.mean() - rows.y, -np.inf)}


def measured_gaps(rows: Outcomes, errors: ThresholdErrors, gaps: ReliabilityGaps, bins: IntArray) -> dict[str, float]:
    """Measure the gaps of checked rows."""
    reliability = gaps.values
    return {
        "average_calibration_error": distance_of_sides(rows),
        "threshold_calibration_error": errors.mean,
        "max_threshold_calibration_error": errors.max,
        "distribution_calibration_error": mean_distance_in_bins(rows, bins),
        "reliability_gap": float(reliability.mean()),
        "max_reliability_gap": float(reliability.max()),
    }


def _chances(rows: Outcomes, share: float, rng: np.random.Generator) -> dict[str, GapByChance]:
    kept = floor_rows(rows, rng)
    bins = bins_of_rows(kept, *_BINS)  # they go by the forecasts alone
    drawn = (kept.drawn(rng) for _ in range(_FLOOR_DRAWS))
    found = [measured_gaps(each, table_of_errors(each), table_of_gaps(each), bins) for each in drawn]
    shrink = float(np.sqrt(kept.effective_size / rows.effective_size))
    return {name: GapByChance.of_draws(shrink * np.array([each[name] for each in found]), share) for name in found[0]}


def gap_noises(
    rows: Outcomes, errors: ThresholdErrors, gaps: ReliabilityGaps, bins: IntArray, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Draw the noise in each gap."""
    thresholds = errors.y0[np.linspace(0, errors.y0.size - 1, _NOISE_THRESHOLDS).astype(np.intp)]
    n_cuts, firsts = errors.alpha.size, list(first_cuts(rows, thresholds, errors.alpha))
    drawn = np.stack(level_noise(rows, firsts, n_cuts, rng)).sum(axis=3)
    enough = np.array([enough_rows(first, n_cuts) for first in firsts])
    by_rule = drawn.transpose(1, 0, 2)[:, enough] if enough.any() else np.full((drawn.shape[1], 1), np.nan)
    average = _noise_of_all(rows, rng)
    mean_gap, max_gap = gap_noise(rows, gaps, rng)
    return {
        "average_calibration_error": average,
        "threshold_calibration_error": by_rule.mean(axis=1),
        "max_threshold_calibration_error": by_rule.max(axis=1),
        "distribution_calibration_error": noise_in_bins(rows, bins, rng),
        "reliability_gap": mean_gap,
        "max_reliability_gap": max_gap,
    }


def _noise_of_all(rows: Outcomes, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the distance from uniform of all rows together, shape (draws,)."""
    (noise,) = level_noise(rows, [np.zeros(len(rows), dtype=np.int64)], 0, rng)
    return noise[:, 0, 0]


def design_effect(noise: FloatArray, alone: FloatArray) -> float:
    """Return the design effect on a gap, at least 1: the squared ratio of its noise to that of independent rows."""
    usual = float(alone.mean())
    return max(float(noise.mean()) / usual, 1.0) ** 2 if usual > 0.0 else 1.0  # no usual noise: undefined, or all alike


def bounded_estimate(value: float, noise: FloatArray, chance: GapByChance, level: float) -> Estimate:
    """Estimate a gap by the noise in it: less and plus a quantile of that, with its noise floor as the note."""
    if not np.isfinite(value):
        note = f"undefined: no rule leaves {MIN_ROWS} rows on both sides"
        return Estimate(value, value, value, "none", note)
    reach = float(np.quantile(noise, level))
    note = f"noise floor {chance.mean:.4f}"
    return Estimate(value, max(value - reach, 0.0), value + reach, "noise bounds", note)


def loss_estimate(rows: Outcomes, gaps: ReliabilityGaps, level: float) -> Estimate:
    """Estimate the mean loss of the best rules, alpha = c for cost ratio c, from the mean over them in each row."""
    cost, paid = gaps.cost, np.zeros(len(rows))
    rising = np.concatenate(([0.0], np.cumsum(1.0 - cost)))
    falling = np.concatenate((np.cumsum(cost[::-1])[::-1], [0.0]))
    for threshold, first in zip(gaps.y0, first_cuts(rows, gaps.y0, cost), strict=True):
        # rules from `first` on decide yes, those before no
        loss = np.where(rows.y <= threshold, rising[-1] - rising[first], falling[0] - falling[first])
        paid += loss * (SCALE / (cost.size * gaps.y0.size))
    best = np.arange(cost.size)
    promised, value = (float(table[:, best, best].mean()) for table in (gaps.predicted, gaps.true))
    estimate = rows.mean_estimate(paid, level, least=0.0, most=SCALE)
    return replace(estimate, value=value, note=f"promised {promised:.4f}")
