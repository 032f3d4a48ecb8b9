"""All scores of one set of forecasts, with intervals, and each gap beside what chance makes of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import (
    alphas_of,
    distance_in_bins,
    forecast_bins,
    table_of_errors,
    thresholds_of,
    uniform_distance,
)
from calibrant.forecasts.decisions import costs_of, gap_thresholds, mean_decision_loss, table_of_gaps
from calibrant.forecasts.noise import NoiseFloor, floor_of, gap_noise, level_noise
from calibrant.forecasts.points import Outcomes, read_outcomes
from calibrant.forecasts.scores import row_interval_score, row_is_covered, row_log_score, row_pinball
from calibrant.metrics import Estimate, mean_of, normal_estimate, rate_estimate
from calibrant.numerics import BoolArray, FloatArray, IntArray
from calibrant.results import Score, Scores
from calibrant.validation import ArrayLike, as_generator, check_fraction

#: Rows that the noise floors are measured on: those of more rows are smaller by the root of the ratio.
_FLOOR_ROWS = 2_000
_FLOOR_DRAWS = 20
#: Thresholds at which the noise of the threshold calibration errors is followed.
_NOISE_THRESHOLDS = 10
_SCALE = 10.0
_MIN_ROWS = 21
_BINS = (5, 3)


def evaluate(
    forecast: Forecast,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    interval_level: float = 0.9,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure what forecasts are worth and how far they are from calibrated, each figure with an interval.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    sample_weight : array-like of shape (n,), optional
        A weight of two counts as two rows, a weight of zero as none. Intervals use Kish's effective number of rows.
    interval_level : float
        Level of the central intervals that are scored.
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
    All intervals take rows to be independent. Those of means are normal, that of `coverage` Wilson's. Those of gaps
    are "noise bounds": the measured gap, less and plus a quantile of the same gap measured on noise alone, drawn from
    how sums over 100 groups of rows vary. By the triangle inequality they cover at least as often as `level` says.

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
    interval_level, level = check_fraction("interval_level", interval_level), check_fraction("level", level)
    scores, _ = scores_and_floors(
        read_outcomes(forecast, y, sample_weight), interval_level, level, as_generator(rng), evaluated_on
    )
    return scores


def scores_and_floors(
    rows: Outcomes, interval_level: float, level: float, generator: np.random.Generator, evaluated_on: str
) -> tuple[Scores, dict[str, NoiseFloor]]:
    """Return what `evaluate` does of checked rows, and the noise floor of each gap."""
    estimates = _means(rows, interval_level, level)
    gaps = _gaps(rows)
    floors = _floors(rows, level, generator)
    noise = _noise(rows, generator)
    for name, value in gaps.items():
        estimates[name] = bounded(value, noise[name], floors[name], level)
    losses = mean_decision_loss(rows, gap_thresholds(rows, None), costs_of(None), _SCALE)
    estimates["decision_loss"] = Estimate(
        losses.true, *_loss_interval(rows, level), "normal (CLT)", f"promised {losses.predicted:.4f}"
    )
    scores = [
        Score(name, e.value, e.low, e.high, level, len(rows), e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=_verdict(estimates, floors, interval_level)), floors


def crps_change(before: Outcomes, after: Outcomes, level: float) -> Estimate:
    """Estimate the mean CRPS of the same rows after less before, with the interval of the paired differences."""
    change = after.forecast._crps(after.y) - before.forecast._crps(before.y)
    found = mean_of([(change, before.weights)], before.effective_size)
    return normal_estimate(found, level, least=-np.inf, most=np.inf)


def _means(rows: Outcomes, interval_level: float, level: float) -> dict[str, Estimate]:
    """Estimate what is a mean over rows."""

    def mean(values: FloatArray, least: float) -> Estimate:
        found = mean_of([(values, rows.weights)], rows.effective_size)
        if not np.isfinite(found.value):
            return Estimate(found.value, found.value, found.value, "none", "infinite: see log_score")
        return normal_estimate(found, level, least=least, most=np.inf)

    forecast = rows.forecast
    low, high = forecast.interval(interval_level)
    estimates = {"crps": mean(forecast._crps(rows.y), 0.0)}
    if forecast.has_density:
        estimates["log_score"] = mean(row_log_score(rows), -np.inf)
    covered = float(np.average(row_is_covered(rows, interval_level), weights=rows.weight))
    return estimates | {
        "pinball_loss": mean(row_pinball(rows, 0.5), 0.0),
        "interval_score": mean(row_interval_score(rows, interval_level), 0.0),
        "coverage": rate_estimate(covered, rows.effective_size, level),
        "sharpness": mean(high - low, 0.0),
        "bias": mean(forecast.mean() - rows.y, -np.inf),
    }


def _gaps(rows: Outcomes) -> dict[str, float]:
    """Measure every gap."""
    errors = table_of_errors(rows, thresholds_of(rows, None), alphas_of(None, 20), _MIN_ROWS)
    gaps = table_of_gaps(rows, gap_thresholds(rows, None), alphas_of(None, 50), costs_of(None), _SCALE)
    return {
        "average_calibration_error": uniform_distance(rows),
        "threshold_calibration_error": errors.mean,
        "max_threshold_calibration_error": errors.max,
        "distribution_calibration_error": distance_in_bins(rows, forecast_bins(rows, *_BINS)),
        "reliability_gap": gaps.mean,
        "max_reliability_gap": gaps.max,
    }


def _floors(rows: Outcomes, level: float, rng: np.random.Generator) -> dict[str, NoiseFloor]:
    """Measure every gap on outcomes drawn from the forecast, over the same thresholds each time."""
    kept = np.sort(rng.choice(len(rows), min(len(rows), _FLOOR_ROWS), replace=False))
    forecast, weight = rows.forecast[kept], None if rows.weight is None else rows.weight[kept]
    found = [
        _gaps(Outcomes(forecast, forecast._ppf(rng.random((kept.size, 1)))[:, 0], weight)) for _ in range(_FLOOR_DRAWS)
    ]
    shrink = float(np.sqrt(Outcomes(forecast, rows.y[kept], weight).effective_size / rows.effective_size))
    return {name: floor_of(shrink * np.array([each[name] for each in found]), level) for name in found[0]}


def _noise(rows: Outcomes, rng: np.random.Generator) -> dict[str, FloatArray]:
    """Draw the noise of every gap, shape (draws,) each."""
    alpha = alphas_of(None, 20)
    thresholds = thresholds_of(rows, None)
    thresholds = thresholds[np.linspace(0, thresholds.size - 1, _NOISE_THRESHOLDS).astype(np.intp)]
    cells = [
        np.searchsorted(alpha, rows.forecast._cdf(np.array([[threshold]]))[:, 0]).astype(np.int64)
        for threshold in thresholds
    ]
    drawn, enough = np.stack(level_noise(rows, cells, alpha.size + 1, rng)).sum(axis=3), _enough(cells, alpha.size)
    by_rule = drawn.transpose(1, 0, 2)[:, enough] if enough.any() else np.full((drawn.shape[1], 1), np.nan)
    nothing = np.zeros(len(rows), dtype=np.int64)
    (average,) = level_noise(rows, [nothing], 1, rng)
    bins = forecast_bins(rows, *_BINS)
    mean_gap, max_gap = gap_noise(rows, gap_thresholds(rows, None), alphas_of(None, 50), costs_of(None), _SCALE, rng)
    return {
        "average_calibration_error": average[:, 0, 0],
        "threshold_calibration_error": by_rule.mean(axis=1),
        "max_threshold_calibration_error": by_rule.max(axis=1),
        "distribution_calibration_error": _noise_in_bins(rows, bins, rng),
        "reliability_gap": mean_gap,
        "max_reliability_gap": max_gap,
    }


def _enough(cells: list[IntArray], n_cuts: int) -> BoolArray:
    """Say which rules leave enough rows on both sides, shape (thresholds, cuts)."""
    first = np.cumsum([np.bincount(cell, minlength=n_cuts + 1)[:n_cuts] for cell in cells], axis=1)
    return (first >= _MIN_ROWS) & (len(cells[0]) - first >= _MIN_ROWS)


def _noise_in_bins(rows: Outcomes, bins: IntArray, rng: np.random.Generator) -> FloatArray:
    total, weight = np.zeros(1), rows.weights
    for j in np.unique(bins):
        own = np.flatnonzero(bins == j)
        part = Outcomes(rows.forecast[own], rows.y[own], weight[own])
        (noise,) = level_noise(part, [np.zeros(own.size, dtype=np.int64)], 1, rng)
        total = total + noise[:, 0, 0] * float(weight[own].sum() / weight.sum())
    return total


def bounded(value: float, noise: FloatArray, floor: NoiseFloor, level: float) -> Estimate:
    """Estimate a gap by the noise in it: less and plus a quantile of that, with its floor as the note."""
    if not np.isfinite(value):
        note = f"undefined: no rule leaves {_MIN_ROWS} rows on both sides"
        return Estimate(value, value, value, "none", note)
    reach = float(np.quantile(noise, level))
    note = f"noise floor {floor.mean:.4f}"
    return Estimate(value, max(value - reach, 0.0), value + reach, "noise bounds", note)


def _loss_interval(rows: Outcomes, level: float) -> tuple[float, float]:
    """Return the interval of the mean decision loss: a mean over rows of each row's mean over the rules."""
    cost = costs_of(None)
    paid = np.zeros(len(rows))
    thresholds = gap_thresholds(rows, None)
    rising = np.concatenate(([0.0], np.cumsum(1.0 - cost)))
    falling = np.concatenate((np.cumsum(cost[::-1])[::-1], [0.0]))
    for threshold in thresholds:
        levels = rows.forecast._cdf(np.array([[threshold]]))[:, 0]
        cell = np.searchsorted(cost, levels)  # rules from here on decide yes, those before no
        yes = rising[-1] - rising[cell]
        no = falling[0] - falling[cell]
        paid += np.where(rows.y <= threshold, yes, no) * (_SCALE / (cost.size * thresholds.size))
    estimate = normal_estimate(mean_of([(paid, rows.weights)], rows.effective_size), level, least=0.0, most=_SCALE)
    return estimate.low, estimate.high


def _verdict(estimates: dict[str, Estimate], floors: dict[str, NoiseFloor], interval_level: float) -> str:
    """Say in words whether the forecasts are calibrated, and how their intervals err."""
    named: dict[str, Callable[[Estimate], str]] = {
        "average_calibration_error": lambda e: f"on average over levels (error {e.value:.3f})",
        "threshold_calibration_error": lambda e: f"on the sides of thresholds (error {e.value:.3f})",
        "reliability_gap": lambda e: f"in the losses that they promise (gap {e.value:.3f})",
    }
    seen = [say(estimates[name]) for name, say in named.items() if estimates[name].value > floors[name].high]
    covered = estimates["coverage"]
    side = ""
    if covered.high < interval_level:
        side = f" Intervals are too narrow: those of {interval_level:.0%} hold {covered.value:.1%}."
    elif covered.low > interval_level:
        side = f" Intervals are too wide: those of {interval_level:.0%} hold {covered.value:.1%}."
    if not seen:
        return f"No gap is beyond what chance gives a forecast that is right.{side}"
    return f"Not calibrated: {', '.join(seen)}, beyond what chance gives.{side}"
