"""All scores of one set of forecasts, or of one threshold rule, with intervals, and each gap beside its noise floor."""

from __future__ import annotations

from collections.abc import Mapping
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
from calibrant.forecasts.decisions import (
    SCALE,
    LossFunction,
    ReliabilityGaps,
    ThresholdRule,
    as_loss,
    as_rule,
    rule_losses,
    table_of_gaps,
)
from calibrant.forecasts.kinds import QuantileForecast
from calibrant.forecasts.noise import NoiseFloor, floor_of, gap_noise, level_noise, noise_in_bins
from calibrant.forecasts.scores import (
    Outcomes,
    read_outcomes,
    row_interval_score,
    row_is_covered,
    row_log_score,
    row_pinball,
)
from calibrant.metrics import Estimate, Verdict, named_scores
from calibrant.numerics import BoolArray, FloatArray
from calibrant.results import Score, Scores
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: Rows that the noise floors are measured on: those of more rows are smaller by the root of the ratio.
_FLOOR_ROWS = 2_000
#: Draws from which the noise floors are taken, and those of one rule.
_FLOOR_DRAWS, _RULE_DRAWS = 20, 50
#: Thresholds at which the noise of the threshold calibration errors is followed.
_NOISE_THRESHOLDS = 20
_INTERVAL_LEVEL = 0.9
#: Bins by predicted median and width of the distribution calibration error.
_BINS = (5, 3)
#: Gaps by which forecasts are judged, and what the verdict says of each.
_JUDGED = {
    "average_calibration_error": "on average over levels (error {:.3f})",
    "threshold_calibration_error": "on the sides of thresholds (error {:.3f})",
    "reliability_gap": "in the losses that they promise (gap {:.3f})",
}


