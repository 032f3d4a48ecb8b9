"""Scores of one threshold rule: its calibration error, and with a loss, what it promises and what it gets."""

from __future__ import annotations

import numpy as np

from calibrant.forecasts.base import Forecast
from calibrant.forecasts.calibration import Events
from calibrant.forecasts.decisions import ThresholdRule, as_rule, rule_losses
from calibrant.forecasts.evaluation import bounded
from calibrant.forecasts.losses import LossFunction, as_loss
from calibrant.forecasts.noise import floor_of, level_noise
from calibrant.forecasts.points import Outcomes, read_outcomes
from calibrant.metrics import Estimate, mean_of, normal_estimate, rate_estimate
from calibrant.numerics import FloatArray
from calibrant.results import Score, Scores
from calibrant.validation import ArrayLike, as_generator, check_fraction

_FLOOR_DRAWS = 50


def evaluate_rule(
    forecast: Forecast,
    y: ArrayLike,
    decision: ThresholdRule | tuple[float, float],
    loss: LossFunction | ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    level: float = 0.95,
    rng: int | np.random.Generator | None = 0,
    evaluated_on: str = "given data",
) -> Scores:
    """Measure one threshold rule, each figure with an interval and each gap beside its noise floor.

    Parameters
    ----------
    forecast : Forecast
    y : array-like of shape (n,)
        What happened.
    decision : ThresholdRule or (y0, alpha)
        Yes where P(Y <= y0) <= alpha.
    loss : array-like of shape (2, 2), ThresholdLoss or callable, optional
        See `reliability_gap`.
    sample_weight : array-like of shape (n,), optional
    level : float
        Nominal coverage of the intervals.
    rng : int, Generator or None
        Seed of the noise.
    evaluated_on : str
        What the rows are, such as "held-out"; kept in each score.

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
    All intervals take rows to be independent, as many as Kish's effective number. That of `decided_yes` is Wilson's,
    those of the losses are normal, and that of the reliability gap holds the sizes of the numbers in the normal
    interval of promised less realised loss, paired by row. The threshold calibration error has "noise bounds", as in
    `evaluate`. Noise floors are means over outcomes drawn from the forecast.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.forecasts import GaussianForecast, evaluate_rule
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=1000)
    >>> forecast, y = GaussianForecast(mean, 0.5), mean + rng.normal(size=1000)
    >>> print(evaluate_rule(forecast, y, (0.0, 0.2), ((0.0, 0.0), (-1.0, 4.0)))["reliability_gap"])
    reliability_gap 0.2289 [0.1592, 0.2987]
    """
    level, generator = check_fraction("level", level), as_generator(rng)
    rule = as_rule(decision)
    checked = None if loss is None else as_loss(loss, rule.y0)
    rows = read_outcomes(forecast, y, sample_weight)
    size, weight = rows.effective_size, rows.weights
    decided = rule.decide(rows.forecast)
    estimates = {"decided_yes": rate_estimate(float(np.average(decided, weights=weight)), size, level)}
    if checked is not None:
        promised, realised = rule_losses(rows, rule, checked)
        named = {"promised_loss": promised, "realised_loss": realised, "reliability_gap": promised - realised}
        for name, values in named.items():
            mean = mean_of([(values, weight)], size)
            estimates[name] = normal_estimate(mean, level, least=-np.inf, most=np.inf)
    side = decided.astype(np.int64)
    drawn = [_drawn(rows, generator) for _ in range(_FLOOR_DRAWS)]
    (noise,) = level_noise(rows, [side], 2, generator)
    floor = floor_of(np.array([_error(each, side) for each in drawn]), level)
    error = bounded(_error(rows, side), noise[:, 0].sum(axis=1), floor, level)
    estimates["threshold_calibration_error"] = error
    if checked is not None:
        gaps = [abs(float(np.average(np.subtract(*rule_losses(d, rule, checked)), weights=weight))) for d in drawn]
        estimates["reliability_gap"] = _size(estimates.pop("reliability_gap"), np.array(gaps))
    scores = [
        Score(name, e.value, e.low, e.high, level, len(rows), e.method, evaluated_on, e.note)
        for name, e in estimates.items()
    ]
    return Scores(scores, verdict=_verdict(estimates, floor.high))


def _verdict(estimates: dict[str, Estimate], most: float) -> str:
    """Say whether the rule's sides are calibrated, and whether its promise is kept."""
    said = []
    error = estimates["threshold_calibration_error"].value
    if error > most:
        said.append(f"Not calibrated on the sides of this rule (error {error:.3f}), beyond what chance gives.")
    if "reliability_gap" in estimates and estimates["reliability_gap"].low > 0.0:
        promised, realised = (estimates[name].value for name in ("promised_loss", "realised_loss"))
        said.append(f"Decisions lose {realised:.3f} where {promised:.3f} was promised.")
    return " ".join(said) or "Neither its sides nor its promise are off by more than chance."


def _drawn(rows: Outcomes, rng: np.random.Generator) -> Outcomes:
    """Return the rows with outcomes drawn from their forecasts."""
    return Outcomes(rows.forecast, rows.forecast._ppf(rng.random((len(rows), 1)))[:, 0], rows.weight)


def _error(rows: Outcomes, side: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    distances, _ = Events.of(rows).distances(side, rows.weights, 1)
    return float(distances.sum())


def _size(difference: Estimate, drawn: FloatArray) -> Estimate:
    """Return the size of a difference, from its interval."""
    ends = abs(difference.low), abs(difference.high)
    low = 0.0 if difference.low <= 0.0 <= difference.high else min(ends)
    return Estimate(abs(difference.value), low, max(ends), difference.method, f"noise floor {drawn.mean():.4f}")