def evaluate(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    interval_level: float | None = None,
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
        Level of the central intervals that are scored: 0.9, or of a `QuantileForecast` the nearest of its own.
    level : float
        Nominal coverage of the intervals of the scores.
    rng : int, Generator or None
        Seed of the simulated intervals and noise floors.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

    Returns
    -------
    Scores
        `crps`, `log_score` (where there is a density), `pinball_loss` (of the median), `interval_score`, `coverage`,
        `sharpness`, `bias` (mean forecast less mean outcome), `average_calibration_error`,
        `threshold_calibration_error` and `max_threshold_calibration_error` (over 50 thresholds and 20 levels),
        `distribution_calibration_error`, `reliability_gap` and `max_reliability_gap` (over 50 thresholds, levels and
        cost ratios), `decision_loss` (of the best rules). The `note` of each gap gives its noise floor.

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

    Gaps are biased upward. A noise floor is the mean of the gap over draws of the outcomes from the forecast, on at
    most 2,000 of the rows and scaled by the root of the number of rows. The verdict names a gap above the greater part
    of those draws: of 120 samples of 300 rows of forecasts that were right, it called 3 uncalibrated.

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
    return scores_and_floors(rows, interval_level, level, as_generator(rng), evaluated_on)[0]


def as_interval_level(level: float | None, forecast: object) -> float:
    """Check the level of central intervals; where none is given, take 0.9, or what quantiles have that is nearest."""
    if level is not None:
        return check_fraction("interval_level", level)
    own = forecast.central_levels if isinstance(forecast, QuantileForecast) else []
    return min(own, key=lambda each: abs(each - _INTERVAL_LEVEL), default=_INTERVAL_LEVEL)


def scores_and_floors(
    rows: Outcomes, interval_level: float, level: float, generator: np.random.Generator, evaluated_on: str
) -> tuple[Scores, dict[str, NoiseFloor]]:
    """Return what `evaluate` does of checked rows, and the noise floor of each gap."""
    errors, gaps = table_of_errors(rows), table_of_gaps(rows)
    estimates = mean_estimates(rows, interval_level, level)
    floors = _floors(rows, level, generator)
    noise = gap_noises(rows, errors, gaps, generator)
    alone = gap_noises(rows.as_independent(), errors, gaps, generator) if rows.dependence else noise
    for name, value in measured_gaps(rows, errors, gaps).items():
        effect = _effect(noise[name], alone[name])
        if effect > 1.0:
            floors[name] = floors[name].raised(effect, noise[name])
        estimates[name] = replace(bounded_estimate(value, noise[name], floors[name], level), effect=effect)
    estimates["decision_loss"] = loss_estimate(rows, gaps, level)
    verdict = forecast_verdict(estimates, floors, interval_level)
    return Scores(_scores(estimates, rows, level, evaluated_on), verdict=str(verdict)), floors


def crps_change(before: Outcomes, after: Outcomes, level: float) -> Estimate:
    """Estimate the mean CRPS of the same rows after less before, with the interval of the paired differences."""
    return before.mean_estimate(after.forecast.crps(after.y) - before.forecast.crps(before.y), level)


def _scores(estimates: dict[str, Estimate], rows: Outcomes, level: float, evaluated_on: str) -> list[Score]:
    known: dict[str, Any] = {"level": level, "n": len(rows), "n_eff": rows.effective_size}
    return list(named_scores(estimates, evaluated_on=evaluated_on, **known).values())


def mean_estimates(rows: Outcomes, interval_level: float, level: float) -> dict[str, Estimate]:
    """Estimate the scores that are means, and the rate of coverage."""

    def mean(values: FloatArray, least: float) -> Estimate:
        return rows.mean_estimate(values, level, least=least)

    forecast = rows.forecast
    low, high = forecast.interval(interval_level)
    estimates = {"crps": mean(forecast.crps(rows.y), 0.0)}
    if forecast.has_density:
        estimates["log_score"] = mean(row_log_score(rows), -np.inf)
    return estimates | {
        "pinball_loss": mean(row_pinball(rows, 0.5), 0.0),
        "interval_score": mean(row_interval_score(rows, interval_level), 0.0),
        "coverage": rows.rate_estimate(row_is_covered(rows, interval_level), level),
        "sharpness": mean(high - low, 0.0),
        "bias": mean(forecast.mean() - rows.y, -np.inf),
    }


def measured_gaps(rows: Outcomes, errors: ThresholdErrors, gaps: ReliabilityGaps) -> dict[str, float]:
    """Measure the gaps of checked rows."""
    return {
        "average_calibration_error": distance_of_sides(rows),
        "threshold_calibration_error": errors.mean,
        "max_threshold_calibration_error": errors.max,
        "distribution_calibration_error": mean_distance_in_bins(rows, *_BINS),
        "reliability_gap": gaps.mean,
        "max_reliability_gap": gaps.max,
    }


def _floors(rows: Outcomes, level: float, rng: np.random.Generator) -> dict[str, NoiseFloor]:
    kept = rows.as_independent().take(np.sort(rng.choice(len(rows), min(len(rows), _FLOOR_ROWS), replace=False)))
    drawn = (kept.drawn(rng) for _ in range(_FLOOR_DRAWS))
    found = [measured_gaps(each, table_of_errors(each), table_of_gaps(each)) for each in drawn]
    shrink = float(np.sqrt(kept.effective_size / rows.effective_size))
    return {name: floor_of(shrink * np.array([each[name] for each in found]), level) for name in found[0]}


def gap_noises(
    rows: Outcomes, errors: ThresholdErrors, gaps: ReliabilityGaps, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Draw the noise in each gap."""
    thresholds = errors.y0[np.linspace(0, errors.y0.size - 1, _NOISE_THRESHOLDS).astype(np.intp)]
    n_cuts, firsts = errors.alpha.size, [first_cuts(rows, threshold, errors.alpha) for threshold in thresholds]
    drawn = np.stack(level_noise(rows, firsts, n_cuts, rng)).sum(axis=3)
    enough = np.array([enough_rows(first, n_cuts) for first in firsts])
    by_rule = drawn.transpose(1, 0, 2)[:, enough] if enough.any() else np.full((drawn.shape[1], 1), np.nan)
    average = _noise_of_all(rows, rng)
    mean_gap, max_gap = gap_noise(rows, gaps, rng)
    return {
        "average_calibration_error": average,
        "threshold_calibration_error": by_rule.mean(axis=1),
        "max_threshold_calibration_error": by_rule.max(axis=1),
        "distribution_calibration_error": noise_in_bins(rows, bins_of_rows(rows, *_BINS), rng),
        "reliability_gap": mean_gap,
        "max_reliability_gap": max_gap,
    }


def _noise_of_all(rows: Outcomes, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the distance from uniform of all rows together, shape (draws,)."""
    (noise,) = level_noise(rows, [np.zeros(len(rows), dtype=np.int64)], 0, rng)
    return noise[:, 0, 0]


def _effect(noise: FloatArray, alone: FloatArray) -> float:
    """Return the design effect on a gap, at least 1: the squared ratio of its noise to that of independent rows."""
    usual = float(alone.mean())
    return max(float(noise.mean()) / usual, 1.0) ** 2 if usual > 0.0 else 1.0  # no usual noise: undefined, or all alike


def bounded_estimate(value: float, noise: FloatArray, floor: NoiseFloor, level: float) -> Estimate:
    """Estimate a gap by the noise in it: less and plus a quantile of that, with its floor as the note."""
    if not np.isfinite(value):
        note = f"undefined: no rule leaves {MIN_ROWS} rows on both sides"
        return Estimate(value, value, value, "none", note)
    reach = float(np.quantile(noise, level))
    note = f"noise floor {floor.mean:.4f}"
    return Estimate(value, max(value - reach, 0.0), value + reach, "noise bounds", note)


def loss_estimate(rows: Outcomes, gaps: ReliabilityGaps, level: float) -> Estimate:
    """Estimate the mean loss of the best rules, alpha = c for cost ratio c, from the mean over them in each row."""
    cost, paid = gaps.cost, np.zeros(len(rows))
    rising = np.concatenate(([0.0], np.cumsum(1.0 - cost)))
    falling = np.concatenate((np.cumsum(cost[::-1])[::-1], [0.0]))
    for threshold in gaps.y0:
        first = first_cuts(rows, threshold, cost)  # rules from here on decide yes, those before no
        loss = np.where(rows.y <= threshold, rising[-1] - rising[first], falling[0] - falling[first])
        paid += loss * (SCALE / (cost.size * gaps.y0.size))
    best = np.arange(cost.size)
    promised, value = (float(table[:, best, best].mean()) for table in (gaps.predicted, gaps.true))
    estimate = rows.mean_estimate(paid, level, least=0.0, most=SCALE)
    return replace(estimate, value=value, note=f"promised {promised:.4f}")


def gaps_off(scores: Mapping[str, Score | Estimate], floors: Mapping[str, NoiseFloor]) -> list[str]:
    """Return which of the gaps by which forecasts are judged are beyond chance."""
    return [name for name in _JUDGED if name in floors and scores[name].value > floors[name].high]


def forecast_verdict(
    scores: Mapping[str, Score | Estimate], floors: Mapping[str, NoiseFloor], interval_level: float
) -> Verdict:
    """Say whether the forecasts are calibrated, and how their intervals err: the one place where they are judged."""
    off, covered = gaps_off(scores, floors), scores["coverage"]
    side = "narrow" if covered.high < interval_level else "wide" if covered.low > interval_level else ""
    said = "No gap is beyond what chance gives a forecast that is right."
    if off:
        where = ", ".join(_JUDGED[name].format(scores[name].value) for name in off)
        said = f"Not calibrated: {where}, beyond what chance gives."
    if side:
        said += f" Intervals are too {side}: those of {interval_level:.0%} hold {covered.value:.1%}."
    if not (off or side):
        return Verdict("calibrated", "No gap is beyond chance", said, said)
    headline = f"Not calibrated: intervals are too {side}" if side else "Not calibrated"
    return Verdict("miscalibrated", headline, said, said)


def evaluate_rule(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    loss: LossFunction | ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    label_end: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure one threshold rule, each figure with an interval and each gap beside its noise floor.

    Parameters
    ----------
    forecast, y, sample_weight, cluster, time, label_end, level, rng, evaluated_on
        See `evaluate`.
    decision : ThresholdRule or (y0, alpha)
        Yes where P(Y <= y0) <= alpha.
    loss : array-like of shape (2, 2), ThresholdLoss or callable, optional
        See `reliability_gap`.

    Returns
    -------
    Scores
        `decided_yes` (the share of rows) and `threshold_calibration_error`; with a loss also `promised_loss`,
        `realised_loss` and `reliability_gap`.

    Raises
    ------
    CalibrantError
        If an argument can't be used; the message says where and why.

    Notes
    -----
    The interval of `decided_yes` is Wilson's, those of the losses are as in `evaluate`, and that of the reliability gap
    holds the sizes of the numbers in such an interval of promised less realised loss, paired by row. The threshold
    calibration error has "noise bounds", as in `evaluate`. Noise floors are means over outcomes drawn from the
    forecast.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, evaluate_rule
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> forecast, y = GaussianForecast(mean, 0.5), mean + rng.normal(size=1000)
    >>> print(evaluate_rule(forecast, y, (0.0, 0.2), ((0.0, 0.0), (-1.0, 4.0)))["reliability_gap"])
    reliability_gap 0.2289 [0.1642, 0.3054]
    """
    level, generator = check_fraction("level", level), as_generator(rng)
    rule = as_rule(decision)
    checked = None if loss is None else as_loss(loss, rule.y0)
    rows = read_outcomes(forecast, y, sample_weight, cluster=cluster, time=time, label_end=label_end)
    picked = rule.decide(rows.forecast)
    drawn = [rows.drawn(generator) for _ in range(_RULE_DRAWS)]
    estimates = rule_estimates(rows, rule, checked, level)
    noise = _noise_of_rule(rows, picked, generator)
    alone = _noise_of_rule(rows.as_independent(), picked, generator) if rows.dependence else noise
    effect = _effect(noise, alone)
    floor = floor_of(np.array([distance_of_sides(each, picked) for each in drawn]), level)
    floor = floor.raised(effect, noise) if effect > 1.0 else floor
    error = bounded_estimate(distance_of_sides(rows, picked), noise, floor, level)
    estimates["threshold_calibration_error"] = replace(error, effect=effect)
    if checked is not None:
        gap = estimates.pop("reliability_gap")  # told last
        gaps = [abs(rows.mean(np.subtract(*rule_losses(each, rule, checked)))) for each in drawn]
        estimates["reliability_gap"] = replace(gap, note=f"noise floor {np.mean(gaps) * gap.effect**0.5:.4f}")
    return Scores(_scores(estimates, rows, level, evaluated_on), verdict=_rule_verdict(estimates, floor.high))


def rule_estimates(rows: Outcomes, rule: ThresholdRule, loss: LossFunction | None, level: float) -> dict[str, Estimate]:
    """Estimate how often a rule says yes and, of a loss, what it promises, what comes of it, and the gap between."""
    decided = rule.decide(rows.forecast).astype(np.float64)
    estimates = {"decided_yes": rows.rate_estimate(decided, level)}
    if loss is None:
        return estimates
    promised, realised = rule_losses(rows, rule, loss)
    signed = rows.mean_estimate(promised - realised, level)
    near, far = sorted((abs(signed.low), abs(signed.high)))
    low = 0.0 if signed.low <= 0.0 <= signed.high else near
    return estimates | {
        "promised_loss": rows.mean_estimate(promised, level),
        "realised_loss": rows.mean_estimate(realised, level),
        "reliability_gap": replace(signed, value=abs(signed.value), low=low, high=far),
    }


def _noise_of_rule(rows: Outcomes, picked: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Draw the noise of the threshold calibration error of a rule, shape (draws,)."""
    (noise,) = level_noise(rows, [(~picked).astype(np.int64)], 1, rng)
    return np.asarray(noise[:, 0].sum(axis=1))


def _rule_verdict(estimates: dict[str, Estimate], most: float) -> str:
    said = []
    error = estimates["threshold_calibration_error"].value
    if error > most:
        said.append(f"Not calibrated on the sides of this rule (error {error:.3f}), beyond what chance gives.")
    if "reliability_gap" in estimates and estimates["reliability_gap"].low > 0.0:
        promised, realised = (estimates[name].value for name in ("promised_loss", "realised_loss"))
        said.append(f"Decisions lose {realised:.3f} where {promised:.3f} was promised.")
    return " ".join(said) or "Neither its sides nor its promise are off by more than chance."
